"""Gradients and their variances where numbers are whole, or not finite."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from baselines import rld

from simplex_jax._src import batches, estimators, gradient_noise, gradients
from simplex_jax._src.geometry import manifolds, mirror
from simplex_jax._src.samplers import barker, gmc, mamla, mapla


def test_measured_variance_of_whole_numbers(getkey):
    """Counts that `memoised` keeps may be integers: they vary as the same do as floats."""
    data, labels = batches.indexed(jnp.zeros(5)), jnp.array([0, 0, 0, 1, 1])
    key, position = getkey(), jnp.zeros(2)
    result = []
    for dtype in (int, float):

        def count(labels, data, dtype=dtype):
            return jnp.zeros(2, dtype).at[labels].add(1)

        def assign(key, position, data, previous):
            return jax.random.randint(key, previous.shape, 0, 2)

        estimator = estimators.memoised(assign, count, labels, count(labels, None))
        memory = estimator.init(key)
        result.append(
            gradient_noise.variance(estimator, key, position, batches.full(data), 1000, memory)
        )
    np.testing.assert_allclose(result[0], result[1], rtol=1e-6)
    np.testing.assert_allclose(result[0], 5 / 4, rtol=0.25)  # the standard error is 4%


def test_references_are_numbers_of_any_kind():
    def log_likelihood(mean, x):
        return -jnp.sum((x - mean) ** 2) / 2

    model, data = (lambda mean: -jnp.sum(mean**2) / 2, log_likelihood), np.arange(3)
    assert float(gradients.full_gradient(log_likelihood, 0, data)) == 3.0
    assert float(gradients.running(*model, data, 0).init(jax.random.key(0)).gradient) == 3.0
    with pytest.raises(ValueError, match=r"^reference .*nan at index \(1,\)$"):
        gradients.control_variate(*model, 3, [0.0, np.nan], [0.0, 0.0])


def half(x, *batch):
    return jnp.sum(x, dtype=jnp.bfloat16)


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (barker.build(half, 0.1), "log_density"),
        (gmc.build(half, manifolds.euclidean(), 0.1), "log_density"),
        (mamla.build(half, mirror.hypercube(), 0.1), "log_density"),
        (mapla.build(half, lambda x: jnp.eye(2), 0.1), "log_density"),
        (
            rld.build(estimators.categorical(2), 1.0, 0.1, metropolis=2, log_likelihood=half),
            "log_likelihood",
        ),
    ],
    ids=["barker", "gmc", "mamla", "mapla", "rld"],
)
def test_a_metropolis_test_in_half_precision_is_refused(kernel, name):
    """Rounding to 4 nats, as near -1,000, gave `barker` a variance of 1.43 for 1 at h = 1."""
    state = kernel.init(jax.random.key(0), jnp.array([0.3, 0.7]))
    with pytest.raises(ValueError, match=f"{name} .*bfloat16"):
        jax.eval_shape(kernel.update, jax.random.key(1), state, jnp.array([0, 1]))

"""Modes by optax, for control variates."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from simplex_jax import gradients


def log_prior(w):
    return -(w["slope"] ** 2).sum() / 2 - w["offset"] ** 2 / 2


def log_likelihood(w, batch):
    x, y = batch
    return -((y - x @ w["slope"] - w["offset"]) ** 2).sum() / 2


@pytest.fixture(scope="module")
def regression():
    """Data, and the posterior mode by the normal equations."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3)).astype(np.float32)
    y = (x @ [1.0, -2.0, 0.5] + 3 + rng.normal(size=50)).astype(np.float32)
    design = np.column_stack([x, np.ones(50)])
    exact = np.linalg.solve(design.T @ design + np.eye(4), design.T @ y)
    return (jnp.asarray(x), jnp.asarray(y)), exact


START = {"slope": jnp.zeros(3), "offset": jnp.zeros(())}


@pytest.mark.parametrize("optimiser", [None, optax.adam(optax.cosine_decay_schedule(0.3, 300))])
def test_the_mode_of_a_regression(regression, optimiser):
    """To rounding, with blocks that do not divide the data; and its gradient is the prior's."""
    data, exact = regression
    position, gradient = gradients.mode(
        log_prior, log_likelihood, data, START, optimiser=optimiser, steps=300, block_size=16
    )
    found = np.append(position["slope"], position["offset"])
    np.testing.assert_allclose(found, exact, atol=2e-3)
    np.testing.assert_allclose(np.append(gradient["slope"], gradient["offset"]), exact, atol=0.1)


def test_a_control_variate_at_the_mode_is_nearly_exact_near_it(regression):
    """Against the full gradient; without the reference the error is a hundred times as large."""
    data, _ = regression
    reference = gradients.mode(log_prior, log_likelihood, data, START)
    near = jax.tree.map(lambda x: x + 1e-3, reference.position)
    batch = jax.tree.map(lambda x: x[:5], data)

    def error(estimator):
        estimate, _ = estimator.estimate(jax.random.key(0), (), near, batch)
        exact = gradients.posterior(log_prior, log_likelihood, 50).estimate(
            jax.random.key(0), (), near, data
        )[0]
        return float(jnp.abs(estimate["slope"] - exact["slope"]).max())

    plain = error(gradients.posterior(log_prior, log_likelihood, 50))
    assert error(gradients.control_variate(log_prior, log_likelihood, 50, *reference)) < plain / 100


def test_a_start_from_which_the_optimiser_diverges(regression):
    data, _ = regression
    with pytest.raises(ValueError, match=r"\['offset'\] .* nan$"):
        gradients.mode(log_prior, log_likelihood, data, START, optimiser=optax.sgd(1e3))
    with pytest.raises(ValueError, match="steps"):
        gradients.mode(log_prior, log_likelihood, data, START, steps=0)


def test_log_densities_are_scalars():
    with pytest.raises(ValueError, match=r"^log_likelihood .* \(10,\)"):
        gradients.mode(lambda m: -(m**2) / 2, lambda m, x: -((x - m) ** 2), jnp.arange(10.0), 0.0)
    with pytest.raises(ValueError, match=r"^log_prior "):
        gradients.mode(lambda m: -(m**2), lambda m, x: -x.sum(), jnp.ones(3), jnp.zeros(2))

"""SGNHT against the formula of its step, its law for small steps, and noise in the gradient.

Where p-values are judged by `statistics_checks.family`, a test fails by chance with a probability
of at most 1e-3 at a fresh seed.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special
from support import statistics_checks as checks

from simplex_jax._src import base, batches, estimators, gradients
from simplex_jax._src.runtime import driver
from simplex_jax._src.samplers import recipe, sgnht

GIVEN = estimators.Estimator(lambda key: (), lambda key, memory, position, batch: (batch, memory))
ANY = batches.full(jnp.zeros(1))


def test_one_step_has_the_moments_of_the_formula(getkey):
    """The momentum moves first, the thermostat by it, and so does the position."""
    h, a, xi, rows = 0.2, 0.8, 1.7, 100_000
    x0, r0, slope = jnp.float32([0.5, -3.0]), jnp.float32([1.5, -0.4]), jnp.float32([2.0, 7.0])
    kernel = base.chains(sgnht.build(GIVEN, h, friction=a), rows)
    state = kernel.init(getkey(), x0)
    assert np.all(np.asarray(state.auxiliary[1]) == np.float32(a))
    everywhere = jnp.broadcast_to(r0, (rows, 2)), jnp.full(rows, xi, jnp.float32)
    state = state._replace(auxiliary=everywhere)
    state, info = jax.jit(kernel.update)(getkey(), state, slope)
    r, new_xi = (np.asarray(value, float) for value in state.auxiliary)

    mean, variance = np.asarray(r0) * (1 - h * xi) + h * np.asarray(slope), 2 * h * a
    p_values = {}
    for j in range(2):
        p_values["r", j] = checks.mean_z(r[:, j], mean[j], variance)
        p_values["r^2", j] = checks.variance_z(r[:, j], mean[j], variance, 3 * variance**2)
    assert not checks.family(p_values)
    wrong = {j: checks.variance_z(1.1 * (r - mean)[:, j], 0, variance) for j in range(2)}
    assert checks.family(wrong)
    np.testing.assert_allclose(new_xi, xi + h * ((r**2).mean(axis=1) - 1), atol=1e-4)
    np.testing.assert_allclose(state.position, np.asarray(x0) + h * r, atol=1e-5)
    np.testing.assert_allclose(info.thermostat, new_xi, atol=1e-6)
    np.testing.assert_allclose(info.temperature, (r**2).mean(axis=1), rtol=1e-4)


SHAPES, A, STEP, STEPS, CHAINS = np.array([0.7, 1.0, 4.0]), 1.5, 0.004, 600, 20_000


def law_checks(state):
    x = np.asarray(state.position, float)
    r, xi = (np.asarray(value, float) for value in state.auxiliary)
    d = len(SHAPES)
    p_values = {
        "temperature": checks.variance_z(r, 0, 1, 3),
        "thermostat": checks.mean_z(xi, A, 1 / d),
        "its variance": checks.variance_z(xi, A, 1 / d, 3 / d**2),
    }
    for j, shape in enumerate(SHAPES):
        mean, variance = special.digamma(shape), special.polygamma(1, shape)
        p_values["mean", j] = checks.mean_z(x[:, j], mean, variance)
        fourth = special.polygamma(3, shape) + 3 * variance**2
        p_values["variance", j] = checks.variance_z(x[:, j], mean, variance, fourth)
    return p_values


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [None, "no correction"])
def test_small_steps_leave_an_asymmetric_law(mutant, getkey, seed, monkeypatch):
    if mutant == "no correction":
        change = lambda here, z, fast: jax.tree.map(jnp.zeros_like, z)  # noqa: E731
        monkeypatch.setattr(recipe, "correction", change)
    jax.clear_caches()
    shapes = jnp.asarray(SHAPES, jnp.float32)
    one = sgnht.build(
        gradients.density(lambda x: (shapes * x - jnp.exp(x)).sum()), STEP, friction=A
    )
    many = base.chains(one, CHAINS, position_axis=0)
    rng = np.random.default_rng(seed)
    start = np.log(rng.gamma(SHAPES, 1, (CHAINS, 3)))
    state = many.init(getkey(), jnp.asarray(start, jnp.float32))
    xi = jnp.asarray(A + rng.standard_normal(CHAINS) / np.sqrt(3), jnp.float32)
    state = state._replace(auxiliary=(state.auxiliary[0], xi))
    state, _ = driver.run(getkey(), many, state, ANY, STEPS, collect=lambda *_: ())
    jax.clear_caches()
    assert bool(checks.family(law_checks(state))) == (mutant is not None)


def test_the_thermostat_absorbs_the_noise_of_the_gradient(getkey):
    """On N(0, 1) with noise of variance 40 the thermostat rises by h V / 2, and no more happens."""
    h, variance = 0.03, 40.0

    def estimate(key, memory, position, batch):
        return -position + variance**0.5 * jax.random.normal(key, position.shape), memory

    kernel = sgnht.build(estimators.Estimator(lambda key: (), estimate), h, friction=1.0)
    state = kernel.init(getkey(), jax.random.normal(getkey(), (2000,)))
    _, (position, info) = driver.run(
        getkey(), kernel, state, ANY, 1500, collect=lambda s, i: (s.position, i), thin=5
    )
    late = slice(100, None)
    assert info.thermostat[late].mean() == pytest.approx(1 + h * variance / 2, rel=0.03)
    assert info.temperature[late].mean() == pytest.approx(1, abs=0.01)
    assert position[late].var() == pytest.approx(1, abs=0.04)


def test_bad_arguments_are_named(getkey):
    for friction in (0.0, -1.0, np.inf, [1.0]):
        with pytest.raises(ValueError, match="friction"):
            sgnht.build(GIVEN, 0.1, friction=friction)
    with pytest.raises(ValueError, match="step_size"):
        sgnht.build(GIVEN, -0.1)
    with pytest.raises(ValueError, match="position"):
        sgnht.build(GIVEN, 0.1).init(getkey(), jnp.array([jnp.inf]))

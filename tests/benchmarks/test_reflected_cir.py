"""Reflected Euler steps of CIR: one step in closed form, the law at small steps, and the bias.

Where p-values are judged by `statistics_checks.family`, a test fails by chance with a probability
of at most 1e-3 at a fresh seed; tolerances on biases are stated with the test.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from baselines import reflected_cir
from support import statistics_checks as checks
from support.euler_laws import folded_normal_checks

from simplex_jax._src import batches, estimators
from simplex_jax._src.runtime import driver

# Batches are the counts themselves.
GIVEN = estimators.Estimator(lambda key: (), lambda key, memory, position, batch: (batch, memory))

THETA = np.array([9.0, 0.05, 2.0, 1e-4])
ALPHA = np.array([0.5, 0.1, 2.0, 0.3])
COUNTS = np.array([12.0, -3.0, 3.0, 1.0])  # the negative one is taken as 0
DRIFT = ALPHA + np.maximum(COUNTS, 0) - THETA
H = 0.05
ROWS = 200_000


def nothing(state, info):
    return ()


def test_one_step_has_the_moments_of_the_reflected_euler_step(getkey):
    kernel = reflected_cir.build(GIVEN, ALPHA, H)
    state = kernel.init(getkey(), jnp.broadcast_to(THETA, (ROWS, 4)))
    state = state._replace(log_total=jnp.full((ROWS, 1), np.log(THETA.sum()), jnp.float32))
    state, info = kernel.update(getkey(), state, jnp.asarray(COUNTS, jnp.float32))
    theta = np.exp(np.asarray(state.position + state.log_total, np.float64))
    assert not checks.family(folded_normal_checks(theta, THETA, DRIFT, H))
    assert 0 < float(info.reflected) < 0.5


@pytest.mark.parametrize(
    ("name", "drift", "noise"),
    [
        ("correct", DRIFT, 2.0),
        ("h for 2 h", DRIFT, 1.0),
        ("noise 10 % up", DRIFT, 2.0 * 1.1**2),
        ("h / 2 drift", DRIFT / 2, 2.0),
        ("sign", -DRIFT, 2.0),
        ("shape 2 % up", DRIFT + 0.02 * (DRIFT + THETA), 2.0),
        ("negative counts kept", ALPHA + COUNTS - THETA, 2.0),
        # What samplers.sgrld does.
        ("natural gradient", ALPHA - THETA + COUNTS - THETA / THETA.sum() * COUNTS.sum(), 2.0),
    ],
)
def test_the_check_of_one_step_sees_mutants(name, drift, noise, seed):
    xi = np.random.default_rng(seed).standard_normal((ROWS, 4))
    theta = np.abs(THETA + H * drift + np.sqrt(noise * H * THETA) * xi)
    assert bool(checks.family(folded_normal_checks(theta, THETA, DRIFT, H))) == (name != "correct")


@pytest.mark.parametrize("total", ["carried", "refreshed"])
def test_small_steps_reach_a_dense_posterior_and_coarse_ones_do_not(total, getkey, seed):
    """The law of omega, and a total of Gamma(sum a); standard errors are 1.4% of variances.

    The Euler step of theta has the variance a / (1 - h / 2): 0.5 % more than Gamma(a) at h = 0.01,
    two thirds more at h = 0.8, which shows in omega as well.
    """
    alpha, counts = np.array([1.5, 2.0, 3.0]), np.array([2.0, 5.0, 3.0])
    a, rows = alpha + counts, 10_000
    rng = np.random.default_rng(seed)
    start = rng.dirichlet(a, rows)

    def omega_of(h, steps):
        kernel = reflected_cir.build(GIVEN, alpha, h, total=total)
        state = kernel.init(getkey(), jnp.asarray(start, jnp.float32))
        stream = batches.full(jnp.asarray(counts, jnp.float32))
        state, _ = driver.run(getkey(), kernel, state, stream, steps, collect=nothing)
        if total == "carried" and h < 0.1:
            sums = np.exp(np.asarray(state.log_total, np.float64))
            assert sums.mean() == pytest.approx(a.sum(), rel=0.01)
            assert sums.var() == pytest.approx(a.sum(), rel=0.06)
        return np.exp(np.asarray(state.position, np.float64))

    mean = a / a.sum()
    variance = mean * (1 - mean) / (a.sum() + 1)
    fine, coarse = omega_of(0.01, 150), omega_of(0.8, 10)
    np.testing.assert_allclose(fine.mean(axis=0), mean, rtol=0.01)
    np.testing.assert_allclose(fine.var(axis=0), variance, rtol=0.07)
    errors = [np.abs(omega.var(axis=0) / variance - 1).max() for omega in (fine, coarse)]
    assert errors[1] > 3 * errors[0]


def test_reflection_biases_a_small_shape_upwards(getkey):
    """Gamma(0.1) has the mean 0.1; at h = 0.1 the reflected chain has one of about 0.37."""
    alpha = np.array([0.1, 50.0, 20.0])
    kernel = reflected_cir.build(GIVEN, alpha, 0.1)
    state = kernel.init(getkey(), jnp.broadcast_to(jnp.asarray(alpha), (10_000, 3)))
    stream = batches.full(jnp.zeros(3))
    state, _ = driver.run(getkey(), kernel, state, stream, 100, collect=nothing)
    theta = np.exp(np.asarray(state.position + state.log_total, np.float64))
    assert theta[:, 0].mean() == pytest.approx(0.37, abs=0.03)
    np.testing.assert_allclose(theta[:, 1:].mean(axis=0), alpha[1:], rtol=0.02)

"""SGRLD against the closed form of one step, and its posterior for small steps.

Where p-values are judged by `statistics_checks.family`, a test fails by chance with a probability
of at most 1e-3 at a fresh seed; tolerances on biases are stated with the test.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from support import statistics_checks as checks
from support.euler_laws import folded_normal_checks
from support.marks import slow_but

from simplex_jax._src import batches, estimators
from simplex_jax._src.runtime import driver
from simplex_jax._src.samplers import expanded, sgrld

# Batches are the counts themselves.
GIVEN = estimators.Estimator(lambda key: (), lambda key, memory, position, batch: (batch, memory))

THETA = np.array([2.0, 0.05, 0.6, 1e-4])
ALPHA = np.array([0.5, 0.1, 2.0, 0.3])
COUNTS = np.array([12.0, 0.0, 3.0, 1.0])
H = 0.02
ROWS = 200_000


def drift(theta=THETA):
    omega = theta / theta.sum()
    return ALPHA - theta + COUNTS - omega * COUNTS.sum()


def test_one_step_has_the_moments_of_the_reflected_euler_step(getkey):
    kernel = sgrld.build(GIVEN, ALPHA, H)
    state = kernel.init(getkey(), jnp.broadcast_to(THETA, (ROWS, 4)))
    state = state._replace(log_total=jnp.full((ROWS, 1), np.log(THETA.sum()), jnp.float32))
    state, info = kernel.update(getkey(), state, jnp.asarray(COUNTS, jnp.float32))
    theta = np.exp(np.asarray(state.position + state.log_total, np.float64))
    assert not checks.family(folded_normal_checks(theta, THETA, drift(), H))
    assert 0 < float(info.reflected) < 0.5
    assert float(info.total) == pytest.approx(theta.sum(axis=-1).mean(), rel=1e-4)


@pytest.mark.parametrize(
    ("name", "proposal"),
    [
        ("correct", lambda xi: THETA + H * drift() + np.sqrt(2 * H * THETA) * xi),
        # The released synthetic baseline: theta times the natural gradient, plus one.
        ("released", lambda xi: THETA + H * (THETA * drift() + 1) + np.sqrt(2 * H * THETA) * xi),
        ("h for 2 h", lambda xi: THETA + H * drift() + np.sqrt(H * THETA) * xi),
        ("h / 2 drift", lambda xi: THETA + H * drift() / 2 + np.sqrt(2 * H * THETA) * xi),
        ("sign", lambda xi: THETA - H * drift() + np.sqrt(2 * H * THETA) * xi),
        ("no total", lambda xi: THETA + H * (ALPHA - THETA + COUNTS) + np.sqrt(2 * H * THETA) * xi),
    ],
)
def test_the_check_of_one_step_sees_mutants(name, proposal, seed):
    xi = np.random.default_rng(seed).standard_normal((ROWS, 4))
    rejected = checks.family(folded_normal_checks(np.abs(proposal(xi)), THETA, drift(), H))
    assert bool(rejected) == (name != "correct")


@pytest.mark.parametrize("total", slow_but(["carried", "refreshed"], "refreshed"))
def test_small_steps_reach_a_dense_posterior(total, getkey, seed):
    """Bias of a few per cent at h = 0.005, far larger at h = 0.1; standard errors are 0.2%."""
    alpha, counts = np.array([1.5, 2.0, 3.0]), np.array([2.0, 5.0, 3.0])
    a = alpha + counts
    rows = 20_000

    def moments(h, steps):
        kernel = sgrld.build(GIVEN, alpha, h, total=total)
        rng = np.random.default_rng(seed)
        state = kernel.init(getkey(), jnp.asarray(rng.dirichlet(a, rows), jnp.float32))
        stream = batches.full(jnp.asarray(counts, jnp.float32))
        state, _ = driver.run(getkey(), kernel, state, stream, steps, collect=lambda *_: ())
        omega = np.exp(np.asarray(state.position, np.float64))
        return omega.mean(axis=0), omega.var(axis=0)

    exact_mean = a / a.sum()
    exact_variance = exact_mean * (1 - exact_mean) / (a.sum() + 1)
    mean, variance = moments(0.005, 400)
    np.testing.assert_allclose(mean, exact_mean, rtol=0.02)
    np.testing.assert_allclose(variance, exact_variance, rtol=0.08)
    _, coarse = moments(0.1, 40)
    assert (
        np.abs(coarse / exact_variance - 1).max() > 3 * np.abs(variance / exact_variance - 1).max()
    )


@pytest.mark.slow
def test_a_cancelled_value_becomes_the_smallest_normal_number(getkey, monkeypatch):
    monkeypatch.setattr(
        expanded.jax.random, "normal", lambda key, shape, dtype: jnp.zeros(shape, dtype)
    )
    log_theta = jnp.log(jnp.array([1.0, 3.0]))
    prior, counts = jnp.ones(2), jnp.array([0.0, 4.0])
    leaf = expanded.Leaf(getkey(), log_theta - jnp.log(4.0), log_theta, prior, counts)
    # theta + h (alpha - theta + n - omega n.) = 1 + 1 (1 - 1 + 0 - 0.25 * 4) = 0 for the first.
    drift = expanded.natural_drift(leaf)
    log_theta, reflected = expanded.reflected_step(leaf, drift, jnp.float32(1))
    assert float(log_theta[0]) == pytest.approx(np.log(np.finfo(np.float32).tiny))
    assert float(log_theta[1]) == pytest.approx(np.log(2.0))
    assert not reflected.any()

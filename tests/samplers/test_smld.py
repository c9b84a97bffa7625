"""SMLD against the closed form of one step, and its posterior for small steps.

Where p-values are judged by `statistics_checks.family`, a test fails by chance with a probability
of at most 1e-3 at a fresh seed; tolerances on biases are stated with the test.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special
from support import statistics_checks as checks
from support.marks import slow_but

from simplex_jax._src import batches, estimators
from simplex_jax._src.runtime import driver
from simplex_jax._src.samplers import smld

# Batches are the counts themselves.
GIVEN = estimators.Estimator(lambda key: (), lambda key, memory, position, batch: (batch, memory))

OMEGA = np.array([0.6, 0.3, 0.08, 0.02])
ALPHA = np.array([0.5, 0.1, 2.0, 0.3])
COUNTS = np.array([12.0, 0.0, 3.0, 1.0])
H = 0.02
ROWS = 200_000


def step_checks(log_omega, reference):
    """Log ratios to the last category are normal: means and covariances of one Euler step."""
    a = ALPHA + COUNTS
    moves = np.ones(4)
    if reference is not None:
        moves[reference] = 0
    y = np.log(OMEGA) + H * moves * (a - a.sum() * OMEGA)
    mean = (y - y[3])[:3]
    covariance = 2 * H * (np.diag(moves[:3]) + moves[3])
    deviations = log_omega[:, :3] - log_omega[:, 3:] - mean
    p_values = {}
    for j in range(3):
        p_values["mean", j] = checks.mean_z(deviations[:, j], 0, covariance[j, j], 1e-6)
        for k in range(j + 1):
            variance = covariance[j, j] * covariance[k, k] + covariance[j, k] ** 2
            product = deviations[:, j] * deviations[:, k]
            p_values["covariance", j, k] = checks.mean_z(product, covariance[j, k], variance, 1e-6)
    return p_values


@pytest.mark.parametrize("reference", [None, 0, -1])
def test_one_step_has_the_moments_of_the_euler_step(reference, getkey):
    kernel = smld.build(GIVEN, ALPHA, H, reference=reference)
    state = kernel.init(getkey(), jnp.broadcast_to(OMEGA, (ROWS, 4)))
    state, info = kernel.update(getkey(), state, jnp.asarray(COUNTS, jnp.float32))
    log_omega = np.asarray(state.position, np.float64)
    assert not checks.family(step_checks(log_omega, reference))
    assert float(info.stiffness) == pytest.approx(H * (ALPHA + COUNTS).sum() / 2)


@pytest.mark.parametrize("reference", [None, 0])
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("correct", lambda a, xi: H * (a - a.sum() * OMEGA) + np.sqrt(2 * H) * xi),
        ("h for 2 h", lambda a, xi: H * (a - a.sum() * OMEGA) + np.sqrt(H) * xi),
        ("sign", lambda a, xi: -H * (a - a.sum() * OMEGA) + np.sqrt(2 * H) * xi),
        ("alpha - 1", lambda a, xi: H * (a - 1 - (a.sum() - 4) * OMEGA) + np.sqrt(2 * H) * xi),
        ("noise 3 % up", lambda a, xi: H * (a - a.sum() * OMEGA) + 1.03 * np.sqrt(2 * H) * xi),
    ],
)
def test_the_check_of_one_step_sees_mutants(reference, name, change, seed):
    xi = np.random.default_rng(seed).standard_normal((ROWS, 4))
    moved = change(ALPHA + COUNTS, xi)
    if reference is not None:
        moved[:, reference] = 0
    rejected = checks.family(step_checks(np.log(OMEGA) + moved, reference))
    assert bool(rejected) == (name != "correct")


def test_forms_differ_in_the_check():
    """The check tells a symmetric step from one with a reference category."""
    xi = np.random.default_rng(0).standard_normal((ROWS, 4))
    a = ALPHA + COUNTS
    symmetric = np.log(OMEGA) + H * (a - a.sum() * OMEGA) + np.sqrt(2 * H) * xi
    assert checks.family(step_checks(symmetric, 0))


def run_dense(h, steps, getkey, seed, spread=True, **options):
    a = np.array([3.0, 5.0, 2.5, 4.0])
    alpha = np.array([1.0, 2.0, 0.5, 1.0])
    kernel = smld.build(GIVEN, alpha, h, **options)
    exact_draws = np.random.default_rng(seed).dirichlet(a, 20_000)
    start = exact_draws if spread else np.broadcast_to(a / a.sum(), (20_000, 4))
    state = kernel.init(getkey(), jnp.asarray(start, jnp.float32))
    stream = batches.full(jnp.asarray(a - alpha, jnp.float32))
    state, _ = driver.run(getkey(), kernel, state, stream, steps, collect=lambda *_: ())
    log_omega = np.asarray(state.position, np.float64)
    mean = a / a.sum()
    exact = {
        "mean": mean,
        "variance": mean * (1 - mean) / (a.sum() + 1),
        "log mean": special.digamma(a) - special.digamma(a.sum()),
        "log variance": special.polygamma(1, a) - special.polygamma(1, a.sum()),
    }
    omega = np.exp(log_omega)
    result = {
        "mean": omega.mean(axis=0),
        "variance": omega.var(axis=0),
        "log mean": log_omega.mean(axis=0),
        "log variance": log_omega.var(axis=0),
    }
    return {name: result[name] / exact[name] for name in exact}


@pytest.mark.parametrize("reference", slow_but([None, 1], None))
def test_small_steps_keep_a_dense_posterior(reference, getkey, seed):
    """Ratios to the exact moments within 2 and 6% at h = 0.005; standard errors are below 1%.

    At h = 0.1 the variances are off by far more.
    """
    ratios = run_dense(0.005, 400, getkey, seed, reference=reference)
    for name, ratio in ratios.items():
        tolerance = 0.06 if "variance" in name else 0.02
        np.testing.assert_allclose(ratio, 1, atol=tolerance, err_msg=name)
    coarse = run_dense(0.1, 40, getkey, seed, reference=reference)
    assert np.abs(coarse["log variance"] - 1).max() > 0.15


@pytest.mark.slow
def test_linearised_variant_keeps_the_mean_but_not_the_variance(getkey, seed):
    """The variance is too large with a dense reference category and too small with a sparse one."""
    dense = run_dense(0.02, 500, getkey, seed, False, reference=1, linearised=True)
    np.testing.assert_allclose(dense["mean"], 1, atol=0.02)
    assert dense["variance"].min() > 1.2
    sparse = run_dense(0.02, 500, getkey, seed, False, reference=2, linearised=True)
    np.testing.assert_allclose(sparse["mean"], 1, atol=0.02)
    assert sparse["variance"].max() < 0.9


@pytest.mark.parametrize("reference", [2, np.array(2), jnp.array(2)])
def test_linearised_start_is_the_given_point(reference, getkey):
    kernel = smld.build(GIVEN, ALPHA, H, reference=reference, linearised=True)
    state = kernel.init(getkey(), OMEGA)
    weights = np.maximum(1 + np.asarray(state.dual), 0)
    np.testing.assert_allclose(weights / weights.sum(), OMEGA, rtol=1e-5)
    assert float(state.dual[2]) == 0


def test_a_traced_start_without_mass_is_nan(getkey):
    """No step leaves a probability of 0: without an error it would stay there, unnoticed."""
    kernel = smld.build(GIVEN, ALPHA, H)
    position = jax.jit(lambda p: kernel.init(getkey(), p).position)(jnp.array([0.5, 0.0, 0.5, 1.0]))
    assert np.isnan(position[1])

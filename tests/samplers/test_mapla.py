"""MAPLA leaves laws on convex sets invariant, in any metric, and its proposal is the one stated.

A correct kernel is rejected by `invariance.rejects` with a probability of at most 1e-5 at a fresh
seed, and by `checks.family` with one of at most 1e-3.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from support import convex_laws as laws
from support import invariance
from support import statistics_checks as checks
from support.marks import slow_but

from simplex_jax._src.geometry import metrics
from simplex_jax._src.samplers import mapla, metropolis


def no_second_derivative(x):
    """Positive definite, and with no function of which it would be the second derivative."""
    return jnp.diag(1 / x + 1 / (1 - x)[::-1]) + 0.5


# Log density, metric, step size, draws and checks.
TARGETS = {
    "cube": (
        laws.tilted,
        no_second_derivative,
        0.1,
        laws.tilted_draws,
        laws.tilted_checks,
    ),
    "triangle": (
        laws.dirichlet_of_two,
        metrics.hessian_metric(laws.barrier),
        0.3,
        laws.two_draws,
        laws.two_checks,
    ),
    # Of a second derivative that `jax.hessian` gets wrong for as many chains.
    "ball": (
        laws.uniform,
        metrics.hessian_metric(lambda x: -jnp.log1p(-(x**2).sum())),
        0.2,
        laws.ball_draws,
        laws.ball_checks,
    ),
}


def sampler(name, seed, accepted=(0.4, 0.95)):
    target, metric, h, draws, check = TARGETS[name]
    return laws.sampler(mapla.build(target, metric, h), draws, check, seed, accepted)


@pytest.mark.parametrize("name", slow_but(TARGETS, "cube"))
def test_exact_draws_stay_exact(name, seed):
    assert not invariance.rejects(sampler(name, seed), samples=laws.SAMPLES)


COLOR = mapla._color
MUTANTS = {
    "no determinant": {"_log_root": lambda factor: jnp.zeros(factor.shape[:-2])},
    "square": {"_square": lambda factor, v: 1.1 * jnp.sum((factor.T @ v) ** 2)},
    "noise": {"_color": lambda factor, xi: 1.05 * COLOR(factor, xi)},
    "not transposed": {"_square": lambda factor, v: jnp.sum((factor @ v) ** 2)},
}


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_check_of_invariance_sees_mutants(mutant, seed, monkeypatch):
    for name, function in MUTANTS[mutant].items():
        monkeypatch.setattr(mapla, name, function)
    jax.clear_caches()  # programs of other tests have the right ones
    assert invariance.rejects(sampler("triangle", seed, (0, 1)), samples=laws.SAMPLES)
    jax.clear_caches()


X, STEP, ROWS = np.array([0.5, 0.2]), 0.01, 20_000


def proposal_checks(x):
    last = 1 - X.sum()
    slope = (laws.SHAPES[:2] - 1) / X - (laws.SHAPES[2] - 1) / last
    metric = np.diag(1 / X**2) + 1 / last**2
    mean = X + STEP * np.linalg.solve(metric, slope)
    white = np.linalg.cholesky(metric / (2 * STEP)).T @ (x - mean).T
    result = {i: checks.dkwm(white[i], stats.norm.cdf) for i in range(2)}
    return result | {"both": checks.mean_z(white[0] * white[1], 0, 1)}


@pytest.mark.slow
def test_the_proposal_has_its_law(getkey, monkeypatch):
    def rejected(metric):
        kernel = mapla.build(laws.dirichlet_of_two, metric, STEP)
        state = kernel.init(getkey(), X)
        many = jax.vmap(kernel.update, in_axes=(0, None, None))
        moved, _ = many(jax.random.split(getkey(), ROWS), state, None)
        return checks.family(proposal_checks(np.asarray(moved.position, np.float64)))

    monkeypatch.setattr(
        metropolis, "decide", lambda key, ratio, value, h: (ratio, lambda new, old: new)
    )
    hessian = metrics.hessian_metric(laws.barrier)
    assert not rejected(hessian)
    assert rejected(lambda x: 1.1 * hessian(x))
    monkeypatch.setattr(mapla, "_solve", lambda factor, v: 0 * v)
    assert rejected(hessian)


def test_a_step_in_half_precision_is_that_number(getkey):
    """Its square root had 3 digits, in the noise only: for many coordinates, ratios were wrong."""
    half = jnp.bfloat16(0.001)
    key, start = getkey(), jnp.zeros(50)
    moved = []
    for h in (half, lambda step: half, float(half)):
        kernel = mapla.build(lambda x: -(x**2).sum() / 2, lambda x: jnp.eye(len(x)), h)
        moved.append(kernel.update(key, kernel.init(key, start), None))
    assert moved[0][1].acceptance.dtype == jnp.float32
    for leaf, *others in zip(*map(jax.tree.leaves, moved), strict=True):
        for other in others:
            np.testing.assert_allclose(other, leaf, rtol=1e-4)


def test_bad_input_is_named(getkey):
    metric = no_second_derivative
    with pytest.raises(ValueError, match="step_size"):
        mapla.build(laws.tilted, metric, 0.0)
    wrong = mapla.build(lambda x: x.sum(), lambda x: -jnp.eye(2), 0.1)
    with pytest.raises(ValueError, match=r"^position .*0\.5"):
        wrong.init(getkey(), jnp.full(2, 0.5))
    wrong = mapla.build(lambda x: x.sum(), lambda x: x, 0.1)
    with pytest.raises(ValueError, match=r"metric .* \[2, 2\]"):
        wrong.init(getkey(), jnp.full(2, 0.5))
    with pytest.raises(ValueError, match=r"log density .*(inf|nan)$"):
        mapla.build(laws.tilted, metric, 0.1).init(getkey(), jnp.array([0.5, 1.5]))
    with pytest.raises(ValueError, match="last axis"):
        mapla.build(jnp.sum, metric, 0.1).init(getkey(), 0.5)

"""MAMLA leaves laws on convex sets invariant, and its proposal is the one of the paper.

A correct kernel is rejected by `invariance.rejects` with a probability of at most 1e-5 at a fresh
seed, and by `checks.family` with one of at most 1e-3.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from baselines import proposals
from baselines.parameterisations import REDUCED_NATURAL
from scipy import stats
from support import convex_laws as laws
from support import invariance
from support import statistics_checks as checks
from support.marks import slow_but

from simplex_jax._src.geometry import mirror
from simplex_jax._src.samplers import mamla, metropolis

# Log density, mirror map, step size, draws and checks.
TARGETS = {
    "cube": (laws.tilted, mirror.hypercube(0.0, 1.0), 0.03, laws.tilted_draws, laws.tilted_checks),
    "simplex": (
        laws.dirichlet,
        mirror.simplex(1),
        0.1,
        laws.dirichlet_draws,
        laws.dirichlet_checks,
    ),
    "ball": (laws.uniform, mirror.ball(), 0.1, laws.ball_draws, laws.ball_checks),
    "own": (
        laws.dirichlet_of_two,
        mirror.from_convex(laws.barrier),
        0.1,
        laws.two_draws,
        laws.two_checks,
    ),
}


def sampler(name, seed, accepted=(0.4, 0.95), log_density=None, **changes):
    target, maps, h, draws, check = TARGETS[name]
    kernel = mamla.build(log_density or target, maps._replace(**changes), h)
    return laws.sampler(kernel, draws, check, seed, accepted)


@pytest.mark.parametrize("name", slow_but(TARGETS, "cube"))
def test_exact_draws_stay_exact(name, seed):
    assert not invariance.rejects(sampler(name, seed), samples=laws.SAMPLES)


def times(factor, function):
    return lambda *points: factor * function(*points)


CUBE, SIMPLEX = TARGETS["cube"][1], TARGETS["simplex"][1]
MUTANTS = {
    "density": ("cube", {"log_density": lambda x: 1.1 * laws.tilted(x)}),
    "no Jacobian": ("cube", {"log_det": times(0.0, CUBE.log_det)}),
    # Without the determinant of the target's density of y, whose power is 1 of 1.5.
    "a third of the determinants": ("simplex", {"log_det": times(1 / 3, SIMPLEX.log_det)}),
    "square": ("simplex", {"square": times(1.1, SIMPLEX.square)}),
    "noise": ("cube", {"noise": times(1.05, CUBE.noise)}),
}


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_check_of_invariance_sees_mutants(mutant, seed):
    name, changes = MUTANTS[mutant]
    assert invariance.rejects(sampler(name, seed, (0, 1), **changes), samples=laws.SAMPLES)


X, STEP, ROWS = np.array([0.5, 0.2, 0.3]), 0.01, 20_000


def accept_all(key, log_ratio, value, h):
    return jnp.exp(log_ratio), lambda new, old: new


def proposal_checks(y):
    """Of y = log(x_j / x_2), j = 1, 3: the gradient by x_j with x_2 = 1 - x_1 - x_3."""
    slope = (laws.SHAPES - 1) / X
    hessian = np.diag(1 / X[[0, 2]]) + 1 / X[1]
    mean = np.log(X[[0, 2]] / X[1]) + STEP * (slope[[0, 2]] - slope[1])
    white = np.linalg.solve(np.linalg.cholesky(2 * STEP * hessian), (y - mean).T)
    result = {i: checks.dkwm(white[i], stats.norm.cdf) for i in range(2)}
    return result | {"both": checks.mean_z(white[0] * white[1], 0, 1)}


@pytest.mark.slow
def test_the_proposal_has_its_law(getkey, monkeypatch):
    def rejected(**changes):
        kernel = mamla.build(laws.dirichlet, SIMPLEX._replace(**changes), STEP)
        state = kernel.init(getkey(), X)
        many = jax.vmap(kernel.update, in_axes=(0, None, None))
        moved, _ = many(jax.random.split(getkey(), ROWS), state, None)
        return checks.family(proposal_checks(np.asarray(moved.dual, np.float64)))

    monkeypatch.setattr(metropolis, "decide", accept_all)
    assert not rejected()
    assert rejected(inverse_hessian=lambda x, y, v: mirror.simplex(1).noise(x, y, 0 * v))
    assert rejected(noise=times(1.05, SIMPLEX.noise))


@pytest.mark.slow
def test_on_a_dirichlet_it_is_langevin_dynamics_in_natural_coordinates(getkey, monkeypatch):
    """The same ratio for the same proposal, by formulas that share nothing."""
    counts, alpha = np.array([3.0, 1.0, 6.0]), np.array([0.5, 1.5, 1.0])
    h = 0.1
    kernel = mamla.build(lambda x: ((counts + alpha - 1) * jnp.log(x)).sum(), mirror.simplex(-1), h)
    state = kernel.init(getkey(), X)
    monkeypatch.setattr(metropolis, "decide", accept_all)
    moved, info = jax.vmap(kernel.update, in_axes=(0, None, None))(
        jax.random.split(getkey(), 50), state, None
    )
    proposer = proposals.Proposer(REDUCED_NATURAL, riemannian=True)
    start = jnp.broadcast_to(jnp.log(X.astype(np.float32)), moved.position.shape)
    change = jnp.log(moved.position) - start
    drift = proposer.drift(start, alpha, counts)
    move = proposals.Proposal(
        start=start,
        end=start + change,
        change=change,
        step=change,
        noise=(change - h * drift) / np.sqrt(2 * h),
        sign=jnp.ones_like(change),
        outside=jnp.zeros(50, bool),
    )
    ratio = proposals.log_ratio(move, alpha, counts, counts, jnp.float32(h), proposer, True)
    np.testing.assert_allclose(jnp.log(info.acceptance), ratio, rtol=2e-3, atol=2e-3)
    assert np.ptp(ratio) > 0.5


def test_bad_input_is_named(getkey):
    with pytest.raises(ValueError, match="step_size"):
        mamla.build(laws.tilted, CUBE, 0.0)
    with pytest.raises(ValueError, match=r"^position .*\[0\.5 1"):
        mamla.build(laws.tilted, CUBE, 0.1).init(getkey(), jnp.array([0.5, 1.0]))
    with pytest.raises(ValueError, match=r"log density .*(inf|nan)$"):
        mamla.build(lambda x: jnp.log(x - 1).sum(), CUBE, 0.1).init(getkey(), jnp.full(2, 0.5))

"""Acceptance ratios of SCIR's moves: right to rounding, whatever the counts; short moves pass."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import digamma, gammaln
from scipy import special
from support.marks import slow_but

from simplex_jax._src import draws
from simplex_jax._src.numpyro import density, gamma_moves, simplex_moves, sites


def in_double(move, alpha, total, a, a_there, step):
    """The ratio as the module's text has it."""
    move = jax.tree.map(lambda x: np.asarray(x, np.float64), move)
    alpha, a, a_there, total = (np.asarray(x, np.float64) for x in (alpha, a, a_there, total))
    growth = np.log1p(1 / np.expm1(float(step)))
    sums = special.logsumexp(move.after) - special.logsumexp(move.before)
    terms = (alpha - a) * move.after - (alpha - a_there) * move.before
    change = special.gammaln(a + move.counts) - special.gammaln(a_there + move.counts)
    scale = (a_there - a) * (growth + np.log(move.rate))
    weight = (move.rate - 1) * (np.exp(move.after) - np.exp(move.before))
    return total * sums + (terms + change + scale + weight).sum()


@pytest.mark.parametrize("step", slow_but([3.0, 0.1, 1e-4], 0.1))
@pytest.mark.parametrize("size", [10.0, 1e5])
def test_the_ratio_is_right_in_single_precision(size, step) -> None:
    """With 100,000 counts and 1e9 Poisson numbers it is a sum of terms of some 1e10."""
    key_scale, *keys = jax.random.split(jax.random.key(0), 3)
    shares = jnp.array([0.6, 0.4, 1e-30])
    alpha, total = jnp.full(3, 0.3), jnp.array([size])
    a = alpha + size * shares + jnp.array([0.1, -0.1, 0]) * size**0.5
    a_there = a + jnp.array([-0.3, 0.3, 0]) * size**0.5
    step = jnp.float32(step)
    before = simplex_moves.with_scale(key_scale, jnp.log(shares), alpha, total)
    move = simplex_moves.propose(keys, before, a, jnp.array([1.0, 1.2, 30.0]), step)
    result = simplex_moves.log_ratio(move, alpha, total, a, a_there, step).sum()
    wanted = in_double(move, alpha, total, a, a_there, step)
    assert abs(float(result) - wanted) < 1e-3 + 3e-6 * abs(wanted)


@pytest.mark.parametrize("there", [[0.05, 0.25, 0.025], [30.0, 8.0, 1e5]])
def test_the_ratio_is_right_where_shapes_fall_far(there) -> None:
    """As where they had to be raised to be positive, and nothing was drawn."""
    alpha, a = jnp.full(3, 0.05), jnp.array([20.0, 8.5, 1e2])
    before, after = jnp.array([1.0, 2.0, 4.5]), jnp.array([3.0, 2.1, 4.6])
    move = simplex_moves.Move(after, before, after, jnp.zeros(3), jnp.ones(3))
    given = move, alpha, jnp.array([100.0]), a, jnp.array(there), jnp.float32(5)
    wanted = in_double(*given)
    assert abs(float(simplex_moves.log_ratio(*given).sum()) - wanted) < 1e-3 + 3e-6 * abs(wanted)


@pytest.mark.parametrize("rise", [-40.0, 40.0, 0.5])
def test_the_ratio_is_right_where_the_total_changes_far(rise) -> None:
    alpha, before = jnp.full(2, 0.05), jnp.array([-20.0, -21.0])
    move = simplex_moves.Move(before, before, before + rise, jnp.zeros(2), jnp.ones(2))
    given = move, alpha, jnp.zeros(1), 1.1 * alpha, alpha, jnp.float32(5)
    wanted = in_double(*given)
    assert abs(float(simplex_moves.log_ratio(*given).sum()) - wanted) < 1e-4


def test_a_proposal_far_above_a_tiny_value_has_a_ratio() -> None:
    move = simplex_moves.Move(
        *(jnp.array(x) for x in ([-0.5, -1.0], [-200.0, 3.0], [2.0, 3.0], [0.0, 4.0], 1.0))
    )
    one = jnp.ones(2)
    result = simplex_moves.log_ratio(move, one, jnp.ones(1), one, one, jnp.float32(1)).sum()
    assert np.isfinite(result)


@pytest.mark.parametrize("kind", [sites.SIMPLEX, sites.GAMMA], ids=lambda kind: kind.name)
def test_priors_keep_their_digits_at_large_parameters(kind) -> None:
    """Fifty rows with one learned concentration of 1e5, or shape: rounding is no jump of 7 nats."""
    rng, mean = np.random.default_rng(0), np.float32([0.1, 0.2, 0.3, 0.25, 0.15])
    draw = rng.dirichlet(1e5 * mean, 50) if kind == sites.SIMPLEX else rng.gamma(1e5, 1e-5, 50)
    y = np.log(draw).astype(np.float32)

    def exact(a):
        if kind == sites.GAMMA:
            return (a * (np.log(a) + y.astype(float) - np.exp(y, dtype=float))).sum() - 50 * (
                special.gammaln(a)
            )
        alpha = (np.float32(a) * mean).astype(float)
        constant = special.gammaln(alpha.sum()) - special.gammaln(alpha).sum()
        return 50 * constant + (alpha * y).sum()

    def result(a):
        a = np.float32(a)
        parameters = (a * mean,) if kind == sites.SIMPLEX else (a, a)
        parameters = tuple(jnp.broadcast_to(x, y.shape) for x in parameters)
        return density._log_prior(kind, jnp.asarray(y), parameters).sum()

    values = np.linspace(7e4, 1.4e5, 15, dtype=np.float32).astype(float)
    errors = np.array([float(result(a)) - exact(a) for a in values])
    assert np.ptp(errors) < 0.8


@pytest.mark.slow
def test_short_moves_of_gamma_sites_are_accepted() -> None:
    """Of concentrations with eight samples each, whose exposures depend on them."""
    prior, known = (jnp.full(20, 0.5), jnp.ones(20)), jnp.linspace(0.5, 300.0, 20)

    def log_likelihood(y):
        return (-8 * gammaln(jnp.exp(y)) - known * jnp.exp(y)).sum()

    def slope(y):
        return -jnp.exp(y) * (8 * digamma(jnp.exp(y)) + known)

    y = jnp.log(8.5 / known)
    exposure = gamma_moves.exposure(y, slope(y), slope(gamma_moves.scale_up(y)))

    def probability(key, step):
        key_start, *keys = jax.random.split(key, 3)
        start = draws.loggamma(key_start, jnp.full(20, 8.5)) - jnp.log(known)
        here = gamma_moves.conditional(prior, start, slope(start), exposure)
        move = gamma_moves.propose(keys, start, here, step)
        there = gamma_moves.conditional(prior, move.y, slope(move.y), exposure)
        ratio = gamma_moves.log_ratio(move, prior, start, here, there, step).sum()
        ratio += log_likelihood(move.y) - log_likelihood(start)
        return jnp.exp(jnp.minimum(ratio, 0))

    def mean(step):
        keys = jax.random.split(jax.random.key(1), 500)
        each = jax.vmap(lambda key: probability(key, jnp.float32(step)))(keys)
        return float(each.mean())

    assert mean(0.1) > 0.6
    assert mean(1e-3) > 0.97

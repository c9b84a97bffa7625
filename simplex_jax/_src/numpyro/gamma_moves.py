r"""Moves of a site with a gamma prior, in any model, by CIR transitions.

The site is x, with a Gamma(a0, b0) prior and a likelihood L whose derivative is split into a count
and an exposure, :math:`x\, dL/dx = n - e\, x`. The split is exact for rates of Poisson and
exponential data, precisions of normal data, and factors of Poisson means. The distribution of x is
then Gamma(a0 + n, b0 + e), and its CIR process moves x: N ~ Poisson(lambda b x), x' ~ Gamma(a + N)
/ (b (1 + lambda)), lambda = 1 / (e^h - 1). If n and e depend on x, the move is a Metropolis
proposal given N; the derivation in `simplex_moves` also holds here. The proposal uses an exposure
that does not depend on x, and n makes up the difference. With a different exposure at each end of
a move, the distributions of N at the two ends would differ as much for short steps as for long
ones, and no move would be accepted.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src import draws
from simplex_jax._src.numpyro import simplex_moves
from simplex_jax._src.samplers import expanded

# The derivative is split using its values at x and at this multiple of x.
SCALING = 2.0


class Gamma(NamedTuple):
    """The gamma distribution of a site if count and exposure did not depend on it."""

    shape: jax.Array  # a, positive
    rate: jax.Array  # b, positive
    raw: jax.Array  # a from the formula, which may be negative


class Move(NamedTuple):
    """A proposal: log x' and N."""

    y: jax.Array
    counts: jax.Array


def scale_up(y: jax.Array) -> jax.Array:
    """Return log(SCALING x) for y = log x."""
    return y + jnp.log(SCALING).astype(y.dtype)


def exposure(y: jax.Array, slope: jax.Array, scaled_slope: jax.Array) -> jax.Array:
    """Return e, at least 0, from the values of dL / dlog x = n - e x at x and at SCALING x.

    Of a large negative y, log(SCALING x) is rounded, so what x was in fact multiplied by is not
    quite SCALING.
    """
    x, scaled = jnp.exp(y), jnp.exp(scale_up(y))
    e = jnp.maximum((slope - scaled_slope) / (scaled - x), 0)
    return jnp.where(jnp.isfinite(e), e, 0)


def conditional(
    prior: tuple[jax.Array, ...], y: jax.Array, slope: jax.Array, exposure: jax.Array
) -> Gamma:
    """Return the distribution, given dL / dlog x at x and an exposure."""
    shape, rate = prior
    raw = shape + slope + exposure * jnp.exp(y)
    return Gamma(jnp.maximum(raw, simplex_moves.least(shape, slope)), rate + exposure, raw)


def propose(keys: jax.Array, y: jax.Array, gamma: Gamma, step: jax.Array) -> Move:
    """Move x by a CIR transition over time `step`, which may be infinite, with two keys."""
    key_count, key_gamma = keys
    rate = 1 / jnp.expm1(step)
    counts = draws.poisson(key_count, rate * gamma.rate * jnp.exp(y))
    return Move(
        draws.loggamma(key_gamma, gamma.shape + counts) - jnp.log1p(rate) - jnp.log(gamma.rate),
        counts,
    )


def log_ratio(
    move: Move,
    prior: tuple[jax.Array, ...],
    y: jax.Array,
    here: Gamma,
    there: Gamma,
    step: jax.Array,
) -> jax.Array:
    """Return the log acceptance ratio minus the change of the log likelihood, by number.

    Both distributions have the same rate.
    """
    shape, rate = prior
    pull = (shape - here.shape) * (move.y - y)
    weight = (here.rate - rate) * simplex_moves.gain(y, move.y)
    growth = jnp.log1p(1 / jnp.expm1(step)) + jnp.log(here.rate)
    bend = simplex_moves.change_of_shapes(y + growth, here.shape, there.shape, move.counts)
    return pull + weight + bend


def transition(
    key: jax.Array, y: jax.Array, prior: tuple[jax.Array, ...], gamma: Gamma, step: jax.Array
) -> jax.Array:
    """Move by an uncorrected step, or by a reflected Euler step if the shape is not positive."""
    key_cir, key_noise = jax.random.split(key)
    log_rate = jnp.log(gamma.rate)
    unit = y + log_rate
    usable = gamma.raw > 0
    exact = draws.cir(key_cir, unit, jnp.where(usable, gamma.raw, 1), step)
    leaf = expanded.Leaf(key_noise, unit, unit, prior[0], gamma.raw - prior[0])
    reflected, _ = expanded.reflected_step(leaf, gamma.raw - jnp.exp(unit), step)
    return jnp.where(usable, exact, reflected) - log_rate

r"""Moves of a simplex site of any model by CIR transitions.

The site is omega, with a Dirichlet(alpha) prior and a likelihood L, of generalised counts
:math:`c_j = \partial L / \partial \log \omega_j`. Beside it stands a total S of law Gamma(alpha. +
s), redrawn for every move, so that theta = omega S has the density

.. math::
    \pi(\theta) \propto \prod_j \theta_j^{\alpha_j - 1} e^{-\theta_j}\, e^{L(\omega)}\, S^s, \qquad
    \frac{\partial \log \pi}{\partial \log \theta_j} = a_j - 1 - \theta_j, \qquad
    a_j = \alpha_j + c_j - \omega_j c_\cdot + s\, \omega_j

for every constant s, which only affects speed. SCIR moves theta by the exact transition of the CIR
process with stationary distribution Gamma(a). This is exact if the likelihood is conjugate and s
the number of its counts, so that a does not depend on omega.

Otherwise a move is corrected. The transition draws N ~ Poisson(lambda theta), lambda = 1 / (e^h -
1), and then theta' ~ Gamma(a + N) / (1 + lambda). Given N, which is redrawn, it is a Metropolis
proposal, whose acceptance probability needs no Bessel function:

.. math::
    \log r = L(\omega') - L(\omega) + s \log \frac{S'}{S} + \sum_j \Big[ (\alpha_j - a_j) \log
    \theta_j' - (\alpha_j - a_j') \log \theta_j + \log \frac{\Gamma(a_j + N_j)}{\Gamma(a_j' + N_j)}
    + (a_j' - a_j) \log (1 + \lambda) \Big]

with a' the shapes at omega'. A sparse coordinate has a = a' = alpha and costs nothing.

If each count decreases with its probability at its own rate, :math:`c_j = n_j - e_j \omega_j`, like
those of a Dirichlet concentration, coordinates have different scales. In a site with one row
theta_j then moves by the process with stationary distribution Gamma(a_j) / b_j, with a constant
:math:`b_j = 1 + e_j / E S` and :math:`(b_j - 1) \theta_j` more in a_j, which adds
:math:`\sum_j (b_j - 1) (\theta_j' - \theta_j) + (a_j' - a_j) \log b_j` to log r.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax import draws
from simplex_jax.geometry import rising, simplex
from simplex_jax.samplers import expanded


class Shapes(NamedTuple):
    """Shapes of the gamma distributions of a site, [..., K].

    Those used are positive; raw ones, from the formula, may be negative with a steep likelihood or
    a noisy minibatch.
    """

    used: jax.Array
    raw: jax.Array


class Move(NamedTuple):
    """A proposal, [..., K]."""

    y: jax.Array  # log-probabilities
    before: jax.Array  # log theta
    after: jax.Array  # log theta'
    counts: jax.Array  # N
    rate: jax.Array  # b, [..., K] or a scalar


def shapes(
    alpha: jax.Array,
    counts: jax.Array,
    y: jax.Array,
    total: jax.Array,
    more: jax.Array | float = 0.0,
) -> Shapes:
    """Return the shapes a at log-probabilities y, with the totals s, [..., 1].

    `more` is (b - 1) theta, where rates b are not 1.
    """
    raw = alpha + with_total(counts, y, total) + more
    return Shapes(jnp.maximum(raw, alpha / 2), raw)


def with_scale(key: jax.Array, y: jax.Array, alpha: jax.Array, total: jax.Array) -> jax.Array:
    """Return log theta, with a random total S."""
    return y + draws.loggamma(key, alpha.sum(axis=-1, keepdims=True) + total)


def with_total(counts: jax.Array, y: jax.Array, total: jax.Array) -> jax.Array:
    """Return counts with the same effect on the simplex, and the sums s, [..., 1]."""
    return counts + jnp.exp(y) * (total - counts.sum(axis=-1, keepdims=True))


def propose(
    keys: jax.Array, before: jax.Array, a: jax.Array, rate: jax.Array, step: jax.Array
) -> Move:
    """Move log theta by a CIR transition over the time `step`, or infinity, with two keys."""
    key_count, key_gamma = keys
    growth = 1 / jnp.expm1(step)
    counts = draws.poisson(key_count, growth * rate * jnp.exp(before))
    after = draws.loggamma(key_gamma, a + counts) - jnp.log1p(growth) - jnp.log(rate)
    return Move(simplex.normalise(after), before, after, counts, rate)


def log_ratio(
    move: Move,
    alpha: jax.Array,
    total: jax.Array,
    a: jax.Array,
    a_there: jax.Array,
    step: jax.Array,
) -> jax.Array:
    """Return the log acceptance ratio per row, [..., 1], without the change of the log likelihood.

    Its terms are as large as the counts, or the larger Poisson numbers of short steps, so terms
    that nearly cancel are combined.
    """
    rise = move.after - move.before
    sums = _change_of_total(move)
    pull = (alpha - a) * (rise - sums)
    # Zero except with rates, and with shapes that were raised.
    stretch = ((alpha - a).sum(axis=-1, keepdims=True) + total) * sums
    weight = (move.rate - 1) * gain(move.before, move.after)
    growth = jnp.log1p(1 / jnp.expm1(step)) + jnp.log(move.rate)
    bend = change_of_shapes(move.before + growth, a, a_there, move.counts)
    return stretch + (pull + weight + bend).sum(axis=-1, keepdims=True)


def _change_of_total(move: Move) -> jax.Array:
    """Return log S'/S, to rounding of itself where that is small."""
    far = expanded.log_sum(move.after) - expanded.log_sum(move.before)
    share = simplex.normalise(move.before)
    close = gain(share, share + (move.after - move.before)).sum(axis=-1, keepdims=True)
    is_close = jnp.abs(far) < 1
    return jnp.where(is_close, jnp.log1p(jnp.where(is_close, close, 0)), far)


def gain(before: jax.Array, after: jax.Array) -> jax.Array:
    """Return exp(after) - exp(before), to rounding of itself where they are close."""
    rise = after - before
    close = jnp.exp(before) * jnp.expm1(jnp.minimum(rise, 1))
    return jnp.where(rise < 1, close, jnp.exp(after) - jnp.exp(before))


def change_of_shapes(
    log_scale: jax.Array, a: jax.Array, a_there: jax.Array, counts: jax.Array
) -> jax.Array:
    """Return (a' - a) log_scale + log Gamma(a + N) - log Gamma(a' + N), which nearly cancel."""
    change = a_there - a
    low, high = jnp.minimum(a, a_there) + counts, jnp.maximum(a, a_there) + counts
    left = change - jnp.sign(change) * rising.excess(low, jnp.abs(change))
    return change * (log_scale - jnp.log(high)) + left


def transition(
    key: jax.Array,
    y: jax.Array,
    alpha: jax.Array,
    raw: jax.Array,
    total: jax.Array,
    step: jax.Array,
) -> jax.Array:
    r"""Do an uncorrected step, a reflected one for rows with a shape that is not positive.

    The latter is the Euler step :math:`|\theta + h (a - \theta) + \sqrt{2 h \theta} \xi|` of SGRLD,
    which does not need positive a.
    """
    key_total, key_cir, key_noise = jax.random.split(key, 3)
    log_theta = with_scale(key_total, y, alpha, total)
    usable = (raw > 0).all(axis=-1, keepdims=True)
    exact = draws.cir(key_cir, log_theta, jnp.where(usable, raw, 1), step)
    theta = jnp.exp(log_theta)
    leaf = expanded.Leaf(key_noise, y, log_theta, alpha, raw - alpha)
    reflected, _ = expanded.reflected_step(leaf, raw - theta, step)
    return simplex.normalise(jnp.where(usable, exact, reflected))


def slope(
    y: Sequence[jax.Array], counts: Sequence[jax.Array], exposure: jax.Array | float = 0.0
) -> tuple[jax.Array, jax.Array]:
    """Return minus the slope of the tangent counts c - omega c. against omega, between two points.

    It is in the metric 1 / omega, as numerator and denominator, [..., 1]. Where the likelihood is
    conjugate it is the number of its counts, and the total s that makes both shapes equal. What
    rates make up for is left out, exposure * omega.
    """
    omega = [jnp.exp(value) for value in y]
    pull = [
        c + exposure * w - w * c.sum(axis=-1, keepdims=True)
        for c, w in zip(counts, omega, strict=True)
    ]
    apart = omega[1] - omega[0]
    # A step that leaves a coordinate where it was, at 0, says nothing of it.
    weight = apart / jnp.maximum(omega[0] + omega[1], jnp.finfo(apart.dtype).tiny)
    numerator = -((pull[1] - pull[0]) * weight).sum(axis=-1, keepdims=True)
    return numerator, (apart * weight).sum(axis=-1, keepdims=True)


def needed_total(y: jax.Array, counts: jax.Array, exposure: jax.Array | float = 0.0) -> jax.Array:
    """Return the smallest total, [..., 1], with which no count would be negative at y."""
    # As `sites.constrain` has it: counts are those of a probability that did not underflow.
    y = jnp.maximum(y, jnp.log(jnp.finfo(y.dtype).tiny))
    needed = counts.sum(axis=-1, keepdims=True) - counts * jnp.exp(-y) - exposure
    return jnp.max(needed, axis=-1, keepdims=True)


def same(one: jax.Array, other: jax.Array, size: jax.Array) -> jax.Array:
    """Return whether shapes are equal but for rounding and what no sample could tell.

    That alone does not make a move exact: shapes come of the gradient, which does not see the
    jumps of a likelihood. `rounding.allowed` bounds what the log density may say against it.

    A difference of a thousandth of the standard deviation of the gamma law is ignored, and one of
    rounding: of the shape, and of the numbers of the given size that it is a difference of.
    """
    allowed = 1e-3 * jnp.sqrt(one) + rounding(one, size)
    return (jnp.abs(one - other) <= allowed).all()


def rounding(shape: jax.Array, size: jax.Array) -> jax.Array:
    """Return the rounding of a shape that is a difference of numbers of the given size."""
    return jnp.finfo(shape.dtype).eps * (50 * shape + 8 * size)

r"""Moves of a simplex site of any model by CIR transitions.

The site is omega, with a Dirichlet(alpha) prior and a likelihood L with generalised counts
:math:`c_j = \partial L / \partial \log \omega_j`. A total S of distribution Gamma(alpha. + s) is
redrawn for every move, so theta = omega S has the density

.. math::
    \pi(\theta) \propto \prod_j \theta_j^{\alpha_j - 1} e^{-\theta_j}\, e^{L(\omega)}\, S^s, \qquad
    \frac{\partial \log \pi}{\partial \log \theta_j} = a_j - 1 - \theta_j, \qquad
    a_j = \alpha_j + c_j - \omega_j c_\cdot + s\, \omega_j

for every constant s, so s can be chosen for speed alone. SCIR moves theta by the exact transition
of the CIR process with stationary distribution Gamma(a). This is exact if the likelihood is
conjugate and s is the number of its counts, because then a does not depend on omega.

Otherwise a move is corrected. The transition draws N ~ Poisson(lambda theta), lambda = 1 / (e^h -
1), and then theta' ~ Gamma(a + N) / (1 + lambda). Given N, which is drawn afresh, it is a
Metropolis proposal whose acceptance probability has no Bessel function:

.. math::
    \log r = L(\omega') - L(\omega) + s \log \frac{S'}{S} + \sum_j \Big[ (\alpha_j - a_j) \log
    \theta_j' - (\alpha_j - a_j') \log \theta_j + \log \frac{\Gamma(a_j + N_j)}{\Gamma(a_j' + N_j)}
    + (a_j' - a_j) \log (1 + \lambda) \Big]

with the shapes a' at omega'. A sparse coordinate has a = a' = alpha and costs nothing.

If each count falls with its probability at its own rate, :math:`c_j = n_j - e_j \omega_j`, as for a
Dirichlet concentration, coordinates have different scales. In a site of one row, theta_j then moves
by the process of distribution Gamma(a_j) / b_j with a constant :math:`b_j = 1 + e_j / E S` and
:math:`(b_j - 1) \theta_j` added to a_j, which adds :math:`\sum_j (b_j - 1) (\theta_j' - \theta_j)
+ (a_j' - a_j) \log b_j` to log r.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src import draws
from simplex_jax._src.geometry import rising, simplex
from simplex_jax._src.samplers import expanded


class Shapes(NamedTuple):
    """Shapes of the gamma distributions of a site, [..., K].

    Used ones are positive; raw ones, from the formula, may be negative if a likelihood is steep or
    a minibatch noisy.
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

    `more` is (b - 1) theta, for rates b other than 1.
    """
    raw = alpha + with_total(counts, y, total) + more
    return Shapes(jnp.maximum(raw, least(alpha, counts)), raw)


def least(alpha: jax.Array, counts: jax.Array) -> jax.Array:
    """Return the smallest shapes that are used as they are; smaller ones are raised to them.

    alpha + c, where positive, is the exponent with which the density rises to a corner. A shape
    above it would propose too few values there, and the chain would hardly leave the corner.
    """
    exponent = alpha + counts
    return jnp.where(exponent > 0, jnp.minimum(alpha, exponent), alpha) / 2


def with_scale(key: jax.Array, y: jax.Array, alpha: jax.Array, total: jax.Array) -> jax.Array:
    """Return log theta, with a total S that is drawn."""
    return y + draws.loggamma(key, alpha.sum(axis=-1, keepdims=True) + total)


def with_total(counts: jax.Array, y: jax.Array, total: jax.Array) -> jax.Array:
    """Return counts with the same pull on the simplex and with sums s, [..., 1]."""
    return counts + jnp.exp(y) * (total - counts.sum(axis=-1, keepdims=True))


def propose(
    keys: jax.Array, before: jax.Array, a: jax.Array, rate: jax.Array, step: jax.Array
) -> Move:
    """Move log theta by a CIR transition over time `step`, which may be infinite, with two keys."""
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
    """Return the log acceptance ratio minus the change of the log likelihood, by row, [..., 1].

    Its terms are as large as the counts, or as the much larger Poisson numbers of short steps:
    terms that nearly cancel are combined.
    """
    rise = move.after - move.before
    sums = _change_of_total(move)
    pull = (alpha - a) * (rise - sums)
    # Zero except for rates and raised shapes: otherwise the shapes sum to the rest.
    stretch = ((alpha - a).sum(axis=-1, keepdims=True) + total) * sums
    weight = (move.rate - 1) * gain(move.before, move.after)
    growth = jnp.log1p(1 / jnp.expm1(step)) + jnp.log(move.rate)
    bend = change_of_shapes(move.before + growth, a, a_there, move.counts)
    return stretch + (pull + weight + bend).sum(axis=-1, keepdims=True)


def _change_of_total(move: Move) -> jax.Array:
    """Return log S'/S, to relative rounding error where it is small."""
    far = expanded.log_sum(move.after) - expanded.log_sum(move.before)
    share = simplex.normalise(move.before)
    close = gain(share, share + (move.after - move.before)).sum(axis=-1, keepdims=True)
    is_close = jnp.abs(far) < 1
    return jnp.where(is_close, jnp.log1p(jnp.where(is_close, close, 0)), far)


def gain(before: jax.Array, after: jax.Array) -> jax.Array:
    """Return exp(after) - exp(before), to relative rounding error where they are close."""
    rise = after - before
    close = jnp.exp(before) * jnp.expm1(jnp.minimum(rise, 1))
    return jnp.where(rise < 1, close, jnp.exp(after) - jnp.exp(before))


def change_of_shapes(
    log_scale: jax.Array, a: jax.Array, a_there: jax.Array, counts: jax.Array
) -> jax.Array:
    """Return (a' - a) log_scale + log Gamma(a + N) - log Gamma(a' + N), which nearly cancel."""
    change = a_there - a
    low, high = jnp.minimum(a, a_there) + counts, jnp.maximum(a, a_there) + counts
    remainder = change - jnp.sign(change) * rising.excess(low, jnp.abs(change))
    return change * (log_scale - jnp.log(high)) + remainder


def transition(
    key: jax.Array,
    y: jax.Array,
    alpha: jax.Array,
    raw: jax.Array,
    total: jax.Array,
    step: jax.Array,
) -> jax.Array:
    r"""Move by an uncorrected step, or in rows with a nonpositive shape by a reflected one.

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

    It is in the metric 1 / omega, as numerator and denominator, [..., 1]. If the likelihood is
    conjugate, it is the number of its counts, and the total s that makes both shapes equal. The
    part that rates account for, exposure * omega, is left out.
    """
    omega = [jnp.exp(value) for value in y]
    pull = [
        c + exposure * w - w * c.sum(axis=-1, keepdims=True)
        for c, w in zip(counts, omega, strict=True)
    ]
    change = omega[1] - omega[0]
    # A step that leaves a coordinate at 0 carries no information on it.
    weight = change / jnp.maximum(omega[0] + omega[1], jnp.finfo(change.dtype).tiny)
    numerator = -((pull[1] - pull[0]) * weight).sum(axis=-1, keepdims=True)
    return numerator, (change * weight).sum(axis=-1, keepdims=True)


def needed_total(
    y: Sequence[jax.Array],
    counts: Sequence[jax.Array],
    alpha: jax.Array | None,
    exposure: jax.Array | float = 0.0,
) -> jax.Array:
    """Return the smallest total, [..., 1], with which no count would be negative at two points.

    A count may be negative at a probability of 0, if the density rises to a corner faster than the
    prior (a factor, a mixture with a concentration below that of its reference). No total makes up
    for it: what the line through both counts has at 0 belongs to the shape, and only the rest
    counts. Otherwise larger totals would be needed closer to the corner, moves would be shorter,
    and the chain would come still closer. Without alpha, negative counts have no such excuse.
    """
    tilt = jnp.zeros_like(counts[0])
    if alpha is not None:
        tilt = jnp.minimum(_at_zero(y, counts), 0)
        # Nothing is needed for a hundredth of a shape, or for rounding.
        tilt -= 0.01 * jnp.maximum(alpha + tilt, 0)
    # As in `sites.Kind.constrain`: counts are for a probability that did not underflow.
    floor = jnp.log(jnp.finfo(y[0].dtype).tiny)
    needed = [
        c.sum(axis=-1, keepdims=True) - (c - tilt) * jnp.exp(-jnp.maximum(place, floor)) - exposure
        for place, c in zip(y, counts, strict=True)
    ]
    return jnp.max(jnp.maximum(*needed), axis=-1, keepdims=True)


def _at_zero(y: Sequence[jax.Array], counts: Sequence[jax.Array]) -> jax.Array:
    """Return the counts at probability 0 on the line through those at two; 0 if they are close."""
    is_first_low = y[0] < y[1]
    low = jnp.where(is_first_low, counts[0], counts[1])
    high = jnp.where(is_first_low, counts[1], counts[0])
    share = jnp.exp(-jnp.abs(y[1] - y[0]))
    apart = share < 0.99
    return jnp.where(apart, (low - share * high) / jnp.where(apart, 1 - share, 1), 0)


def leverage(log_scale: jax.Array, a: jax.Array) -> jax.Array:
    """Return a bound on the derivative of `change_of_shapes` in a', at a and without counts.

    It is log_scale - digamma(a), and digamma(a) is between log(a) - 1 / a and log(a). The larger of
    two shapes has the smaller one's bound.
    """
    return jnp.abs(log_scale - jnp.log(a)) + 1 / a


def same(one: jax.Array, other: jax.Array, size: jax.Array) -> jax.Array:
    """Return whether shapes are equal up to rounding and undetectable differences.

    This alone does not make a move exact: shapes come from the gradient, which does not see the
    jumps of a likelihood. `tuning.error_bound` bounds the log density's deviation.

    A difference of a thousandth of the standard deviation of the gamma distribution is ignored. So
    is rounding, of the shape and of the numbers of the given size whose difference it is.
    """
    allowed = 1e-3 * jnp.sqrt(one) + rounding(one, size)
    return (jnp.abs(one - other) <= allowed).all()


def rounding(shape: jax.Array, size: jax.Array) -> jax.Array:
    """Return the rounding of a shape that is a difference of numbers of the given size."""
    return jnp.finfo(shape.dtype).eps * (50 * shape + 8 * size)

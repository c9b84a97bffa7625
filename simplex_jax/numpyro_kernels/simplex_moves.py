r"""Moves of a simplex site of any model by CIR transitions.

The site is omega, with a Dirichlet(alpha) prior and a likelihood L, of generalised counts
:math:`c_j = \partial L / \partial \log \omega_j`. Beside it stands a total S of law Gamma(alpha. +
s), drawn anew for every move, so that theta = omega S has the density

.. math::
    \pi(\theta) \propto \prod_j \theta_j^{\alpha_j - 1} e^{-\theta_j}\, e^{L(\omega)}\, S^s, \qquad
    \frac{\partial \log \pi}{\partial \log \theta_j} = a_j - 1 - \theta_j, \qquad
    a_j = \alpha_j + c_j - \omega_j c_\cdot + s\, \omega_j

for every constant s, which was chosen for speed alone. SCIR moves theta by the exact transition of
the CIR process whose stationary law is Gamma(a): exact where a does not depend on omega, which is
where the likelihood is conjugate and s the number of its counts.

Elsewhere a move is corrected. The transition is the draw of N ~ Poisson(lambda theta), lambda = 1 /
(e^h - 1), followed by theta' ~ Gamma(a + N) / (1 + lambda). Given N, which is drawn afresh, it is a
Metropolis proposal, and its acceptance probability has no Bessel function:

.. math::
    \log r = L(\omega') - L(\omega) + s \log \frac{S'}{S} + \sum_j \Big[ (\alpha_j - a_j) \log
    \theta_j' - (\alpha_j - a_j') \log \theta_j + \log \frac{\Gamma(a_j + N_j)}{\Gamma(a_j' + N_j)}
    + (a_j' - a_j) \log (1 + \lambda) \Big]

with a' the shapes at omega'. A sparse coordinate has a = a' = alpha and costs nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln

from simplex_jax import draws
from simplex_jax.geometry import simplex
from simplex_jax.samplers import expanded


class Shapes(NamedTuple):
    """Shapes of the gamma laws of a site.

    Attributes:
        used: Positive shapes, [..., K].
        raw: What the formula says, which may be negative where a likelihood is steep or a
            minibatch noisy.
    """

    used: jax.Array
    raw: jax.Array


class Move(NamedTuple):
    """A proposal.

    Attributes:
        y: Log-probabilities, [..., K].
        before: log theta, [..., K].
        after: log theta', [..., K].
        counts: N, [..., K].
    """

    y: jax.Array
    before: jax.Array
    after: jax.Array
    counts: jax.Array


def shapes(alpha: jax.Array, counts: jax.Array, y: jax.Array, total: jax.Array) -> Shapes:
    """Return the shapes a at log-probabilities y, with the totals s, [..., 1]."""
    raw = alpha + with_total(counts, y, total)
    return Shapes(jnp.maximum(raw, alpha / 2), raw)


def with_total(counts: jax.Array, y: jax.Array, total: jax.Array) -> jax.Array:
    """Return counts that pull alike on the simplex, and have the sums s, [..., 1]."""
    return counts + jnp.exp(y) * (total - counts.sum(axis=-1, keepdims=True))


def propose(
    key: jax.Array,
    y: jax.Array,
    alpha: jax.Array,
    a: jax.Array,
    total: jax.Array,
    step: jax.Array,
) -> Move:
    """Draw the total S, and move theta by a CIR transition over the time `step`, or infinity."""
    key_total, key_count, key_gamma = jax.random.split(key, 3)
    before = y + draws.loggamma(key_total, alpha.sum(axis=-1, keepdims=True) + total)
    rate = 1 / jnp.expm1(step)
    counts = draws.poisson(key_count, rate * jnp.exp(before))
    after = draws.loggamma(key_gamma, a + counts) - jnp.log1p(rate)
    return Move(simplex.normalise(after), before, after, counts)


def log_ratio(
    move: Move,
    alpha: jax.Array,
    total: jax.Array,
    a: jax.Array,
    a_there: jax.Array,
    step: jax.Array,
) -> jax.Array:
    """Return the log acceptance ratio less the change of the log likelihood, a scalar."""
    sums = total * (expanded.log_sum(move.after) - expanded.log_sum(move.before))
    terms = (alpha - a) * move.after - (alpha - a_there) * move.before
    change = gammaln(a + move.counts) - gammaln(a_there + move.counts)
    # Zero but for shapes that were raised to be positive, since otherwise both have one sum.
    scale = (a_there - a) * jnp.log1p(1 / jnp.expm1(step))
    return sums.sum() + (terms + change + scale).sum()


def transition(
    key: jax.Array,
    y: jax.Array,
    alpha: jax.Array,
    raw: jax.Array,
    total: jax.Array,
    step: jax.Array,
) -> jax.Array:
    r"""Move by an uncorrected step; rows with a shape that is not positive by a reflected one.

    That one is the Euler step :math:`|\theta + h (a - \theta) + \sqrt{2 h \theta} \xi|` of SGRLD,
    which needs no positive a.
    """
    key_total, key_cir, key_noise = jax.random.split(key, 3)
    log_theta = y + draws.loggamma(key_total, alpha.sum(axis=-1, keepdims=True) + total)
    usable = (raw > 0).all(axis=-1, keepdims=True)
    exact = draws.cir(key_cir, log_theta, jnp.where(usable, raw, 1), step)
    theta = jnp.exp(log_theta)
    leaf = expanded.Leaf(key_noise, y, log_theta, alpha, raw - alpha)
    reflected, _ = expanded.reflected_step(leaf, raw - theta, step)
    return simplex.normalise(jnp.where(usable, exact, reflected))


def slope(y: Sequence[jax.Array], counts: Sequence[jax.Array]) -> tuple[jax.Array, jax.Array]:
    """Return minus the slope of the tangent counts c - omega c. against omega, between two points.

    It is in the metric 1 / omega, as numerator and denominator, [..., 1]. Where the likelihood is
    conjugate it is the number of its counts, and the total s that makes both shapes equal.
    """
    omega = [jnp.exp(value) for value in y]
    pull = [c - w * c.sum(axis=-1, keepdims=True) for c, w in zip(counts, omega, strict=True)]
    apart = omega[1] - omega[0]
    # A step that leaves a coordinate where it was, at 0, says nothing of it.
    weight = apart / jnp.maximum(omega[0] + omega[1], jnp.finfo(apart.dtype).tiny)
    numerator = -((pull[1] - pull[0]) * weight).sum(axis=-1, keepdims=True)
    return numerator, (apart * weight).sum(axis=-1, keepdims=True)


def needed_total(y: jax.Array, counts: jax.Array) -> jax.Array:
    """Return the smallest total, [..., 1], with which no count would be negative at y."""
    # As `sites.constrain` has it: counts are those of a probability that did not underflow.
    y = jnp.maximum(y, jnp.log(jnp.finfo(y.dtype).tiny))
    needed = counts.sum(axis=-1, keepdims=True) - counts * jnp.exp(-y)
    return jnp.max(needed, axis=-1, keepdims=True)


def same(one: jax.Array, other: jax.Array, size: jax.Array) -> jax.Array:
    """Return whether shapes are equal but for rounding and what no sample could tell.

    A difference of a thousandth of the standard deviation of the gamma law is ignored, and one of
    rounding: of the shape, and of the numbers of the given size that it is a difference of.
    """
    epsilon = jnp.finfo(one.dtype).eps
    allowed = 1e-3 * jnp.sqrt(one) + 50 * epsilon * one + 8 * epsilon * size
    return (jnp.abs(one - other) <= allowed).all()

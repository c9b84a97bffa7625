"""Langevin proposals in `geometry.parameterisations`, and their Metropolis-Hastings ratio."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.nn import logsumexp

from baselines.parameterisations import Metric, Parameterisation
from simplex_jax._src.geometry import simplex


class Proposer(NamedTuple):
    """The coordinates, and whether their metric is the Fisher metric."""

    space: Parameterisation
    riemannian: bool

    @property
    def metric(self) -> Metric:
        """The metric of the proposal."""
        return self.space.fisher if self.riemannian else self.space.euclidean

    def drift(self, log_w: jax.Array, alpha: jax.Array, counts: jax.Array) -> jax.Array:
        """Return the tangent vector to move along, times h."""
        if not self.riemannian:
            return self.space.gradient(log_w, alpha, counts)
        return self.space.natural_gradient(log_w, alpha, counts) + self.space.correction(log_w)


class Proposal(NamedTuple):
    """A proposed move of one leaf, arrays [..., K] unless stated."""

    start: jax.Array  # log weights before
    end: jax.Array  # log weights after
    change: jax.Array  # their difference, precise if small; up to a constant if normalised
    step: jax.Array  # the tangent vector moved along
    noise: jax.Array  # its noise part, before scaling by sqrt(2 h)
    sign: jax.Array  # -1 where a mirrored coordinate crossed 0
    outside: jax.Array  # whether the proposal left the simplex, [...]


def propose(
    key: jax.Array,
    log_w: jax.Array,
    alpha: jax.Array,
    counts: jax.Array,
    h: jax.Array,
    proposer: Proposer,
) -> Proposal:
    """Draw an Euler step of size h from log weights [..., K]."""
    noise = proposer.metric.noise(log_w, jax.random.normal(key, log_w.shape, log_w.dtype))
    step = h * proposer.drift(log_w, alpha, counts) + jnp.sqrt(2 * h) * noise
    outside = jnp.zeros(log_w.shape[:-1], bool)
    if not proposer.space.mean:
        end = log_w + step
        if not proposer.space.expanded:
            # a tangent vector is defined up to a constant there, and the metric is that of log
            # omega.
            end = simplex.normalise(end)
        return Proposal(log_w, end, step, step, noise, jnp.ones_like(step), outside)
    w = jnp.exp(log_w)
    value = w + step
    tiny = jnp.finfo(w.dtype).tiny
    # A sum that cancels to 0 means a value below its rounding error, as in SGRLD.
    end = jnp.log(jnp.maximum(jnp.abs(value), tiny))
    change = jnp.where(jnp.abs(step) < w / 2, jnp.log1p(step / jnp.maximum(w, tiny)), end - log_w)
    if not proposer.space.expanded:
        outside = (value <= 0).any(axis=-1) & ~jnp.isnan(value).any(axis=-1)
    return Proposal(log_w, end, change, step, noise, jnp.where(value < 0, -1, 1), outside)


def log_ratio(
    proposal: Proposal,
    alpha: jax.Array,
    counts: jax.Array,
    counts_there: jax.Array,
    h: jax.Array,
    proposer: Proposer,
    with_likelihood: bool,
) -> jax.Array:
    """Return the log acceptance ratio of every row, [...], with or without likelihood.

    Differences are formed before they are multiplied by large counts.
    """
    space, metric = proposer.space, proposer.metric
    start, end, change = proposal.start, proposal.end, proposal.change
    small = jnp.abs(change).max(axis=-1, keepdims=True) < 1
    log_omega = simplex.normalise(start)
    growth = jnp.exp(log_omega) * jnp.expm1(jnp.clip(change, -1, 1))
    log_growth = jnp.where(
        small,
        jnp.log1p(growth.sum(axis=-1, keepdims=True)),
        logsumexp(log_omega + change, axis=-1, keepdims=True),
    )
    change_omega = change - log_growth
    power = alpha - 1 if space.mean else alpha
    density = power * (change if space.expanded else change_omega)
    if space.expanded:
        w = jnp.exp(start)
        density -= jnp.where(
            jnp.abs(change) < 1, w * jnp.expm1(jnp.clip(change, -1, 1)), jnp.exp(end) - w
        )
    if with_likelihood:
        density += counts * change_omega

    forward = (metric.log_det(start) - metric.square(start, proposal.noise)) / 2
    drift = proposal.sign * proposer.drift(end, alpha, counts_there)
    reverse = metric.square(end, proposal.step + h * drift) / (2 * h)
    ratio = density.sum(axis=-1) + (metric.log_det(end) - reverse) / 2 - forward
    return jnp.where(proposal.outside, -jnp.inf, ratio)

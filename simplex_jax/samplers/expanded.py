"""What the kernels of theta = omega S share: counts, prior and total of every leaf.

SCIR, SGRLD and their relatives move unnormalised weights theta, one positive number for each
category. Their position is log omega = log(theta / sum(theta)), and the total S is carried or
refreshed as `samplers.total` says.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.nn import logsumexp

from simplex_jax import schedules
from simplex_jax.base import Batch, Kernel, Position, PyTree, bind, static
from simplex_jax.estimators import Estimator
from simplex_jax.geometry import simplex
from simplex_jax.samplers import total as totals
from simplex_jax.schedules import StepSize


class State(NamedTuple):
    """State of a kernel that moves theta.

    Attributes:
        position: Log-probabilities log omega, leaves [..., K], normalised along the last axis.
        step: Number of updates done, int32.
        memory: What the estimator remembers.
        log_total: Log of the sum of theta, leaves [..., 1]; +inf until the first update draws it;
            None if the total is refreshed. theta itself is `exp(position + log_total)`.
    """

    position: Position
    step: jax.Array
    memory: PyTree
    log_total: PyTree


class Leaf(NamedTuple):
    """A leaf of the position and what moves it, arrays of its shape unless stated.

    Attributes:
        key: A PRNG key for the move.
        log_omega: Log-probabilities, [..., K].
        log_theta: Log weights, [..., K].
        prior: Prior concentrations.
        counts: Estimated counts.
    """

    key: jax.Array
    log_omega: jax.Array
    log_theta: jax.Array
    prior: jax.Array
    counts: jax.Array


def init(
    key: jax.Array, position: Position, *, estimator: Estimator, total: str = "carried"
) -> State:
    """Start from probability vectors, leaves [..., K]; nonnegative weights are normalised.

    A carried total is drawn by the first update from its stationary law; to start from a theta of
    your own, replace `log_total`.

    Raises:
        ValueError: The position has a negative, NaN or infinite entry or an all-zero row.
    """
    log_omega = simplex.log_position(position)
    return State(
        position=log_omega,
        step=jnp.zeros((), jnp.int32),
        memory=estimator.init(key),
        log_total=totals.initial(log_omega, total),
    )


def kernel(
    update: Callable,
    estimator: Estimator,
    alpha: PyTree,
    step_size: StepSize,
    *,
    total: str,
    below: float = math.inf,
) -> Kernel:
    """Return the kernel of an `update` with these arguments and the `init` of this module.

    Raises:
        ValueError: `alpha`, `step_size` or `total` is out of range; see `schedules.check` for
            `below`.
    """
    totals.check(total)
    schedules.check(step_size, below=below)
    return Kernel(
        init=bind(static(init, total=total), estimator=estimator),
        update=bind(
            update,
            estimator=estimator,
            alpha=simplex.concentration(alpha),
            step_size=step_size,
        ),
    )


def leaves(
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    estimator: Estimator,
    alpha: PyTree,
    counts_in_total: bool,
) -> tuple[list[Leaf], PyTree]:
    """Estimate the counts from the batch, and return what moves each leaf, and the new memory.

    Args:
        key: A PRNG key.
        state: The state, whose totals are drawn where none is carried.
        batch: A batch of the estimator.
        estimator: Estimates the full-data counts.
        alpha: Prior concentrations, see `simplex.like`.
        counts_in_total: Whether the total is Gamma(sum of prior and counts), as in SCIR, where
            negative counts are taken as 0, or Gamma(sum of the prior), as in SGRLD.
    """
    key_estimate, key_total, key_move = jax.random.split(key, 3)
    estimate, memory = estimator.estimate(key_estimate, state.memory, state.position, batch)
    positions = jax.tree.leaves(state.position)
    counts = simplex.like("the estimated counts", estimate, state.position)
    priors = simplex.like("alpha", alpha, state.position)
    carried = (
        [None] * len(positions) if state.log_total is None else jax.tree.leaves(state.log_total)
    )
    found = []
    for log_omega, n_hat, prior, log_total, key_leaf_total, key_leaf in zip(
        positions,
        counts,
        priors,
        carried,
        jax.random.split(key_total, len(positions)),
        jax.random.split(key_move, len(positions)),
        strict=True,
    ):
        n_hat = jnp.broadcast_to(n_hat, log_omega.shape)
        prior = jnp.broadcast_to(prior, log_omega.shape)
        concentration = prior + jnp.maximum(n_hat, 0) if counts_in_total else prior
        log_theta = log_omega + totals.current(key_leaf_total, log_total, concentration)
        found.append(Leaf(key_leaf, log_omega, log_theta, prior, n_hat))
    return found, memory


def natural_drift(leaf: Leaf) -> jax.Array:
    """Return the drift of expanded-mean Riemannian Langevin dynamics under Gamma(prior, 1)."""
    pull = leaf.counts - jnp.exp(leaf.log_omega) * leaf.counts.sum(axis=-1, keepdims=True)
    return leaf.prior - jnp.exp(leaf.log_theta) + pull


def reflected_step(leaf: Leaf, drift: jax.Array, h: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return log |theta + h drift + sqrt(2 h theta) xi|, and where it was reflected."""
    theta = jnp.exp(leaf.log_theta)
    h = h.astype(theta.dtype)
    noise = jax.random.normal(leaf.key, theta.shape, theta.dtype)
    proposal = theta + h * drift + jnp.sqrt(2 * h * theta) * noise
    # The sum can cancel to exactly 0, which stands for a value below its rounding error; the
    # smallest normal number takes its place, so that the logarithm is finite.
    value = jnp.maximum(jnp.abs(proposal), jnp.finfo(theta.dtype).tiny)
    return jnp.log(value), proposal < 0


def moved(state: State, log_thetas: Sequence[jax.Array], memory: PyTree) -> State:
    """Return the state after an update that moved the leaves to these log weights."""
    structure = jax.tree.structure(state.position)
    log_total = None
    if state.log_total is not None:
        log_total = jax.tree.unflatten(structure, [log_sum(leaf) for leaf in log_thetas])
    return State(
        position=jax.tree.unflatten(structure, [simplex.normalise(leaf) for leaf in log_thetas]),
        step=state.step + 1,
        memory=memory,
        log_total=log_total,
    )


def log_sum(log_theta: jax.Array) -> jax.Array:
    """Return the log totals [..., 1] of log weights [..., K]."""
    return logsumexp(log_theta, axis=-1, keepdims=True)


def mean(arrays: Sequence[jax.Array]) -> jax.Array:
    """Return the mean over all entries of all arrays."""
    return jnp.concatenate([array.ravel() for array in arrays]).mean()


def smallest(position: Position) -> jax.Array:
    """Return the smallest entry of all leaves."""
    return jnp.stack([leaf.min() for leaf in jax.tree.leaves(position)]).min()

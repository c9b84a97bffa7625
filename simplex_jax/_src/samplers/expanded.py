"""Kernels on unnormalised weights theta = omega S: counts, prior and total of each leaf.

SCIR, SGRLD and their relatives move theta, one positive number per category. Their position is log
omega = log(theta / sum(theta)), and the likelihood depends on omega alone. If the counts depend on
omega through latent variables, a total S carried from step to step depends on past counts and
biases the chain. Drawn anew before every step from its conditional, Gamma(sum of the
concentrations, 1), it leaves the chain exact, at the cost of one gamma draw a row. With fully
observed data both are exact.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.nn import logsumexp

from simplex_jax._src import arguments, draws, schedules
from simplex_jax._src.base import Batch, Kernel, Position, PyTree, freeze, static
from simplex_jax._src.draws import gamma
from simplex_jax._src.draws.keys import to_jax_key
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.geometry import simplex
from simplex_jax._src.schedules import StepSize
from simplex_jax._src.sharded_rows import Rows, sums

_NOT_DRAWN = jnp.inf


class State(NamedTuple):
    """State of a kernel that moves theta.

    Attributes:
        position: Log-probabilities log omega, leaves [..., K], normalised along the last axis.
        step: Number of updates done, int32.
        memory: The memory of the estimator.
        log_total: Log of the sum of theta, leaves [..., 1]; +inf until the first update draws it;
            None if the total is refreshed. theta itself is `exp(position + log_total)`.
    """

    position: Position
    step: jax.Array
    memory: PyTree
    log_total: PyTree


class Leaf(NamedTuple):
    """A leaf of the position and the inputs of its update, arrays [..., K]."""

    key: jax.Array
    log_omega: jax.Array
    log_theta: jax.Array
    prior: jax.Array  # concentrations
    counts: jax.Array  # estimated


def init(
    key: jax.Array,
    position: Position,
    *,
    estimator: Estimator,
    alpha: PyTree | None = None,
    total: str = "carried",
) -> State:
    """Start from probability vectors, leaves [..., K]; nonnegative weights are normalised.

    `alpha` is only checked against the position.

    The first update draws a carried total from its stationary distribution; to start from your own
    theta, replace `log_total`.

    Raises:
        ValueError: The position has a negative, NaN or infinite entry or an all-zero row, `alpha`
            does not broadcast to it, or `total` is unknown.
    """
    _check_total(total)
    log_omega = simplex.log_position(position)
    if alpha is not None:
        simplex.like("alpha", alpha, log_omega)
    log_total = None
    if total == "carried":
        log_total = jax.tree.map(lambda x: jnp.full_like(x[..., :1], _NOT_DRAWN), log_omega)
    return State(log_omega, jnp.zeros((), jnp.int32), estimator.init(key), log_total)


def _check_total(total: str) -> None:
    if total not in ("carried", "refreshed"):
        raise ValueError(f'total must be "carried" or "refreshed"; it is {total!r}')


def kernel(
    update: Callable,
    estimator: Estimator,
    alpha: PyTree,
    step_size: StepSize,
    *,
    total: str,
    below: float = math.inf,
    because: str = "",
    init: Callable = init,
    **parameters: PyTree,
) -> Kernel:
    """Return the kernel of `update` with these arguments; `schedules.check` explains `below`.

    Raises:
        ValueError: `alpha`, `step_size` or `total` is out of range.
    """
    _check_total(total)
    schedules.check(step_size, below=below, because=because)
    shared = {"estimator": estimator, "alpha": arguments.tree("alpha", alpha)}
    return freeze(static(init, total=total), update, shared, step_size=step_size, **parameters)


def leaves(
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    estimator: Estimator,
    alpha: PyTree,
    counts_in_total: bool,
    rows: Rows | None = None,
) -> tuple[list[Leaf], PyTree]:
    """Estimate the counts from the batch; return the leaves to move and the new memory.

    A total that is not carried is drawn from Gamma(sum of prior and counts), as in SCIR, with
    negative counts set to 0; or, without `counts_in_total`, from Gamma(sum of the prior), as in
    SGRLD. With `rows`, the position, the estimator's counts and the returned leaves are this
    device's shard; everything else is global, including the position that the estimator gets.
    """
    key_estimate, key_total, key_move = jax.random.split(key, 3)
    whole = jax.tree.map(lambda leaf: all_rows(rows, leaf), state.position)
    estimate, memory = estimator.estimate(to_jax_key(key_estimate), state.memory, whole, batch)
    positions = jax.tree.leaves(state.position)
    number = len(positions)
    carried = [None] * number if state.log_total is None else jax.tree.leaves(state.log_total)
    result = []
    for log_omega, n_hat, prior, log_total, key_leaf_total, key_leaf in zip(
        positions,
        simplex.counts_like(estimate, state.position),
        simplex.broadcast("alpha", alpha, whole),
        carried,
        jax.random.split(key_total, number),
        jax.random.split(key_move, number),
        strict=True,
    ):
        prior = own_rows(rows, prior)
        if counts_in_total:  # NaN would be refused as a shape of a draw, which users do not know
            arguments.require("the estimated counts", n_hat, jnp.isfinite(n_hat), "finite")
        concentration = prior + jnp.maximum(n_hat, 0) if counts_in_total else prior
        total = sums(concentration)
        fresh = draws.loggamma(key_leaf_total, total, offset=offset(rows, total))
        if log_total is not None:
            log_total = own_rows(rows, log_total)
            fresh = jnp.where(log_total == _NOT_DRAWN, fresh, log_total)
        result.append(Leaf(key_leaf, log_omega, log_omega + fresh, prior, n_hat))
    return result, memory


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
    # The sum can cancel to exactly 0, which means a value below its rounding error; the smallest
    # normal number replaces it, so that the logarithm is finite.
    value = jnp.maximum(jnp.abs(proposal), jnp.finfo(theta.dtype).tiny)
    return jnp.log(value), proposal < 0


def reflected(
    key: jax.Array,
    state: State,
    batch: Batch,
    h: jax.Array,
    drift: Callable[[Leaf], jax.Array],
    *,
    estimator: Estimator,
    alpha: PyTree,
    counts_in_total: bool,
) -> tuple[State, list[jax.Array], jax.Array]:
    """Return the state after reflected steps, the log weights and the reflected fraction."""
    parts, memory = leaves(
        key, state, batch, estimator=estimator, alpha=alpha, counts_in_total=counts_in_total
    )
    steps = [reflected_step(leaf, drift(leaf), h) for leaf in parts]
    log_thetas = [log_theta for log_theta, _ in steps]
    return moved(state, log_thetas, memory), log_thetas, mean([share for _, share in steps])


def moved(
    state: State, log_thetas: Sequence[jax.Array], memory: PyTree, rows: Rows | None = None
) -> State:
    """Return the state after an update to these log weights."""
    structure = jax.tree.structure(state.position)
    log_omegas, totals = zip(*map(gamma.normalise, log_thetas), strict=True)
    position = jax.tree.unflatten(structure, log_omegas)
    log_total = None
    if state.log_total is not None:
        log_total = jax.tree.unflatten(structure, [all_rows(rows, total) for total in totals])
    return State(position, state.step + 1, memory, log_total)


def own_rows(rows: Rows | None, whole: jax.Array) -> jax.Array:
    """Return this device's rows of an array, or all of them if it is not sharded."""
    return whole if rows is None else rows.own(whole)


def all_rows(rows: Rows | None, own: jax.Array) -> jax.Array:
    """Gather all rows of an array from the devices."""
    return own if rows is None else rows.gathered(own)


def offset(rows: Rows | None, own: jax.Array) -> jax.Array | int:
    """Return the number of entries of the whole array before this device's rows."""
    return 0 if rows is None else rows.first() * (own.size // rows.number)


def log_sum(log_theta: jax.Array) -> jax.Array:
    """Return the log totals [..., 1] of log weights [..., K]."""
    return logsumexp(log_theta, axis=-1, keepdims=True)


def mean(arrays: Sequence[jax.Array]) -> jax.Array:
    """Return the mean of all entries of all arrays."""
    return jnp.concatenate([array.ravel() for array in arrays]).mean()


def smallest(position: Position) -> jax.Array:
    """Return the smallest entry of all leaves."""
    return jnp.stack([leaf.min() for leaf in jax.tree.leaves(position)]).min()


def summaries(
    arrays: Sequence[Sequence[jax.Array]], position: Position, rows: Rows | None
) -> tuple[jax.Array, ...]:
    """Return the `mean` of each group of arrays, and the `smallest` entry of the position.

    With `rows`, all arrays are sharded.
    """
    if rows is None:
        return *map(mean, arrays), smallest(position)
    sums = [[array.reshape(rows.number, -1).sum(axis=1) for array in group] for group in arrays]
    least = [leaf.reshape(rows.number, -1).min(axis=1) for leaf in jax.tree.leaves(position)]
    sums, least = rows.gathered_together((sums, least))
    entries = [rows.total * sum(array[0].size for array in group) for group in arrays]
    means = [jnp.concatenate(group).sum() / n for group, n in zip(sums, entries, strict=True)]
    return *means, jnp.concatenate(least).min()

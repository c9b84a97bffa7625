"""State, model and helpers of the kernel of a Dirichlet-process mixture."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax._src import arguments
from simplex_jax._src.base import PyTree
from simplex_jax._src.models import growth
from simplex_jax._src.models.dpm.families import Family
from simplex_jax._src.schedules import StepSize

BLOCK = 16
"""Number of sticks drawn with one key; capacities are multiples of it."""

_STATIC = {"static": True}


class Mixture(NamedTuple):
    """The sticks of a state: clusters in use, and draws from the prior."""

    log_weights: jax.Array  # log of the weight of every stick, [C]
    log_rest: jax.Array  # log of the weight of all sticks beyond these
    atoms: PyTree  # the parameters of every stick's component, leaves [C, ...]


class Totals(NamedTuple):
    """Running sums of sufficient statistics."""

    values: PyTree  # the sums, leaves [C, ...]
    lost: PyTree  # rounding errors of the float sums, of the same shapes


class LogTotals(NamedTuple):
    """Logs of the totals of the weights behind sticks and atoms, +inf until a step draws them."""

    sticks: PyTree  # [C, 1]
    atoms: PyTree  # leaves [C, 1]


class State(NamedTuple):
    """State of the mixture, of capacity C, for N rows."""

    position: Mixture  # weights and atoms
    step: jax.Array  # number of updates done, int32
    labels: jax.Array  # stick of every row, int32 [N]
    occupancy: jax.Array  # rows of every stick, int32 [C]
    sticks: jax.Array  # logs of v_j and 1 - v_j, [C, 2]
    alpha: jax.Array  # concentration of the process, a scalar
    totals: Totals | None  # statistics of the rows of every stick; None with subsampled counts
    # Sticks that the last update needed, int32. Above C it was not done, nor will others be until
    # the state has grown.
    needed: jax.Array
    log_totals: LogTotals | None = None  # of carried weights; None if refreshed


class Info(NamedTuple):
    """Diagnostics of an update, scalars; zeros if it was not done."""

    occupied: jax.Array  # number of clusters with rows after it, int32
    moved: jax.Array  # share of the rows of the batch that changed their cluster
    swapped: jax.Array  # acceptance rate of the label moves
    split_merged: jax.Array  # acceptance rate of the split-merge moves


class Gamma(NamedTuple):
    """A Gamma prior of the concentration.

    Attributes:
        shape: Its shape, positive.
        rate: Its rate, positive; the mean is shape / rate.
    """

    shape: float | jax.Array
    rate: float | jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """A mixture and its sampler options, arrays or static; see `model.build`."""

    rows: PyTree
    family: Family
    prior: Gamma | None  # of the concentration; None if it is given
    start: jax.Array  # concentration to start from
    atom_step_size: StepSize
    stick_step_size: StepSize
    decay: float | jax.Array
    sampler: str = dataclasses.field(metadata=_STATIC)
    carried: bool = dataclasses.field(metadata=_STATIC)  # whether totals of weights are
    counts: str = dataclasses.field(metadata=_STATIC)
    variant: str = dataclasses.field(metadata=_STATIC)
    alpha_update: str = dataclasses.field(metadata=_STATIC)
    label_moves: bool = dataclasses.field(metadata=_STATIC)
    split_merge: int = dataclasses.field(metadata=_STATIC)
    # sums of floats are recomputed after this many updates; 0 for never
    refresh: int = dataclasses.field(metadata=_STATIC)
    capacity: int = dataclasses.field(metadata=_STATIC)  # sticks of a first state
    chains: int | None = dataclasses.field(metadata=_STATIC)


def last_occupied(occupancy: jax.Array) -> jax.Array:
    """Return the number of sticks up to the last one with rows, int32."""
    number = jnp.arange(1, occupancy.shape[0] + 1, dtype=jnp.int32)
    return jnp.max(jnp.where(occupancy > 0, number, 0))


def mixture(sticks: jax.Array, atoms: PyTree) -> Mixture:
    """Return the position with these sticks, [C, 2], and atoms."""
    log_v, log_left = sticks[:, 0], jnp.cumsum(sticks[:, 1])
    before = jnp.concatenate([jnp.zeros(1, log_left.dtype), log_left[:-1]])
    return Mixture(log_v + before, log_left[-1], atoms)


def by_blocks(draw: Callable, key: jax.Array, *trees: PyTree, at_once: bool = False) -> PyTree:
    """Return `draw(key, *trees)` of all sticks, leaves [C, ...], in blocks with one key each.

    The draws of a stick then do not depend on the number of sticks: a state that has grown
    continues as if it had been larger from the start. `at_once` draws all blocks together, without
    a loop to compile, for small draws; otherwise blocks are drawn in turn, in the memory of one.
    """
    blocks = jax.tree.map(lambda leaf: leaf.reshape(-1, BLOCK, *leaf.shape[1:]), trees)
    count = jax.tree.leaves(blocks)[0].shape[0]
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(count))
    if at_once:
        drawn = jax.vmap(draw)(keys, *blocks)
    else:
        drawn = lax.map(lambda block: draw(block[0], *block[1]), (keys, blocks))
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), drawn)


def where(condition: jax.Array, yes: PyTree, no: PyTree) -> PyTree:
    """Choose between two trees stick by stick: condition [C], leaves [C, ...]."""
    return jax.tree.map(
        lambda a, b: jnp.where(condition.reshape((-1,) + (1,) * (a.ndim - 1)), a, b), yes, no
    )


def grown(state: State) -> State | None:
    """Return a state with room for the sticks that its last update needed, or None if it has it.

    For `run(..., grow=grown)`; chains grow together.
    """
    capacity, needed = state.occupancy.shape[-1], int(jnp.max(state.needed))
    if needed <= capacity:
        return None
    return grow(state, growth.doubled(capacity, needed))


def grow(state: State, capacity: int) -> State:
    """Return the state with room for `capacity` sticks, rounded up to a multiple of 16.

    New sticks have no weight until the next update draws them; until then `log_rest` includes their
    weight. The state may have several chains. A smaller capacity is a ValueError.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax._src.models.dpm import model
        >>> from simplex_jax.dpm import families
        >>> rows = families.multinomial_rows([[2, 0], [1, 1]])
        >>> kernel, _ = model.build(rows, families.multinomial(2), capacity=16)
        >>> state = kernel.init(jax.random.key(0), jnp.array([0, 1]))
        >>> model.grow(state, 48).position.log_weights.shape
        (48,)
    """
    size, axis = state.occupancy.shape[-1], state.occupancy.ndim - 1
    capacity = arguments.at_least("capacity", capacity, size)
    more = -(-capacity // BLOCK) * BLOCK - size

    def pad(tree: PyTree, value: float = 0) -> PyTree:
        def of_leaf(leaf: jax.Array) -> jax.Array:
            widths = [(0, more if i == axis else 0) for i in range(leaf.ndim)]
            return jnp.pad(leaf, widths, constant_values=value)

        return jax.tree.map(of_leaf, tree)

    log_weights, log_rest, atoms = state.position
    return state._replace(
        position=Mixture(pad(log_weights, -jnp.inf), log_rest, pad(atoms)),
        occupancy=pad(state.occupancy),
        sticks=pad(state.sticks),
        totals=pad(state.totals),
        log_totals=pad(state.log_totals, jnp.inf),
        needed=jnp.zeros_like(state.needed),
    )

"""Initial state and update of a Dirichlet-process mixture, for one or several chains."""

import dataclasses

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax._src.draws.keys import by_native_code
from simplex_jax._src.models import growth
from simplex_jax._src.models.dpm import labels as dp_labels
from simplex_jax._src.models.dpm import order as dp_order
from simplex_jax._src.models.dpm import split_merge
from simplex_jax._src.models.dpm import sticks as dp_sticks
from simplex_jax._src.models.dpm.order import Ordered
from simplex_jax._src.models.dpm.state import (
    Info,
    LogTotals,
    Mixture,
    Model,
    State,
    Totals,
    mixture,
    where,
)

# From this many rows times sticks per chain on, an update runs the chains in turn.
_LARGE = 2**14


@jax.jit
def init(model: Model, key: jax.Array, labels: jax.Array) -> State:
    """Start from labels of all rows, int32 [N] or [chains, N] in 0..C-1, and draw the rest."""
    key = by_native_code(key)
    if model.chains is None:
        return _init(model, key, labels)
    start = jax.vmap(_init, in_axes=(None, 0, 0 if labels.ndim == 2 else None))
    return start(model, jax.random.split(key, model.chains), labels)


def _init(model: Model, key: jax.Array, labels: jax.Array) -> State:
    ids = jnp.arange(labels.shape[0], dtype=jnp.int32)
    statistics = dp_labels.statistics_of(model.family, model.rows, labels, ids, model.capacity)
    state = State(
        position=Mixture(*[jnp.zeros(0)] * 3),
        step=jnp.zeros((), jnp.int32),
        labels=labels,
        occupancy=jnp.zeros(model.capacity, jnp.int32).at[labels].add(1, mode="drop"),
        sticks=jnp.zeros((model.capacity, 2), model.start.dtype),
        # A state may be donated to jitted code, and must not share arrays with the kernel.
        alpha=jnp.copy(model.start),
        totals=dp_labels.no_loss(statistics),
        needed=jnp.zeros((), jnp.int32),
    )
    exact = dataclasses.replace(model, sampler="exact", carried=False)
    state = _move(exact, key, state, ids)
    if model.carried:
        state = state._replace(log_totals=dp_sticks.not_drawn(state))
    return state if model.counts == "memoised" else state._replace(totals=None)


def update(model: Model, key: jax.Array, state: State, ids: jax.Array) -> tuple[State, Info]:
    """Do one update, unless this or an earlier one needs more sticks than there are.

    An update that is not done changes only `needed`. It depends on the key and the state alone, so
    that it can be repeated once the state has grown.

    Chains, leaves [chains, ...], share the batch but not random numbers. They do not use
    `base.chains` for two reasons. If one chain has to grow, none is updated: all grow together and
    repeat the update. And large updates run the chains in turn, so that conditions are branches:
    `vmap` would compute both sides.
    """
    key = by_native_code(key)
    if model.chains is None:
        return _update(model, key, state, ids)
    chains, capacity = state.occupancy.shape

    def one(key: jax.Array, state: State) -> tuple[State, Info]:
        return _update(model, key, state, ids)

    keys = jax.random.split(key, chains)
    if ids.shape[0] * capacity < _LARGE:
        moved, info = jax.vmap(one)(keys, state)
    else:
        moved, info = lax.map(lambda chain: one(*chain), (keys, state))
    return growth.together(state, moved, info, capacity)


def _update(model: Model, key: jax.Array, state: State, ids: jax.Array) -> tuple[State, Info]:
    return lax.cond(
        state.needed > state.occupancy.shape[0],
        lambda: (state, _no_info(state)),
        lambda: _attempt(model, key, state, ids),
    )


def _attempt(model: Model, key: jax.Array, old: State, ids: jax.Array) -> tuple[State, Info]:
    keys = jax.random.split(key, 6)
    state, short, merged = _given_labels(model, keys[0], old)
    state = _move(model, keys[1], state, ids)
    ordered = dp_order.unchanged(state.sticks)
    if model.label_moves:
        ordered = dp_order.swaps(keys[2], state.sticks, state.occupancy)
        state = _reorder(state, ordered)
    capacity, outside = state.occupancy.shape[0], state.labels.shape[0]
    sliced = dp_labels.slices(keys[3], model, state, ids)
    needed = jnp.maximum(jnp.maximum(short, ordered.needed), sliced.needed)

    def go() -> tuple[State, Info]:
        new, changed = dp_labels.draw_labels(keys[4], model, state, ids, sliced)
        new = new._replace(step=old.step + 1, needed=needed)
        visited = jnp.maximum(jnp.sum(ids < outside), 1)
        occupied = jnp.sum(new.occupancy > 0, dtype=jnp.int32)
        moved = (changed / visited).astype(state.alpha.dtype)
        new = new._replace(totals=_refreshed(model, new))
        return new, Info(occupied, moved, ordered.accepted, merged)

    return lax.cond(needed > capacity, lambda: (old._replace(needed=needed), _no_info(old)), go)


def _refreshed(model: Model, state: State) -> Totals | None:
    """Return the totals, recomputed every `model.refresh` updates.

    Adding a change to them is exact, but the change itself is rounded: the same rows are later
    subtracted with another rounding error.
    """
    if not model.refresh:
        return state.totals
    ids, capacity = lax.iota(jnp.int32, state.labels.shape[0]), state.occupancy.shape[0]
    return lax.cond(
        state.step % model.refresh == 0,
        lambda: dp_labels.no_loss(
            dp_labels.statistics_of(model.family, model.rows, state.labels, ids, capacity)
        ),
        lambda: state.totals,
    )


def _given_labels(model: Model, key: jax.Array, state: State) -> tuple[State, jax.Array, jax.Array]:
    """Do the updates that depend on labels alone: alpha, and moves of the partition.

    Return the state, the number of sticks needed and the acceptance rate of split-merge moves.
    """
    keys = jax.random.split(key, 3)
    needed, merged = jnp.int32(0), jnp.zeros((), state.alpha.dtype)
    if model.prior is not None:
        draws = {"sticks": dp_sticks.draw_alpha, "escobar-west": dp_sticks.escobar_west}
        draw = draws[model.alpha_update]
        state = state._replace(alpha=draw(keys[0], model.prior, state))
    if model.split_merge:
        state, needed, merged = _split_merge(model, keys[1], state)
    if model.alpha_update == "escobar-west" or model.split_merge:
        # These target the partition: the order of the clusters has to be redrawn.
        ordered = dp_order.size_biased(keys[2], state.alpha, state.occupancy)
        state, needed = _reorder(state, ordered), jnp.maximum(needed, ordered.needed)
    return state, needed, merged


def _split_merge(model: Model, key: jax.Array, state: State) -> tuple[State, jax.Array, jax.Array]:
    def turn(i: jax.Array, carry: tuple) -> tuple:
        state, needed, accepted = carry
        proposed = split_merge.propose(
            jax.random.fold_in(key, i),
            model.family,
            model.rows,
            state.labels,
            jax.tree.map(jnp.add, *state.totals),
            state.occupancy,
            state.alpha,
        )
        # The other clusters keep the rounding errors of their sums.
        changed = proposed.occupancy != state.occupancy
        totals = where(changed, dp_labels.no_loss(proposed.statistics), state.totals)
        state = state._replace(labels=proposed.labels, occupancy=proposed.occupancy, totals=totals)
        accepted = accepted + proposed.accepted / model.split_merge
        return state, jnp.maximum(needed, proposed.needed), accepted

    start = (state, jnp.int32(0), jnp.zeros((), state.alpha.dtype))
    return lax.fori_loop(0, model.split_merge, turn, start)


def _move(model: Model, key: jax.Array, state: State, ids: jax.Array) -> State:
    """Move sticks and atoms given the labels of all rows, or of the batch, scaled up."""
    key_sticks, key_atoms = jax.random.split(key)
    counts = state.occupancy.astype(state.alpha.dtype)
    if state.totals is not None:
        statistics = jax.tree.map(jnp.add, *state.totals)
    else:
        capacity, scale = state.occupancy.shape[0], state.labels.shape[0] / ids.shape[0]
        own = dp_labels.labels_of(state.labels, ids, capacity)
        counts = scale * jnp.zeros_like(counts).at[own].add(1, mode="drop")
        batch = dp_labels.statistics_of(model.family, model.rows, state.labels, ids, capacity)
        statistics = jax.tree.map(lambda leaf: scale * leaf, batch)
    sticks, of_sticks = dp_sticks.move_sticks(key_sticks, model, state, counts)
    atoms, of_atoms = dp_sticks.move_atoms(key_atoms, model, state, statistics)
    log_totals = LogTotals(of_sticks, of_atoms) if model.carried else None
    return state._replace(sticks=sticks, position=mixture(sticks, atoms), log_totals=log_totals)


def _reorder(state: State, ordered: Ordered) -> State:
    """Put the clusters into another order."""
    order = ordered.order
    per_stick = (state.position.atoms, state.occupancy, state.totals)
    atoms, occupancy, totals = jax.tree.map(lambda leaf: leaf[order], per_stick)
    places = jnp.zeros_like(order).at[order].set(jnp.arange(order.shape[0], dtype=order.dtype))
    labels = lax.cond(
        jnp.any(order != jnp.arange(order.shape[0])),
        lambda: places[state.labels],
        lambda: state.labels,
    )
    return state._replace(
        position=mixture(ordered.sticks, atoms),
        labels=labels,
        occupancy=occupancy,
        sticks=ordered.sticks,
        totals=totals,
    )


def _no_info(state: State) -> Info:
    zero = jnp.zeros((), state.alpha.dtype)
    return Info(jnp.int32(0), zero, zero, zero)

"""One update of a Dirichlet-process mixture, and its first state."""

import functools

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax.models import dp_labels, dp_order, dp_split_merge, dp_sticks
from simplex_jax.models.dp_labels import Drawn
from simplex_jax.models.dp_order import Ordered
from simplex_jax.models.dp_state import (
    Info,
    Model,
    Options,
    State,
    Totals,
    mixture,
    where,
)


@functools.partial(jax.jit, static_argnames=("counts", "capacity"))
def init(
    model: Model, alpha: jax.Array, key: jax.Array, labels: jax.Array, *, counts: str, capacity: int
) -> State:
    """Start from labels of all rows, int32 [N] in 0..C-1, and draw the rest given them."""
    key_sticks, key_atoms = jax.random.split(key)
    family, rows = model.family, model.rows
    ids = jnp.arange(labels.shape[0], dtype=jnp.int32)
    statistics = dp_labels.statistics_of(family, rows, labels, ids, capacity)
    occupancy = jnp.zeros(capacity, jnp.int32).at[labels].add(1, mode="drop")
    step = jnp.zeros((), jnp.int32)
    empty = jnp.zeros((capacity, 2), alpha.dtype)
    sticks = dp_sticks.move_sticks(
        key_sticks, "exact", empty, occupancy, occupancy, alpha, 1.0, step
    )
    atoms = dp_sticks.move_atoms(
        key_atoms, "exact", family.draw, None, None, statistics, occupancy, 1.0, step
    )
    return State(
        position=mixture(sticks, atoms),
        step=step,
        labels=labels,
        occupancy=occupancy,
        sticks=sticks,
        # A state may be donated to jitted code, and must not share arrays with the kernel.
        alpha=jnp.copy(alpha),
        totals=dp_labels.no_loss(statistics) if counts == "memoised" else None,
        needed=jnp.zeros((), jnp.int32),
    )


def update(
    model: Model, key: jax.Array, state: State, ids: jax.Array, *, options: Options
) -> tuple[State, Info]:
    """Do one update, unless this or an earlier one asked for more sticks than there are.

    An update that is not done leaves everything but `needed` as it is. It depends on the key and
    the state alone, so that the same update can be done once the state has grown.
    """
    return lax.cond(
        state.needed > state.occupancy.shape[0],
        lambda: (state, _no_info(state)),
        lambda: _attempt(model, key, state, ids, options),
    )


def _attempt(
    model: Model, key: jax.Array, state: State, ids: jax.Array, options: Options
) -> tuple[State, Info]:
    keys = jax.random.split(key, 6)
    now, short, merged = _given_labels(model, keys[0], state, options)
    now = _move(model, keys[1], now, ids, options)
    ordered = dp_order.unchanged(now.sticks)
    if options.label_moves:
        ordered = dp_order.swaps(keys[2], now.sticks, now.occupancy)
        now = _reorder(now, ordered)
    capacity, outside = now.occupancy.shape[0], now.labels.shape[0]
    mine = dp_labels.labels_of(now.labels, ids, capacity)
    sliced = dp_labels.slices(keys[3], now.position, mine, now.alpha, options.variant, model.decay)
    needed = jnp.maximum(jnp.maximum(short, ordered.needed), sliced.needed)

    def go() -> tuple[State, Info]:
        before = Drawn(now.labels, now.occupancy, now.totals, jnp.int32(0))
        drawn = dp_labels.draw_labels(
            keys[4], model.family, model.rows, ids, now.position, sliced, before
        )
        done = now._replace(
            step=state.step + 1,
            labels=drawn.labels,
            occupancy=drawn.occupancy,
            totals=_refreshed(model, state.step + 1, drawn, options),
            needed=needed,
        )
        visited = jnp.maximum(jnp.sum(ids < outside), 1)
        occupied = jnp.sum(drawn.occupancy > 0, dtype=jnp.int32)
        moved = (drawn.moved / visited).astype(now.alpha.dtype)
        return done, Info(occupied, moved, ordered.accepted, merged)

    return lax.cond(needed > capacity, lambda: (state._replace(needed=needed), _no_info(state)), go)


def _refreshed(model: Model, step: jax.Array, drawn: Drawn, options: Options) -> Totals | None:
    """Return the totals, from time to time summed anew.

    Nothing is lost in adding a change to them, but the change is rounded itself: what was added is
    not quite what is taken away later.
    """
    if not options.refresh:
        return drawn.totals
    ids = lax.iota(jnp.int32, drawn.labels.shape[0])
    capacity = drawn.occupancy.shape[0]
    return lax.cond(
        step % options.refresh == 0,
        lambda: dp_labels.no_loss(
            dp_labels.statistics_of(model.family, model.rows, drawn.labels, ids, capacity)
        ),
        lambda: drawn.totals,
    )


def _given_labels(
    model: Model, key: jax.Array, state: State, options: Options
) -> tuple[State, jax.Array, jax.Array]:
    """Do what goes by labels alone: alpha, and moves of the partition.

    Returns:
        The state; how many sticks that needs; and the share of split-merge moves accepted.
    """
    keys = jax.random.split(key, 3)
    needed, merged = jnp.int32(0), jnp.zeros((), state.alpha.dtype)
    if model.prior is not None:
        if options.alpha_update == "sticks":
            alpha = dp_sticks.draw_alpha(keys[0], model.prior, state.sticks, state.occupancy)
        else:
            occupied, rows = jnp.sum(state.occupancy > 0), state.labels.shape[0]
            alpha = dp_order.escobar_west(keys[0], model.prior, state.alpha, occupied, rows)
        state = state._replace(alpha=alpha)
    if options.split_merge:
        state, needed, merged = _split_merge(model, keys[1], state, options.split_merge)
    if options.alpha_update == "escobar-west" or options.split_merge:
        # These go by the partition: which cluster is at which stick is drawn anew.
        ordered = dp_order.size_biased(keys[2], state.alpha, state.occupancy)
        state, needed = _reorder(state, ordered), jnp.maximum(needed, ordered.needed)
    return state, needed, merged


def _split_merge(
    model: Model, key: jax.Array, state: State, proposals: int
) -> tuple[State, jax.Array, jax.Array]:
    def turn(i: jax.Array, carry: tuple) -> tuple:
        state, needed, accepted = carry
        found = dp_split_merge.propose(
            jax.random.fold_in(key, i),
            model.family,
            model.rows,
            state.labels,
            jax.tree.map(jnp.add, *state.totals),
            state.occupancy,
            state.alpha,
        )
        # The other clusters keep what rounding has taken from their sums.
        changed = found.occupancy != state.occupancy
        totals = where(changed, dp_labels.no_loss(found.statistics), state.totals)
        state = state._replace(labels=found.labels, occupancy=found.occupancy, totals=totals)
        return state, jnp.maximum(needed, found.needed), accepted + found.accepted / proposals

    start = (state, jnp.int32(0), jnp.zeros((), state.alpha.dtype))
    return lax.fori_loop(0, proposals, turn, start)


def _move(model: Model, key: jax.Array, state: State, ids: jax.Array, options: Options) -> State:
    """Move sticks and atoms given the labels: of all rows, or of the batch standing for all."""
    key_sticks, key_atoms = jax.random.split(key)
    capacity, rows = state.occupancy.shape[0], state.labels.shape[0]
    counts = state.occupancy.astype(state.alpha.dtype)
    if state.totals is not None:
        statistics = jax.tree.map(jnp.add, *state.totals)
    else:
        scale = rows / ids.shape[0]
        mine = dp_labels.labels_of(state.labels, ids, capacity)
        counts = scale * jnp.zeros_like(counts).at[mine].add(1, mode="drop")
        batch = dp_labels.statistics_of(model.family, model.rows, state.labels, ids, capacity)
        statistics = jax.tree.map(lambda leaf: scale * leaf, batch)
    sticks = dp_sticks.move_sticks(
        key_sticks,
        options.sampler,
        state.sticks,
        counts,
        state.occupancy,
        state.alpha,
        model.stick_step_size,
        state.step,
    )
    atoms = dp_sticks.move_atoms(
        key_atoms,
        options.sampler,
        model.family.draw,
        model.family.simplex,
        state.position.atoms,
        statistics,
        state.occupancy,
        model.atom_step_size,
        state.step,
    )
    return state._replace(sticks=sticks, position=mixture(sticks, atoms))


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

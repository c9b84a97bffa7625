r"""Dirichlet-process mixtures without truncation, by slice samplers.

Rows have :math:`x_i \sim f(\cdot \mid \theta_{z_i})` with :math:`z_i \sim w`, where
:math:`w_j = v_j \prod_{l < j} (1 - v_l)`, :math:`v_j \sim \mathrm{Beta}(1, \alpha)`,
:math:`\theta_j \sim G_0`, and alpha is known or has a Gamma prior. f and G0 are a
`families.Family`.

An update of a batch of rows draws, in this order:

1. alpha given the labels of all rows (`alpha_update`), and optionally split-merge moves;
2. sticks v and atoms theta given the labels (`sampler`): those in use exactly or by a step of a
   simplex kernel, the others from their prior;
3. label moves, which assign clusters to other sticks (`order`);
4. a slice u_i for every row of the batch, which leaves finitely many sticks to choose from;
5. the labels of the batch, each from the sticks above its slice (`labels`).

With memoised counts, step 2 depends on the labels of all rows, whose statistics are kept current:
every update is an exact Gibbs step for any batch, and with full batches this is the slice sampler
of Walker (2007), Papaspiliopoulos (2008) and Kalli, Griffin and Walker (2011). With subsampled
counts, step 2 depends on the old labels of the batch, scaled up (Baker, Fearnhead, Fox and Nemeth
2018, section 4.2): it converges fast but is not exact.

**Nothing is truncated.** A state holds C sticks, all of them drawn. If a slice is below the mass of
the sticks beyond C, the update is not done: the state is returned unchanged except for `needed`,
which is then above C. `State.grown` enlarges the state, and the same update is repeated with the
same key; `run(..., grow=State.grown)` does both. The randomness of a stick or a row does not depend
on C, so the chain is the same as with a larger capacity from the start (split-merge moves up to the
rounding of sums over the sticks).

Labels are indices of sticks and have no meaning by themselves; only the partition has.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from simplex_jax._src import arguments, batches, schedules
from simplex_jax._src.base import Kernel, PyTree, as_pytree, bind
from simplex_jax._src.batches import Stream
from simplex_jax._src.corpus import device
from simplex_jax._src.draws import uniform
from simplex_jax._src.draws.bits import use_up
from simplex_jax._src.draws.categorical import choose_by_native_code
from simplex_jax._src.draws.keys import by_native_code, to_jax_key, words_by_native_code
from simplex_jax._src.models import growth
from simplex_jax._src.models.dpm import split_merge
from simplex_jax._src.models.dpm import state as dpm_state
from simplex_jax._src.models.dpm.families import Family
from simplex_jax._src.models.dpm.families import family as family_rows
from simplex_jax._src.models.dpm.state import (
    BLOCK,
    WEIGHTED,
    Gamma,
    Info,
    LogTotals,
    Mixture,
    Model,
    Ordered,
    State,
    Totals,
    mixture,
    where,
)
from simplex_jax._src.models.dpm.state import SAMPLERS as SIMPLEX_SAMPLERS
from simplex_jax._src.models.dpm.state import grow as grow
from simplex_jax._src.models.dpm.totals import (
    add_moves,
    completed,
    in_parts,
    labels_at,
    likelihoods_of,
    no_loss,
    rows_at_once,
    statistics_of,
)
from simplex_jax._src.schedules import StepSize

# Draws of slices, and of the labels of a batch given sticks and atoms.
#
# Row i has u_i ~ U(0, s_{z_i}), where the bounds s_j of the sticks are their weights (Walker 2007)
# or a fixed decreasing sequence (Kalli, Griffin and Walker 2011). Its label is then drawn from the
# finitely many sticks with s_j >= u_i, with probability proportional to w_j / s_j f(x_i | theta_j).

_MOST_STICKS = 2.0**30


class Slices(NamedTuple):
    """The slices of the rows of a batch."""

    log_bounds: jax.Array  # log of the bounds s_j, [C]
    log_u: jax.Array  # log of u_i, [n]; +inf for rows that pad the batch
    # number of sticks that may have bounds above the smallest u, int32; above C if some are
    # missing from the state
    needed: jax.Array


def draw_slices(key: jax.Array, model: Model, state: State, ids: jax.Array) -> Slices:
    """Draw the slices of the rows of a batch, int32 [n]."""
    position, capacity = state.position, state.occupancy.shape[0]
    dtype = position.log_weights.dtype
    labels = labels_at(state.labels, ids, capacity)
    use_up(key)
    words, _ = words_by_native_code(key, labels.shape[0], dtype)
    log_uniform = -uniform.exponential(words, dtype)
    if model.variant == "dependent":
        bounds = position.log_weights
    else:
        decay = jnp.asarray(model.decay, dtype)
        bounds = jnp.log1p(-decay) + jnp.arange(capacity) * jnp.log(decay)
    log_u = bounds.at[labels].get(mode="clip") + log_uniform
    log_u = jnp.where(labels >= capacity, jnp.inf, log_u)
    least = jnp.min(log_u)
    if model.variant == "dependent":
        # Sticks beyond C are smaller than their sum; about `more` of them bring it below u.
        short = position.log_rest - least
        more = jnp.clip(jnp.ceil(state.alpha * short), 1, _MOST_STICKS)
        needed = jnp.where(short > 0, capacity + more.astype(jnp.int32), 0)
    else:
        count = jnp.ceil((least - bounds[0]) / jnp.log(decay))
        needed = jnp.clip(count, 0, _MOST_STICKS).astype(jnp.int32)
    return Slices(bounds, log_u, needed)


def draw_labels(
    key: jax.Array, model: Model, state: State, ids: jax.Array, sliced: Slices
) -> tuple[State, jax.Array]:
    """Draw the labels of the rows of a batch, and update occupancy and totals.

    The ids are distinct, int32 [n]; ids from N on are not rows. Also return the number of rows that
    changed their label, int32.
    """
    family, position = model.family, state.position
    capacity, outside = state.occupancy.shape[0], state.labels.shape[0]
    dtype = position.log_weights.dtype
    key, key_cells = (key, None) if state.cells is None else jax.random.split(key)
    use_up(key)
    words, _ = words_by_native_code(key, ids.shape[0], dtype)
    at_once = rows_at_once(model.rows, ids.shape[0], capacity)
    parts = in_parts(ids, at_once, outside)
    fill = parts.size - ids.shape[0]
    log_u = jnp.pad(sliced.log_u, (0, fill), constant_values=jnp.inf).reshape(parts.shape)
    u = jnp.pad(uniform.uniform(words, dtype), (0, fill), constant_values=0.5).reshape(parts.shape)
    tilt = position.log_weights - sliced.log_bounds
    sticks = jnp.arange(capacity)
    block = math.gcd(BLOCK, capacity)
    if state.cells is not None:
        assert family.missing is not None
        assert key_cells is not None
        draw_missing = family.missing.draw
        # A key for every row: its draws do not depend on the parts.
        row_keys = jax.random.split(to_jax_key(key_cells), ids.shape[0])

    def part(i: jax.Array, carry: tuple) -> tuple:
        labels, occupancy, totals, cells, count = carry
        some = family_rows.take(model.rows, parts[i])
        log_likelihood = likelihoods_of(family, model.rows, parts[i], some)
        # >=, because u rounds to the bound of its own stick once in ten million rows.
        reached = jnp.max(jnp.where(sliced.log_bounds >= jnp.min(log_u[i]), sticks + 1, 0))

        def group(g: jax.Array, logits: jax.Array) -> jax.Array:
            first = g * block
            atoms, bounds, more = jax.tree.map(
                lambda leaf: lax.dynamic_slice_in_dim(leaf, first, block),
                (position.atoms, sliced.log_bounds, tilt),
            )
            within = (log_likelihood(atoms) + more).T
            within = jnp.where(bounds[:, None] >= log_u[i], within, -jnp.inf)
            return lax.dynamic_update_slice_in_dim(logits, within, first, axis=0)

        closed = jnp.full((capacity, at_once), -jnp.inf, dtype)
        logits = lax.fori_loop(0, -(-reached // block), group, closed)
        real = parts[i] < outside
        peak = jnp.where(real, jnp.max(logits, axis=0), 0)
        new = choose_by_native_code(jnp.where(real, jnp.exp(logits - peak), 1), u[i])
        old = labels_at(labels, parts[i], capacity)
        moved = count_in = real & (new != old)
        before = after = some
        if cells is not None:
            keys = row_keys.at[i * at_once + jnp.arange(at_once)].get(mode="clip")
            before = family_rows.fill(some, [leaf.at[parts[i]].get(mode="clip") for leaf in cells])
            after = draw_missing(keys, some, position.atoms, new)
            drawn = family_rows.missing_values(some, after)
            cells = tuple(
                leaf.at[parts[i]].set(values, mode="drop")
                for leaf, values in zip(cells, drawn, strict=True)
            )
            moved |= real & family_rows.lacking(some)
        # Rows that stay are skipped, which leaves sums of floats unchanged.
        old, new = jnp.where(moved, old, capacity), jnp.where(moved, new, capacity)
        occupancy = occupancy.at[new].add(1, mode="drop").at[old].add(-1, mode="drop")
        if totals is not None:
            totals = add_moves(family, totals, (before, old), (after, new), moved)
        labels = labels.at[jnp.where(moved, parts[i], outside)].set(new, mode="drop")
        return labels, occupancy, totals, cells, count + jnp.sum(count_in, dtype=jnp.int32)

    start = (state.labels, state.occupancy, state.totals, state.cells, jnp.int32(0))
    labels, occupancy, totals, cells, count = lax.fori_loop(0, parts.shape[0], part, start)
    return state._replace(labels=labels, occupancy=occupancy, totals=totals, cells=cells), count


def complete_rows(model: Model, state: State) -> PyTree:
    """Return the rows, with the values of missing cells that a state has."""
    if state.cells is None:
        return model.rows
    return family_rows.fill(model.rows, state.cells)


# Initial state and update of a Dirichlet-process mixture, for one or several chains.

# From this many rows times sticks per chain on, an update runs the chains in turn.
_LARGE = 2**14


@jax.jit
def init_chains(model: Model, key: jax.Array, labels: jax.Array) -> State:
    """Start from labels of all rows, int32 [N] or [chains, N] in 0..C-1, and draw the rest."""
    key = by_native_code(key)
    if model.chains is None:
        return _init_chain(model, key, labels)
    start = jax.vmap(_init_chain, in_axes=(None, 0, 0 if labels.ndim == 2 else None))
    return start(model, jax.random.split(key, model.chains), labels)


def _init_chain(model: Model, key: jax.Array, labels: jax.Array) -> State:
    ids = jnp.arange(labels.shape[0], dtype=jnp.int32)
    cells = None
    rows = model.rows
    if family_rows.lack_cells(rows):
        key, key_cells = jax.random.split(key)
        rows = completed(key_cells, model.family, rows, labels, model.capacity)
        cells = family_rows.missing_values(model.rows, rows)
    statistics = statistics_of(model.family, rows, labels, ids, model.capacity)
    state = State(
        position=Mixture(*[jnp.zeros(0)] * 3),
        step=jnp.zeros((), jnp.int32),
        labels=labels,
        occupancy=jnp.zeros(model.capacity, jnp.int32).at[labels].add(1, mode="drop"),
        sticks=jnp.zeros((model.capacity, 2), model.start.dtype),
        # A state may be donated to jitted code, and must not share arrays with the kernel.
        alpha=jnp.copy(model.start),
        totals=no_loss(statistics),
        needed=jnp.zeros((), jnp.int32),
        cells=cells,
    )
    exact = dataclasses.replace(model, sampler="exact", carried=False)
    state = _move(exact, key, state, ids)
    if model.carried:
        state = state._replace(log_totals=dpm_state.not_drawn(state))
    return state if model.counts == "memoised" else state._replace(totals=None)


def update_chains(model: Model, key: jax.Array, state: State, ids: jax.Array) -> tuple[State, Info]:
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
        return _update_chain(model, key, state, ids)
    chains, capacity = state.occupancy.shape

    def one(key: jax.Array, state: State) -> tuple[State, Info]:
        return _update_chain(model, key, state, ids)

    keys = jax.random.split(key, chains)
    if ids.shape[0] * capacity < _LARGE:
        moved, info = jax.vmap(one)(keys, state)
    else:
        moved, info = lax.map(lambda chain: one(*chain), (keys, state))
    return growth.grow_chains_together(state, moved, info, capacity)


def _update_chain(model: Model, key: jax.Array, state: State, ids: jax.Array) -> tuple[State, Info]:
    return lax.cond(
        state.needed > state.occupancy.shape[0],
        lambda: (state, _no_info(state)),
        lambda: _attempt(model, key, state, ids),
    )


def _attempt(model: Model, key: jax.Array, old: State, ids: jax.Array) -> tuple[State, Info]:
    keys = jax.random.split(key, 6)
    state, short, merged = _given_labels(model, keys[0], old)
    state = _move(model, keys[1], state, ids)
    ordered = dpm_state.unchanged(state.sticks)
    if model.label_moves:
        ordered = dpm_state.swaps(keys[2], state.sticks, state.occupancy)
        state = _reorder(state, ordered)
    capacity, outside = state.occupancy.shape[0], state.labels.shape[0]
    sliced = draw_slices(keys[3], model, state, ids)
    needed = jnp.maximum(jnp.maximum(short, ordered.needed), sliced.needed)

    def go() -> tuple[State, Info]:
        new, changed = draw_labels(keys[4], model, state, ids, sliced)
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
        lambda: no_loss(
            statistics_of(model.family, complete_rows(model, state), state.labels, ids, capacity)
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
        draws = {"sticks": dpm_state.draw_alpha, "escobar-west": dpm_state.escobar_west}
        draw = draws[model.alpha_update]
        state = state._replace(alpha=draw(keys[0], model.prior, state))
    if model.split_merge:
        state, needed, merged = _split_merge(model, keys[1], state)
    if model.alpha_update == "escobar-west" or model.split_merge:
        # These target the partition: the order of the clusters has to be redrawn.
        ordered = dpm_state.size_biased(keys[2], state.alpha, state.occupancy)
        state, needed = _reorder(state, ordered), jnp.maximum(needed, ordered.needed)
    return state, needed, merged


def _split_merge(model: Model, key: jax.Array, state: State) -> tuple[State, jax.Array, jax.Array]:
    rows = complete_rows(model, state)

    def turn(i: jax.Array, carry: tuple) -> tuple:
        state, needed, proposed, accepted = carry
        new = split_merge.propose(
            jax.random.fold_in(key, i),
            model.family,
            rows,
            state.labels,
            jax.tree.map(jnp.add, *state.totals),
            state.occupancy,
            state.alpha,
        )
        # The other clusters keep the rounding errors of their sums.
        changed = new.occupancy != state.occupancy
        totals = where(changed, no_loss(new.statistics), state.totals)
        state = state._replace(labels=new.labels, occupancy=new.occupancy, totals=totals)
        needed = jnp.maximum(needed, new.needed)
        return state, needed, proposed + new.proposed, accepted + new.accepted

    start = (state, *[jnp.int32(0)] * 3)
    state, needed, proposed, accepted = lax.fori_loop(0, model.split_merge, turn, start)
    return state, needed, (accepted / jnp.maximum(proposed, 1)).astype(state.alpha.dtype)


def _move(model: Model, key: jax.Array, state: State, ids: jax.Array) -> State:
    """Move sticks and atoms given the labels of all rows, or of the batch, scaled up."""
    key_sticks, key_atoms = jax.random.split(key)
    counts = state.occupancy.astype(state.alpha.dtype)
    if state.totals is not None:
        statistics = jax.tree.map(jnp.add, *state.totals)
    else:
        capacity, scale = state.occupancy.shape[0], state.labels.shape[0] / ids.shape[0]
        own = labels_at(state.labels, ids, capacity)
        counts = scale * jnp.zeros_like(counts).at[own].add(1, mode="drop")
        rows = complete_rows(model, state)
        batch = statistics_of(model.family, rows, state.labels, ids, capacity)
        statistics = jax.tree.map(lambda leaf: scale * leaf, batch)
    sticks, of_sticks = dpm_state.move_sticks(key_sticks, model, state, counts)
    atoms, of_atoms = dpm_state.move_atoms(key_atoms, model, state, statistics)
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


SAMPLERS = ("exact", *SIMPLEX_SAMPLERS)
COUNTS = ("memoised", "subsampled")
TOTALS = ("refreshed", "carried")
VARIANTS = ("dependent", "independent")
ALPHA_UPDATES = ("sticks", "escobar-west")

_STEP_SIZE, _DECAY = 0.1, 0.5

# Running sums of floats are recomputed after this many passes.
_REFRESH = 16


def build(
    rows: PyTree,
    family: Family,
    *,
    sampler: str = "exact",
    total: str = "refreshed",
    counts: str = "memoised",
    batch_size: int | None = None,
    variant: str = "dependent",
    alpha: float | tuple[float | jax.Array, float | jax.Array] = 1.0,
    alpha_update: str = "sticks",
    atom_step_size: StepSize | None = None,
    stick_step_size: StepSize | None = None,
    decay: float | None = None,
    label_moves: bool = True,
    split_merge: int = 0,
    capacity: int = 64,
    chains: int | None = None,
) -> tuple[Kernel, Stream]:
    """Return the kernel of a mixture, and the stream of its batches.

    Args:
        rows: Rows in the form that the family expects, see `families`.
        family: The component distribution.
        sampler: Update of sticks and atoms in use given the labels: "exact" redraws them; "scir",
            "sgrld" and "smld" need a family whose atoms are on simplexes, and with memoised counts
            leave the chain exact ("scir") or nearly so (the others, as the step sizes go to 0).
        total: Treatment of the totals of the unnormalised weights of "scir" and "sgrld":
            "refreshed" from their distribution before every step, or "carried" from step to step,
            as in Baker et al. (2018), which is biased. New sticks and atoms always draw their
            totals. "carried" needs subsampled counts and no label moves.
        counts: "memoised" or "subsampled", see above.
        batch_size: Rows in a batch; None for all of them. With memoised counts batches are
            neighbouring rows, each once per epoch, in random order; else uniform subsets.
        variant: Bounds of the slices: "dependent", the weights of the sticks; or "independent", the
            numbers (1 - decay) decay^j, j = 0, 1, ... (Kalli, Griffin and Walker 2011).
        alpha: The concentration, positive, or the (shape, rate) of its Gamma prior, starting
            at the prior mean.
        alpha_update: Update of an alpha with a prior: "sticks" draws it given the sticks up to the
            last in use; "escobar-west" given the number of clusters, and then redraws the order of
            the clusters, which needs memoised counts.
        atom_step_size: Step size of the sampler of the atoms, or a schedule; 0.1 by default. Not
            for exact draws.
        stick_step_size: Step size of the sampler of the sticks, likewise.
        decay: Decay of the bounds of the "independent" variant, between 0 and 1; 0.5 by default.
        label_moves: Propose swaps of clusters and of neighbouring sticks.
        split_merge: Rounds of split-merge moves per update, see `split_merge`; each costs up to a
            few passes over the rows with two atoms, and two evidences of a third of the clusters.
            They need memoised counts, exact draws and a family with a `log_evidence`; the order of
            the clusters is then redrawn as well.
        capacity: Initial number of sticks in a state; rounded up to a multiple of 16.
        chains: Number of chains to run together; states have a leading axis, and all chains wait
            if one has to grow.

    Returns:
        A kernel whose `init` takes labels, int32 [N] in 0..capacity - 1, or for chains also
        [chains, N]; its position has the weights and atoms of the clusters, and its states have
        `labels` and, for the argument `grow` of `simplex_jax.run`, a method `grown`. And a stream
        of row numbers, int32 [batch_size]; numbers from N on are not rows.

    Raises:
        ValueError: An argument is out of range, not one of the names or not used with the
            others, or the rows do not fit the family.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import dpm, run
        >>> from simplex_jax.dpm import families
        >>> rows = families.multinomial_rows([[9, 0, 0], [8, 1, 0], [0, 0, 9], [0, 1, 7]])
        >>> family = families.multinomial(3, concentration=0.5)
        >>> kernel, stream = dpm.build(rows, family, alpha=(1.0, 1.0))
        >>> state = kernel.init(jax.random.key(0), jnp.zeros(4, jnp.int32))
        >>> state, labels = run(jax.random.key(1), kernel, state, stream, 500,
        ...     collect=lambda state, info: state.labels, grow=lambda state: state.grown())
        >>> together = labels[50:, :, None] == labels[50:, None, :]
        >>> print(together.mean(axis=0)[0].round())
        [1. 1. 0. 0.]
    """
    for name, value, names in (
        ("sampler", sampler, SAMPLERS),
        ("total", total, TOTALS),
        ("counts", counts, COUNTS),
        ("variant", variant, VARIANTS),
        ("alpha_update", alpha_update, ALPHA_UPDATES),
    ):
        arguments.choice(name, value, names)
    if isinstance(alpha, tuple):
        if len(alpha) != 2:
            raise ValueError(f"alpha must be a number or (shape, rate) of its prior; it is {alpha}")
        shape, rate = (
            _number(f"the {name} of alpha", value)
            for name, value in zip(("shape", "rate"), alpha, strict=True)
        )
        prior, start = Gamma(shape, rate), shape / rate
    else:
        prior, start = None, _number("alpha", alpha)
    split_merge = arguments.at_least("split_merge", split_merge, 0)
    check(
        sampler,
        counts,
        split_merge,
        alpha_update=alpha_update,
        total=total,
        learned=prior is not None,
        atom_step_size=atom_step_size,
        stick_step_size=stick_step_size,
    )
    if total == "carried" and label_moves:
        raise ValueError("label_moves=True is incompatible with total='carried'")
    family = as_pytree(family)
    rows = family_rows.prepare(family, rows)
    size = family_rows.size(rows)
    if sampler != "exact" and family.simplex is None:
        raise ValueError(f"sampler {sampler!r} requires a family with simplex atoms")
    if decay is not None and variant != "independent":
        raise ValueError(f"decay is not used by the {variant} variant; omit it")
    decay = _DECAY if decay is None else decay
    if not 0 < decay < 1:
        raise ValueError(f"decay must be between 0 and 1; it is {decay}")
    batch_size = check_batch_size(size if batch_size is None else batch_size, size)
    if split_merge and family.log_evidence is None:
        raise ValueError("split_merge needs a family with a log_evidence: give 0")
    one = jnp.zeros(1, jnp.int32)
    some = jax.eval_shape(lambda: family_rows.fill_means(family_rows.take(rows, one)))
    sums = jax.eval_shape(lambda some: family.statistics(some, one, 1), some)
    floats = any(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(sums))
    atoms, sticks = step_sizes(sampler, atom_step_size, stick_step_size)
    model = Model(
        rows=rows,
        family=family,
        prior=prior,
        start=start,
        atom_step_size=atoms,
        stick_step_size=sticks,
        decay=decay,
        sampler=sampler,
        carried=total == "carried",
        counts=counts,
        variant=variant,
        alpha_update=alpha_update,
        label_moves=bool(label_moves),
        split_merge=split_merge,
        refresh=_REFRESH * -(-size // batch_size) if counts == "memoised" and floats else 0,
        capacity=-(-arguments.at_least("capacity", capacity, 1) // BLOCK) * BLOCK,
        chains=None if chains is None else arguments.at_least("chains", chains, 1),
    )
    kernel = Kernel(init=bind(_init, model), update=bind(update_chains, model))
    if counts == "memoised":
        return kernel, device.block_stream(size, batch_size)
    return kernel, batches.uniform(jnp.arange(size, dtype=jnp.int32), batch_size, replace=False)


def step_sizes(
    sampler: str, atoms: StepSize | None, sticks: StepSize | None
) -> tuple[StepSize, StepSize]:
    """Return the step sizes of atoms and sticks, checked, with defaults for None."""
    atoms, sticks = (_STEP_SIZE if size is None else size for size in (atoms, sticks))
    for step_size in (atoms, sticks):
        schedules.check(step_size, below=2.0 if sampler == "sgrld" else math.inf)
    return atoms, sticks


def _number(name: str, value: float | jax.Array) -> jax.Array:
    value = arguments.scalar(name, value)
    return jnp.asarray(value, value.dtype)  # a weak type would cause recompilation


def check(
    sampler: str,
    counts: str,
    split_merge: int,
    *,
    alpha_update: str = "sticks",
    total: str = "refreshed",
    learned: bool = True,
    **step_sizes: StepSize | None,
) -> None:
    """Raise a ValueError if options of `build` conflict; `learned` means alpha has a prior."""
    if total == "carried" and (sampler not in WEIGHTED or counts != "subsampled"):
        raise ValueError(
            f'total "carried" is for {" and ".join(WEIGHTED)} with subsampled counts: leave it out'
        )
    if alpha_update == "escobar-west" and counts != "memoised":
        raise ValueError('alpha_update "escobar-west" needs memoised counts: give "sticks"')
    if not learned and alpha_update != "sticks":
        raise ValueError(f"alpha_update {alpha_update!r} cannot be combined with a fixed alpha")
    if split_merge and (sampler, counts) != ("exact", "memoised"):
        raise ValueError("split_merge needs the exact sampler and memoised counts: give 0")
    for name, step_size in step_sizes.items():
        if sampler == "exact" and step_size is not None:
            raise ValueError(f"{name} is not used by the exact sampler; omit it")


def check_batch_size(batch_size: int, rows: int) -> int:
    """Return a batch size, or raise a ValueError unless it is between 1 and the number of rows."""
    if arguments.at_least("batch_size", batch_size, 1) > rows:
        raise ValueError(f"batch_size must be at most the {rows} rows; it is {batch_size}")
    return batch_size


def _init(model: Model, key: jax.Array, labels: ArrayLike) -> State:
    size, chains = family_rows.size(model.rows), model.chains
    labels = jnp.asarray(labels)
    shapes = [(size,)] if chains is None else [(size,), (chains, size)]
    if labels.shape not in shapes or not jnp.issubdtype(labels.dtype, jnp.integer):
        raise ValueError(
            f"labels must be integers {' or '.join(str(list(s)) for s in shapes)}; they are "
            f"{labels.dtype} {list(labels.shape)}"
        )
    known: Any = labels if isinstance(labels, jax.core.Tracer) else np.asarray(labels)
    within = (known >= 0) & (known < model.capacity)
    arguments.require("labels", labels, within, f"in 0..{model.capacity - 1} (capacity)")
    # A state may be donated to jitted code, and must not share arrays with the caller.
    return init_chains(model, key, jnp.array(labels, jnp.int32, copy=True))


def random_labels(
    key: jax.Array, rows: PyTree, clusters: int = 1, chains: int | None = None
) -> jax.Array:
    """Return random initial labels, uniform over `clusters`, int32 [N] or [chains, N].

    The published code of the SCIR paper uses 20 clusters.
    """
    clusters = arguments.at_least("clusters", clusters, 1)
    shape: tuple[int, ...] = (family_rows.size(rows),)
    if chains is not None:
        shape = (arguments.at_least("chains", chains, 1), *shape)
    return jax.random.randint(key, shape, 0, clusters, jnp.int32)


def occupied(state: State) -> jax.Array:
    """Return the number of clusters with rows, int32, with the leading axes of the state."""
    return jnp.sum(state.occupancy > 0, axis=-1, dtype=jnp.int32)


def labels_of(state: State, info: Info) -> jax.Array:
    """Return the labels of all rows; for use as `collect` of `run`."""
    return state.labels


def log_predictive(family: Family, mixture: Mixture, rows: PyTree) -> jax.Array:
    r"""Return the log predictive density of each row under the mixture of a state, [n].

    It is :math:`\log \big( \sum_{j \le C} w_j f(x \mid \theta_j) + w_{> C} \int f(x \mid \theta)\,
    dG_0(\theta) \big)`: the weight of the sticks beyond C has the prior predictive density. Factors
    that the family omits are omitted. The mixture has no axis of chains.
    """
    rows = family_rows.on_device(rows)
    size, capacity = family_rows.size(rows), mixture.log_weights.shape[0]
    at_once = rows_at_once(rows, size, capacity)
    parts = in_parts(jnp.arange(size, dtype=jnp.int32), at_once, size)

    def part(ids: jax.Array) -> jax.Array:
        some = family_rows.take(rows, ids)
        logits = family.log_likelihood(some, mixture.atoms) + mixture.log_weights
        rest = mixture.log_rest + family.log_predictive(some)
        return jnp.logaddexp(jax.nn.logsumexp(logits, axis=1), rest)

    return lax.map(part, parts).ravel()[:size]

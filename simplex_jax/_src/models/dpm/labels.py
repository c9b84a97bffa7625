"""Draws of slices, and of the labels of a batch given sticks and atoms.

Row i has u_i ~ U(0, s_{z_i}), where the bounds s_j of the sticks are their weights (Walker 2007) or
a fixed decreasing sequence (Kalli, Griffin and Walker 2011). Its label is then drawn from the
finitely many sticks with s_j >= u_i, with probability proportional to w_j / s_j f(x_i | theta_j).
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax._src.base import PyTree
from simplex_jax._src.draws import uniform
from simplex_jax._src.draws.bits import use_up
from simplex_jax._src.draws.categorical import choose_by_native_code
from simplex_jax._src.draws.keys import words_by_native_code
from simplex_jax._src.models.dpm.families import Family
from simplex_jax._src.models.dpm.families import rows as family_rows
from simplex_jax._src.models.dpm.state import BLOCK, Model, State, Totals

_STICKS_AT_ONCE = 2**20
_COLUMNS_AT_ONCE = 2**22
_MOST_STICKS = 2.0**30


class Slices(NamedTuple):
    """The slices of the rows of a batch."""

    log_bounds: jax.Array  # log of the bounds s_j, [C]
    log_u: jax.Array  # log of u_i, [n]; +inf for rows that pad the batch
    # number of sticks that may have bounds above the smallest u, int32; above C if some are
    # missing from the state
    needed: jax.Array


def rows_at_once(rows: PyTree, ids: int, capacity: int) -> int:
    """Return how many rows to process together, of `ids` rows in all.

    This limits arrays of rows x sticks and of rows x columns.
    """
    return max(
        1, min(ids, _STICKS_AT_ONCE // capacity, _COLUMNS_AT_ONCE // family_rows.width(rows))
    )


def labels_of(labels: jax.Array, ids: jax.Array, none: int) -> jax.Array:
    """Return the labels of rows; `none` for ids out of range."""
    return labels.at[ids].get(mode="fill", fill_value=none)


def in_parts(ids: jax.Array, at_once: int, outside: int) -> jax.Array:
    """Return ids in parts of equal length, [parts, at_once], the last padded with `outside`."""
    parts = math.ceil(ids.shape[0] / at_once)
    # Without the barrier XLA stores all ids as a constant of the program.
    ids = lax.optimization_barrier(ids)
    return jnp.pad(ids, (0, parts * at_once - ids.shape[0]), constant_values=outside).reshape(
        parts, at_once
    )


def slices(key: jax.Array, model: Model, state: State, ids: jax.Array) -> Slices:
    """Draw the slices of the rows of a batch, int32 [n]."""
    position, capacity = state.position, state.occupancy.shape[0]
    dtype = position.log_weights.dtype
    labels = labels_of(state.labels, ids, capacity)
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

    def part(i: jax.Array, carry: tuple) -> tuple:
        labels, occupancy, totals, count = carry
        some = family_rows.take(model.rows, parts[i])
        # >=, because u rounds to the bound of its own stick once in ten million rows.
        reached = jnp.max(jnp.where(sliced.log_bounds >= jnp.min(log_u[i]), sticks + 1, 0))

        def group(g: jax.Array, logits: jax.Array) -> jax.Array:
            first = g * block
            atoms, bounds, more = jax.tree.map(
                lambda leaf: lax.dynamic_slice_in_dim(leaf, first, block),
                (position.atoms, sliced.log_bounds, tilt),
            )
            within = (family.log_likelihood(some, atoms) + more).T
            within = jnp.where(bounds[:, None] >= log_u[i], within, -jnp.inf)
            return lax.dynamic_update_slice_in_dim(logits, within, first, axis=0)

        closed = jnp.full((capacity, at_once), -jnp.inf, dtype)
        logits = lax.fori_loop(0, -(-reached // block), group, closed)
        real = parts[i] < outside
        peak = jnp.where(real, jnp.max(logits, axis=0), 0)
        new = choose_by_native_code(jnp.where(real, jnp.exp(logits - peak), 1), u[i])
        old = labels_of(labels, parts[i], capacity)
        moved = real & (new != old)
        # Rows that stay are skipped, which leaves sums of floats unchanged.
        old, new = jnp.where(moved, old, capacity), jnp.where(moved, new, capacity)
        occupancy = occupancy.at[new].add(1, mode="drop").at[old].add(-1, mode="drop")
        if totals is not None:
            # A loop of two, so that the sum over rows is compiled once.
            both = lax.map(lambda of: family.statistics(some, of, capacity), jnp.stack([new, old]))
            totals = add(totals, jax.tree.map(lambda leaf: leaf[0] - leaf[1], both))
        labels = labels.at[jnp.where(moved, parts[i], outside)].set(new, mode="drop")
        return labels, occupancy, totals, count + jnp.sum(moved, dtype=jnp.int32)

    start = (state.labels, state.occupancy, state.totals, jnp.int32(0))
    labels, occupancy, totals, count = lax.fori_loop(0, parts.shape[0], part, start)
    return state._replace(labels=labels, occupancy=occupancy, totals=totals), count


def statistics_of(
    family: Family, rows: PyTree, labels: jax.Array, ids: jax.Array, capacity: int
) -> PyTree:
    """Return the statistics of the clusters for the rows `ids`, leaves [C, ...]."""
    parts = in_parts(ids, rows_at_once(rows, ids.shape[0], capacity), labels.shape[0])

    def of(ids: jax.Array) -> PyTree:
        some = family_rows.take(rows, ids)
        return family.statistics(some, labels_of(labels, ids, capacity), capacity)

    start = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(of, ids))
    totals = lax.fori_loop(
        0, parts.shape[0], lambda i, totals: add(totals, of(parts[i])), no_loss(start)
    )
    return jax.tree.map(jnp.add, *totals)


def no_loss(values: PyTree) -> Totals:
    """Return running sums without rounding error."""
    return Totals(values, jax.tree.map(jnp.zeros_like, values))


def add(totals: Totals, change: PyTree) -> Totals:
    """Add to running sums, with the rounding error of floats kept separately (Neumaier 1974)."""
    pairs = [_add(*leaves) for leaves in zip(*map(jax.tree.leaves, (*totals, change)), strict=True)]
    structure: Any = jax.tree.structure(totals.values)
    return Totals(*(jax.tree.unflatten(structure, part) for part in zip(*pairs, strict=True)))


def _add(total: jax.Array, lost: jax.Array, change: jax.Array) -> tuple[jax.Array, jax.Array]:
    if jnp.issubdtype(total.dtype, jnp.integer):
        return total + change, lost
    # Without barriers XLA simplifies (a + b) - a to b.
    new = lax.optimization_barrier(total + change)
    part = lax.optimization_barrier(new - total)
    return new, lost + ((total - (new - part)) + (change - part))

"""Sums of statistics over the rows of clusters, and likelihoods of rows, in parts and blocks."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax._src.base import PyTree
from simplex_jax._src.draws.keys import to_jax_key
from simplex_jax._src.models.dpm.families import Family
from simplex_jax._src.models.dpm.families import family as family_rows
from simplex_jax._src.models.dpm.families.family import SparseRows, draw_atoms
from simplex_jax._src.models.dpm.state import Totals
from simplex_jax._src.runtime import programs

_STICKS_AT_ONCE = 2**20
_COLUMNS_AT_ONCE = 2**22

# Blocks of the rows of a part, and the least number of rows of one.
_BLOCKS, _LEAST_BLOCK = 16, 256


def rows_at_once(rows: PyTree, ids: int, capacity: int) -> int:
    """Return how many rows to process together, of `ids` rows in all.

    This limits arrays of rows x sticks and of rows x columns.
    """
    return max(
        1, min(ids, _STICKS_AT_ONCE // capacity, _COLUMNS_AT_ONCE // family_rows.width(rows))
    )


def has_documents(*arguments: PyTree) -> bool:
    """Return whether there are rows of counts of words."""
    parts = jax.tree.leaves(arguments, is_leaf=lambda part: isinstance(part, SparseRows))
    return any(isinstance(part, SparseRows) for part in parts)


def compiler_options(*arguments: PyTree) -> dict[str, bool | int]:
    """Return options of XLA for a program with these arguments, see `programs.quick_options`.

    None for documents: their updates would take longer, and compile hardly faster.
    """
    return {} if has_documents(*arguments) else programs.quick_options()


def jit(function: Callable, *, static_argnames: str = "") -> Callable[..., Any]:
    """Like `jax.jit`, with `compiler_options`, for calls that no compiled function makes."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        options = compiler_options(*args)
        return programs.jit(function, static_argnames, **options)(*args, **kwargs)

    return call


def labels_at(labels: jax.Array, ids: jax.Array, none: int) -> jax.Array:
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


def likelihoods_of(
    family: Family, rows: PyTree, ids: jax.Array, some: PyTree
) -> Callable[[PyTree], jax.Array]:
    """Return the function of atoms to the log likelihoods [n, K] of `some`, the rows `ids`.

    Of rows that come several times it computes those of each only once.
    """
    if not (isinstance(rows, family_rows.Selected) and rows.repeat):
        return lambda atoms: family.log_likelihood(some, atoms)
    n = ids.shape[0]
    block = -(-n // _BLOCKS)
    size = -(-n // block) * block
    numbers = rows.numbers.at[ids].get(mode="clip")
    different, places = jnp.unique(numbers, return_inverse=True, size=size, fill_value=-1)
    count = jnp.max(places) + 1
    own = family_rows.take(rows.rows, different)

    def log_likelihood(atoms: PyTree) -> jax.Array:
        def of_block(i: jax.Array, table: jax.Array) -> jax.Array:
            here = family_rows.take(own, i * block + jnp.arange(block, dtype=jnp.int32))
            found = family.log_likelihood(here, atoms)
            return lax.dynamic_update_slice_in_dim(table, found, i * block, axis=0)

        shape = jax.eval_shape(family.log_likelihood, own, atoms)
        table = jnp.zeros(shape.shape, shape.dtype)
        return lax.fori_loop(0, -(-count // block), of_block, table)[places]

    return log_likelihood


def add_moves(
    family: Family,
    totals: Totals,
    before: tuple[PyTree, jax.Array],
    after: tuple[PyTree, jax.Array],
    moved: jax.Array,
) -> Totals:
    """Replace rows and their labels in running sums by others, where `moved`, bool [n].

    The features of a row, such as its products of columns, are expensive: those of rows that stay
    are not computed. Rows come in blocks, of which there are as many as rows that moved need.
    """
    n, capacity = moved.shape[0], jax.tree.leaves(totals.values)[0].shape[0]
    size = min(n, max(_LEAST_BLOCK, -(-n // _BLOCKS)))
    order = jnp.argsort(~moved, stable=True).astype(jnp.int32)
    order = jnp.pad(order, (0, -n % size), constant_values=n)
    same = before[0] is after[0]

    def block(i: jax.Array, totals: Totals) -> Totals:
        ids = lax.dynamic_slice_in_dim(order, i * size, size)
        labels = jnp.stack([labels_at(own, ids, capacity) for _, own in (after, before)])
        rows = [family_rows.take(own, ids) for own, _ in ((after,) if same else (after, before))]

        def of(pair: tuple[PyTree, jax.Array]) -> PyTree:
            return family.statistics(rows[0] if same else pair[0], pair[1], capacity)

        # A loop of two, so that the sum over rows is compiled once.
        stacked = () if same else jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)
        both = lax.map(of, (stacked, labels))
        return add(totals, jax.tree.map(lambda leaf: leaf[0] - leaf[1], both))

    return lax.fori_loop(0, -(-jnp.sum(moved) // size), block, totals)


def statistics_of(
    family: Family, rows: PyTree, labels: jax.Array, ids: jax.Array, capacity: int
) -> PyTree:
    """Return the statistics of the clusters for the rows `ids`, leaves [C, ...]."""
    parts = in_parts(ids, rows_at_once(rows, ids.shape[0], capacity), labels.shape[0])

    def of(ids: jax.Array) -> PyTree:
        some = family_rows.take(rows, ids)
        return family.statistics(some, labels_at(labels, ids, capacity), capacity)

    start = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(of, ids))
    totals = lax.fori_loop(
        0, parts.shape[0], lambda i, totals: add(totals, of(parts[i])), no_loss(start)
    )
    return jax.tree.map(jnp.add, *totals)


_ROUNDS = 5


def completed(
    key: jax.Array, family: Family, rows: PyTree, labels: jax.Array, capacity: int
) -> PyTree:
    """Return complete rows, with missing cells drawn given the labels, int32 [N], approximately.

    Atoms and cells are drawn in turn, from the means of the columns on, for a few rounds.
    """
    if not family_rows.lack_cells(rows):
        return rows
    assert family.missing is not None
    draw_missing = family.missing.draw
    ids = jnp.arange(labels.shape[0], dtype=jnp.int32)

    def turn(i: jax.Array, complete: PyTree) -> PyTree:
        key_atoms, key_cells = jax.random.split(jax.random.fold_in(key, i))
        statistics = statistics_of(family, complete, labels, ids, capacity)
        atoms = draw_atoms(family, key_atoms, statistics)
        return draw_missing(
            jax.random.split(to_jax_key(key_cells), labels.shape[0]), rows, atoms, labels
        )

    return lax.fori_loop(0, _ROUNDS, turn, family_rows.fill_means(rows))


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

"""The components of a mixture: a record of functions."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax import lax
from jax.typing import ArrayLike, DTypeLike

from simplex_jax._src import batches
from simplex_jax._src.base import PyTree
from simplex_jax._src.corpus.device import CHUNK, Documents
from simplex_jax._src.draws.keys import to_jax_key
from simplex_jax._src.runtime import devices

Rows: TypeAlias = PyTree
"""Data: rows along the first axis of every leaf, or `SparseRows`. See `take`."""

Atoms: TypeAlias = PyTree
"""Parameters of K components, leaves [K, ...]."""

Statistics: TypeAlias = PyTree
"""Sufficient statistics of the rows of K clusters, leaves [K, ...]; sums over the rows."""


class Simplex(NamedTuple):
    """Moves of log-probability atoms by a simplex kernel."""

    alpha: PyTree  # concentrations of the Dirichlet prior, a tree like one atom
    # `(statistics) -> counts`, floats, a tree like the atoms: given the rows of their clusters,
    # atoms are Dirichlet(alpha + counts).
    counts: Callable[[Statistics], PyTree]


class Missing(NamedTuple):
    """Draws of missing cells, for a family whose statistics are those of complete rows."""

    # `(rows) -> rows`, with `PartialRows` for tables in which rows lack some of their cells
    mark: Callable[[Rows], Rows]
    # `(keys, rows, atoms, labels) -> rows`: complete rows, with their missing cells drawn given the
    # others and the atom of their label, int32 [n]. Each row has a key.
    draw: Callable[[jax.Array, Rows, Atoms, jax.Array], Rows]


def draw_atoms(family: "Family", key: jax.Array, statistics: Statistics) -> Atoms:
    """Draw atoms of a family, which may be a user's, with a standard JAX key."""
    return family.draw(to_jax_key(key), statistics)


def as_floats(prior: PyTree, counts: PyTree) -> PyTree:
    """Return counts in the dtypes of the prior concentrations."""
    return jax.tree.map(lambda a, n: n.astype(a.dtype), prior, counts)


class Family(NamedTuple):
    """A component distribution f(x | theta) with a prior G0 of theta, the base measure of mixtures.

    The functions are pure and can be traced and vmapped. Their hyperparameters are bound to them,
    so that a family is a pytree and new hyperparameters do not cause recompilation. A factor of f
    that does not depend on theta may be omitted, the same one in all three log densities; each
    family documents it.

    Rows without observations have likelihood 1, and statistics of 0 except for their number, if
    that is one of the statistics.

    Rows are an array or a tree of arrays, of tuples and dicts: a list is taken for a table.

    Attributes:
        draw: `(key, statistics) -> atoms`, an exact draw of each atom given the rows of its
            cluster; from G0 if there are none.
        statistics: `(rows, labels, K) -> statistics` of the rows of each cluster, with int32 labels
            [n]; rows with labels outside 0..K-1 are ignored. Additive over rows, exactly so for
            integer statistics.
        log_likelihood: `(rows, atoms) -> log f(x | theta)`, [n, K].
        log_predictive: `(rows) -> log of the integral of f(x | theta) dG0(theta)`, [n].
        log_evidence: `(statistics, given=None) -> log f(rows | given)`, [K]: the probability of the
            rows of each cluster with theta integrated out, given other rows of that cluster by
            their statistics, which may be 0. A factor that the rows alone determine may be omitted
            if others are given: moves compare the same rows. None if it has no closed form.
        check: `(rows) -> None`; raises a ValueError that describes why rows do not fit the family.
            For concrete values, not under `jit`.
        simplex: Moves by simplex kernels, for atoms that are log-probabilities.
        profile: `(statistics, atoms) -> (means, variances)` of the parameters that describe each
            component, given the rows of its cluster: trees like atoms, of readable parameters such
            as rates for log-rates. None means the probabilities of a simplex, or the atoms.
        missing: Draws of missing cells, if `statistics` and `log_evidence` are of complete rows
            only. Likelihoods and predictives of marked rows are those of their observed cells. None
            if rows are complete, or missing cells are simply left out.
        simulate: `(key, atoms, lengths) -> rows`, a complete row drawn from each atom [n], for
            `Fit.sample`; not under `jit`. Lengths, int [n] or None, are numbers of counts for
            families that are given the sum of a row.
    """

    draw: Callable[[jax.Array, Statistics], Atoms]
    statistics: Callable[[Rows, jax.Array, int], Statistics]
    log_likelihood: Callable[[Rows, Atoms], jax.Array]
    log_predictive: Callable[[Rows], jax.Array]
    log_evidence: Callable[..., jax.Array] | None
    check: Callable[[Rows], None]
    simplex: Simplex | None = None
    profile: Callable[[Statistics, Atoms], tuple[PyTree, PyTree]] | None = None
    missing: Missing | None = None
    simulate: Callable[[jax.Array, Atoms, Any], Rows] | None = None


def form_of_atom(family: Family, rows: Rows) -> Atoms:
    """Return the shapes and dtypes of the parameters of one component, leaves [1, ...]."""
    one = jnp.zeros(1, jnp.int32)
    return jax.eval_shape(
        lambda: family.draw(
            jax.random.key(0), family.statistics(fill_means(take(rows, one)), one, 1)
        )
    )


def component(family: Family, statistics: Statistics, atoms: Atoms) -> tuple[PyTree, PyTree]:
    """Return mean and variance of components given the rows of their clusters, [K, ...]."""
    if family.profile is not None:
        return family.profile(statistics, atoms)
    if family.simplex is None:
        return atoms, jax.tree.map(jnp.zeros_like, atoms)
    a = jax.tree.map(jnp.add, family.simplex.alpha, family.simplex.counts(statistics))
    total = jax.tree.map(lambda leaf: jnp.sum(leaf, axis=-1, keepdims=True), a)
    mean = jax.tree.map(jnp.divide, a, total)
    return mean, jax.tree.map(lambda a, p, n: p * _others(a, n) / (n + 1), a, mean, total)


def _others(a: jax.Array, total: jax.Array) -> jax.Array:
    """Return 1 - a / total along the last axis, precise near 0 too."""
    largest = jnp.arange(a.shape[-1]) == jnp.argmax(a, axis=-1, keepdims=True)
    others = jnp.sum(jnp.where(largest, 0, a), axis=-1, keepdims=True)
    return jnp.where(largest, others / total, 1 - a / total)


# Rows of data on the device, for any family: size, selection and checks.

_MOST_ENTRIES = 2**31 - 1 - CHUNK
# XLA avoids copying a host array only if it is aligned to this many bytes.
_ALIGNMENT = 64
_BLOCK = 2**22  # entries of a table that are checked together


class SparseRows(NamedTuple):
    """Rows of counts in compressed form, without padding."""

    words: jax.Array  # category of every entry, int32 [E], each at most once in a row
    counts: jax.Array  # its count, int32 [E]
    starts: jax.Array  # first entry of every row, int32 [n]
    lengths: jax.Array  # number of its entries, int32 [n]

    @property
    def documents(self) -> Documents:
        """The rows as documents whose tokens are the entries."""
        return Documents(self.words, self.starts, self.lengths)


class PartialRows(NamedTuple):
    """A table in which rows lack some of their cells."""

    cells: jax.Array  # NaN where missing, [n, p]; in rows without observations all are
    # Columns of the missing cells of the other rows, ascending, int32 [n, m]; filled up with p.
    missing: jax.Array


class Selected(NamedTuple):
    """A selection of rows that are not copied: many, or several times the same."""

    rows: PyTree
    numbers: jax.Array  # indices of the selected rows, int32 [n]

    @property
    def repeat(self) -> bool:
        """Whether rows come several times for sure: there are more than different ones."""
        return self.numbers.shape[0] > size(self.rows)


def multinomial_rows(counts: Any) -> SparseRows:
    """Return the rows of a table of counts, in its order.

    Args:
        counts: Whole numbers from 0 to 2^24, dense or sparse, [n, V]. Rows may be empty.

    Raises:
        ValueError: There are no rows, or a count is negative, too large or not a whole number.

    Example:
        >>> from simplex_jax.dpm import families
        >>> rows = families.multinomial_rows([[2, 0, 1], [0, 0, 0]])
        >>> rows.words.tolist(), rows.counts.tolist(), rows.lengths.tolist()
        ([0, 2], [2, 1], [2, 0])
    """
    refuse_masked(counts)
    # SciPy sums duplicates and drops zeros in place: copy the caller's arrays.
    table = sp.csr_array(counts, copy=True)
    if table.ndim != 2 or table.shape[0] == 0:
        raise ValueError(f"counts must be a table [n, V] with rows; the shape is {table.shape}")
    table.sum_duplicates()
    table.eliminate_zeros()
    data = table.data
    bad = ~((data >= 0) & (data <= 2**24) & (data == np.floor(data)))
    if bad.any():
        entry = int(np.argmax(bad))
        row = int(np.searchsorted(table.indptr, entry, side="right")) - 1
        raise ValueError(
            f"counts must be whole numbers from 0 to 2^24; row {row}, column "
            f"{table.indices[entry]} has {data[entry]}"
        )
    if table.nnz > _MOST_ENTRIES:
        raise ValueError(f"counts must have at most {_MOST_ENTRIES} entries; they have {table.nnz}")
    words, data = table.indices.astype(np.int32), data.astype(np.int32)
    if table.nnz == 0:  # a dummy entry, because empty arrays do not support gather
        words, data = np.zeros(1, np.int32), np.zeros(1, np.int32)
    return SparseRows(
        jnp.asarray(words),
        jnp.asarray(data),
        jnp.asarray(table.indptr[:-1].astype(np.int32)),
        jnp.asarray(np.diff(table.indptr).astype(np.int32)),
    )


def counts_of(rows: SparseRows, categories: int) -> sp.csr_array:
    """Return rows of counts as a table [n, V]; the inverse of `multinomial_rows`."""
    words, counts, starts, lengths = (np.asarray(leaf) for leaf in rows)
    ends = np.append(0, np.cumsum(lengths))
    entries = np.repeat(starts - ends[:-1], lengths) + np.arange(ends[-1])
    return sp.csr_array((counts[entries], words[entries], ends), (len(starts), categories))


def refuse_masked(rows: Any) -> None:
    """Raise a ValueError if rows have masked values, which `numpy.asarray` would take for data."""
    if np.ma.is_masked(rows):
        raise ValueError(
            "rows have masked values: give an ordinary array, with NaN for missing numbers "
            "(rows.filled(np.nan)) or -1 for missing categories (rows.filled(-1))"
        )


def check_table(rows: ArrayLike, columns: int, kind: Any, name: str) -> np.ndarray:
    """Return a table [n, columns] of numbers of a kind, or raise a ValueError."""
    refuse_masked(rows)
    values = np.asarray(rows)
    if values.ndim != 2 or values.shape[1] != columns or values.shape[0] == 0:
        raise ValueError(
            f"rows must have shape [n, {columns}] with n at least 1; it is {values.shape}"
        )
    if not np.issubdtype(values.dtype, kind):
        raise ValueError(f"rows must be {name}, not {values.dtype}")
    return values


def check(family: Family, rows: PyTree) -> None:
    """Raise a ValueError if rows do not fit the family."""
    family.check(rows.rows if isinstance(rows, Selected) else rows)


def check_numbers(rows: Any, columns: int, dtype: DTypeLike) -> None:
    """Raise a ValueError unless rows are a table of floats whose squares a dtype can represent."""
    values = check_table(rows, columns, np.floating, "floats")
    _, limit = reach(dtype)
    most = np.asarray(limit, np.promote_types(values.dtype, np.float32))  # infinite in float16
    if place := first_bad(values, lambda block: np.abs(block) > most):
        row, column = place
        raise ValueError(
            f"rows[{row}, {column}] is {values[row, column]}: rows must be within {most:.0e} in "
            f"{jnp.dtype(dtype)}, or NaN where a value is missing"
        )


_ROUNDED = 1e-3
"""Largest rounding of rows, in standard deviations of their column: clusters are narrower."""


def check_rounding(rows: np.ndarray) -> None:
    """Raise a ValueError if JAX rounds a column of floats to steps that matter beside its spread.

    This is for rows to learn from: the spread of a few others says nothing.
    """
    dtype = jax.dtypes.canonicalize_dtype(rows.dtype)
    if dtype == rows.dtype:
        return

    # In one reading, as rows may be in a file; about the first block's mean, for exact deviations.
    origin: np.ndarray | None = None
    number = total = squares = errors = np.zeros(rows.shape[1])
    for _, block in blocks(rows):
        present = ~np.isnan(block)
        if origin is None:
            size = np.maximum(present.sum(axis=0), 1)
            origin = block.sum(axis=0, where=present) / size
        from_origin = block - origin
        number = number + present.sum(axis=0)
        total = total + np.nansum(from_origin, axis=0)
        squares = squares + np.nansum(from_origin**2, axis=0)
        errors = errors + np.nansum((block.astype(dtype) - block) ** 2, axis=0)
    number, offset = np.maximum(number, 1), total / np.maximum(number, 1)
    mean = (0 if origin is None else origin) + offset
    sd, error = np.sqrt(np.maximum(squares / number - offset**2, 0)), np.sqrt(errors / number)
    # The deviation of equal numbers, which stay equal, can be a rounding error.
    coarse = (error > _ROUNDED * sd) & (sd > 1e-12 * np.abs(mean))
    if coarse.any():
        column = int(np.argmax(coarse))
        raise ValueError(
            f"column {column} of rows has mean {mean[column]:.6g} and standard deviation "
            f"{sd[column]:.3g}, and {dtype} rounds its numbers by {error[column]:.2g}: subtract a "
            "number near the mean from all of them"
        )


def prepare(family: Family, rows: PyTree) -> PyTree:
    """Return rows on the device in the form that the family's functions expect, checked.

    Raises:
        ValueError: They do not fit the family, or do not fit into memory.
    """
    rows = as_arrays(rows)
    check(family, rows)
    if family.missing is not None and not isinstance(rows, Selected):
        rows = family.missing.mark(rows)
    return on_device(rows)


def as_arrays(rows: PyTree) -> PyTree:
    """Return rows with arrays of NumPy for nested lists, data frames and the like."""
    if type(rows) is tuple and all(np.ndim(leaf) == 0 for leaf in jax.tree.leaves(rows)):
        rows = list(rows)

    def as_array(leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray | jax.Array):
            return leaf
        if not isinstance(leaf, list | int | float) and not hasattr(leaf, "__array__"):
            return leaf
        for part in leaf if isinstance(leaf, list) else ():
            refuse_masked(part)
        try:
            return np.asarray(leaf)
        except ValueError:
            raise ValueError("rows must all have the same number of columns") from None

    return jax.tree.map(as_array, rows, is_leaf=lambda node: isinstance(node, list))


def blocks(values: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the rows of a table block by block, with the index of the first row of each.

    A memory-mapped table may be larger than memory.
    """
    size = max(1, _BLOCK // max(1, values[:1].size))
    for first in range(0, len(values), size):
        yield first, values[first : first + size]


def first_bad(
    values: np.ndarray, bad: Callable[[np.ndarray], np.ndarray]
) -> tuple[int, ...] | None:
    """Return the index of the first bad entry or row of a table; None if there is none.

    `bad` maps rows [b, columns] to a mask of bad entries [b, columns], or of bad rows [b].
    """
    for first, block in blocks(values):
        if (wrong := bad(block)).any():
            row, *rest = (int(place) for place in np.argwhere(wrong)[0])
            return first + row, *rest
    return None


def on_device(rows: PyTree) -> PyTree:
    """Return rows as arrays of JAX.

    A memory-mapped table (`np.load(..., mmap_mode="r")`) stays in its file if the device is a CPU,
    JAX keeps its dtype, and it is aligned to 64 bytes, as in an .npy file. Otherwise it is copied.
    The file must not change as long as the rows are used.

    Raises:
        ValueError: A table has to be copied, and memory is too small.
    """
    return jax.tree.map(_on_device, rows)


def join(parts: Sequence[PyTree]) -> PyTree:
    """Return the rows of several parts in one."""

    def of_leaves(*leaves: Any) -> Any:
        if not isinstance(leaves[0], SparseRows):
            return jnp.concatenate(leaves)
        firsts = np.cumsum([0, *(leaf.words.shape[0] for leaf in leaves)])
        starts = [leaf.starts + first for leaf, first in zip(leaves, firsts, strict=False)]
        words, counts, _, lengths = (jnp.concatenate(each) for each in zip(*leaves, strict=True))
        return SparseRows(words, counts, jnp.concatenate(starts), lengths)

    return jax.tree.map(of_leaves, *parts, is_leaf=lambda leaf: isinstance(leaf, SparseRows))


def _on_device(leaf: Any) -> jax.Array:
    if not isinstance(leaf, np.memmap):
        return jnp.asarray(leaf)
    dtype = jax.dtypes.canonicalize_dtype(leaf.dtype)
    aligned = leaf.flags.c_contiguous and leaf.ctypes.data % _ALIGNMENT == 0
    if jax.default_backend() != "cpu" or leaf.dtype != dtype or not aligned:
        devices.check_memory(
            leaf.size * dtype.itemsize,
            f"on a CPU, rows stay in their file if that is all of an .npy file of {dtype}",
        )
    return jax.device_put(leaf, may_alias=True)


def reach(dtype: DTypeLike) -> tuple[float, float]:
    """Return the smallest and largest magnitude of numbers whose squares keep full precision.

    A square times eps is still a normal number, and a sum of 1 / eps squares is finite.
    """
    info = np.finfo(dtype)
    return float(np.sqrt(info.tiny / info.eps)), float(np.sqrt(info.max * info.eps))


def size(rows: PyTree) -> int:
    """Return the number of rows.

    Raises:
        ValueError: There are none, or leaves differ in length.
    """
    if isinstance(rows, Selected):
        return rows.numbers.shape[0]
    return batches.length(_by_leaf(lambda leaf: leaf, lambda sparse: sparse.starts, rows), "rows")


def width(rows: PyTree) -> int:
    """Return the number of columns of the widest table of rows; 1 if all are sparse."""
    if isinstance(rows, Selected):
        return width(rows.rows)
    widths = _by_leaf(lambda leaf: math.prod(leaf.shape[1:]), lambda sparse: 1, rows)
    return max(1, *jax.tree.leaves(widths))


def _by_leaf(
    dense: Callable[[Any], Any], sparse: Callable[[SparseRows], Any], rows: PyTree
) -> PyTree:
    """Apply one function to the dense leaves of rows, and another to the sparse ones."""
    return jax.tree.map(
        lambda leaf: sparse(leaf) if isinstance(leaf, SparseRows) else dense(leaf),
        rows,
        is_leaf=lambda leaf: isinstance(leaf, SparseRows),
    )


def take(rows: PyTree, ids: jax.Array) -> PyTree:
    """Return the rows with indices `ids`, int32 [b]; ids out of range give rows without data.

    A row without data is NaN in float leaves and -1 in integer leaves.
    """
    if isinstance(rows, Selected):
        chosen = rows.numbers.at[ids].get(mode="fill", fill_value=-1, wrap_negative_indices=False)
        return take(rows.rows, chosen)
    n = size(rows)
    inside = (ids >= 0) & (ids < n)
    place = jnp.clip(ids, 0, n - 1)

    def of_sparse(rows: SparseRows) -> SparseRows:
        lengths = jnp.where(inside, rows.lengths[place], 0)
        return rows._replace(starts=rows.starts[place], lengths=lengths)

    def of_leaf(leaf: jax.Array) -> jax.Array:
        taken = jnp.asarray(leaf[place])
        if jnp.issubdtype(leaf.dtype, jnp.unsignedinteger):
            taken = taken.astype(jnp.int32)
        none = jnp.nan if jnp.issubdtype(taken.dtype, jnp.floating) else -1
        present = inside.reshape(inside.shape + (1,) * (leaf.ndim - 1))
        return jnp.where(present, taken, jnp.asarray(none, taken.dtype))

    return _by_leaf(of_leaf, of_sparse, rows)


# Values of missing cells, of rows whose family draws them: an array [n, m] for each `PartialRows`.


def _parts(rows: PyTree) -> tuple[list[Any], Any]:
    """Return the tables of rows, and how they go together."""
    whole = (PartialRows, SparseRows)
    return jax.tree.flatten(rows, is_leaf=lambda leaf: isinstance(leaf, whole))


def lack_cells(rows: PyTree) -> bool:
    """Tell whether there are `PartialRows`."""
    return any(isinstance(part, PartialRows) for part in _parts(rows)[0])


def lacking(rows: PyTree) -> jax.Array:
    """Return which rows lack some of their cells, bool [n]."""
    each = [
        jnp.any(_named(part), axis=1) for part in _parts(rows)[0] if isinstance(part, PartialRows)
    ]
    return jnp.any(jnp.stack(each), axis=0)


def _named(rows: PartialRows) -> jax.Array:
    """Return which places of `missing` have a column, bool [n, m]."""
    return (rows.missing >= 0) & (rows.missing < rows.cells.shape[1])


def fill(rows: PyTree, values: Iterable[jax.Array]) -> PyTree:
    """Return complete rows: plain tables, with values in their missing cells."""
    parts, structure = _parts(rows)
    each = iter(values)

    def of_part(part: Any) -> Any:
        if not isinstance(part, PartialRows):
            return part
        n, p = part.cells.shape
        columns = jnp.where(part.missing < 0, p, part.missing)
        return part.cells.at[jnp.arange(n)[:, None], columns].set(next(each), mode="drop")

    return structure.unflatten([of_part(part) for part in parts])


def fill_means(rows: PyTree) -> PyTree:
    """Return complete rows, with the means of their columns in missing cells."""
    values = []
    for part in _parts(rows)[0]:
        if isinstance(part, PartialRows):
            observed = ~jnp.isnan(part.cells)
            total = jnp.sum(jnp.where(observed, part.cells, 0), axis=0)
            means = total / jnp.maximum(jnp.sum(observed, axis=0), 1)
            values.append(means.at[part.missing].get(mode="clip"))
    return fill(rows, values)


def missing_values(rows: PyTree, complete: PyTree) -> tuple[jax.Array, ...]:
    """Return the values that complete rows have in the missing cells of rows, 0 in other places.

    A row without observations stays NaN, and has no missing cells: any label explains it.
    """

    def values_of(part: PartialRows, values: jax.Array) -> jax.Array:
        places = jnp.clip(part.missing, 0, values.shape[1] - 1)
        return jnp.where(_named(part), jnp.take_along_axis(values, places, axis=1), 0)

    parts, structure = _parts(rows)
    pairs = zip(parts, structure.flatten_up_to(complete), strict=True)
    return tuple(values_of(*pair) for pair in pairs if isinstance(pair[0], PartialRows))


# Sums of features of rows by the label of the row.

# Number of feature values in memory up to which there are not more of them than sums.
_ROOM = 2**20

# Rows per sum, and bits of the grid up to the largest feature: sums need fewer than 24 bits.
_PIECE = 4096
_GRID_BITS = 10

# The same of products of rows: up to 2^14 units each.
_PRODUCTS, _LEAST_PRODUCTS = 1024, 32
_PRODUCT_BITS = 7


def sums(
    features: Callable[[jax.Array], jax.Array],
    width: int,
    rows: jax.Array,
    labels: jax.Array,
    num_clusters: int,
) -> jax.Array:
    """Return the sums of the rows' features in each cluster, [K, ...], accurate to rounding.

    Naive float32 sums of similar features have systematic errors: 3e-6 after 400 rows, as much as
    directions about one mean vary. So each feature is split into a multiple of a grid, whose sums
    are exact, and a small remainder, and sums over blocks of rows are added with compensation. The
    features of rows [m, p] are [m, ...], `width` numbers per row; rows with labels [n] outside
    0..K-1 are ignored.
    """
    n, p = rows.shape
    # As many feature values as there are sums: each piece costs several passes over these.
    piece = max(1, min(n, _PIECE, max(_ROOM // width, num_clusters)))
    pieces = -(-n // piece)
    # A negative index would count from the end.
    labels = jnp.where(labels < 0, num_clusters, labels)
    rows = jnp.pad(rows, ((0, pieces * piece - n), (0, 0)))
    labels = jnp.pad(labels, (0, pieces * piece - n), constant_values=num_clusters)

    def by_label(values: jax.Array, where: jax.Array) -> jax.Array:
        none = jnp.zeros((num_clusters, *values.shape[1:]), values.dtype)
        # Without the barrier XLA merges the sum of two scatters into one scatter onto the other.
        return lax.optimization_barrier(none.at[where].add(values, mode="drop"))

    def add(carry, part):
        total, lost = carry
        some, where = part
        values = features(some)
        # A NaN must affect only the sums of its own cluster.
        peak = jnp.max(jnp.where(jnp.isfinite(values), jnp.abs(values), 0), axis=0)
        grid = _power_of_two(peak, _GRID_BITS)
        coarse = jnp.round(values / grid) * grid
        added = by_label(coarse, where)
        new = total + added
        # The rounding error of the sum (Knuth's two-sum).
        back = new - total
        lost = lost + ((total - (new - back)) + (added - back)) + by_label(values - coarse, where)
        return (new, lost), None

    shape = jax.eval_shape(features, jax.ShapeDtypeStruct((1, p), rows.dtype))
    none = jnp.zeros((num_clusters, *shape.shape[1:]), shape.dtype)
    parts = rows.reshape(pieces, piece, p), labels.reshape(pieces, piece)
    total, lost = lax.scan(add, (none, none), parts)[0]
    return total + lost


def products(rows: jax.Array, labels: jax.Array, num_clusters: int) -> jax.Array:
    """Return the sums of y y' over the rows y of each cluster, [K, p, p], accurate to rounding.

    As `sums`, without the products of single rows, by products of matrices: of rows [n, p] in order
    of their clusters, in pieces of one cluster each. Multiples of the grid have few bits, so that
    the sums of their products are exact.
    """
    n, p = rows.shape
    step = max(1, min(n, _PRODUCTS, max(_LEAST_PRODUCTS, n // num_clusters)))
    labels = jnp.where((labels < 0) | (labels > num_clusters), num_clusters, labels)
    sizes = jnp.zeros(num_clusters, jnp.int32).at[labels].add(1, mode="drop")
    ends, last = jnp.cumsum(sizes), jnp.cumsum(-(-sizes // step))
    order = jnp.pad(jnp.argsort(labels).astype(jnp.int32), (0, step), constant_values=n)

    def piece(i: jax.Array, sums: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        total, lost = sums
        k = jnp.sum(last <= i)
        first = ends[k] - sizes[k] + (i - jnp.where(k > 0, last[k - 1], 0)) * step
        ids = lax.dynamic_slice(order, (first,), (step,))
        inside = first + lax.iota(jnp.int32, step) < ends[k]
        values = jnp.where(inside[:, None], rows.at[ids].get(mode="clip"), 0)
        peak = jnp.max(jnp.where(jnp.isfinite(values), jnp.abs(values), 0), axis=0)
        grid = _power_of_two(peak, _PRODUCT_BITS)
        coarse = jnp.round(values / grid) * grid
        rest = values - coarse
        added = jnp.matmul(coarse.T, coarse, precision="highest")
        half = jnp.matmul(rest.T, coarse + rest / 2, precision="highest")
        old = total[k]
        new = lax.optimization_barrier(old + added)
        back = lax.optimization_barrier(new - old)
        error = (old - (new - back)) + (added - back)
        return total.at[k].set(new), lost.at[k].add(error + half + half.T)

    none = jnp.zeros((num_clusters, p, p), rows.dtype)
    total, lost = lax.fori_loop(0, last[-1], piece, (none, none))
    return total + lost


def _power_of_two(peak: jax.Array, bits: int) -> jax.Array:
    """Return the grid for features of at most `peak`, at least 0: exact powers of two.

    By the bits of the exponent: `exp2` may be inexact in compiled code, and `frexp` and `ldexp` are
    far longer programs. The least power is the smallest normal number.
    """
    mantissa = jnp.finfo(peak.dtype).nmant
    words = lax.bitcast_convert_type(peak, jnp.dtype(f"int{8 * peak.dtype.itemsize}"))
    exponent = jnp.maximum((words >> mantissa) + 1 - bits, 1)
    return lax.bitcast_convert_type(exponent << mantissa, peak.dtype)


def counts(present: jax.Array, labels: jax.Array, num_clusters: int) -> jax.Array:
    """Return the number of present rows in each cluster, int32 [K]; `present` is bool [n].

    For cells, bool [n, p], it counts each column, [K, p].
    """
    labels = jnp.where(labels < 0, num_clusters, labels)
    none = jnp.zeros((num_clusters, *present.shape[1:]), jnp.int32)
    return none.at[labels].add(present.astype(jnp.int32), mode="drop")

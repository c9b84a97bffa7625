"""Rows of data on the device, for any family: size, selection and checks."""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax.typing import ArrayLike, DTypeLike

from simplex_jax._src import batches
from simplex_jax._src.base import PyTree
from simplex_jax._src.corpus.device import CHUNK, Documents
from simplex_jax._src.models.dpm.families.family import Family
from simplex_jax._src.runtime import devices

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


class Selected(NamedTuple):
    """A selection of rows from data too large to copy."""

    rows: PyTree
    numbers: jax.Array  # indices of the selected rows, int32 [n]


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

    Example:
        >>> import tempfile, numpy as np
        >>> from simplex_jax.dpm import families
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(f"{folder}/rows.npy", np.zeros((100, 4), np.float32))
        ...     rows = families.on_device(np.load(f"{folder}/rows.npy", mmap_mode="r"))
        >>> rows.shape
        (100, 4)
    """
    return jax.tree.map(_on_device, rows)


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

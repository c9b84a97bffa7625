"""Documents as unit vectors, such as tf-idf or embeddings, from arrays with every check done."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from simplex_jax.corpus import corpus as counts_of
from simplex_jax.corpus.corpus import distinct_words, error_at, printable
from simplex_jax.corpus.vocabulary import numbered

TOLERANCE = 1e-3
"""How far a length may be from 1: numbers printed with four digits are not refused."""

_REMEDY = "give --normalise (normalise=True) if only directions matter"


class UnitVectors(NamedTuple):
    """Unit vectors of documents, with the words of the columns and the document names.

    Attributes:
        values: `scipy.sparse.csr_array` of shape [D, V], float32, every row of length 1; indices
            sorted, no entry stored twice, no stored zeros. Entries may be negative.
        vocabulary: V distinct non-empty words, one a column.
        names: D document names, one a row (not necessarily distinct).
    """

    values: sp.csr_array
    vocabulary: tuple[str, ...]
    names: tuple[str, ...]


def from_array(
    values: npt.ArrayLike | sp.sparray | sp.spmatrix,
    vocabulary: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    *,
    normalise: bool = False,
    source: str = "vectors",
) -> UnitVectors:
    """Make unit vectors of an array, checking every row.

    Lengths are made 1 to rounding. Entries stored twice in a sparse array are summed.

    Args:
        values: [D, V], documents in rows: anything `numpy.asarray` takes, or any SciPy sparse
            matrix or array. Finite numbers, rows of length 1.
        vocabulary: V distinct non-empty words; `w0, w1, ...` when left out.
        names: D document names; `0, 1, ...` when left out.
        normalise: take rows of any length but 0.
        source: what the messages call the vectors, a file name for example.

    Returns:
        The unit vectors.

    Raises:
        CorpusError: `values` is not two-dimensional or not numeric, or a row of it is zero, not
            finite or not of length 1; `vocabulary` or `names` does not fit.

    Example:
        >>> found = from_array([[3.0, -4.0], [0.0, 2.0]], ["up", "down"], normalise=True)
        >>> found.values.toarray().round(3).tolist(), found.names
        ([[0.6000000238418579, -0.800000011920929], [0.0, 1.0]], ('0', '1'))
        >>> from_array([[0.0, 2.0]])
        Traceback (most recent call last):
        simplex_jax.corpus.corpus.CorpusError: vectors: row 0 (counted from 0) has length 2, not \
1; give --normalise (normalise=True) if only directions matter
    """
    table = _table(values, source)
    documents, columns = table.shape
    words = vocabulary if vocabulary is not None else [f"w{i}" for i in range(columns)]
    words = distinct_words(words, source)
    if len(words) != columns:
        raise error_at(
            source, f"{len(words)} words for {columns} columns", "give the words of these vectors"
        )
    labels = numbered(documents, 0) if names is None else tuple(map(str, names))
    if len(labels) != documents:
        raise error_at(source, f"{len(labels)} names for {documents} rows", "name every row")
    lengths = np.sqrt(np.add.reduceat(np.append(table.data**2, 0), table.indptr[:-1]))
    lengths[np.diff(table.indptr) == 0] = 0
    problem = wrong_length(lengths, normalise=normalise)
    if problem is not None:
        row, what, remedy = problem
        raise error_at(source, f"row {row} (counted from 0) {what}", remedy)
    table.data /= np.repeat(lengths, np.diff(table.indptr))
    return UnitVectors(table.astype(np.float32), words, labels)


def wrong_length(lengths: np.ndarray, *, normalise: bool) -> tuple[int, str, str] | None:
    """Return the first row whose length will not do, what is wrong and what to do; None if all do.

    Example:
        >>> wrong_length(np.array([1.0, 0.0]), normalise=True)
        (1, 'is the zero vector, which has no direction', 'leave the document out')
    """
    usable = (lengths > 0) & np.isfinite(lengths)
    if not normalise:
        usable &= np.abs(lengths - 1) <= TOLERANCE
    if usable.all():
        return None
    row = int(np.argmin(usable))
    if lengths[row] == 0:
        return row, "is the zero vector, which has no direction", "leave the document out"
    if not np.isfinite(lengths[row]):
        return row, "is not finite, or too long for its length to be", "correct the numbers"
    return row, f"has length {lengths[row]:.6g}, not 1", _REMEDY


def _table(values: Any, source: str) -> sp.csr_array:
    """`values` as a float64 array in canonical form, two-dimensional and finite."""
    remedy = "give numbers, one document a row and one word a column"
    try:
        if isinstance(values, sp.csr_array | sp.csr_matrix | sp.csc_array | sp.csc_matrix):
            values.check_format(full_check=True)
        array = values if sp.issparse(values) else np.asarray(values)
        if array.ndim != 2 or min(array.shape) < 1 or array.dtype.kind not in "biuf":
            raise error_at(source, f"an array {array.dtype} {array.shape}", remedy)
        table = sp.csr_array(array.astype(np.float64))
    except (ValueError, TypeError) as error:
        if isinstance(error, counts_of.CorpusError):
            raise
        raise error_at(source, f"not a valid array ({printable(error)})", remedy) from None
    if table.shape[1] > counts_of.MAX_WORDS:
        raise error_at(source, f"{table.shape[1]} columns", f"keep at most {counts_of.MAX_WORDS}")
    table.sum_duplicates()
    table.eliminate_zeros()
    bad = ~np.isfinite(table.data)
    if bad.any():
        first = int(np.argmax(bad))
        row = int(np.searchsorted(table.indptr, first, side="right")) - 1
        raise error_at(
            source,
            f"row {row}, column {table.indices[first]} (counted from 0) is {table.data[first]}",
            "give finite numbers",
        )
    return table


def select(vectors: UnitVectors, rows: np.ndarray) -> UnitVectors:
    """Return some documents, by number or by a mask."""
    numbers = np.flatnonzero(rows) if rows.dtype == bool else rows
    names = tuple(vectors.names[row] for row in numbers)
    return UnitVectors(vectors.values[numbers], vectors.vocabulary, names)


def digest(vectors: UnitVectors) -> str:
    """SHA-256 over vectors and vocabulary, to recognise them; the names do not enter.

    Returns:
        64 hexadecimal digits, the same on every machine.

    Example:
        >>> digest(from_array([[1.0, 0.0]]))[:8]
        '6edb0b1c'
    """
    values = vectors.values
    dtypes = ("<i8", "<i4", "<f4")
    arrays = zip((values.indptr, values.indices, values.data), dtypes, strict=True)
    parts = (np.ascontiguousarray(array, dtype) for array, dtype in arrays)
    return counts_of.digest_parts(values.shape, parts, vectors.vocabulary)

"""Documents as unit vectors, such as tf-idf or embeddings, from validated arrays."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from simplex_jax._src.corpus.corpus import digest_rows, entries_of, error_at, labels_of

TOLERANCE = 1e-3
"""Largest deviation of a length from 1; numbers printed with four digits pass."""

_REMEDY = (
    "give --normalise (normalise=True), or divide rows by their lengths, if only directions matter"
)


class UnitVectors(NamedTuple):
    """Unit vectors of documents, with the words of the columns and the document names."""

    # `scipy.sparse.csr_array` of shape [D, V], float32, every row of length 1; indices sorted, no
    # duplicates, no stored zeros. Entries may be negative.
    values: sp.csr_array
    vocabulary: tuple[str, ...]  # V distinct non-empty words, one per column
    names: tuple[str, ...]  # D document names, one per row (not necessarily distinct)


def from_array(
    values: npt.ArrayLike | sp.sparray | sp.spmatrix,
    vocabulary: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    *,
    normalise: bool = False,
    source: str = "vectors",
) -> UnitVectors:
    """Make unit vectors from an array, checking every row.

    Lengths are made 1 up to rounding. Duplicate entries of a sparse array are summed.

    Args:
        values: [D, V], documents in rows: anything `numpy.asarray` accepts, a data frame, or any
            SciPy sparse matrix or array. Finite numbers, rows of length 1.
        vocabulary: V distinct non-empty words; by default the column names of a data frame if they
            are texts, otherwise `w0, w1, ...`.
        names: D document names; by default the index of a data frame, otherwise `0, 1, ...`.
        normalise: Accept rows of any length but 0.
        source: Name of the vectors in error messages, such as a file name.

    Returns:
        The unit vectors.

    Raises:
        CorpusError: `values` is not two-dimensional or not numeric; a row is zero, not finite or
            not of length 1; or `vocabulary` or `names` does not fit.

    Example:
        >>> vectors = from_array([[3.0, -4.0], [0.0, 2.0]], ["up", "down"], normalise=True)
        >>> vectors.values.toarray().round(3).tolist(), vectors.names
        ([[0.6000000238418579, -0.800000011920929], [0.0, 1.0]], ('0', '1'))
        >>> from_array([[0.0, 2.0]])
        Traceback (most recent call last):
        simplex_jax.errors.CorpusError: vectors: row 0 (counted from 0) has length 2, not \
1; give --normalise (normalise=True), or divide rows by their lengths, if only directions matter
    """
    table = sp.csr_array(entries_of(values, source, "numbers").astype(np.float64))
    words, labels = labels_of(values, table.shape, vocabulary, names, source)
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
    lengths = np.sqrt(np.add.reduceat(np.append(table.data**2, 0), table.indptr[:-1]))
    lengths[np.diff(table.indptr) == 0] = 0
    problem = wrong_length(lengths, normalise=normalise)
    if problem is not None:
        row, what, remedy = problem
        raise error_at(source, f"row {row} (counted from 0) {what}", remedy)
    table.data /= np.repeat(lengths, np.diff(table.indptr))
    return UnitVectors(table.astype(np.float32), words, labels)


def wrong_length(lengths: np.ndarray, *, normalise: bool) -> tuple[int, str, str] | None:
    """Return the first row with a bad length, the problem and a remedy; None if all are good."""
    usable = (lengths > 0) & np.isfinite(lengths)
    if not normalise:
        usable &= np.abs(lengths - 1) <= TOLERANCE
    if usable.all():
        return None
    row = int(np.argmin(usable))
    if lengths[row] == 0:
        return row, "is the zero vector, which has no direction", "leave the document out"
    if not np.isfinite(lengths[row]):
        return row, "is not finite, or its length overflows", "correct the numbers"
    return row, f"has length {lengths[row]:.6g}, not 1", _REMEDY


def select(vectors: UnitVectors, rows: np.ndarray) -> UnitVectors:
    """Select documents by number or by a mask."""
    numbers = np.flatnonzero(rows) if rows.dtype == bool else rows
    names = tuple(vectors.names[row] for row in numbers)
    return UnitVectors(vectors.values[numbers], vectors.vocabulary, names)


def digest(vectors: UnitVectors) -> str:
    """Return the SHA-256 of vectors and vocabulary, but not names, as 64 hex digits.

    Example:
        >>> digest(from_array([[1.0, 0.0]]))[:8]
        '6edb0b1c'
    """
    return digest_rows(vectors.values, "<f4", vectors.vocabulary)

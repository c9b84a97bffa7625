"""Documents as unit vectors, such as tf-idf or embeddings, from validated arrays."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from simplex_jax._src.corpus.corpus import Corpus, digest_rows, entries_of, error_at, labels_of

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
        vocabulary: V distinct non-empty words; by default the column names of a data frame unless
            they count from 0, otherwise `w0, w1, ...`.
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


# Word counts as tf-idf unit vectors, with scikit-learn's `TfidfTransformer`.

IDF = ("log", "smooth")
"""Names of the inverse document frequencies of `idf_weights`."""


class Weighted(NamedTuple):
    """Documents as tf-idf vectors."""

    vectors: UnitVectors  # documents that have a direction
    rows: np.ndarray  # their numbers in the corpus, int64 [D']


def cut(
    corpus: Corpus, *, min_df: int = 1, max_df: float = 1.0, max_vocabulary: int | None = None
) -> Corpus:
    """Keep the most frequent of the words whose document frequency is in a range.

    Args:
        corpus: D documents, all of which stay.
        min_df: Smallest number of documents with the word.
        max_df: Largest share of documents with the word, 0..1.
        max_vocabulary: Number of words to keep, those in the most documents; None for all.

    Raises:
        CorpusError: No word is left.

    Example:
        >>> from simplex_jax.corpus import from_counts
        >>> counts = from_counts([[1, 1, 0, 2], [1, 0, 1, 0], [2, 0, 1, 0]], ["a", "b", "c", "d"])
        >>> cut(counts, max_df=0.7, max_vocabulary=2).vocabulary
        ('b', 'c')
    """
    frequency = _document_frequency(corpus)
    fits = (frequency >= min_df) & (frequency <= max_df * len(corpus.names)) & (frequency > 0)
    words = np.flatnonzero(fits)
    words = words[np.argsort(-frequency[words], kind="stable")][:max_vocabulary]
    if not words.size:
        raise error_at(
            "corpus",
            f"no word is in {min_df} documents or more and in at most {100 * max_df:g}% of them",
            "lower --min-df (min_df) or raise --max-df (max_df)",
        )
    words.sort()
    vocabulary = tuple(corpus.vocabulary[word] for word in words)
    return Corpus(corpus.counts[:, words], vocabulary, corpus.names, corpus.excerpts)


def idf_weights(corpus: Corpus, idf: str = "log") -> np.ndarray:
    """Return the inverse document frequency of every word.

    Args:
        corpus: D documents.
        idf: "log" for log(D / (1 + df)), from the supplement of Liu, Zhu and Song (2016); a word in
            all documents gets 0 instead of a negative weight. "smooth" for scikit-learn's
            log((1 + D) / (1 + df)) + 1. The default is "log": the 1 in "smooth" gives ubiquitous
            words a large part of every vector, and a model of directions wastes topics on them.

    Returns:
        float64 [V], none negative.

    Raises:
        ValueError: `idf` is unknown.

    Example:
        >>> from simplex_jax.corpus import from_counts
        >>> corpus = from_counts([[1, 1], [0, 1], [0, 1], [0, 1]])
        >>> idf_weights(corpus).round(3).tolist(), idf_weights(corpus, "smooth").round(3).tolist()
        ([0.693, 0.0], [1.916, 1.0])
    """
    if idf not in IDF:
        raise ValueError(f"idf must be one of {', '.join(IDF)}; it is {idf!r}")
    documents, frequency = len(corpus.names), _document_frequency(corpus)
    if idf == "smooth":
        return np.log((1 + documents) / (1 + frequency)) + 1
    return np.maximum(np.log(documents / (1 + frequency)), 0)


def tfidf(corpus: Corpus, idf: np.ndarray) -> Weighted:
    """Weight the counts of documents by `idf` and normalise them.

    Args:
        corpus: D documents over V words.
        idf: Weights of the words, float [V], none negative, such as from `idf_weights`.

    Returns:
        The vectors, and the numbers of their documents: those without words, or with zero weights
        only, have none.

    Raises:
        CorpusError: No document has a direction.

    Example:
        >>> from simplex_jax.corpus import from_counts
        >>> corpus = from_counts([[3, 2], [0, 0], [0, 1]], names=["a", "empty", "b"])
        >>> weighted = tfidf(corpus, np.array([1.0, 2.0]))
        >>> weighted.vectors.values.toarray().round(2).tolist(), weighted.rows.tolist()
        ([[0.6000000238418579, 0.800000011920929], [0.0, 1.0]], [0, 2])
    """
    # What scikit-learn's TfidfTransformer does, which takes half a second to import.
    table = sp.csr_array(corpus.counts, dtype=np.float64, copy=True)
    table.data *= np.asarray(idf, np.float64)[table.indices]
    table.eliminate_zeros()
    table.sort_indices()
    of_entry = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
    table.data /= np.sqrt(np.bincount(of_entry, table.data**2, minlength=table.shape[0]))[of_entry]
    filled = np.diff(table.indptr) > 0
    if not filled.any():
        raise error_at(
            "corpus",
            "every tf-idf vector is zero: the words are in all documents, or in all but one",
            "give more documents, or weights by the rule 'smooth' (--idf smooth)",
        )
    rows = np.flatnonzero(filled)
    names = tuple(corpus.names[row] for row in rows)
    weighted = UnitVectors(table[rows].astype(np.float32), corpus.vocabulary, names)
    return Weighted(weighted, rows)


def _document_frequency(corpus: Corpus) -> np.ndarray:
    return np.bincount(corpus.counts.indices, minlength=corpus.counts.shape[1])

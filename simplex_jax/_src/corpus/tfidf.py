"""Word counts as tf-idf unit vectors, with scikit-learn's `TfidfTransformer`."""

from typing import NamedTuple

import numpy as np

from simplex_jax._src.corpus.corpus import Corpus, error_at
from simplex_jax._src.corpus.vectors import UnitVectors
from simplex_jax._src.extras import needed

__all__ = ["cut", "vectors"]

IDF = ("log", "smooth")
"""Names of the inverse document frequencies of `weights`."""


class Weighted(NamedTuple):
    """Documents as tf-idf vectors."""

    vectors: UnitVectors  # documents that have a direction
    rows: np.ndarray  # their numbers in the corpus, int64 [D']
    aside: np.ndarray  # numbers of the others, without words or with zero weights only


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
    return Corpus(corpus.counts[:, words], vocabulary, corpus.names)


def weights(corpus: Corpus, idf: str = "log") -> np.ndarray:
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
        >>> weights(corpus).round(3).tolist(), weights(corpus, "smooth").round(3).tolist()
        ([0.693, 0.0], [1.916, 1.0])
    """
    if idf not in IDF:
        raise ValueError(f"idf must be one of {', '.join(IDF)}; it is {idf!r}")
    if idf == "smooth":
        with needed("tf-idf"):
            from sklearn.feature_extraction.text import TfidfTransformer  # slow to import

        return TfidfTransformer(smooth_idf=True).fit(corpus.counts).idf_
    return np.maximum(np.log(len(corpus.names) / (1 + _document_frequency(corpus))), 0)


def vectors(corpus: Corpus, idf: np.ndarray) -> Weighted:
    """Weight the counts of documents by `idf` and normalise them.

    Args:
        corpus: D documents over V words.
        idf: Weights of the words, float [V], none negative, such as from `weights`.

    Returns:
        The vectors, and the documents without one, which are set aside.

    Raises:
        CorpusError: No document has a direction.

    Example:
        >>> from simplex_jax.corpus import from_counts
        >>> corpus = from_counts([[3, 2], [0, 0], [0, 1]], names=["a", "empty", "b"])
        >>> weighted = vectors(corpus, np.array([1.0, 2.0]))
        >>> weighted.vectors.values.toarray().round(2).tolist(), weighted.aside.tolist()
        ([[0.6000000238418579, 0.800000011920929], [0.0, 1.0]], [1])
    """
    with needed("tf-idf"):
        from sklearn.feature_extraction.text import TfidfTransformer  # slow to import

    transformer = TfidfTransformer(norm="l2")
    transformer.idf_ = np.asarray(idf, np.float64)
    table = transformer.transform(corpus.counts.astype(np.float64)).tocsr()
    table.eliminate_zeros()
    table.sort_indices()
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
    return Weighted(weighted, rows, np.flatnonzero(~filled))


def _document_frequency(corpus: Corpus) -> np.ndarray:
    return np.bincount(corpus.counts.indices, minlength=corpus.counts.shape[1])

"""Mapping documents to the vocabulary of a model."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus.corpus import (
    Corpus,
    EmptyCorpusError,
    distinct_words,
    empty_corpus,
    error_at,
    numbered_words,
    printable,
)
from simplex_jax._src.corpus.vectors import UnitVectors
from simplex_jax._src.corpus.vocabulary import columns_of, warn_of_foreign


class Mapped(NamedTuple):
    """Documents over another vocabulary."""

    corpus: Corpus  # all documents, empty without a word of the vocabulary
    unknown: int  # tokens left out because their word is not in the vocabulary


def to_vocabulary(
    corpus: Corpus, vocabulary: Sequence[str], *, source: str = "documents"
) -> Mapped:
    """Map documents to a vocabulary, word by word, and leave out other words.

    Accented letters may be one character or several. A document without a word of the vocabulary
    is empty; a warning says so if none of many tokens is one.

    Args:
        corpus: D documents.
        vocabulary: V distinct words, in the order of the columns of the result.
        source: Name of the documents in error messages, such as a file name.

    Returns:
        The documents with counts [D, V], and the number of tokens left out.

    Raises:
        CorpusError: The columns of the documents have no names, unlike those of the vocabulary, or
            the vocabulary has an empty or repeated word.

    Example:
        >>> from simplex_jax.corpus import from_counts
        >>> trees = from_counts([[3, 1, 2], [0, 4, 0]], ["oak", "elm", "ash"])
        >>> mapped = to_vocabulary(trees, ["ash", "oak", "fir"])
        >>> mapped.corpus.counts.toarray().tolist(), mapped.unknown
        ([[2, 3, 0], [0, 0, 0]], 5)
    """
    words = distinct_words(vocabulary, "the vocabulary")
    if words == corpus.vocabulary:
        return Mapped(corpus, 0)
    columns = np.array(
        [-1 if column is None else column for column in map(columns_of(words), corpus.vocabulary)]
    )
    shared = np.flatnonzero(columns >= 0)
    entries = sp.coo_array(corpus.counts[:, shared])
    tokens = int(corpus.counts.sum(dtype=np.int64))
    if not entries.nnz and tokens:
        if corpus.vocabulary == numbered_words(len(corpus.vocabulary)):
            raise error_at(
                source,
                f"its {len(columns):,} columns have no names, and the model has words, whose first "
                f"one is {printable(words[0])!r}",
                "name its columns as in the fit (--vocab, vocabulary)",
            )
        remedy = "check its language, and that its columns are named as in the fit"
        warn_of_foreign(tokens, source, remedy)
    rows, places = entries.coords
    counts = sp.csr_array(
        (entries.data, (rows, columns[shared][places])), shape=(len(corpus.names), len(words))
    )
    counts.sort_indices()
    mapped = int(counts.sum(dtype=np.int64))
    return Mapped(Corpus(counts, words, corpus.names), tokens - mapped)


def even_empty(vocabulary: Sequence[str], read: Callable[[], Corpus]) -> Corpus:
    """Return the documents that `read` returns, or empty ones if they have no word at all."""
    try:
        return read()
    except EmptyCorpusError as error:
        return empty_corpus(vocabulary, error.names)


def same_words(
    vectors: UnitVectors, vocabulary: Sequence[str], *, source: str = "vectors"
) -> UnitVectors:
    """Check that unit vectors have a given vocabulary; they cannot be mapped word by word.

    The default words `w0, w1, ...` match any vocabulary of their length.

    Args:
        vectors: D documents.
        vocabulary: V words.
        source: Name of the vectors in error messages.

    Returns:
        The same vectors with this vocabulary.

    Raises:
        CorpusError: The words differ, or their order does.

    Example:
        >>> from simplex_jax._src.corpus.vectors import from_array
        >>> same_words(from_array([[0.6, 0.8]]), ["ash", "oak"]).vocabulary
        ('ash', 'oak')
    """
    words, unnamed = vectors.vocabulary, numbered_words(len(vocabulary))
    if words not in (tuple(vocabulary), unnamed):
        raise error_at(
            source,
            f"its {len(words)} words are not the {len(vocabulary)} of the model, or not in order",
            "give vectors over the vocabulary.txt of the model",
        )
    return vectors._replace(vocabulary=tuple(vocabulary))

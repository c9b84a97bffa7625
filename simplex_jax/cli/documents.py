"""New documents for a fitted model: read, and put to the words that it knows."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax.cli import options
from simplex_jax.corpus import Corpus
from simplex_jax.topics.saved import Model


class Mapped(NamedTuple):
    """Documents over the vocabulary of a model.

    Attributes:
        corpus: The documents; those without a known word are empty.
        unknown: Tokens that were left out because the model does not know their word.
    """

    corpus: Corpus
    unknown: int


def read(model: Model, path: Path, reading: dict[str, Any]) -> Mapped:
    """Read documents as the corpus of a model was read, and keep the words of the model.

    Args:
        model: The model.
        path: The documents.
        reading: The options of `options.FILE_OPTIONS`.

    Raises:
        ValueError: The documents cannot be read, or no word of them is known.
    """
    job = model.config.get("job")
    stop_words = job["reading"].get("stop_words") if isinstance(job, dict) else None
    return read_as(model.vocabulary, stop_words, path, reading)


def read_as(
    vocabulary: tuple[str, ...], stop_words: str | None, path: Path, reading: dict[str, Any]
) -> Mapped:
    """Read documents, every word of them however rare, and keep the words of a vocabulary.

    Args:
        vocabulary: The words of a model, which decides which are kept.
        stop_words: As the corpus of the model was read; None for "english".
        path: The documents.
        reading: The options of `options.FILE_OPTIONS`; others are passed over.

    Raises:
        ValueError: The documents cannot be read, or no word of them is known.
    """
    text = {
        "stop_words": stop_words or "english",
        "min_df": 1,
        "max_df": 1.0,
        "max_vocabulary": None,
    }
    return put(options.read(path, reading | text), vocabulary, str(path))


def put(corpus: Corpus, vocabulary: tuple[str, ...], source: str) -> Mapped:
    """Put documents to another vocabulary, word by word.

    Args:
        corpus: The documents.
        vocabulary: The words to keep, in their order.
        source: What the message calls the documents.

    Raises:
        ValueError: No word of the documents is among them.

    Example:
        >>> from simplex_jax.corpus import from_counts
        >>> found = put(from_counts([[3, 1, 2]], ["oak", "elm", "ash"]), ("ash", "oak"), "trees")
        >>> found.corpus.counts.toarray().tolist(), found.unknown
        ([[2, 3]], 1)
    """
    places = {word: place for place, word in enumerate(vocabulary)}
    columns = np.array([places.get(word, -1) for word in corpus.vocabulary])
    known = np.flatnonzero(columns >= 0)
    entries = sp.coo_array(corpus.counts[:, known])
    tokens = int(corpus.counts.sum())
    if not entries.nnz:
        raise ValueError(
            f"{source}: none of its {tokens:,} tokens is a word of the model; name the words of "
            "its columns by --vocab, or check that it is in the model's language"
        )
    rows, places_of = entries.coords
    counts = sp.csr_array(
        (entries.data, (rows, columns[known][places_of])),
        shape=(len(corpus.names), len(vocabulary)),
    )
    counts.sort_indices()
    mapped = Corpus(counts, vocabulary, corpus.names)
    return Mapped(mapped, tokens - int(counts.sum()))


def described(mapped: Mapped) -> str:
    """Say how much of the documents the model knows."""
    counts = mapped.corpus.counts
    tokens = int(counts.sum())
    empty = int((np.diff(counts.indptr) == 0).sum())
    total = tokens + mapped.unknown
    return (
        f"{counts.shape[0]:,} documents, {total:,} tokens: {mapped.unknown:,} "
        f"({100 * mapped.unknown / total:.1f} %) of words unknown to the model are left out"
        + (f"; documents without any other: {empty:,}" if empty else "")
    )

"""Documents of topic models: in memory, or on disk and read batch by batch during a run."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus import Corpus, device, frames, from_counts, holdout, split_tokens
from simplex_jax._src.corpus import digest as digest_of
from simplex_jax._src.corpus.corpus import are_bags, checked_counts, numbered_words
from simplex_jax._src.corpus.device import HostCorpus
from simplex_jax._src.corpus.store import Stored
from simplex_jax._src.corpus.text import count_texts
from simplex_jax._src.corpus.vocabulary import even_empty


class Selection(NamedTuple):
    """Some documents of a corpus on disk."""

    stored: Stored  # the corpus
    numbers: np.ndarray  # sorted numbers of its documents, int64 [n]

    @property
    def names(self) -> np.ndarray:
        """The numbers of the documents; their names are read with the corpus."""
        return self.numbers


Training: TypeAlias = Corpus | Stored | Selection
"""Documents that a run learns from."""


class Size(NamedTuple):
    """The size of a corpus."""

    documents: int  # D
    tokens: int  # number of tokens
    words: int  # V


def as_data(corpus: Any, vocabulary: Sequence[str] | None = None) -> Corpus | Stored:
    """Return a corpus, in memory or left on disk; a table of counts [D, V] gets names.

    For texts, words are counted: those in the vocabulary, or by default all of them. With a
    vocabulary, that of a model, the documents may have no word at all.
    """
    corpus = count_texts(corpus, vocabulary)
    if isinstance(corpus, Corpus | Stored):
        return corpus
    if vocabulary is None:
        return from_counts(corpus)
    words, columns = tuple(vocabulary), frames.names_of(corpus)
    own = None
    unnamed = words == numbered_words(len(words))
    if unnamed and columns and all(frames.is_number(c) and c in range(len(words)) for c in columns):
        own = [f"w{int(column)}" for column in columns]  # some of those of the fit, in any order
    documents = even_empty(vocabulary, lambda: from_counts(corpus, own))
    names = documents.vocabulary
    unnamed &= own is None and names == numbered_words(len(names)) and not are_bags(corpus)
    if unnamed and len(words) != len(names):
        raise ValueError(
            f"the documents have {len(names):,} columns without names, and those of the fit "
            f"{len(words):,}: give the same columns"
        )
    return documents


def is_stored(data: Training) -> bool:
    """Return whether the documents are on disk."""
    return not isinstance(data, Corpus)


def vocabulary_of(data: Training) -> tuple[str, ...]:
    """Return the V words."""
    return data.stored.vocabulary if isinstance(data, Selection) else data.vocabulary


def in_memory(data: Corpus | Stored) -> Corpus:
    """Return a corpus in memory; the counts of one on disk are memory-mapped."""
    if isinstance(data, Corpus):
        return data
    return Corpus(data.rows(), data.vocabulary, data.names)


def digest(data: Corpus | Stored) -> str:
    """Return the digest of a corpus."""
    return data.digest if isinstance(data, Stored) else digest_of(data)


def on_host(data: Training) -> HostCorpus:
    """Return documents to put on devices; those on disk are read at that time."""
    if isinstance(data, Corpus):
        return device.on_host(data.counts)
    stored, numbers = data if isinstance(data, Selection) else (data, None)
    numbers = np.arange(stored.documents) if numbers is None else numbers
    lengths = stored.starts[numbers + 1] - stored.starts[numbers]
    return HostCorpus(lengths, lambda some: stored.tokens_of(numbers[some]))


def size_of(data: Training | sp.csr_array) -> Size:
    """Return the numbers of documents, tokens and words."""
    if isinstance(data, Selection):
        stored, numbers = data
        tokens = int((stored.starts[numbers + 1] - stored.starts[numbers]).sum())
        return Size(len(numbers), tokens, len(stored.vocabulary))
    if isinstance(data, Stored):
        return Size(data.documents, data.tokens, len(data.vocabulary))
    counts = data.counts if isinstance(data, Corpus) else data
    return Size(counts.shape[0], int(counts.sum(dtype=np.int64)), counts.shape[1])


def num_empty(data: Corpus | Stored) -> int:
    """Return the number of documents without a word."""
    return int((np.diff(in_memory(data).counts.indptr) == 0).sum())


def describe(plan: Any) -> dict[str, Any]:
    """Return facts about the documents of a run."""
    size = size_of(plan.data)
    return {"documents": size.documents, "tokens": size.tokens, "vocabulary": size.words}


def check_heldout(heldout: Any, words: int) -> None:
    """Raise a ValueError unless held-out documents are two halves of counts over V words."""
    if heldout is None:
        return
    if not isinstance(heldout, tuple | list) or len(heldout) != 2:
        raise ValueError(
            "heldout must be a pair of counts, the observed and the target half of each document: "
            "use corpus.split_tokens"
        )
    for half in heldout:
        if (columns := checked_counts(half, "heldout").shape[1]) != words:
            raise ValueError(
                f"heldout has {columns} words and the corpus {words}: take both from one corpus"
            )


def hold_out(data: Corpus | Stored, count: int, seed: int) -> tuple[Training, Any]:
    """Hold out `count` of D documents at random, 1 to D - 1, and split their tokens in two halves.

    Return the other documents, and counts of the observed and the target halves [count, V]; or all
    documents and None if no held-out document has a second token, or no other one has a token. The
    same seed holds out the same ones.
    """
    train: Training
    if isinstance(data, Corpus):
        train, rest = holdout(data, count, seed)
        halves = split_tokens(rest.counts, seed)
    else:
        held_out = np.random.default_rng(seed).choice(data.documents, count, replace=False)
        halves = split_tokens(data.select(np.sort(held_out)), seed)
        train = Selection(data, np.setdiff1d(np.arange(data.documents), held_out))
    return (train, halves) if predictable(*halves) and size_of(train).tokens else (data, None)


def predictable(observed: sp.csr_array, target: sp.csr_array) -> bool:
    """Return whether there is a token to predict, and a document with more than one."""
    lengths = observed.sum(axis=1, dtype=np.int64) + target.sum(axis=1, dtype=np.int64)
    return bool(target.nnz) and int(lengths.max()) > 1

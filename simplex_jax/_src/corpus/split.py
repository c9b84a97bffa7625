"""Held-out documents, and the two halves of a document for document completion."""

import numpy as np
import scipy.sparse as sp

from simplex_jax._src import arguments
from simplex_jax._src.corpus.corpus import Corpus


def holdout(corpus: Corpus, count: int, seed: int) -> tuple[Corpus, Corpus]:
    """Hold out documents of a corpus at random.

    Args:
        corpus: D documents.
        count: Number of documents to hold out, 0..D-1.
        seed: The same seed gives the same documents.

    Returns:
        `(train, heldout)`, both with the vocabulary and the document order of `corpus`. Empty
        documents may be held out too.

    Raises:
        ValueError: `count` is not in 0..D-1, or `seed` not in 0..2^32 - 1.

    Example:
        >>> from simplex_jax.corpus import from_counts
        >>> train, heldout = holdout(from_counts(np.eye(5)), 2, seed=0)
        >>> train.counts.shape, heldout.counts.shape
        ((3, 5), (2, 5))
    """
    out = held_out(corpus.counts.shape[0], count, seed)
    return rows(corpus, ~out), rows(corpus, out)


def held_out(documents: int, count: int, seed: int) -> np.ndarray:
    """Choose `count` of D documents to hold out at random, as a mask, bool [D].

    Raises:
        ValueError: `count` is not in 0..D-1, or `seed` not in 0..2^32 - 1.
    """
    if not 0 <= count < documents:
        raise ValueError(f"count={count} documents to hold out: give 0 to {documents - 1}")
    out = np.zeros(documents, bool)
    out[_generator(seed).choice(documents, count, replace=False)] = True
    return out


def split_tokens(
    counts: sp.csr_array, seed: int, share: float = 0.5
) -> tuple[sp.csr_array, sp.csr_array]:
    """Split every document at random into an observed and a target part, by default halves.

    The tokens of a document are put in random order and, from a random position on, every
    1/share-th is a target. So a token is a target with probability `share`, and a document of n
    tokens has `share * n` targets, rounded up or down. A one-token document has an empty part.

    Args:
        counts: [D, V] counts, as in `Corpus.counts`.
        seed: The same seed gives the same split.
        share: Expected share of the target tokens, between 0 and 1.

    Returns:
        `(observed, target)`, two arrays of the shape and dtype of `counts` that sum to it.
        Splitting needs about 40 bytes of memory per token.

    Raises:
        ValueError: `seed` is not in 0..2^32 - 1, or `share` is not between 0 and 1.

    Example:
        >>> observed, target = split_tokens(sp.csr_array(np.array([[4, 0, 3], [0, 1, 1]])), seed=0)
        >>> (observed + target).toarray().tolist()
        [[4, 0, 3], [0, 1, 1]]
    """
    rng = _generator(seed)
    if not 0 < share < 1:
        raise ValueError(f"share must be between 0 and 1; it is {share}")
    documents = counts.shape[0]
    lengths = np.asarray(counts.sum(axis=1, dtype=np.int64))
    starts = np.cumsum(lengths) - lengths
    entry = np.repeat(np.arange(counts.nnz, dtype=np.int32), counts.data)
    document = np.repeat(np.arange(documents, dtype=np.int32), lengths)

    shuffled = rng.permutation(entry.size)
    shuffled = shuffled[np.argsort(document[shuffled], kind="stable")]
    # `shuffled` now lists the tokens document by document, in random order within each.
    rank = np.arange(entry.size) - np.repeat(starts, lengths)
    place = np.repeat(rng.random(documents), lengths)
    same = np.floor(place + share * rank) == np.floor(place + share * (rank + 1))
    chosen = entry[shuffled[same]]

    observed = np.bincount(chosen, minlength=counts.nnz).astype(counts.dtype)
    return _with_data(counts, observed), _with_data(counts, counts.data - observed)


def _generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(arguments.seed(seed))


def rows(corpus: Corpus, which: np.ndarray) -> Corpus:
    """Return the documents of a corpus where `which`, bool [D], is True, in its order."""
    numbers = np.flatnonzero(which)
    names = tuple(corpus.names[row] for row in numbers)
    excerpts = tuple(corpus.excerpts[row] for row in numbers) if corpus.excerpts else ()
    return Corpus(corpus.counts[numbers], corpus.vocabulary, names, excerpts)


def _with_data(counts: sp.csr_array, data: np.ndarray) -> sp.csr_array:
    out = sp.csr_array((data, counts.indices, counts.indptr), shape=counts.shape, copy=True)
    out.eliminate_zeros()
    return out

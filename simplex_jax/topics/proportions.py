"""Topic proportions of documents, given topics: any number of documents, in bounded memory."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax.typing import ArrayLike

from simplex_jax.corpus import Corpus
from simplex_jax.corpus.corpus import checked_counts
from simplex_jax.corpus.device import Documents
from simplex_jax.corpus.store import Stored
from simplex_jax.draws import arguments
from simplex_jax.evaluate import matching
from simplex_jax.models import inference, lda_counts
from simplex_jax.topics.settings import size_of

SHARD = 16_384
_SWEEPS, _BURN_IN = 30, 10
_MOST_TOKENS = 2**24  # of a shard, which ends earlier where documents are long
_STREAM = 0x7064  # keeps the random numbers apart from those of a fit with the same seed


def transform(
    topics: ArrayLike,
    alpha: ArrayLike,
    counts: Corpus | sp.csr_array | Stored,
    *,
    seed: int = 0,
    sweeps: int = _SWEEPS,
    burn_in: int = _BURN_IN,
    shard: int = SHARD,
) -> np.ndarray:
    """Return the topic proportions of documents.

    The posterior mean of each document's proportions given the topics, by collapsed Gibbs sweeps
    (`inference.document_proportions`). Monte Carlo: for a short document the noise shrinks as one
    over the root of the sweeps kept. A document without words has the prior mean.

    Args:
        topics: Probabilities of words, [K, V]; say `Fit.mean`.
        alpha: Concentration of topic proportions, per topic, a scalar or [K]; say `Fit.alpha`.
        counts: The documents, [D, V]; those of a corpus on disk are read a shard at a time.
        seed: Seed of the sweeps.
        sweeps: Gibbs sweeps over each document.
        burn_in: Of these, the first that do not enter the mean.
        shard: Documents worked on at once. Device memory is bounded by it; so are the results, in
            that another number draws other random numbers.

    Returns:
        Proportions, float32 [D, K]; rows sum to 1.

    Raises:
        ValueError: An argument is out of range, or there is another number of words in the topics.

    Example:
        >>> import scipy.sparse as sp
        >>> from simplex_jax import topics
        >>> shares = topics.transform(
        ...     [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]], 0.5, sp.csr_array([[3, 4, 0], [0, 0, 0]]))
        >>> shares.round(4).tolist()
        [[0.9375, 0.0625], [0.5, 0.5]]
    """
    parts = shards(topics, alpha, counts, seed=seed, sweeps=sweeps, burn_in=burn_in, shard=shard)
    shares = np.empty((size_of(counts).documents, len(np.asarray(topics))), np.float32)
    for first, rows in parts:
        shares[first : first + len(rows)] = rows
    return shares


def shards(
    topics: ArrayLike,
    alpha: ArrayLike,
    counts: Corpus | sp.csr_array | Stored,
    *,
    seed: int = 0,
    sweeps: int = _SWEEPS,
    burn_in: int = _BURN_IN,
    shard: int = SHARD,
) -> Iterator[tuple[int, np.ndarray]]:
    """Work through documents as `transform` does, and yield proportions as they are ready.

    Arguments as for `transform`, which raises the same errors.

    Yields:
        The first row of a shard in `counts`, and the proportions of its documents, float32 [n, K].

    Example:
        >>> import scipy.sparse as sp
        >>> from simplex_jax import topics
        >>> documents = sp.csr_array([[3, 0], [0, 2], [1, 1]])
        >>> [(first, rows.shape) for first, rows in topics.shards(
        ...     [[0.9, 0.1], [0.1, 0.9]], 0.5, documents, shard=2)]
        [(0, (2, 2)), (2, (1, 2))]
    """
    shard = arguments.at_least("shard", shard, 1)
    sweeps = arguments.at_least("sweeps", sweeps, 1)
    if not 0 <= arguments.at_least("burn_in", burn_in, 0) < sweeps:
        raise ValueError(f"burn_in must be smaller than sweeps, {sweeps}; it is {burn_in}")
    table = matching.as_topics("topics", topics)
    if isinstance(counts, Corpus):
        counts = counts.counts
    elif not isinstance(counts, Stored):
        counts = checked_counts(counts, "counts")
    size = size_of(counts)
    if size.words != table.shape[1]:
        raise ValueError(
            f"the documents have {size.words} words and the topics {table.shape[1]}: "
            "give documents over the vocabulary of the topics"
        )
    concentrations = lda_counts.proportions(alpha, len(table))
    log_topics = jnp.log(jnp.maximum(jnp.asarray(table), jnp.finfo(jnp.float32).tiny))
    key = jax.random.fold_in(jax.random.key(seed), _STREAM)

    def work() -> Iterator[tuple[int, np.ndarray]]:
        width = min(shard, size.documents)
        for number, (first, last) in enumerate(_cuts(_ends(counts), shard)):
            part = counts.rows(first, last) if isinstance(counts, Stored) else counts[first:last]
            documents, order = side_by_side(part, width)
            shares = inference.document_proportions(
                jax.random.fold_in(key, number),
                log_topics,
                concentrations,
                documents,
                sweeps=sweeps,
                burn_in=burn_in,
            )
            rows = np.empty((last - first, len(table)), np.float32)
            rows[order] = np.asarray(shares[:, : last - first].T)
            yield first, rows

    return work()


def _ends(counts: sp.csr_array | Stored) -> np.ndarray:
    """Tokens before every document, and all of them, int64 [D + 1]."""
    if isinstance(counts, Stored):
        return counts.starts
    return np.concatenate([[0], np.cumsum(counts.sum(axis=1, dtype=np.int64))])


def _cuts(ends: np.ndarray, shard: int) -> Iterator[tuple[int, int]]:
    """Cut documents in shards: at most so many and, unless one has more, so many tokens."""
    first = 0
    while first < len(ends) - 1:
        fits = int(np.searchsorted(ends, ends[first] + _MOST_TOKENS, side="right")) - 1
        last = min(max(fits, first + 1), first + shard, len(ends) - 1)
        yield first, last
        first = last


def side_by_side(counts: sp.csr_array, width: int) -> tuple[Documents, np.ndarray]:
    """Lay out the tokens of documents, shortest first, and return the row of each.

    Arrays are as long as the next power of two, so that few shapes are compiled.
    """
    lengths = counts.sum(axis=1, dtype=np.int64)
    order = np.argsort(lengths, kind="stable")
    ordered = counts[order]
    tokens = np.repeat(ordered.indices, ordered.data).astype(np.int32)
    room = 1 << max(len(tokens) - 1, 0).bit_length()
    ends = np.cumsum(lengths[order])
    padding = (0, width - len(order))
    documents = Documents(
        jnp.asarray(np.pad(tokens, (0, room - len(tokens)))),
        jnp.asarray(np.pad(ends - lengths[order], padding).astype(np.int32)),
        jnp.asarray(np.pad(lengths[order], padding).astype(np.int32)),
    )
    return documents, order

"""Topic proportions of documents, given topics: any number of documents, in bounded memory.

The proportions of a document depend only on its words, the topics and the seed: its random numbers
are keyed by its words, regardless of the other documents and of its position.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax.typing import ArrayLike
from scipy.special import chdtri

from simplex_jax._src import arguments
from simplex_jax._src.corpus import Corpus, to_vocabulary
from simplex_jax._src.corpus.corpus import checked_counts
from simplex_jax._src.corpus.device import Documents
from simplex_jax._src.corpus.store import Stored
from simplex_jax._src.draws.keys import fold_in
from simplex_jax._src.evaluate import matching
from simplex_jax._src.models.topics import engine as engines
from simplex_jax._src.models.topics.concentrations import positive
from simplex_jax._src.models.topics.data import as_data, in_memory, size_of
from simplex_jax._src.models.topics.fits import CountFit, Draw, Shares
from simplex_jax._src.models.topics.options import SHARE_ERROR
from simplex_jax._src.options import number
from simplex_jax._src.runtime.session import Progress

SHARD = 16_384
# With a small alpha a single chain stays in one mode of a document and underestimates its error.
CHAINS = 8
_BURN_IN = 6  # after labels are initialised
# Sweeps per call, and before the error is first checked: after three, chains of a document of one
# or two words often agree by chance.
_AT_ONCE = 5
_SWEEPS = 640
_FEWER, _FEWEST = 8, 64  # factor by which arrays of documents shrink, and their smallest width
_MOST_TOKENS = 2**21  # of a shard, which ends earlier if documents are long
_MOST_SHARES = 2**22  # likewise, if there are many topics
_IN_CACHE = 2**15  # shares of which NumPy computes all at once: intermediates stay in the cache
_TINY = np.finfo(np.float32).tiny
_STREAM = 0x7064  # keeps the random numbers apart from those of a fit with the same seed


def joined(
    parts: Iterable[Shares],
    shape: tuple[int, int],
    progress: Progress = lambda task, done, total: None,
) -> tuple[np.ndarray, np.ndarray]:
    """Collect shards into the proportions of all documents, [D, K], and their errors, [D]."""
    result, errors = np.empty(shape, np.float32), np.empty(shape[0], np.float32)
    for part in parts:
        end = part.first + len(part.error)
        result[part.first : end], errors[part.first : end] = part.proportions, part.error
        progress("proportions of documents", end, shape[0])
    return result, errors


def infer(fitted: CountFit, data: Any, *, seed: int = 0) -> np.ndarray:
    """Return the topic proportions of other documents over any vocabulary; see `Fit.transform`."""
    counts = counts_of(data, fitted)
    shape = (counts.shape[0], len(fitted.topics))
    return joined(fitted.shards(counts, seed=seed), shape)[0]


def counts_of(data: Any, fitted: CountFit) -> sp.csr_array:
    """Return documents over any vocabulary as counts [D, V] of the words of a fit."""
    documents = in_memory(as_data(data, fitted.vocabulary))
    return to_vocabulary(documents, fitted.vocabulary).corpus.counts


def shards(
    topics: ArrayLike,
    alpha: ArrayLike,
    counts: Corpus | sp.csr_array | Stored,
    *,
    seed: int = 0,
    share_error: float = SHARE_ERROR,
    sweeps: int = _SWEEPS,
    shard: int = SHARD,
    engine: str | None = None,
    own: float | None = None,
) -> Iterator[Shares]:
    """Yield the topic proportions of documents, a shard at a time.

    They are the posterior mean of (alpha + n_d) / (sum alpha + length) given the topics (Patterson
    and Teh 2013, section 5.1), from eight chains of collapsed Gibbs sweeps for each document: with
    a small alpha a chain may stay in one mode for long, which only other chains reveal. Chains are
    extended by about half at a time, until the error is at most `share_error` or all sweeps are
    done. A document without words has the prior mean.

    Args:
        topics: Probabilities of words, [K, V], such as `Fit.topics`.
        alpha: Concentration of topic proportions, per topic, a scalar or [K], such as `Fit.alpha`.
        counts: The documents, [D, V]; a corpus on disk is read a shard at a time.
        seed: Seed of the sweeps.
        share_error: Acceptable estimated error of a share, at least 0.
        sweeps: Maximum sweeps over a document in each of eight chains, after a burn-in of 6.
        shard: Maximum number of documents processed at once; no result depends on it.
        engine: Engine of the sweeps, "native" or "xla"; by default native if available.
        own: Concentration of a document's own topics, see `engine.Bursts`; by default it has none.

    Yields:
        The shares of consecutive documents; rows sum to 1. The error is the upper 90% limit by the
        spread of the eight chains. It is still too small for 20 to 34% of documents of a dozen
        words, because sampling ends when the spread happens to be small, and a mode that no chain
        found adds nothing; with alpha below 0.1 for most documents, where all chains may agree, and
        the true error was up to 0.03 in three sets of 60.

    Raises:
        ValueError: An argument is out of range, a topic does not sum to 1, or topics and documents
            have different numbers of words.

    Example:
        >>> import scipy.sparse as sp
        >>> from simplex_jax._src.models import lda
        >>> documents = sp.csr_array([[3, 0], [0, 2], [1, 1]])
        >>> [(part.first, part.proportions.shape) for part in lda.shards(
        ...     [[0.9, 0.1], [0.1, 0.9]], 0.5, documents, shard=2)]
        [(0, (2, 2)), (2, (1, 2))]
    """
    seed = arguments.seed(seed)
    shard = arguments.at_least("shard", shard, 1)
    sweeps = arguments.at_least("sweeps", sweeps, 1)
    share_error = number("share_error", share_error, least=0)
    table = matching.as_probabilities("topics", topics)
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
    concentrations = positive("alpha", alpha, (len(table),))
    key = fold_in(jax.random.key(seed), np.uint32(_STREAM))
    engine = engines.resolve(engine, len(table), bursts=own is not None)
    likelihood, bursts = _lay_out(jnp.asarray(table), own, engine)

    def infer(documents: Documents) -> tuple[np.ndarray, np.ndarray]:
        return _average(
            key, likelihood, concentrations, documents, share_error, sweeps, engine, bursts
        )

    return _each_shard(counts, min(shard, _MOST_SHARES // len(table)), infer)


def over_draws(
    draws: Sequence[Draw],
    columns: int,
    counts: sp.csr_array,
    *,
    seed: int,
    engine: str | None = None,
) -> Iterator[Shares]:
    """Yield the topic proportions of documents, averaged over posterior samples of the topics.

    In each sample they are inferred as by `shards`, but by one chain of 11 sweeps, or by as many as
    make eight in all. Samples have equally many rows of topics. There is a column for each of the
    first `columns` reported topics: rows leave the share of those that are not reported.

    Yields:
        The shares of consecutive documents. The error is by the spread over the samples, as if
        these were independent; it includes the differences between their topics.

    Example:
        >>> import numpy as np, scipy.sparse as sp
        >>> from simplex_jax._src.models.topics.fits import Draw
        >>> topics = np.array([[0.9, 0.1], [0.1, 0.9]])
        >>> draw = Draw(topics, np.array([0.5, 0.5]), np.array([0, -1]))
        >>> (part,) = over_draws([draw], 1, sp.csr_array([[0, 30]]), seed=0)
        >>> part.proportions.shape, bool(part.proportions[0, 0] < 0.2)
        ((1, 1), True)
    """
    key = fold_in(jax.random.key(arguments.seed(seed)), np.uint32(_STREAM))
    repeats, rows = -(-CHAINS // len(draws)), len(draws[0].alpha)
    engine = engines.resolve(engine, rows)

    def infer(documents: Documents) -> tuple[np.ndarray, np.ndarray]:
        total = squares = np.zeros((columns, len(documents.lengths)))
        for sample, draw in enumerate(draws):
            given = log_of(draw), jnp.asarray(draw.alpha, jnp.float32), jnp.asarray(draw.reported)
            for repeat in range(repeats):
                own = fold_in(key, np.uint32(sample * repeats + repeat))
                theta = np.asarray(_one_chain(own, *given, documents, columns, engine), np.float64)
                total, squares = total + theta, squares + theta**2
        chains = len(draws) * repeats
        variance = np.maximum(squares / chains - (total / chains) ** 2, 0).max(axis=0)
        return (total / chains).T, np.sqrt(variance / (chains - 1))

    return _each_shard(counts, min(SHARD, _MOST_SHARES // rows), infer)


@functools.partial(jax.jit, static_argnames=("columns", "engine"))
def _one_chain(
    key: jax.Array,
    log_topics: jax.Array,
    alpha: jax.Array,
    reported: jax.Array,
    documents: Documents,
    columns: int,
    engine: str,
) -> jax.Array:
    """Return the proportions of documents by one chain, [columns, B]."""
    result = engines.sweeps(
        key,
        log_topics,
        alpha,
        documents,
        None,
        times=_BURN_IN + _AT_ONCE,
        burn_in=_BURN_IN,
        tally=True,
        engine=engine,
    )
    theta = alpha[:, None] + result.documents / _AT_ONCE
    theta = theta / jnp.sum(theta, axis=0)
    # The index -1 is that of the last row, of topics without a column.
    return jnp.zeros((columns + 1, theta.shape[1])).at[reported].add(theta)[:columns]


def log_of(draw: Draw) -> jax.Array:
    """Return the logarithm of topics [k, V], finite except in rows that are no topics."""
    return _log_of(np.asarray(draw.topics, np.float32), np.asarray(draw.alpha))


@jax.jit
def _log_of(topics: jax.Array, alpha: jax.Array) -> jax.Array:
    logs = jnp.log(jnp.maximum(topics, _TINY))
    return jnp.where(alpha[:, None] > 0, logs, -jnp.inf)


def _each_shard(
    counts: sp.csr_array | Stored,
    shard: int,
    infer: Callable[[Documents], tuple[np.ndarray, np.ndarray]],
) -> Iterator[Shares]:
    """Yield the proportions [n, K] and errors [n] that `infer` returns for documents laid out."""
    shard = max(1, shard)
    width = min(shard, size_of(counts).documents if isinstance(counts, Stored) else counts.shape[0])
    for first, last in cuts(token_ends(counts), shard):
        part = counts.rows(first, last) if isinstance(counts, Stored) else counts[first:last]
        documents, order = side_by_side(part, width)
        numbers = np.pad(_identities(part)[order], (0, width - len(order)))
        means, errors = infer(documents._replace(ids=jax.device_put(numbers)))
        rows = np.empty((last - first, means.shape[1]), np.float32)
        error = np.empty(last - first, np.float32)
        rows[order], error[order] = means[: last - first], errors[: last - first]
        yield Shares(first, rows, error)


@functools.partial(jax.jit, static_argnames="engine")
def _lay_out(
    topics: jax.Array, own: float | None, engine: str
) -> tuple[jax.Array, engines.Bursts | None]:
    log_topics = jnp.log(jnp.maximum(topics, _TINY))
    bursts = None if own is None else engines.bursts_of(jnp.asarray(own), log_topics)
    return engines.lay_out(log_topics, engine=engine), bursts


def _average(
    key: jax.Array,
    likelihood: jax.Array,
    alpha: jax.Array,
    documents: Documents,
    share_error: float,
    most: int,
    engine: str,
    bursts: engines.Bursts | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean proportions [B, K] and their errors [B], from at most `most` sweeps per chain.

    `means` and `errors` are by document; `rows`, `waiting` and the first axis of `totals` are by
    slot, and the number of slots shrinks. If `waiting`, the slot sweeps document `rows`, and
    `totals` [slots, chains, K] holds its `done` sweeps; other slots are idle. Labels are by chain
    and token, and do not shrink.
    """
    concentrations = np.asarray(alpha, np.float32)
    lengths = np.asarray(documents.lengths)
    means, errors = np.tile(concentrations, (len(lengths), 1)), np.zeros(len(lengths), np.float32)
    rows, waiting = np.arange(len(lengths)), lengths > 0
    tokens = np.tile(np.asarray(documents.tokens), CHAINS)
    documents = documents._replace(tokens=jax.device_put(tokens))
    active, labels, totals = _in_chains(documents, rows, waiting), None, None
    done = 0
    while waiting.any():
        # Extend by about half, in calls of a fixed number of sweeps, since each number compiles.
        check = min(done + _AT_ONCE * max(1, done // (2 * _AT_ONCE)), most)
        while done < check:
            times, burn_in = min(check - done, _AT_ONCE), 0 if done else _BURN_IN
            labels, totals = _sweep(
                *(fold_in(key, np.uint32(done)), likelihood, alpha, active, labels, totals),
                times=burn_in + times,
                burn_in=burn_in,
                engine=engine,
                bursts=bursts,
            )
            done += times
        on_host = np.asarray(totals)
        sums, squares = _pooled(on_host)
        # The variance of few chains is uncertain, and documents stop when it looks small: with the
        # upper end of its interval fewer errors are too small.
        variance = squares[waiting] / chdtri(CHAINS - 1, 0.9)  # of the total of a chain
        bound = np.sqrt(variance / CHAINS) / done
        swept = rows[waiting]
        errors[swept] = bound / (np.sum(concentrations) + lengths[swept])
        means[swept] = concentrations + sums[waiting] / (CHAINS * done)
        waiting[waiting] = errors[swept] > share_error
        unfinished = np.flatnonzero(waiting)
        if not unfinished.size or done == most:
            break
        # Few documents need many sweeps: sweep only these, in arrays of few sizes, since each
        # size compiles.
        width = len(rows)
        while width // _FEWER >= max(unfinished.size, _FEWEST):
            width //= _FEWER
        if width < len(rows):
            places = np.pad(unfinished, (0, width - unfinished.size))
            rows, waiting = rows[places], np.arange(width) < unfinished.size
            totals = jax.device_put(on_host[places])
        active = _in_chains(documents, rows, waiting)
    # Row sums have the same order for any number of rows.
    return means / means.sum(axis=1, keepdims=True), errors


def _in_chains(documents: Documents, rows: np.ndarray, waiting: np.ndarray) -> Documents:
    """Return the documents in `rows` once for each chain, each with its own numbers and places.

    Their tokens are already repeated for each chain. If not `waiting`, the length is 0. The copies
    of a document follow each other, so that native code sweeps them together, word by word, with
    the topics of the word in its cache.
    """
    tokens, *by_document = documents
    starts, lengths, ids = (np.asarray(array)[rows] for array in by_document)
    room = len(tokens) // CHAINS
    chain = np.arange(CHAINS)
    numbers = _mix((ids[:, None].astype(np.uint64) << np.uint64(8)) | chain.astype(np.uint64))
    return Documents(
        tokens,
        jax.device_put((starts[:, None] + room * chain).astype(np.int32).ravel()),
        jax.device_put(np.repeat(np.where(waiting, lengths, 0), CHAINS)),
        jax.device_put((numbers >> np.uint64(32)).astype(np.uint32).ravel()),
    )


def _pooled(totals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums over the chains, [B, K], and their squared deviations from the mean, [B].

    The deviations are those of the topic where they are largest. Chains are added in turn, and by
    NumPy, for bitwise equal results in arrays of any size: in some sizes XLA fuses a square and its
    addition, which are then rounded once.
    """
    width, _, columns = totals.shape
    sums, squares = np.empty((width, columns), np.float32), np.empty(width, np.float32)
    step = max(1, _IN_CACHE // columns)
    for first in range(0, width, step):
        some = slice(first, first + step)
        chains = np.moveaxis(totals[some], 1, 0)
        sums[some] = functools.reduce(np.add, chains)
        mean = sums[some] / np.float32(CHAINS)
        deviations = functools.reduce(np.add, ((chain - mean) ** 2 for chain in chains))
        squares[some] = deviations.max(axis=1)
    return sums, squares


@functools.partial(
    jax.jit, static_argnames=("times", "burn_in", "engine"), donate_argnames=("labels", "totals")
)
def _sweep(
    key: jax.Array,
    likelihood: jax.Array,
    alpha: jax.Array,
    documents: Documents,
    labels: jax.Array | None,
    totals: jax.Array | None,
    *,
    times: int,
    burn_in: int,
    engine: str,
    bursts: engines.Bursts | None,
) -> tuple[jax.Array, jax.Array]:
    """Sweep, and add the topic counts of documents after the burn-in to the totals, if any."""
    result = engines.sweeps(
        key,
        None,
        alpha,
        documents,
        labels,
        likelihood=likelihood,
        times=times,
        burn_in=burn_in,
        tally=True,
        engine=engine,
        bursts=bursts,
    )
    counts = result.documents.T.reshape(-1, CHAINS, len(alpha))
    return result.labels, counts if totals is None else totals + counts


def _identities(counts: sp.csr_array) -> np.ndarray:
    """Return a number for each document that depends on its words, uint32 [D]."""
    mixed = (counts.indices.astype(np.uint64) << np.uint64(32)) | counts.data.astype(np.uint64)
    mixed = _mix(mixed)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
    return (_mix(sums[counts.indptr[1:]] - sums[counts.indptr[:-1]]) >> np.uint64(32)).astype(
        np.uint32
    )


def _mix(x: np.ndarray) -> np.ndarray:
    """Return the hash of 64-bit numbers by the finaliser of SplitMix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def token_ends(counts: sp.csr_array | Stored) -> np.ndarray:
    """Return the number of tokens before each document, and the total, int64 [D + 1]."""
    if isinstance(counts, Stored):
        return counts.starts
    return np.concatenate([[0], np.cumsum(counts.sum(axis=1, dtype=np.int64))])


def cuts(ends: np.ndarray, shard: int) -> Iterator[tuple[int, int]]:
    """Cut documents into shards of at most `shard`, and of 2^21 tokens unless one has more."""
    first = 0
    while first < len(ends) - 1:
        fits = int(np.searchsorted(ends, ends[first] + _MOST_TOKENS, side="right")) - 1
        last = min(max(fits, first + 1), first + shard, len(ends) - 1)
        yield first, last
        first = last


def side_by_side(counts: sp.csr_array, width: int) -> tuple[Documents, np.ndarray]:
    """Lay out the tokens of documents, shortest first, and return the row of each document.

    The token array is padded to a power of two, so that few shapes are compiled.
    """
    lengths = counts.sum(axis=1, dtype=np.int64)
    order = np.argsort(lengths, kind="stable")
    ordered = counts[order]
    tokens = np.repeat(ordered.indices, ordered.data).astype(np.int32)
    room = 1 << max(len(tokens) - 1, 0).bit_length()
    ends = np.cumsum(lengths[order])
    padding = (0, width - len(order))
    documents = Documents(
        jax.device_put(np.pad(tokens, (0, room - len(tokens)))),
        jax.device_put(np.pad(ends - lengths[order], padding).astype(np.int32)),
        jax.device_put(np.pad(lengths[order], padding).astype(np.int32)),
    )
    return documents, order

"""The probability of documents given topics, from left to right (Wallach et al. 2009, section 4).

log p(w_1..w_N) is the sum of log p(w_n | w_1..w_{n-1}), and each term is a mean over particles:
labels of the tokens before n. In the paper all particles have equal weight, and the estimate does
not converge to the probability as their number grows. Here particles are resampled in proportion
to the probability that they gave to w_n, as in any particle filter. The estimate of p is then
unbiased with any number of particles.

Before each token some of the labels so far are drawn again, given the others, which leaves their
posterior as it is, so the estimate stays unbiased (resample-move, Gilks and Berzuini 2001). It
makes ancestors that resampling had left alike differ again. The cost is linear in the length; if
all labels are drawn again, as in the paper, it is quadratic.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax import lax
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.corpus import Corpus
from simplex_jax._src.corpus.corpus import checked_counts
from simplex_jax._src.draws.categorical import choose
from simplex_jax._src.evaluate import matching
from simplex_jax._src.models.topics import engine

_GROUPS = 8  # independent groups of particles, whose spread gives the error
_ROOM = 2**23  # most numbers in memory at once: counts of particles, and tokens


class LogProbability(NamedTuple):
    """Estimated probabilities of documents."""

    log_p: np.ndarray  # log-probability of each document, with its tokens in one order, float64 [D]
    error: np.ndarray  # standard error of log_p, with the bias that may be left, float64 [D]
    bias: np.ndarray  # bias that may be left in log_p, at most the error, float64 [D]

    def perplexity(self, lengths: ArrayLike) -> tuple[float, float]:
        """Return exp(-sum log p / tokens) and its standard error, given document lengths.

        Noise averages out over the documents. Their biases do not: the error has their sum.

        Raises a ValueError if the documents have no token.
        """
        tokens = np.sum(lengths)
        if not tokens:
            raise ValueError("documents have no token: give documents with words of the topics")
        value = float(np.exp(-self.log_p.sum() / tokens))
        noise = np.sqrt((self.error**2 - self.bias**2).sum())
        return value, value * float(noise + self.bias.sum()) / float(tokens)


def left_to_right(
    topics: ArrayLike,
    alpha: ArrayLike,
    counts: Corpus | sp.csr_array,
    *,
    particles: int = 256,
    moves: int = 8,
    seed: int = 0,
) -> LogProbability:
    """Estimate the log-probability of documents given topics, their proportions integrated out.

    Args:
        topics: Probabilities of the words in each topic, [K, V].
        alpha: Concentration of the proportions, a scalar or [K].
        counts: The documents [D, V]; their tokens are put in random order.
        particles: Number of particles per document, in eight groups, rounded up to a multiple of
            eight.
        moves: Number of labels drawn again before each token; at least the length of a document for
            a sweep over all labels, as in the paper.
        seed: Seed of all randomness.

    Returns:
        The log-probabilities, their errors, and the bias that may be left. With a spread between
        groups of more than about two nats the bias is known roughly, and the error is large: more
        particles reduce both. A word that no topic has gives -inf.

    Raises:
        ValueError: An argument is out of range, a topic does not sum to 1, or shapes do not match.

    Example:
        >>> import numpy as np, scipy.sparse as sp
        >>> from simplex_jax._src.models import lda
        >>> documents = sp.csr_array([[1, 0], [1, 1]])
        >>> estimate = lda.left_to_right([[0.9, 0.1], [0.1, 0.9]], 1.0, documents, particles=4000)
        >>> np.exp(estimate.log_p).round(2).tolist()
        [0.5, 0.2]
    """
    table = matching.as_probabilities("topics", topics)
    number, seed = arguments.at_least("particles", particles, _GROUPS), arguments.seed(seed)
    moves = arguments.at_least("moves", moves, 0)
    documents = counts.counts if isinstance(counts, Corpus) else checked_counts(counts, "counts")
    if documents.shape[1] != table.shape[1]:
        raise ValueError(
            f"the documents have {documents.shape[1]} words and the topics {table.shape[1]}: "
            "give documents over the vocabulary of the topics"
        )
    concentration = jnp.broadcast_to(jnp.asarray(alpha, jnp.float32), table.shape[:1])
    arguments.require("alpha", concentration, arguments.positive(concentration), "positive")
    lengths = np.asarray(documents.sum(axis=1), np.int64)
    peak = np.maximum(table.max(axis=0), np.finfo(np.float32).tiny)
    weights = jnp.asarray((table / peak).T, jnp.float32)
    rng = np.random.default_rng(seed)
    per_group = -(-number // _GROUPS)
    estimates = np.empty((len(lengths), _GROUPS))
    # Lengths are padded to powers of two, so that few programs are compiled.
    rooms = 2 ** np.ceil(np.log2(np.maximum(lengths, 1))).astype(np.int64)
    for room in np.unique(rooms):
        same_room = np.flatnonzero(rooms == room)
        numbers = room + _GROUPS * per_group * (table.shape[0] + (room if moves else 0))
        width = max(1, min(same_room.size, _ROOM // numbers))
        for first in range(0, same_room.size, width):
            batch = same_room[first : first + width]
            words = np.zeros((width, room), np.int32)
            padded_lengths = np.zeros(width, np.int32)
            for place, document in enumerate(batch):
                row = documents[[document]]
                tokens = rng.permutation(np.repeat(row.indices, row.data))
                words[place, : tokens.size], padded_lengths[place] = tokens, tokens.size
            log_p = _groups(
                jax.random.fold_in(jax.random.key(seed), batch[0]),
                weights,
                concentration,
                jnp.asarray(words),
                jnp.asarray(padded_lengths),
                particles=per_group,
                moves=min(moves, int(room)),
            )
            estimates[batch] = np.asarray(log_p, np.float64)[: batch.size]
    shift = documents @ np.log(peak.astype(np.float64))
    log_p, error, bias = _combined(estimates)
    return LogProbability(shift + log_p, error, bias)


def _combined(estimates: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return log p with its error and possible bias, [D] each, from the log-estimates [D, groups].

    The logarithm of the mean over groups is too low by Jensen's inequality. If log-estimates were
    normal, as those of many particles are (Berard, Del Moral and Doucet 2014), log p would be their
    mean plus half of their variance; with few particles low ones are more frequent, and this is too
    high. The estimate is halfway between the two, and may be off by half of their distance.
    """
    possible = np.isfinite(estimates).all(axis=1)
    finite = np.where(possible[:, None], estimates, 0)
    groups = finite.shape[1]
    top, variance = finite.max(axis=1), finite.var(axis=1, ddof=1)
    low = top + np.log(np.exp(finite - top[:, None]).mean(axis=1))
    high = finite.mean(axis=1) + variance / 2
    bias = np.abs(high - low) / 2
    # Of the mean, and of a quarter of a normal sample's variance.
    noise = variance / groups + variance**2 / (8 * (groups - 1))
    error = np.sqrt(noise + bias**2)
    return np.where(possible, (low + high) / 2, -np.inf), error, bias


@partial(jax.jit, static_argnames=("particles", "moves"))
def _groups(
    key: jax.Array,
    weights: jax.Array,
    alpha: jax.Array,
    words: jax.Array,
    lengths: jax.Array,
    *,
    particles: int,
    moves: int,
) -> jax.Array:
    """Return the log-probability of documents [B, N] from each group of particles, float [B, G]."""
    documents, room = words.shape
    lanes, total = (documents, _GROUPS, particles), jnp.sum(alpha)

    def draw(key: jax.Array, mass: jax.Array) -> jax.Array:
        flat = jnp.moveaxis(mass, -1, 0).reshape(mass.shape[-1], -1)
        topics = choose(flat, jax.random.uniform(key, flat.shape[1:], minval=1e-7))
        return topics.reshape(mass.shape[:-1])

    def token(n: jax.Array, loop: tuple) -> tuple:
        counts, labels, log_p = loop
        keys = jax.random.split(jax.random.fold_in(key, n), 4)
        inside = n < lengths

        def move(i: jax.Array, loop: tuple) -> tuple:
            counts, labels = loop
            m = (first + i) % n
            without = _changed(counts, labels[..., m], -inside[:, None, None].astype(counts.dtype))
            mass = (alpha + without) * weights[words[:, m]][:, None, None]
            new = draw(jax.random.fold_in(keys[0], i), mass)
            new = jnp.where(inside[:, None, None], new, labels[..., m])
            counts = _changed(without, new, inside[:, None, None].astype(counts.dtype))
            return counts, labels.at[..., m].set(new.astype(labels.dtype))

        if moves:
            first = jax.random.randint(keys[3], (), 0, jnp.maximum(n, 1))
            counts, labels = lax.fori_loop(0, jnp.minimum(n, moves), move, (counts, labels))
        row = weights[words[:, n]][:, None, None]
        p = jnp.sum((alpha + counts) * row, axis=-1) / (total + n)
        log_p += jnp.where(inside[:, None], jnp.log(jnp.mean(p, axis=-1)), 0)
        ancestor = _ancestors(keys[1], p)
        counts = jnp.take_along_axis(counts, ancestor[..., None], axis=2)
        new = draw(keys[2], (alpha + counts) * row)
        counts = _changed(counts, new, inside[:, None, None].astype(counts.dtype))
        if moves:
            labels = jnp.take_along_axis(labels, ancestor[..., None], axis=2)
            labels = labels.at[..., n].set(new.astype(labels.dtype))
        return counts, labels, log_p

    start = (
        jnp.zeros((*lanes, alpha.shape[0]), jnp.float32),
        jnp.zeros((*lanes, room if moves else 0), engine.label_dtype(alpha.shape[0])),
        jnp.zeros(lanes[:2], jnp.float32),
    )
    return lax.fori_loop(0, jnp.max(lengths), token, start)[2]


def _changed(counts: jax.Array, label: jax.Array, by: jax.Array) -> jax.Array:
    """Return counts [..., K] after adding to that of a label [...]."""
    added = jax.nn.one_hot(label, counts.shape[-1], dtype=counts.dtype)
    return counts + added * jnp.broadcast_to(by, label.shape)[..., None]


def _ancestors(key: jax.Array, p: jax.Array) -> jax.Array:
    """Draw the surviving particles by systematic resampling in proportion to p, int32 [..., P]."""
    particles = p.shape[-1]
    cumulative = jnp.cumsum(p, axis=-1)
    start = jax.random.uniform(key, (*p.shape[:-1], 1))
    points = (jnp.arange(particles) + start) / particles * cumulative[..., -1:]
    passed = jnp.sum(cumulative[..., None, :] < points[..., None], axis=-1)
    return jnp.minimum(passed, particles - 1)

"""The probability of documents given topics, from left to right (Wallach et al. 2009, section 4).

log p(w_1..w_N) is the sum of log p(w_n | w_1..w_{n-1}), and each term is a mean over particles:
labels of the tokens before n. In the paper all particles have equal weight, and the estimate does
not converge to the probability as their number grows. Here particles are resampled in proportion
to the probability that they gave to w_n, as in any particle filter. The estimate of p is then
unbiased with any number of particles, and no sweeps over the labels are needed for each token. The
cost is linear in the length (Buntine 2009); with sweeps it is quadratic, with a smaller error.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax import lax
from jax.typing import ArrayLike

from simplex_jax import arguments
from simplex_jax.corpus import Corpus
from simplex_jax.corpus.corpus import checked_counts
from simplex_jax.draws.categorical import choose
from simplex_jax.evaluate import matching
from simplex_jax.models.topics import local

_GROUPS = 4  # independent groups of particles, whose spread gives the error
_ROOM = 2**23  # most numbers in memory at once: counts of particles, and tokens


class LogProbability(NamedTuple):
    """Estimated probabilities of documents."""

    log_p: np.ndarray  # log-probability of each document, with its tokens in one order, float64 [D]
    error: np.ndarray  # Monte-Carlo standard error of log_p, float64 [D]

    def perplexity(self, lengths: ArrayLike) -> tuple[float, float]:
        """Return exp(-sum log p / tokens) and its standard error, given document lengths.

        Raises a ValueError if the documents have no token.
        """
        tokens = np.sum(lengths)
        if not tokens:
            raise ValueError("documents have no token: give documents with words of the topics")
        value = float(np.exp(-self.log_p.sum() / tokens))
        return value, value * float(np.sqrt((self.error**2).sum())) / float(tokens)


def left_to_right(
    topics: ArrayLike,
    alpha: ArrayLike,
    counts: Corpus | sp.csr_array,
    *,
    particles: int = 20,
    sweeps: bool = False,
    seed: int = 0,
) -> LogProbability:
    """Estimate the log-probability of documents given topics, with shares integrated out.

    Args:
        topics: Probabilities of the words in each topic, [K, V].
        alpha: Concentration of the shares, a scalar or [K].
        counts: The documents [D, V]; their tokens are put in random order.
        particles: Number of particles per document, in four groups, rounded up to a multiple of
            four.
        sweeps: Sweep over the labels so far before each token, as in the paper; the cost is then
            quadratic in the length.
        seed: Seed of all randomness.

    Returns:
        The log-probabilities and their errors. The estimate of p is unbiased, so its logarithm is
        too small, by about half of the squared error. A word that no topic has gives -inf.

    Raises:
        ValueError: An argument is out of range, a topic does not sum to 1, or shapes do not match.

    Example:
        >>> import numpy as np, scipy.sparse as sp
        >>> from simplex_jax import lda
        >>> documents = sp.csr_array([[1, 0], [1, 1]])
        >>> estimate = lda.left_to_right([[0.9, 0.1], [0.1, 0.9]], 1.0, documents, particles=4000)
        >>> np.exp(estimate.log_p).round(2).tolist()
        [0.5, 0.2]
    """
    table = matching.as_probabilities("topics", topics)
    number, seed = arguments.at_least("particles", particles, _GROUPS), arguments.seed(seed)
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
        numbers = room + _GROUPS * per_group * (table.shape[0] + (room if sweeps else 0))
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
                sweeps=sweeps,
            )
            estimates[batch] = np.asarray(log_p, np.float64)[: batch.size]
    shift = documents @ np.log(peak.astype(np.float64))
    top = estimates.max(axis=1, keepdims=True)
    ratios = np.exp(estimates - np.where(np.isneginf(top), 0, top))
    ratios[np.isneginf(top[:, 0])] = 1
    mean = ratios.mean(axis=1)
    error = ratios.std(axis=1, ddof=1) / np.sqrt(_GROUPS) / mean
    return LogProbability(shift + top[:, 0] + np.log(mean), error)


@partial(jax.jit, static_argnames=("particles", "sweeps"))
def _groups(
    key: jax.Array,
    weights: jax.Array,
    alpha: jax.Array,
    words: jax.Array,
    lengths: jax.Array,
    *,
    particles: int,
    sweeps: bool,
) -> jax.Array:
    """Return the log-probability of documents [B, N] from each group of particles, float [B, G]."""
    documents, room = words.shape
    lanes, total = (documents, _GROUPS, particles), jnp.sum(alpha)

    def draw(key: jax.Array, mass: jax.Array) -> jax.Array:
        flat = jnp.moveaxis(mass, -1, 0).reshape(mass.shape[-1], -1)
        topics = choose(flat, jax.random.uniform(key, flat.shape[1:], minval=1e-7))
        return topics.reshape(mass.shape[:-1])

    def change(counts: jax.Array, label: jax.Array, by: jax.Array | float) -> jax.Array:
        added = jax.nn.one_hot(label, alpha.shape[0], dtype=counts.dtype)
        return counts + added * jnp.broadcast_to(by, label.shape)[..., None]

    def token(n: jax.Array, loop: tuple) -> tuple:
        counts, labels, log_p = loop
        keys = jax.random.split(jax.random.fold_in(key, n), 4)
        inside = n < lengths

        def sweep(m: jax.Array, loop: tuple) -> tuple:
            counts, labels = loop
            without = change(counts, labels[..., m], -inside[:, None, None].astype(counts.dtype))
            mass = (alpha + without) * weights[words[:, m]][:, None, None]
            new = draw(jax.random.fold_in(keys[0], m), mass)
            new = jnp.where(inside[:, None, None], new, labels[..., m])
            counts = change(without, new, inside[:, None, None].astype(counts.dtype))
            return counts, labels.at[..., m].set(new.astype(labels.dtype))

        if sweeps:
            counts, labels = lax.fori_loop(0, n, sweep, (counts, labels))
        row = weights[words[:, n]][:, None, None]
        p = jnp.sum((alpha + counts) * row, axis=-1) / (total + n)
        log_p += jnp.where(inside[:, None], jnp.log(jnp.mean(p, axis=-1)), 0)
        ancestor = _ancestors(keys[1], p)
        counts = jnp.take_along_axis(counts, ancestor[..., None], axis=2)
        new = draw(keys[2], (alpha + counts) * row)
        counts = change(counts, new, inside[:, None, None].astype(counts.dtype))
        if sweeps:
            labels = jnp.take_along_axis(labels, ancestor[..., None], axis=2)
            labels = labels.at[..., n].set(new.astype(labels.dtype))
        return counts, labels, log_p

    start = (
        jnp.zeros((*lanes, alpha.shape[0]), jnp.float32),
        jnp.zeros((*lanes, room if sweeps else 0), local.label_dtype(alpha.shape[0])),
        jnp.zeros(lanes[:2], jnp.float32),
    )
    return lax.fori_loop(0, jnp.max(lengths), token, start)[2]


def _ancestors(key: jax.Array, p: jax.Array) -> jax.Array:
    """Draw the surviving particles by systematic resampling in proportion to p, int32 [..., P]."""
    particles = p.shape[-1]
    cumulative = jnp.cumsum(p, axis=-1)
    start = jax.random.uniform(key, (*p.shape[:-1], 1))
    points = (jnp.arange(particles) + start) / particles * cumulative[..., -1:]
    passed = jnp.sum(cumulative[..., None, :] < points[..., None], axis=-1)
    return jnp.minimum(passed, particles - 1)

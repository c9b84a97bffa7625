"""The local step of an admixture: topic assignments of the tokens of some documents, given topics.

Two Gibbs samplers of the same conditional. `collapsed` integrates the topic proportions of a
document out and visits its tokens one after the other, all documents side by side (Patterson and
Teh 2013, equation 11); `blocked` draws the proportions and then all tokens at once. A collapsed
sweep mixes faster, a blocked one is made of few large operations.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from simplex_jax import draws
from simplex_jax.corpus.device import CHUNK, Documents, token_slots
from simplex_jax.draws import arguments, uniform
from simplex_jax.draws.bits import random_words
from simplex_jax.draws.categorical import choose

_SMALLEST = 1e-18
# Documents side by side below which a narrower loop would save nothing.
_NARROWEST = 128


class Assignments(NamedTuple):
    """Topics of tokens, and their counts.

    Attributes:
        labels: Topic of every token of the corpus, [T]; K where it has none yet.
        documents: Tokens of each topic in the documents at hand, float [K, B].
        words: Tokens of each topic and word, [K, V]; float where they are expectations, None
            where they are not wanted.
    """

    labels: jax.Array
    documents: jax.Array
    words: jax.Array | None


Sweep: TypeAlias = Callable[..., Assignments]
"""`(key, likelihood, alpha, documents, state, expected=False) -> state`.

`likelihood` [K, V] holds the topics up to a factor for each word, see `likelihood_of`, `alpha` [K]
the concentrations of the topic proportions. A sweep moves the labels, keeps `state.documents` the
counts of the labels, and adds to `state.words` what the labels changed or, with `expected`, the
probabilities from which the new labels were drawn: counts with less noise (Rao-Blackwell).
"""


def label_dtype(num_topics: int) -> np.dtype:
    """Return the smallest unsigned type that holds the topics 0..K-1 and K, for none."""
    return np.min_scalar_type(num_topics)


def no_labels(num_tokens: int, num_topics: int) -> jax.Array:
    """Return labels [T] that assign nothing."""
    return jnp.full(num_tokens, num_topics, label_dtype(num_topics))


def likelihood_of(log_topics: jax.Array) -> jax.Array:
    """Return topics [K, V] as probabilities relative to the likeliest topic of each word.

    Assignments depend on the topics up to a factor for each word only, and this one keeps a word
    that is improbable under all topics from underflowing in all of them. A word that is impossible
    under all of them fits all alike.
    """
    peak = jnp.max(log_topics, axis=0)
    return jnp.where(jnp.isneginf(peak), 1, jnp.exp(log_topics - peak))


def count_labels(labels: jax.Array, documents: Documents, num_topics: int) -> jax.Array:
    """Count the labels of each document, float32 [K, B]."""
    total = jnp.sum(documents.lengths)
    step = min(CHUNK, labels.shape[0])

    def chunk(state):
        first, counts = state
        place, document = token_slots(documents, first, step)
        label = labels.at[place].get(mode="fill", fill_value=num_topics).astype(jnp.int32)
        return first + step, counts.at[label, document].add(1, mode="drop")

    start = (jnp.int32(0), jnp.zeros((num_topics, documents.lengths.shape[0]), jnp.float32))
    return lax.while_loop(lambda state: state[0] < total, chunk, start)[1]


def _record(
    state: Assignments,
    place: jax.Array,
    document: jax.Array,
    word: jax.Array,
    old: jax.Array,
    new: jax.Array,
    weights: jax.Array | None,
) -> Assignments:
    """Enter new labels of some tokens; labels of K and places of T are dropped."""
    if state.words is None:
        words = None
    elif weights is None:
        one = jnp.ones((), state.words.dtype)
        words = state.words.at[old, word].add(-one, mode="drop").at[new, word].add(one, mode="drop")
    else:
        expected = weights / jnp.sum(weights, axis=0)
        active = new < weights.shape[0]
        words = state.words.at[:, word].add(jnp.where(active, expected, 0))
    return Assignments(
        labels=state.labels.at[place].set(new.astype(state.labels.dtype), mode="drop"),
        documents=state.documents.at[old, document]
        .add(-1, mode="drop")
        .at[new, document]
        .add(1, mode="drop"),
        words=words,
    )


def collapsed(
    key: jax.Array,
    likelihood: jax.Array,
    alpha: jax.Array,
    documents: Documents,
    state: Assignments,
    expected: bool = False,
) -> Assignments:
    """Sweep over the tokens of each document in turn, with topic proportions integrated out.

    P(z = k) is proportional to (alpha_k + n_dk without this token) times the word's probability
    under topic k. A token without a label is drawn given those before it that have one.

    The documents of a batch go side by side, sorted by length. When three in four have ended, the
    loop goes on with the last quarter alone: a few long documents do not hold up the many.
    """
    batch_size = documents.lengths.shape[0]
    width = arguments.pad(batch_size)
    # The lanes that pad the batch to a width that vectorises are empty documents and come first.
    order = jnp.pad(
        jnp.argsort(documents.lengths), (width - batch_size, 0), constant_values=batch_size
    )
    lengths = documents.lengths.at[order].get(mode="fill", fill_value=0)
    starts = documents.starts.at[order].get(mode="clip")
    known = state.documents.at[:, order].get(mode="fill", fill_value=0)
    state, number = state._replace(documents=known), jnp.int32(0)
    full = width
    while width:
        rest = 0 if width <= _NARROWEST else arguments.pad(width // 4)
        ended = full - width
        narrow = state._replace(documents=state.documents[:, ended:])
        number, narrow = _positions(
            key,
            likelihood,
            alpha,
            Documents(documents.tokens, starts[ended:], lengths[ended:]),
            narrow,
            expected,
            number,
            lengths[full - rest - 1],
        )
        state = narrow._replace(documents=state.documents.at[:, ended:].set(narrow.documents))
        width = rest
    columns = jnp.zeros((state.documents.shape[0], batch_size), state.documents.dtype)
    return state._replace(documents=columns.at[:, order].set(state.documents, mode="drop"))


def _positions(
    key: jax.Array,
    likelihood: jax.Array,
    alpha: jax.Array,
    documents: Documents,
    state: Assignments,
    expected: bool,
    first: jax.Array,
    last: jax.Array,
) -> tuple[jax.Array, Assignments]:
    """Draw the tokens at positions first..last-1 of all documents, one position after the other."""
    num_topics = likelihood.shape[0]
    num_tokens = documents.tokens.shape[0]
    lane = lax.iota(jnp.int32, documents.lengths.shape[0])
    topic = lax.iota(jnp.int32, num_topics)[:, None]

    def position(loop):
        number, state = loop
        active = number < documents.lengths
        place = jnp.where(active, documents.starts + number, num_tokens)
        word = documents.tokens.at[place].get(mode="clip")
        old = state.labels.at[place].get(mode="fill", fill_value=num_topics).astype(jnp.int32)
        others = state.documents - (old == topic)
        weights = (others + alpha[:, None]) * likelihood[:, word]
        bits, _ = random_words(key, lane.shape[0], weights.dtype, row=number)
        new = choose(weights, uniform.uniform(bits, weights.dtype))
        new = jnp.where(active, new, num_topics)
        kept = weights if expected else None
        return number + 1, _record(state, place, lane, word, old, new, kept)

    return lax.while_loop(lambda loop: loop[0] < last, position, (first, state))


def blocked(
    key: jax.Array,
    likelihood: jax.Array,
    alpha: jax.Array,
    documents: Documents,
    state: Assignments,
    expected: bool = False,
) -> Assignments:
    """Draw the topic proportions given the labels, then all labels given the proportions."""
    num_topics = likelihood.shape[0]
    key_theta, key_labels = jax.random.split(key)
    log_theta = draws.loggamma(key_theta, alpha[:, None] + state.documents)
    theta = jnp.maximum(jnp.exp(log_theta - jnp.max(log_theta, axis=0)), _SMALLEST)
    total = jnp.sum(documents.lengths)
    step = min(CHUNK, documents.tokens.shape[0])

    def chunk(loop):
        first, state = loop
        place, document = token_slots(documents, first, step)
        active = place < documents.tokens.shape[0]
        word = documents.tokens.at[place].get(mode="clip")
        old = state.labels.at[place].get(mode="fill", fill_value=num_topics).astype(jnp.int32)
        weights = theta[:, document] * likelihood[:, word]
        bits, _ = random_words(key_labels, step, weights.dtype, row=first)
        new = choose(weights, uniform.uniform(bits, weights.dtype))
        new = jnp.where(active, new, num_topics)
        kept = weights if expected else None
        return first + step, _record(state, place, document, word, old, new, kept)

    return lax.while_loop(lambda loop: loop[0] < total, chunk, (jnp.int32(0), state))[1]


SWEEPS: dict[str, Sweep] = {"blocked": blocked, "collapsed": collapsed}

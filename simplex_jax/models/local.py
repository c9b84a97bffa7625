"""Topic assignments of the tokens of some documents, given topics: what the local steps share.

Two Gibbs samplers move them. `collapsed` integrates the topic proportions of a document out and
visits its tokens one after the other, all documents side by side (Patterson and Teh 2013, equation
11); `blocked` draws the proportions and then all tokens at once. A collapsed sweep mixes faster, a
blocked one is made of few large operations.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from simplex_jax.corpus.device import CHUNK, Documents, token_slots


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


class Tokens(NamedTuple):
    """Some tokens, one for each of n lanes.

    Attributes:
        active: Whether the lane has a token, [n].
        place: Its place in the corpus, int32 [n]; T for lanes without one.
        word: Its word, int32 [n].
        label: Its topic, int32 [n]; K for none.
    """

    active: jax.Array
    place: jax.Array
    word: jax.Array
    label: jax.Array


Sweep: TypeAlias = Callable[..., Assignments]
"""`(key, likelihood, alpha, documents, state) -> state`.

`likelihood` [K, V] holds the topics up to a factor for each word, see `likelihood_of`, `alpha` [K]
the concentrations of the topic proportions. A sweep moves the labels, keeps `state.documents` the
counts of the labels, and adds to `state.words` what the labels changed.
"""


def label_dtype(num_topics: int) -> np.dtype:
    """Return the smallest unsigned type that holds the topics 0..K-1 and K, for none."""
    return np.min_scalar_type(num_topics)


def no_labels(num_tokens: int, num_topics: int) -> jax.Array:
    """Return labels [T] that assign nothing."""
    return jnp.full(num_tokens, num_topics, label_dtype(num_topics))


def unassigned(documents: Documents, num_topics: int, words: jax.Array | None) -> Assignments:
    """Return the state of documents none of whose tokens has a label, with counts `words`."""
    return Assignments(
        no_labels(documents.tokens.shape[0], num_topics),
        jnp.zeros((num_topics, documents.lengths.shape[0]), jnp.float32),
        words,
    )


def likelihood_of(log_topics: jax.Array) -> jax.Array:
    """Return topics [K, V] as probabilities relative to the likeliest topic of each word.

    Assignments depend on the topics up to a factor for each word only, and this one keeps a word
    that is improbable under all topics from underflowing in all of them. A word that is impossible
    under all of them fits all alike.
    """
    peak = jnp.max(log_topics, axis=0)
    return jnp.where(jnp.isneginf(peak), 1, jnp.exp(log_topics - peak))


def at(place: jax.Array, documents: Documents, labels: jax.Array, num_topics: int) -> Tokens:
    """Return the tokens at these places; a place of T or more is that of no token."""
    return Tokens(
        active=place < documents.tokens.shape[0],
        place=place,
        word=documents.tokens.at[place].get(mode="clip"),
        label=labels.at[place].get(mode="fill", fill_value=num_topics).astype(jnp.int32),
    )


def relabel(labels: jax.Array, tokens: Tokens, new: jax.Array) -> jax.Array:
    """Return the labels with those of some tokens replaced."""
    return labels.at[tokens.place].set(new.astype(labels.dtype), mode="drop")


def recount(words: jax.Array | None, tokens: Tokens, new: jax.Array) -> jax.Array | None:
    """Return the counts [K, V] with some tokens moved to new topics."""
    if words is None:
        return None
    one = jnp.ones((), words.dtype)
    # Most labels stay: an update that is dropped costs no access to memory.
    moved = new != tokens.label
    gone = jnp.where(moved, tokens.label, words.shape[0])
    come = jnp.where(moved, new, words.shape[0])
    words = words.at[gone, tokens.word].add(-one, mode="drop")
    return words.at[come, tokens.word].add(one, mode="drop")


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

"""Topic assignments of the tokens of some documents, given topics: shared by the local steps.

Two Gibbs samplers move them. `collapsed` integrates out the topic proportions of a document and
visits its tokens one after the other, all documents side by side (Patterson and Teh 2013, equation
11); `blocked` draws the proportions and then all tokens at once. A collapsed sweep mixes faster; a
blocked one consists of few large operations.
"""

from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from simplex_jax._src.corpus import device
from simplex_jax._src.corpus.device import Documents, token_slots

Sweep: TypeAlias = Callable[[jax.Array, jax.Array, jax.Array, Documents, jax.Array], jax.Array]
"""`(key, likelihood, alpha, documents, labels) -> labels`.

`likelihood` [K, V] holds the topics up to a factor for each word, see `likelihood_of`, and `alpha`
[K] the concentrations of the topic proportions. Labels [T] cover all tokens of the corpus, with K
for none yet; a sweep moves the labels of the documents.
"""


def label_dtype(num_topics: int) -> np.dtype:
    """Return the smallest unsigned type that holds the topics 0..K-1, and K for none."""
    return np.min_scalar_type(num_topics)


def no_labels(num_tokens: int, num_topics: int) -> jax.Array:
    """Return labels [T] without any topic assigned."""
    return jnp.full(num_tokens, num_topics, label_dtype(num_topics))


def likelihood_of(log_topics: jax.Array) -> jax.Array:
    """Return topics [K, V] as probabilities relative to the likeliest topic of each word.

    Assignments depend on the topics only up to a factor for each word. This factor keeps a word
    that is improbable under all topics from underflowing in all of them. A word that is impossible
    under all topics gets the same likelihood in each.
    """
    peak = jnp.max(log_topics, axis=0)
    return jnp.where(jnp.isneginf(peak), 1, jnp.exp(log_topics - peak))


def count_labels(labels: jax.Array, documents: Documents, num_topics: int) -> jax.Array:
    """Count the labels of each document, float32 [K, B]; labels that are not topics are dropped."""
    total = jnp.sum(documents.lengths)
    step = device.chunk(labels.shape[0])

    def chunk(state):
        first, counts = state
        place, document = token_slots(documents, first, step)
        label = labels.at[place].get(mode="fill", fill_value=num_topics).astype(jnp.int32)
        return first + step, counts.at[label, document].add(1, mode="drop")

    start = (jnp.int32(0), jnp.zeros((num_topics, documents.lengths.shape[0]), jnp.float32))
    return lax.while_loop(lambda state: state[0] < total, chunk, start)[1]


def count_words(
    labels: jax.Array, documents: Documents, words: jax.Array, before: jax.Array | None = None
) -> jax.Array:
    """Return topic-word counts [K, V] with the labels of documents added.

    The labels `before`, if given, are subtracted.
    """
    total = jnp.sum(documents.lengths)
    step = device.chunk(labels.shape[0])
    num_topics = words.shape[0]

    def chunk(loop):
        first, words = loop
        place, _ = token_slots(documents, first, step)
        word = documents.tokens.at[place].get(mode="clip")
        new = labels.at[place].get(mode="fill", fill_value=num_topics)
        if before is not None:
            old = before.at[place].get(mode="fill", fill_value=num_topics)
            # Most labels stay the same: a dropped update costs no memory access.
            moved = new != old
            words = words.at[jnp.where(moved, old, num_topics), word].add(-1, mode="drop")
            new = jnp.where(moved, new, num_topics)
        return first + step, words.at[new, word].add(1, mode="drop")

    return lax.while_loop(lambda loop: loop[0] < total, chunk, (jnp.int32(0), words))[1]

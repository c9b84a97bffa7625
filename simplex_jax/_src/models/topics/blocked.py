"""Blocked Gibbs sweeps: draw the topic proportions of documents, then all their labels at once."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax._src import draws
from simplex_jax._src.corpus import device
from simplex_jax._src.corpus.device import Documents, token_slots
from simplex_jax._src.draws import uniform
from simplex_jax._src.draws.bits import random_words
from simplex_jax._src.draws.categorical import choose
from simplex_jax._src.models.topics import local

# Smallest proportion relative to the largest: no token goes to a smaller one, and its product with
# the smallest likelihood is still a float32.
_SMALLEST = 1e-18
# Most weights of tokens and topics computed at once: a gigabyte for each array of them.
_MOST_WEIGHTS = 2**28


def blocked(
    key: jax.Array,
    likelihood: jax.Array,
    alpha: jax.Array,
    documents: Documents,
    labels: jax.Array,
) -> jax.Array:
    """Draw topic proportions given labels, then all labels given proportions: a `local.Sweep`."""
    return expected(key, likelihood, alpha, documents, labels, None)[0]


def expected(
    key: jax.Array,
    likelihood: jax.Array,
    alpha: jax.Array,
    documents: Documents,
    labels: jax.Array,
    words: jax.Array | None,
) -> tuple[jax.Array, Any]:
    """Sweep as `blocked` does, and add the probabilities of the labels to `words` [K, V].

    These expected counts have less noise than counts of labels (Rao-Blackwell).
    """
    num_topics = likelihood.shape[0]
    key_theta, key_labels = jax.random.split(key)
    counts = local.count_labels(labels, documents, num_topics)
    log_theta = draws.loggamma(key_theta, alpha[:, None] + counts)
    theta = jnp.maximum(jnp.exp(log_theta - jnp.max(log_theta, axis=0)), _SMALLEST)
    total = jnp.sum(documents.lengths)
    step = min(
        device.chunk(documents.tokens.shape[0]), max(device.CHUNK, _MOST_WEIGHTS // num_topics)
    )

    def chunk(loop):
        first, labels, words = loop
        place, document = token_slots(documents, first, step)
        active = place < documents.tokens.shape[0]
        word = documents.tokens.at[place].get(mode="clip")
        weights = theta[:, document] * likelihood[:, word]
        bits, _ = random_words(key_labels, step, weights.dtype, row=first)
        new = choose(weights, uniform.uniform(bits, weights.dtype))
        labels = labels.at[place].set(new.astype(labels.dtype), mode="drop")
        if words is not None:
            shares = jnp.where(active, weights / jnp.sum(weights, axis=0), 0)
            words = words.at[:, word].add(shares)
        return first + step, labels, words

    start = (jnp.int32(0), labels, words)
    return lax.while_loop(lambda loop: loop[0] < total, chunk, start)[1:]

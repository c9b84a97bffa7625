"""Blocked Gibbs sweeps: the topic proportions of documents, then all their labels at once."""

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax import draws
from simplex_jax.corpus.device import CHUNK, Documents, token_slots
from simplex_jax.draws import uniform
from simplex_jax.draws.bits import random_words
from simplex_jax.draws.categorical import choose
from simplex_jax.models import local
from simplex_jax.models.local import Assignments

# Of proportions relative to the largest: tokens do not go to topics of less than this anyway, and
# its product with the least likelihood is still a float32.
_SMALLEST = 1e-18


def blocked(
    key: jax.Array,
    likelihood: jax.Array,
    alpha: jax.Array,
    documents: Documents,
    state: Assignments,
    expected: bool = False,
) -> Assignments:
    """Draw the topic proportions given the labels, then all labels given the proportions.

    Args:
        key: A PRNG key.
        likelihood: Topics, see `local.likelihood_of`, [K, V].
        alpha: Concentrations of topic proportions, [K].
        documents: The documents.
        state: Labels and counts.
        expected: Add to `state.words` the probabilities from which the new labels were drawn in
            place of what the labels changed: counts with less noise (Rao-Blackwell).
    """
    num_topics = likelihood.shape[0]
    key_theta, key_labels = jax.random.split(key)
    log_theta = draws.loggamma(key_theta, alpha[:, None] + state.documents)
    theta = jnp.maximum(jnp.exp(log_theta - jnp.max(log_theta, axis=0)), _SMALLEST)
    total = jnp.sum(documents.lengths)
    step = min(CHUNK, documents.tokens.shape[0])

    def chunk(loop):
        first, (labels, counts, words) = loop
        place, document = token_slots(documents, first, step)
        tokens = local.at(place, documents, labels, num_topics)
        weights = theta[:, document] * likelihood[:, tokens.word]
        bits, _ = random_words(key_labels, step, weights.dtype, row=first)
        new = choose(weights, uniform.uniform(bits, weights.dtype))
        new = jnp.where(tokens.active, new, num_topics)
        counts = counts.at[tokens.label, document].add(-1, mode="drop")
        counts = counts.at[new, document].add(1, mode="drop")
        if not expected:
            words = local.recount(words, tokens, new)
        elif words is not None:
            shares = jnp.where(tokens.active, weights / jnp.sum(weights, axis=0), 0)
            words = words.at[:, tokens.word].add(shares)
        return first + step, Assignments(local.relabel(labels, tokens, new), counts, words)

    return lax.while_loop(lambda loop: loop[0] < total, chunk, (jnp.int32(0), state))[1]

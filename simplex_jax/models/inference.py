"""Topic proportions of documents, given topics: for new documents and for evaluation."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from simplex_jax.corpus import device
from simplex_jax.corpus.device import DeviceCorpus, Documents
from simplex_jax.models import local
from simplex_jax.models.collapsed import collapsed
from simplex_jax.models.local import Assignments


@partial(jax.jit, static_argnames=("sweeps", "burn_in"))
def document_proportions(
    key: jax.Array,
    log_topics: jax.Array,
    alpha: jax.Array,
    documents: Documents,
    *,
    sweeps: int,
    burn_in: int,
) -> jax.Array:
    """Return the posterior mean proportions of documents by collapsed Gibbs sweeps.

    The mean over the kept sweeps of (alpha + n_d) / (sum alpha + length), given the topics
    (Patterson and Teh 2013, section 6). A document without words has the prior mean.

    Args:
        key: A PRNG key.
        log_topics: Log-probabilities of words, [K, V].
        alpha: Concentrations, [K].
        documents: B documents whose token array is theirs alone, see `device.compact`.
        sweeps: Gibbs sweeps.
        burn_in: Of these, the first that do not enter the mean.

    Returns:
        Proportions, float [K, B].
    """
    num_topics, batch_size = log_topics.shape[0], documents.lengths.shape[0]
    likelihood = local.likelihood_of(log_topics)
    state = Assignments(
        local.no_labels(documents.tokens.shape[0], num_topics),
        jnp.zeros((num_topics, batch_size), jnp.float32),
        None,
    )

    def sweep(i, loop):
        total, state = loop
        state = collapsed(jax.random.fold_in(key, i), likelihood, alpha, documents, state)
        return total + jnp.where(i < burn_in, 0, state.documents), state

    start = (jnp.zeros_like(state.documents), state)
    total, _ = lax.fori_loop(0, sweeps, sweep, start)
    mean = total / (sweeps - burn_in)
    return (alpha[:, None] + mean) / (jnp.sum(alpha) + documents.lengths)


def corpus_proportions(
    key: jax.Array,
    log_topics: jax.Array,
    alpha: jax.Array,
    corpus: DeviceCorpus,
    *,
    sweeps: int = 30,
    burn_in: int = 10,
    batch_size: int = 4096,
) -> np.ndarray:
    """Return the proportions of all documents of a corpus, in the order of its counts.

    Works through blocks of `batch_size` documents, so that device memory is bounded. They are Monte
    Carlo means: for a short document the noise shrinks as one over the root of the sweeps kept.

    Returns:
        Proportions, float32 [D, K], on the host.
    """
    batch_size = min(batch_size, device.size(corpus))
    room = device.capacity(corpus, batch_size)
    parts = []
    for i, ids in enumerate(device.blocks(device.size(corpus), batch_size)):
        documents = device.compact(device.select(corpus, ids), room)
        block = document_proportions(
            jax.random.fold_in(key, i),
            log_topics,
            alpha,
            documents,
            sweeps=sweeps,
            burn_in=burn_in,
        )
        parts.append(np.asarray(block.T))
    sorted_rows = np.concatenate(parts)[: device.size(corpus)]
    rows = np.empty_like(sorted_rows)
    rows[np.asarray(corpus.order)] = sorted_rows
    return rows

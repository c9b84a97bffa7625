"""Topic proportions of documents, given topics: for new documents and for evaluation."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax.corpus.device import Documents
from simplex_jax.models import local
from simplex_jax.models.collapsed import collapsed


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
    num_topics = log_topics.shape[0]
    likelihood = local.likelihood_of(log_topics)
    if not 0 <= burn_in < sweeps:
        raise ValueError(f"burn_in must be from 0 to {sweeps - 1}; it is {burn_in}")
    state = local.unassigned(documents, num_topics, None)

    def sweep(i, loop):
        total, state = loop
        state = collapsed(jax.random.fold_in(key, i), likelihood, alpha, documents, state)
        return total + jnp.where(i < burn_in, 0, state.documents), state

    start = (jnp.zeros_like(state.documents), state)
    total, _ = lax.fori_loop(0, sweeps, sweep, start)
    mean = total / (sweeps - burn_in)
    shares = alpha[:, None] + mean
    # Rather than by sum alpha + length, which differs by rounding: they sum to 1.
    return shares / jnp.sum(shares, axis=0)

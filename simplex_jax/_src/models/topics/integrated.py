"""Collapsed Gibbs sweeps with the topics integrated out too, by native code on CPUs.

As in Griffiths and Steyvers (2004), but exact on several threads. Words are cut into blocks. The
mass of each block in each topic is drawn, and given it the composition of the block is integrated
out (by the aggregation property of the Dirichlet distribution). Tokens of different blocks and
documents can then be drawn at the same time, see native/integrated.inl. What a tile depends on does
not change with threads or the order of tiles, so labels do not depend on the number of threads.
"""

import jax
import jax.numpy as jnp

from simplex_jax._src import draws
from simplex_jax._src.corpus.device import Documents
from simplex_jax._src.models.topics.native import calls, library

# For blocks without words; nothing depends on their masses.
_TINY = 1e-30


def works(engine: str | None = None) -> bool:
    """Return whether native code for it is available and the engine is native."""
    return (
        engine in (None, "native")
        and jax.default_backend() == "cpu"
        and jnp.result_type(float) == jnp.float32
        and library.works()
    )


def blocks(tokens: jax.Array, num_words: int) -> jax.Array:
    """Return the first word of each block, and the end, int32 [blocks + 1].

    Blocks have about equally many tokens, as far as whole words allow.
    """
    cumulative = jnp.cumsum(jnp.bincount(tokens, length=num_words))
    shares = jnp.arange(1, calls.BLOCKS) * (tokens.shape[0] / calls.BLOCKS)
    inner = jnp.searchsorted(cumulative, shares) + 1
    ends = jnp.concatenate([jnp.zeros(1, inner.dtype), inner, jnp.full(1, num_words, inner.dtype)])
    return jnp.minimum(ends, num_words).astype(jnp.int32)


def sweep(
    key: jax.Array,
    log_topics: jax.Array,
    alpha: jax.Array,
    beta: jax.Array,
    documents: Documents,
    labels: jax.Array,
    counts: jax.Array,
    bounds: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Draw the labels of distinct documents, one token after the other, given all other labels.

    Args:
        key: Random key; draws depend on the number of a document and the place of a token in it.
        log_topics: Topics, [K, V], for tokens without a label: with few labels, counts alone would
            let the first ones attract all others.
        alpha: Concentrations of topic proportions, [K].
        beta: Concentrations of topics, [V] or [K, V].
        documents: Documents with tokens sorted by word.
        labels: Topic of every token of the corpus, [T]; K for none.
        counts: Tokens of each topic and word, over all labels, int32 [K, V].
        bounds: From `blocks`.

    Returns:
        Labels and counts after the sweep.
    """
    key_masses, key_labels = jax.random.split(key)
    sums = jnp.maximum(calls.block_sums(counts, beta, bounds), _TINY)
    masses = jnp.exp(draws.log_dirichlet(key_masses, sums))
    return calls.integrated(
        key_labels, log_topics, alpha, beta, masses, sums, bounds, documents, labels, counts
    )

"""LDA with control-variate counts: a mini-batch's difference from reference topics.

Baker, Fearnhead, Fox and Nemeth (2018) reduce the noise of mini-batches in this way. Memoised
counts have none.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax._src import batches
from simplex_jax._src.base import Kernel, bind
from simplex_jax._src.batches import Stream, Visit
from simplex_jax._src.corpus import device
from simplex_jax._src.corpus.device import DeviceCorpus
from simplex_jax._src.models.lda import kernel as lda_kernel
from simplex_jax._src.models.lda import model as lda
from simplex_jax._src.models.lda.kernel import Counts, Given, Source, batch_counts, source_of


class Reference(NamedTuple):
    """Memory of the control variate."""

    log_topics: jax.Array  # topics at the reference, [K, V]
    counts: jax.Array  # estimate of the full-data counts there, [K, V]
    topic_tokens: jax.Array  # latest estimate of the tokens of each topic, float [K]


def build(
    corpus: DeviceCorpus, shape: tuple[int, int], *, batch_size: int, **options: Any
) -> tuple[Kernel, Stream]:
    """Return the kernel of LDA with these counts, and its stream; options are those of `lda.build`.

    The reference moves to the topics once a pass.
    """
    config = lda.configure(shape, counts="subsampled", batch_size=batch_size, **options)
    per_pass = -(-device.size(corpus) // batch_size)
    stream = batches.visits(device.uniform_stream(corpus, batch_size), per_pass)
    return lda_kernel.kernel(control_variate(source_of(corpus, config)), config), stream


def control_variate(source: Source) -> Counts:
    """Counts at reference topics, plus a mini-batch's estimate of the difference from them.

    The batch is sampled at the topics and at the reference with the same random numbers. If a
    `Visit` says so, the reference is first moved to the topics by a pass over the whole corpus;
    the first visit must say so. Alpha must be fixed.
    """
    return Counts(init=bind(_init, source), estimate=bind(_control_variate, source))


def _init(source: Source, key: jax.Array) -> Reference:
    del key
    zeros = jnp.zeros(source.config.shape)
    return Reference(zeros, jnp.zeros_like(zeros), jnp.zeros(zeros.shape[0]))


def _control_variate(
    source: Source,
    given: Given,
    key: jax.Array,
    reference: Reference,
    log_topics: jax.Array,
    visit: Visit,
) -> tuple[jax.Array, Reference]:
    alpha, size, config = given.alpha, source.documents, source.config
    key_pass, key_batch = jax.random.split(key)

    def whole_corpus() -> jax.Array:
        blocks = device.blocks(size, config.batch_size)

        def block(i, total):
            documents = source.fetch(blocks[i])
            key_block = jax.random.fold_in(key_pass, i)
            return total + batch_counts(key_block, log_topics, alpha, documents, config)[0]

        return lax.fori_loop(0, blocks.shape[0], block, jnp.zeros_like(log_topics))

    dtype = reference.counts.dtype
    reference = lax.cond(
        visit.now,
        lambda: reference._replace(
            log_topics=log_topics.astype(dtype), counts=whole_corpus().astype(dtype)
        ),
        lambda: reference,
    )
    documents = source.fetch(visit.batch)
    here, there = lax.map(
        lambda topics: batch_counts(jax.random.clone(key_batch), topics, alpha, documents, config)[
            0
        ],
        jnp.stack([log_topics, reference.log_topics.astype(log_topics.dtype)]),
    )
    counts = reference.counts + size / visit.batch.shape[0] * (here - there)
    reference = reference._replace(topic_tokens=jnp.maximum(counts, 0).sum(axis=1).astype(dtype))
    return counts.astype(log_topics.dtype), reference

"""Control-variate counts for LDA: a mini-batch's difference from reference topics."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax._src.base import bind
from simplex_jax._src.batches import Visit
from simplex_jax._src.corpus import device
from simplex_jax._src.corpus.device import DeviceCorpus
from simplex_jax._src.models.lda.kernel import Counts, Given, Local, Source, batch_counts, source_of


class Reference(NamedTuple):
    """Memory of the control variate."""

    log_topics: jax.Array  # topics at the reference, [K, V]
    counts: jax.Array  # estimate of the full-data counts there, [K, V]
    topic_tokens: jax.Array  # latest estimate of the tokens of each topic, float [K]


def control_variate(
    corpus: DeviceCorpus, shape: tuple[int, int], local_step: Local, batch_size: int
) -> Counts:
    """Counts at reference topics, plus a mini-batch's estimate of the difference from them.

    The batch is sampled at the topics and at the reference with the same random numbers. If a
    `Visit` says so, the reference is first moved to the topics by a pass over the whole corpus;
    the first visit must say so. Arguments as for `counts.subsampled`.
    """
    source = source_of(corpus, shape, local_step, batch_size)
    return Counts(init=bind(_init, source), estimate=bind(_control_variate, source))


def _init(source: Source, key: jax.Array) -> Reference:
    del key
    zeros = jnp.zeros(source.shape)
    return Reference(zeros, jnp.zeros_like(zeros), jnp.zeros(source.shape[0]))


def _control_variate(
    source: Source,
    given: Given,
    key: jax.Array,
    reference: Reference,
    log_topics: jax.Array,
    visit: Visit,
) -> tuple[jax.Array, Reference]:
    alpha, size, local_step = given.alpha, source.documents, source.local_step
    key_pass, key_batch = jax.random.split(key)

    def whole_corpus() -> jax.Array:
        blocks = device.blocks(size, source.batch_size)

        def block(i, total):
            documents = source.fetch(blocks[i])
            key_block = jax.random.fold_in(key_pass, i)
            return total + batch_counts(key_block, log_topics, alpha, documents, local_step)[0]

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
        lambda topics: batch_counts(
            jax.random.clone(key_batch), topics, alpha, documents, local_step
        )[0],
        jnp.stack([log_topics, reference.log_topics.astype(log_topics.dtype)]),
    )
    counts = reference.counts + size / visit.batch.shape[0] * (here - there)
    reference = reference._replace(topic_tokens=jnp.maximum(counts, 0).sum(axis=1).astype(dtype))
    return counts.astype(log_topics.dtype), reference

"""Counts for LDA with a control variate: a batch's difference from topics that are remembered."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax.base import bind, static
from simplex_jax.batches import Visit
from simplex_jax.corpus import device
from simplex_jax.corpus.device import DeviceCorpus
from simplex_jax.models.lda_counts import Counts, Local, batch_counts, check, fetch


class Reference(NamedTuple):
    """Memory of the control variate.

    Attributes:
        log_topics: Topics at the reference, [K, V].
        counts: Estimate of the full-data counts there, [K, V].
        topic_tokens: Latest estimate of the tokens of each topic, float [K].
    """

    log_topics: jax.Array
    counts: jax.Array
    topic_tokens: jax.Array


def control_variate(
    corpus: DeviceCorpus, shape: tuple[int, int], how: Local, batch_size: int
) -> Counts:
    """Counts at reference topics, plus a batch's estimate of the difference from there.

    The batch is worked on at the topics and at the reference with the same random numbers. Where a
    `Visit` says so the reference is first moved to the topics, by a pass over the whole corpus;
    the first one must. Arguments as for `lda_counts.subsampled`.
    """
    check(shape, how)
    room = device.capacity(corpus, batch_size)
    options = {"how": how, "room": room, "batch_size": batch_size}
    return Counts(
        init=bind(static(_init_reference, shape=shape)),
        estimate=bind(static(_control_variate, **options), corpus),
    )


def _init_reference(key: jax.Array, *, shape: tuple[int, int]) -> Reference:
    del key
    return Reference(jnp.zeros(shape), jnp.zeros(shape), jnp.zeros(shape[0]))


def _control_variate(
    corpus: DeviceCorpus,
    alpha: jax.Array,
    key: jax.Array,
    reference: Reference,
    log_topics: jax.Array,
    visit: Visit,
    *,
    how: Local,
    room: int,
    batch_size: int,
) -> tuple[jax.Array, Reference]:
    key_pass, key_batch = jax.random.split(key)

    def whole_corpus() -> jax.Array:
        blocks = device.blocks(device.size(corpus), batch_size)

        def block(i, total):
            documents = fetch(corpus, blocks[i], room=room)
            key_block = jax.random.fold_in(key_pass, i)
            return total + batch_counts(key_block, log_topics, alpha, documents, how)[0]

        return lax.fori_loop(0, blocks.shape[0], block, jnp.zeros_like(log_topics))

    dtype = reference.counts.dtype
    reference = lax.cond(
        visit.now,
        lambda: reference._replace(
            log_topics=log_topics.astype(dtype), counts=whole_corpus().astype(dtype)
        ),
        lambda: reference,
    )
    documents = fetch(corpus, visit.batch, room=room)
    here, there = lax.map(
        lambda topics: batch_counts(jax.random.clone(key_batch), topics, alpha, documents, how)[0],
        jnp.stack([log_topics, reference.log_topics.astype(log_topics.dtype)]),
    )
    counts = reference.counts + device.size(corpus) / visit.batch.shape[0] * (here - there)
    reference = reference._replace(topic_tokens=jnp.maximum(counts, 0).sum(axis=1).astype(dtype))
    return counts.astype(log_topics.dtype), reference

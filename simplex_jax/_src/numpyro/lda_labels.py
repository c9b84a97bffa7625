"""Sweeps over the labels of a corpus whose documents share concentrations or have their own.

The engine of `lda` takes one vector of concentrations for all documents of a call. If each document
has its own, there is one call for each. Either way a token is drawn with the same random number,
determined by its document and its position there.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax._src.corpus import device
from simplex_jax._src.corpus.device import DeviceCorpus, Documents
from simplex_jax._src.models.topics import engine as engines
from simplex_jax._src.models.topics import local
from simplex_jax._src.models.topics.native import calls


class Labelled(NamedTuple):
    """The topics of all tokens, and their counts."""

    labels: jax.Array  # [T], documents and tokens in the order of the device; K for no topic
    documents: jax.Array  # tokens of each topic in each document, by row, int32 [D, K]
    words: jax.Array  # tokens of each word in each topic, int32 [K, V]


def unlabelled(corpus: DeviceCorpus, shape: tuple[int, int]) -> Labelled:
    """Return the labels of a corpus whose tokens have no topic yet; the shape is (K, V)."""
    labels = local.no_labels(corpus.tokens.shape[0], shape[0])
    documents = jnp.zeros((device.size(corpus), shape[0]), jnp.int32)
    return Labelled(labels, documents, jnp.zeros(shape, jnp.int32))


def swept(
    key: jax.Array,
    log_topics: jax.Array,
    alpha: jax.Array,
    corpus: DeviceCorpus,
    before: Labelled,
    *,
    times: int,
    engine: str | None,
) -> Labelled:
    """Return labels after collapsed Gibbs sweeps over all tokens, given topics and concentrations.

    The topics are normalised logarithms, [K, V]; alpha is [1, K], for all documents, or [D, K], in
    the order of rows. `engine` is as in `models.topics.engine`.
    """
    documents = device.select(corpus, jnp.arange(device.size(corpus)))
    if len(alpha) == 1:
        labels, words, counts = engines.sweeps(
            key,
            log_topics,
            alpha[0],
            documents,
            before.labels,
            before.words,
            times=times,
            burn_in=times - 1,
            count="changes",
            tally=True,
            engine=engine,
        )
        counts = counts.T.astype(jnp.int32)
    else:
        native = engines.resolve(engine, alpha.shape[1]) == "native"
        one_by_one = _native if native else functools.partial(_xla, device.capacity(corpus, 1))
        keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(times))
        labels, counts = one_by_one(keys, log_topics, alpha[corpus.order], documents, before.labels)
        words = local.count_words(labels, documents, before.words, before=before.labels)
    return Labelled(labels, jnp.zeros_like(counts).at[corpus.order].set(counts), words)


def _native(
    keys: jax.Array,
    log_topics: jax.Array,
    alpha: jax.Array,
    documents: Documents,
    labels: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Sweep over documents one by one, each with its own row of alpha, [D, K].

    Return the labels and the counts, int32 [D, K], in the order of the documents.
    """
    tokens, *places = documents
    weights = calls.lay_out(log_topics)
    no_words = jnp.zeros((0, 0), jnp.int32)

    def visit(labels: jax.Array, row: tuple) -> tuple[jax.Array, jax.Array]:
        *place, alpha = row
        document = Documents(tokens, *(x[None] for x in place))
        # The kind that does not build tables of all topics for each document.
        labels, _, counts = calls.sweep(
            keys,
            weights,
            alpha,
            document,
            labels,
            no_words,
            burn_in=len(keys) - 1,
            count="nothing",
            tally=True,
            kind="dense",
        )
        return labels, counts[0]

    return lax.scan(visit, labels, (*places, alpha))


def _xla(
    room: int,
    keys: jax.Array,
    log_topics: jax.Array,
    alpha: jax.Array,
    documents: Documents,
    labels: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Do what `_native` does; the longest document has `room` tokens.

    Each document is sliced out, because loops in place would also visit many tokens of others. A
    slice always fits, because documents are sorted by length.
    """
    tokens, *places = documents
    likelihood = local.likelihood_of(log_topics)

    def visit(labels: jax.Array, row: tuple) -> tuple[jax.Array, jax.Array]:
        start, length, number, alpha = row
        own_tokens, own_labels = (
            lax.dynamic_slice_in_dim(x, start, room) for x in (tokens, labels)
        )
        document = Documents(own_tokens, jnp.zeros(1, jnp.int32), length[None], number[None])

        def sweep(i: jax.Array, own_labels: jax.Array) -> jax.Array:
            return engines.METHODS["collapsed"](keys[i], likelihood, alpha, document, own_labels)

        own_labels = lax.fori_loop(0, len(keys), sweep, own_labels)
        counts = local.count_labels(own_labels, document, alpha.shape[0])[:, 0]
        return lax.dynamic_update_slice_in_dim(labels, own_labels, start, 0), counts.astype(
            jnp.int32
        )

    return lax.scan(visit, labels, (*places, alpha))

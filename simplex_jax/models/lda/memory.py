"""Device memory that a run will need, before any of it is taken."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from simplex_jax.base import Batch, Kernel, PyTree, State
from simplex_jax.corpus import Corpus, device, store
from simplex_jax.corpus.device import DeviceCorpus
from simplex_jax.models.lda import feed, pages, posterior, seeds, sharding
from simplex_jax.models.lda.options import Options
from simplex_jax.models.topics import local
from simplex_jax.models.topics.data import (
    Selection,
    Training,
    is_stored,
    on_host,
    size_of,
    vocabulary_of,
)
from simplex_jax.models.topics.native import calls
from simplex_jax.runtime import devices, processes

# Bytes of the host for each document of a corpus on disk: its name, and where it is.
_DOCUMENT = 120

# The most variates of one key: their places are uint32.
_MOST_NUMBERS = 2**32


def estimate(
    corpus: Training,
    settings: Any,
    *,
    heldout: tuple[sp.csr_array, sp.csr_array] | None = None,
) -> dict[str, int]:
    """Return the bytes that a fit will need of the memory of each device.

    Nothing of the size of the corpus or of the topics is put on the device: shapes are traced
    (`jax.eval_shape`) and the update is compiled, which says what it needs for temporaries. The
    cores of a CPU have one memory, and this is what all of them need together.

    Args:
        corpus: What is learned from.
        settings: Its settings, from `resolve`.
        heldout: Its held-out documents.

    Returns:
        Bytes by name: "corpus" as it lies on the device; "state", twice, before and after an
        update; "update", a batch, all topics where devices share them, and the temporaries of an
        update, were all of them drawn on each device; "summary", moments of the topics and a sample
        on its way there, of all devices or, where these do not share the topics, of the first;
        "heldout", of the first; "documents", names and places of those of a corpus on disk, where
        the host's memory is the device's; and the "total". The programs themselves and the
        allocator's own needs, some 10%, come on top.

    Example:
        >>> import scipy.sparse as sp
        >>> from simplex_jax.corpus import from_counts
        >>> from simplex_jax.models import lda
        >>> counts = sp.csr_array([[3, 0, 1], [0, 2, 1]])
        >>> parts = lda.memory.estimate(from_counts(counts), lda.resolve(counts, 2))
        >>> sorted(parts)
        ['corpus', 'documents', 'heldout', 'state', 'summary', 'total', 'update']
    """
    data, kernel, state, batch = _shapes(corpus, settings)
    own = _own_topics(settings)
    spared = 4 * settings.chains * (settings.num_topics - own) * size_of(corpus).words
    temporaries = _temporaries(kernel, state, batch) + _tables(corpus, settings)
    parts = {
        "corpus": _bytes(data),
        "state": 2 * (_bytes(state) - 2 * spared),  # of topics and counts
        "update": _bytes(batch) + spared + temporaries,
    }
    on_cpu = jax.default_backend() == "cpu"
    in_one_memory = settings.devices if on_cpu else 1
    shared = own < settings.num_topics
    summary = _summary(kernel, state, batch, settings)
    parts = {name: in_one_memory * count for name, count in parts.items()} | {
        "summary": summary * in_one_memory * own // settings.num_topics if shared else summary,
        "heldout": 0 if heldout is None else _heldout(heldout, settings.num_topics),
        "documents": _DOCUMENT * size_of(corpus).documents if on_cpu and is_stored(corpus) else 0,
    }
    return parts | {"total": sum(parts.values())}


def check(data: Training, settings: Any) -> None:
    """Raise a ValueError if the device has less memory than a run needs, by arithmetic alone.

    Topics and their counts, or its part of these, lie on the device before and after an update,
    beside the tokens and their labels, and the moments: no run can do with less. All topics lie
    there during an update. Devices that are cores of a CPU have one memory. Where labels are on
    disk, it must have room for them.
    """
    size = size_of(data)
    if settings.num_topics * size.words > _MOST_NUMBERS:
        raise ValueError(
            f"{settings.num_topics:,} topics of {size.words:,} words are more than "
            f"{_MOST_NUMBERS:,} numbers, as many as draws can tell apart: give fewer topics "
            "(--topics), or leave out rare words"
        )
    together = settings.devices if jax.default_backend() == "cpu" else 1
    own = _own_topics(settings)
    topics = settings.chains * own * size.words
    whole = settings.chains * (settings.num_topics - own) * size.words
    # As in `_summary`: the mean and, of memoised counts, the variance; both and squares, summed.
    read_off = 2 if settings.counts == "memoised" else 1
    segments = 1 if settings.target_ess is None else 3
    arrays = read_off + (read_off + 1) * segments
    moments = arrays * (together * topics if own < settings.num_topics else topics)
    labels = np.dtype(local.label_dtype(settings.num_topics)).itemsize * settings.chains
    read = is_stored(data) and settings.counts == "subsampled"
    if pages.on_disk(data, settings):
        pages.check(size.tokens, settings.num_topics)
        read = True
    shards = processes.count() * settings.devices
    tokens = 0 if read else together * (size.tokens // shards)
    devices.check_memory(
        4 * together * (2 * 2 * topics + whole) + 4 * moments + (4 + 2 * labels) * tokens,
        "give fewer topics (--topics) or chains, or smaller batches (--batch-size)",
    )


def _shapes(corpus: Training, settings: Any) -> tuple[list, Kernel, State, Batch]:
    """Return data, kernel, state and batch of a device, with shapes in place of arrays."""

    def trace(key: jax.Array, tokens: jax.Array) -> tuple[list, Kernel, State, Batch]:
        data: Any = DeviceCorpus(tokens, starts, order) if on_device else paged or corpus
        kernel, source = feed.build(data, size, settings, seeded)
        batch = read
        if batch is None:
            stream: Any = source(key, 0)
            batch = stream(key, jnp.int32(0))
        if paged is not None:
            blank = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), batch)
            labels = local.no_labels(number, settings.num_topics)
            batch = pages.with_page(blank, paged, tokens, labels, again=False)
        # The parts of a kernel share the arrays of the corpus.
        shared = {id(leaf): leaf for leaf in jax.tree.leaves(kernel)}
        state = feed.start(key, kernel, size.words, settings, seeded)
        return list(shared.values()), kernel, state, batch

    paged = None
    if pages.on_disk(corpus, settings):
        paged = device.pages(on_host(corpus).lengths, settings.batch_size)
    on_device = paged is None and (settings.counts == "memoised" or isinstance(corpus, Corpus))
    size, number, read = size_of(corpus), 0, None
    seeded = seeds.placed(settings, vocabulary_of(corpus))
    starts: Any = np.zeros(1, np.int32)
    order: Any = np.zeros(0, np.int32)
    if paged is not None:
        number = paged.room
    elif not on_device:
        stored: Any
        stored, among = corpus if isinstance(corpus, Selection) else (corpus, None)
        key = jax.random.key(0)
        read = next(store.batches(stored, settings.batch_size, key, among=among))
    else:
        # The device with most tokens: documents are dealt out by length, in turn.
        shards = settings.devices * processes.count()
        lengths = np.sort(on_host(corpus).lengths)[::-1][::shards][::-1]
        share = -(-settings.batch_size // shards)
        settings = dataclasses.replace(settings, devices=1, batch_size=share)
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        order, number = np.zeros(len(lengths), np.int32), max(1, int(starts[-1]))
    return jax.eval_shape(trace, jax.random.key(0), jax.ShapeDtypeStruct((number,), np.int32))


def _own_topics(settings: Any) -> int:
    """Return how many topics each device draws and counts."""
    shards, topics = settings.devices * processes.count(), settings.num_topics
    shared = None
    if feed.is_shared(settings):
        shared = sharding.shared_topics(settings.sampler, shards, topics)
    return topics if shared is None else shared.number


def _bytes(tree: PyTree) -> int:
    return sum(
        int(np.prod(leaf.shape)) * jnp.dtype(leaf.dtype).itemsize for leaf in jax.tree.leaves(tree)
    )


def _update(kernel: Kernel, key: jax.Array, state: State, batch: Batch) -> tuple[State, Any]:
    return kernel.update(key, state, batch)


def _temporaries(kernel: Kernel, state: State, batch: Batch) -> int:
    compiled = jax.jit(_update).lower(kernel, jax.random.key(0), state, batch).compile()
    analysis: Any = compiled.memory_analysis()
    return analysis.temp_size_in_bytes


def _tables(corpus: Training, settings: Options) -> int:
    if settings.engine != "native" or settings.local == "blocked":
        return 0
    size = size_of(corpus)
    if settings.local == "integrated":
        documents = settings.batch_size or size.documents
        seeded = settings.seed_words is not None  # concentrations of each topic and word
        return calls.integrated_bytes(settings.num_topics, size.words, documents, apart=seeded)
    return calls.table_bytes(settings.num_topics, size.words)


def _summary(kernel: Kernel, state: State, batch: Batch, settings: Options) -> int:
    _, info = jax.eval_shape(_update, kernel, jax.random.key(0), state, batch)
    sample = jax.eval_shape(
        lambda *arguments: posterior.read(
            *arguments, chains=settings.chains, memoised=settings.counts == "memoised"
        ),
        state,
        info.topic_tokens,
    )
    # Moments are two or three arrays as large as their mean. Without a length there are those of
    # two segments, and of both in the end.
    moments = _bytes(sample) + _bytes(sample.mean)
    return _bytes(sample) + moments * (1 if settings.target_ess is None else 3)


def _heldout(heldout: tuple[sp.csr_array, sp.csr_array], num_topics: int) -> int:
    observed, target = heldout
    documents, words = observed.shape
    labels = np.dtype(local.label_dtype(num_topics)).itemsize
    tokens = int(observed.sum())
    # Counts of topics, their sum and the proportions; likelihoods; the target entries.
    return (
        (4 + labels) * tokens + 4 * num_topics * (4 * documents + words) + target.nnz * (3 * 4 + 8)
    )

"""Estimate of the device memory that a run needs, before it allocates any."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from simplex_jax._src.base import Batch, Kernel, PyTree, State
from simplex_jax._src.corpus import Corpus, device, store
from simplex_jax._src.corpus.device import DeviceCorpus
from simplex_jax._src.models.lda import feed, posterior, seeds, sharding
from simplex_jax._src.models.lda.options import Options, on_disk
from simplex_jax._src.models.topics import engine
from simplex_jax._src.models.topics.data import (
    Selection,
    Training,
    is_stored,
    on_host,
    size_of,
    vocabulary_of,
)
from simplex_jax._src.models.topics.native import calls
from simplex_jax._src.runtime import devices, processes
from simplex_jax._src.runtime.windows import most_parts

# Bytes of host memory for each document of a corpus on disk: its name and its place.
_DOCUMENT = 120

# The most variates that one key can draw: their places are uint32.
_MOST_NUMBERS = 2**32


def estimate(
    corpus: Training,
    settings: Any,
    *,
    heldout: tuple[sp.csr_array, sp.csr_array] | None = None,
) -> dict[str, int]:
    """Return the bytes of memory that a fit needs on each device.

    This allocates nothing as large as the corpus or the topics: it traces shapes
    (`jax.eval_shape`) and compiles the update, which reports its temporaries. The cores of a CPU
    share one memory, and the figures are for all of them together.

    Args:
        corpus: The training data.
        settings: The settings of the run, from `resolve`.
        heldout: The held-out documents.

    Returns:
        Bytes by name: "corpus", on the device; "state", twice, before and after an update;
        "update", a batch, all topics if devices share them, and the temporaries of an update that
        draws all topics on each device; "summary", moments of the topics and the sample being
        added, on all devices or, if these do not share the topics, on the first; "heldout", on the
        first; "documents", names and places of the documents of a corpus on disk, if the device
        uses host memory; and the "total". The programs and the allocator need some 10% more. And
        "samples", those kept, which are not in the total: the command writes them to disk.

    Example:
        >>> import scipy.sparse as sp
        >>> from simplex_jax._src.models import lda
        >>> from simplex_jax.corpus import from_counts
        >>> counts = sp.csr_array([[3, 0, 1], [0, 2, 1]])
        >>> parts = lda.memory.estimate(from_counts(counts), lda.resolve(counts, 2))
        >>> sorted(parts)
        ['corpus', 'documents', 'heldout', 'samples', 'state', 'summary', 'total', 'update']
    """
    data, kernel, state, batch = _shapes(corpus, settings)
    own = _own_topics(settings)
    gathered = 4 * settings.chains * (settings.num_topics - own) * size_of(corpus).words
    temporaries = _temporaries(kernel, state, batch) + _tables(corpus, settings)
    parts = {
        "corpus": _bytes(data),
        "state": 2 * (_bytes(state) - 2 * gathered),  # of topics and counts
        "update": _bytes(batch) + gathered + temporaries,
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
    kept = 4 * settings.keep_samples * settings.chains * settings.num_topics
    return {"samples": kept * size_of(corpus).words, **parts, "total": sum(parts.values())}


def check(data: Training, settings: Any) -> None:
    """Raise a ValueError if the device has less memory than a run needs, by arithmetic alone.

    The minimum is the topics and their counts, or the device's part of them, before and after an
    update, the tokens and their labels, and the moments. All topics are on the device during an
    update. The cores of a CPU share one memory. If labels are on disk, it must have room for them.
    """
    size = size_of(data)
    if settings.num_topics * size.words > _MOST_NUMBERS:
        raise ValueError(
            f"{settings.num_topics:,} topics of {size.words:,} words are more than "
            f"{_MOST_NUMBERS:,} numbers, the most that one key can draw: give fewer topics "
            "(--topics), or leave out rare words"
        )
    in_one_memory = settings.devices if jax.default_backend() == "cpu" else 1
    own = _own_topics(settings)
    topics = settings.chains * own * size.words
    gathered = settings.chains * (settings.num_topics - own) * size.words
    # As in `_summary`: the mean and, of memoised counts, the variance; both and squares, summed.
    read_off = 2 if settings.counts == "memoised" else 1
    arrays = read_off + (read_off + 1) * most_parts(settings)
    moments = arrays * (in_one_memory * topics if own < settings.num_topics else topics)
    labels = np.dtype(engine.label_dtype(settings.num_topics)).itemsize * settings.chains
    streamed = is_stored(data) and settings.counts == "subsampled"
    if on_disk(data, settings):
        feed.check_disk(size.tokens, (settings.num_topics, size.words))
        streamed = True
    shards = processes.count() * settings.devices
    tokens = 0 if streamed else in_one_memory * (size.tokens // shards)
    devices.check_memory(
        4 * in_one_memory * (2 * 2 * topics + gathered) + 4 * moments + (4 + 2 * labels) * tokens,
        "give fewer topics (--topics) or chains, or smaller batches (--batch-size)",
    )


def _shapes(corpus: Training, settings: Any) -> tuple[list, Kernel, State, Batch]:
    """Return data, kernel, state and batch of a device, with shapes in place of arrays."""

    def trace(key: jax.Array, tokens: jax.Array) -> tuple[list, Kernel, State, Batch]:
        data: Any = DeviceCorpus(tokens, starts, order) if on_device else paged or corpus
        kernel, source = feed.build(data, size, settings, seeded)
        batch = first_batch
        if batch is None:
            stream: Any = source(key, 0)
            batch = stream(key, jnp.int32(0))
        if paged is not None:
            blank = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), batch)
            labels = engine.no_labels(number, settings.num_topics)
            batch = feed.with_page(blank, paged, tokens, labels, again=False)
        # The parts of a kernel share the arrays of the corpus.
        shared = {id(leaf): leaf for leaf in jax.tree.leaves(kernel)}
        state = feed.start(key, kernel, size.words, settings, seeded)
        return list(shared.values()), kernel, state, batch

    paged = None
    if on_disk(corpus, settings):
        paged = device.pages(on_host(corpus).lengths, settings.batch_size)
    on_device = paged is None and (settings.counts == "memoised" or isinstance(corpus, Corpus))
    size, number, first_batch = size_of(corpus), 0, None
    seeded = seeds.to_pseudocounts(settings, vocabulary_of(corpus))
    starts: Any = np.zeros(1, np.int32)
    order: Any = np.zeros(0, np.int32)
    if paged is not None:
        number = paged.room
    elif not on_device:
        stored: Any
        stored, among = corpus if isinstance(corpus, Selection) else (corpus, None)
        key = jax.random.key(0)
        first_batch = next(store.batches(stored, settings.batch_size, key, among=among))
    else:
        # The device with the most tokens: documents are dealt in turn, by length.
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
    # Moments are two or three arrays as large as their mean.
    moments = _bytes(sample) + _bytes(sample.mean)
    return _bytes(sample) + moments * most_parts(settings)


def _heldout(heldout: tuple[sp.csr_array, sp.csr_array], num_topics: int) -> int:
    observed, target = heldout
    documents, words = observed.shape
    labels = np.dtype(engine.label_dtype(num_topics)).itemsize
    tokens = int(observed.sum())
    # Counts of topics, their sum and the proportions; likelihoods; the target entries.
    return (
        (4 + labels) * tokens + 4 * num_topics * (4 * documents + words) + target.nnz * (3 * 4 + 8)
    )

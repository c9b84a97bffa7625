"""The kernel of a fit and its batches, from documents in memory or on disk.

The tokens and labels of a corpus larger than memory are in files, for memoised counts, in the order
of the device, so a batch of neighbours is one piece of each file: an update reads it and writes its
labels back. Topics and counts are in memory, and the samples are bitwise those of a run in memory.
The files have no names and vanish with the process. A checkpoint has a copy of all labels in the
format of a run in memory, so each kind of run can resume from a checkpoint of the other.
"""

import functools
import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from simplex_jax._src import base
from simplex_jax._src.base import Batch, Kernel, State
from simplex_jax._src.batches import Stream, Visit
from simplex_jax._src.corpus import Corpus, device, store
from simplex_jax._src.corpus.device import DeviceCorpus, HostCorpus, Pages
from simplex_jax._src.corpus.store import Stored
from simplex_jax._src.draws.keys import by_native_code, split
from simplex_jax._src.models.lda import kernel as lda_kernel
from simplex_jax._src.models.lda import model, sharding
from simplex_jax._src.models.lda.kernel import Page, Source
from simplex_jax._src.models.lda.options import configure, on_disk
from simplex_jax._src.models.lda.seeds import Seeds
from simplex_jax._src.models.topics import engine
from simplex_jax._src.models.topics.data import (
    Selection,
    Size,
    Training,
    on_host,
)
from simplex_jax._src.runtime import devices, output, processes
from simplex_jax._src.runtime.feed import Lagging
from simplex_jax._src.runtime.hooks import Event, Hook

Feed: TypeAlias = Callable[[jax.Array, int], Stream | Iterable[Batch]]
"""`(key_run, first_step) -> what the driver reads batches from`."""


def build(
    data: DeviceCorpus | HostCorpus | Pages | Stored | Selection,
    size: Size,
    settings: Any,
    seeds: Seeds | None = None,
) -> tuple[Kernel, Feed]:
    """Return the kernel of all chains, and the source of its batches.

    One chain uses the kernel of `model.build` itself; several run side by side (`base.chains`) on
    the same batches. `size` is the size of the training data. With pages, batches are document
    numbers, which `Files` replaces by the documents. The devices of all processes share the
    documents of a `HostCorpus`.
    """
    config = configure(settings, size.words, seeds)
    feed: Feed
    if isinstance(data, Stored | Selection):
        stored, among = data if isinstance(data, Selection) else (data, None)
        kernel = lda_kernel.kernel_of(Source(None, config, size.documents))
        feed = functools.partial(_read, stored, settings.batch_size, among)
    else:
        shared = isinstance(data, HostCorpus)
        each = devices.of_all_processes(settings.devices) if shared else None
        kernel, stream = model.build_from(data, config, each)
        feed = functools.partial(_same, stream)
    if settings.chains > 1:
        kernel = base.chains(kernel, settings.chains, position_axis=0)
    return kernel, feed


def _read(
    corpus: Stored, batch_size: int, among: np.ndarray | None, key: jax.Array, first_step: int
) -> Iterable[Batch]:
    # The same key as the driver's own streams, see `driver.run`.
    key_stream = jax.random.split(key)[1]
    return store.batches(corpus, batch_size, key_stream, first_step, among=among)


def _same(stream: Stream, key: jax.Array, first_step: int) -> Stream:
    return stream


def start(
    key: jax.Array,
    kernel: Kernel,
    words: int,
    settings: Any,
    seeds: Seeds | None = None,
) -> State:
    """Return the first state: each chain has its own random topics, with seed words added."""
    shape: tuple[int, ...] = (settings.num_topics, words)
    if settings.chains > 1:
        shape = (settings.chains, *shape)
    key_topics, key_memory = split(key)
    topics = _random_topics(key_topics, shape)
    return kernel.init(key_memory, topics if seeds is None else seeds.added(topics))


@functools.partial(jax.jit, static_argnames="shape")
def _random_topics(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jax.random.exponential(by_native_code(key), shape) + 1e-6


def to_device(
    data: Training, settings: Any
) -> DeviceCorpus | HostCorpus | Pages | Stored | Selection:
    """Return the data for `build`: tokens on the device, or documents to read later."""
    if not isinstance(data, Corpus) and settings.counts == "subsampled":
        return data
    host = on_host(data)
    if on_disk(data, settings):
        return device.pages(host.lengths, settings.batch_size)
    return host if is_shared(settings) else device.to_device(host)


def is_shared(settings: Any) -> bool:
    """Return whether several devices share the documents."""
    return settings.counts == "memoised" and settings.devices * processes.count() > 1


_PIECE = 2**24  # labels written at once
_REGION = 2**26  # tokens sorted in memory at once


class Files(Hook):
    """The files of a corpus: they feed the kernel and, as a hook, store the labels of each update.

    Args:
        corpus: The documents, read once.
        pages: Their places.
        shape: Numbers of topics and words, K and V.

    Raises:
        OSError: They do not fit into the directory of temporary files.
    """

    def __init__(self, corpus: HostCorpus, pages: Pages, shape: tuple[int, int]) -> None:
        self._corpus, self._pages = corpus, pages
        total, (of_tokens, dtype) = int(pages.starts[-1]), _dtypes(shape)
        nothing = np.full(_PIECE, shape[0], dtype)
        empty = ((first, nothing[: total - first]) for first in range(0, total, _PIECE))
        self._tokens = _tokens(corpus, pages, of_tokens)
        self._labels = _written(empty, total, dtype)
        self._due: dict[int, slice] = {}  # by step: tokens with unwritten labels

    def feed(self, stream: Stream, key: jax.Array, first_step: int) -> Lagging:
        """Return the pages of the batches of a stream; `key` is that of the driver."""
        # The same key as the driver's own streams, see `driver.run`.
        return Lagging(self._batches(jax.jit(stream), jax.random.split(key)[1], first_step))

    def _batches(self, stream: Stream, key: jax.Array, step: int) -> Iterator[Any]:
        before = None
        while True:
            batch = stream(key, jnp.int32(step))
            ids = np.asarray(batch.batch if isinstance(batch, Visit) else batch)
            slots = self._due[step] = self._pages.place(ids)
            rest = self._pages.room - (slots.stop - slots.start)
            tokens, labels = (
                np.pad(file[slots], (0, rest)) for file in (self._tokens, self._labels)
            )
            tokens = tokens.astype(np.int32)
            yield with_page(batch, self._pages, tokens, labels, again=slots == before)
            step, before = step + 1, slots

    def pulse(self, event: Event) -> None:
        """Write the labels of an update."""
        slots = self._due.pop(event.step - 1)
        self._labels[slots] = np.asarray(sharding.labels_of(event.state))[
            : slots.stop - slots.start
        ]

    def whole(self, state: State) -> State:
        """Return a state with the labels of all tokens, mapped from their file."""
        return sharding.with_labels(state, self._labels)

    def place(self, whole: State) -> State:
        """Read all labels from a state saved by any number of devices."""
        sharding.fill_labels(self._labels, sharding.labels_of(whole), self._corpus.lengths)
        none = jnp.zeros(self._pages.room, self._labels.dtype)
        topics = whole.alpha.shape[0]
        return sharding.with_spread(
            whole,
            position=jnp.asarray(whole.position[:topics]),
            labels=none,
            counts=jnp.asarray(sharding.counts_of(whole)[:topics]),
        )


def with_page(batch: Any, pages: Pages, tokens: Any, labels: Any, *, again: bool) -> Any:
    """Return a batch of a stream with document numbers replaced by a page of documents."""
    if isinstance(batch, Visit):
        return batch._replace(batch=with_page(batch.batch, pages, tokens, labels, again=again))
    return Page(pages.documents(np.asarray(batch), tokens), labels, jnp.asarray(again))


def describe_disk(tokens: int, shape: tuple[int, int]) -> str:
    """Say where the tokens and their labels are, and why."""
    return (
        f"tokens and labels are on disk, {devices.size(_size(tokens, shape))} in "
        f"{tempfile.gettempdir()} (TMPDIR): they do not fit into memory"
    )


def check_disk(tokens: int, shape: tuple[int, int]) -> None:
    """Raise a ValueError if the directory of temporary files has no room for them."""
    needed, place = _size(tokens, shape), tempfile.gettempdir()
    if needed > (free := shutil.disk_usage(place).free):
        raise ValueError(
            f"tokens and labels need {devices.size(needed)} on disk, and {place} has "
            f"{devices.size(free)}: set TMPDIR to another directory"
        )


def _size(tokens: int, shape: tuple[int, int]) -> int:
    return tokens * sum(dtype.itemsize for dtype in _dtypes(shape))


def _dtypes(shape: tuple[int, int]) -> tuple[np.dtype, np.dtype]:
    """Return the types of tokens and labels on disk, as narrow as K topics and V words allow."""
    num_topics, words = shape
    return np.min_scalar_type(max(words - 1, 0)), engine.label_dtype(num_topics)


def _tokens(corpus: HostCorpus, pages: Pages, dtype: np.dtype) -> np.ndarray:
    """Write the tokens of all documents in the order of the pages, and map them.

    Documents are first written to their region of the file in corpus order, then sorted within each
    region, so corpus and file are read sequentially, whatever their size. Reading documents by
    length would instead seek all over the disk and waste most of each read.
    """
    order, starts = pages.order, pages.starts
    regions = np.arange(starts[-1] // _REGION + 2)
    firsts = np.searchsorted(starts[:-1] // _REGION, regions)
    pieces = _by_region(corpus, pages, starts[firsts])
    tokens = _written(pieces, int(starts[-1]), dtype)
    for first, last in itertools.pairwise(firsts):
        _put_in_order(tokens[starts[first] : starts[last]], order[first:last], corpus.lengths)
    return tokens


def _by_region(
    corpus: HostCorpus, pages: Pages, places: np.ndarray
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield places and tokens of documents, a region at a time; `places` are starts of regions."""
    region = np.empty(pages.order.size, np.int64)
    region[pages.order] = pages.starts[:-1] // _REGION
    for part, tokens in device.in_pieces(corpus, np.arange(region.size)):
        lengths, regions = corpus.lengths[part], region[part]
        starts = np.cumsum(lengths) - lengths
        for number in np.unique(regions):
            in_region = regions == number
            piece = tokens[device.runs(starts[in_region], lengths[in_region])]
            yield int(places[number]), piece
            places[number] += piece.size


def _put_in_order(region: np.ndarray, numbers: np.ndarray, lengths: np.ndarray) -> None:
    """Reorder the tokens of documents from corpus order to the order of `numbers`."""
    stored, lengths = np.argsort(numbers), lengths[numbers]
    starts = np.empty_like(lengths)
    starts[stored] = np.cumsum(lengths[stored]) - lengths[stored]
    unordered, place = region.copy(), 0
    for part in device.parts(lengths):
        places = device.runs(starts[part], lengths[part])
        region[place : place + places.size] = unordered[places]
        place += places.size


def _written(pieces: Iterable[tuple[int, np.ndarray]], total: int, dtype: np.dtype) -> np.ndarray:
    """Write numbers, in pieces with their places, to an unnamed file, and map it.

    They are not written through the map, which would hide errors.
    """
    with output.named(Path(tempfile.gettempdir())), tempfile.TemporaryFile() as file:
        for place, piece in pieces:
            file.seek(int(place) * dtype.itemsize)
            file.write(np.ascontiguousarray(piece, dtype).data)
        file.flush()
        return np.asarray(np.memmap(file, dtype, "r+", shape=(total,)))

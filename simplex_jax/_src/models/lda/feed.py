"""The kernel of a fit and its batches, from a corpus and settings."""

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import jax
import numpy as np

from simplex_jax._src import base
from simplex_jax._src.base import Batch, Kernel, State
from simplex_jax._src.batches import Stream
from simplex_jax._src.corpus import Corpus, device, store
from simplex_jax._src.corpus.device import DeviceCorpus, HostCorpus, Pages
from simplex_jax._src.corpus.store import Stored
from simplex_jax._src.draws.keys import by_native_code, split
from simplex_jax._src.models.lda import model, pages
from simplex_jax._src.models.lda.options import local_step, prior, step_size
from simplex_jax._src.models.lda.seeds import Seeds
from simplex_jax._src.models.topics.data import Selection, Size, Training, on_host
from simplex_jax._src.runtime import devices, processes

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
    numbers, which `pages.Files` replaces by the documents. The devices of all processes share the
    documents of a `HostCorpus`.
    """
    shape = (settings.num_topics, size.words)
    alpha, learn_alpha = prior("alpha", settings.alpha, settings.num_topics)
    beta, learn_beta = prior("beta", settings.beta, size.words)
    feed: Feed
    if isinstance(data, Stored | Selection):
        stored, among = data if isinstance(data, Selection) else (data, None)
        kernel = model.build_streaming(
            size.documents,
            shape,
            alpha=np.asarray(alpha, np.float32),
            beta=np.asarray(beta, np.float32),
            learn_alpha=learn_alpha,
            seeds=seeds,
            sampler=settings.sampler,
            total=settings.total,
            local_step=local_step(settings),
            step_size=step_size(settings),
        )
        feed = functools.partial(_read, stored, settings.batch_size, among)
    else:
        kernel, stream = model.build(
            data,
            shape,
            alpha=np.asarray(alpha, np.float32),
            beta=np.asarray(beta, np.float32),
            learn_alpha=learn_alpha,
            learn_beta=learn_beta,
            seeds=seeds,
            sampler=settings.sampler,
            total=settings.total,
            counts=settings.counts,
            local_step=local_step(settings),
            step_size=step_size(settings),
            batch_size=settings.batch_size,
            devices=devices.of_all_processes(settings.devices)
            if isinstance(data, HostCorpus)
            else None,
        )
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
    del key, first_step
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
    if pages.on_disk(data, settings):
        return device.pages(host.lengths, settings.batch_size)
    return host if is_shared(settings) else device.to_device(host)


def is_shared(settings: Any) -> bool:
    """Return whether several devices share the documents."""
    return settings.counts == "memoised" and settings.devices * processes.count() > 1

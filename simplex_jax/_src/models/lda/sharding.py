"""LDA with documents and topics sharded over devices: GPUs, or CPUs of several processes.

Every device draws the labels of its own documents, for which it temporarily gathers all topics (an
all-gather). It receives the changes of the counts for its own topics from every device (an
all-to-all), adds them up, draws these topics, and keeps both. If that would change a bit, see
`shared_topics`, every device counts and draws all topics. This uses `shard_map`: in a sharded `jit`
the exit test of every rejection loop would be a collective.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from simplex_jax._src import sharded_rows
from simplex_jax._src.base import Batch, Kernel, PyTree, bind
from simplex_jax._src.corpus import device
from simplex_jax._src.corpus.device import DeviceCorpus, HostCorpus
from simplex_jax._src.draws.native import LIBRARY
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.models.lda import kernel
from simplex_jax._src.models.lda.kernel import Config, Memory, Shard, State
from simplex_jax._src.runtime.checkpoint import Parts
from simplex_jax._src.samplers import expanded
from simplex_jax._src.sharded_rows import Rows

AXIS = "documents"
_NO_DOCUMENTS = Estimator(lambda key: (), lambda key, memory, position, counts: (counts, memory))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Spread:
    """The kernel of every device, for the documents dealt to it."""

    corpus: DeviceCorpus  # leaves [shards, ...]
    config: Config
    shard: Shard = dataclasses.field(metadata={"static": True})
    mesh: Mesh = dataclasses.field(metadata={"static": True})

    def kernel(self) -> Kernel:
        """Return the kernel of the documents of this device; inside `shard_map` only."""
        corpus = jax.tree.map(lambda leaf: leaf[0], self.corpus)
        return kernel.kernel_of(kernel.source_of(corpus, self.config, self.shard))

    def specs(self, state: State) -> State:
        """Return the sharding of a state: labels, topics and counts; the rest is replicated."""
        rows = P() if self.shard.topics is None else P(AXIS)
        everywhere = jax.tree.map(lambda _: P(), state)
        return with_spread(everywhere, position=rows, labels=P(AXIS), counts=rows)

    def map(self, function: Callable, in_specs: tuple, out_specs: PyTree) -> Callable:
        """Return `function(spread, ...)` run on every device with its own documents."""
        specs: Any = {"corpus": P(AXIS), "config": P()}
        return jax.shard_map(
            function,
            mesh=self.mesh,
            in_specs=(dataclasses.replace(self, **specs), *in_specs),
            out_specs=out_specs,
            check_vma=False,
        )


def memoised(corpus: HostCorpus, devices: Sequence[jax.Device], config: Config) -> Kernel:
    """Return the kernel of LDA with memoised counts, sharded over two devices or more.

    Its state is that of one device, except that labels are [shards, T] and stay with their
    documents, and the rows of topics and counts are sharded, with unused padding at the end
    (`sharded_rows`).
    """
    topics = shared_topics(config.sampler, len(devices), config.shape[0])
    mesh = Mesh(np.asarray(devices), (AXIS,))
    spread = Spread(
        corpus=device.deal(corpus, mesh),
        config=config,
        shard=Shard(AXIS, len(devices), topics),
        mesh=mesh,
    )
    return Kernel(init=bind(_init, spread), update=bind(_update, spread))


def _init(spread: Spread, key: jax.Array, position: jax.Array) -> State:
    # The sampler's own start, without documents. Not traced, so that errors are raised here and
    # rounding is that of a single device.
    init = kernel.SAMPLERS[spread.config.sampler].init
    start = init(key, position, estimator=_NO_DOCUMENTS)
    return _start(spread, key, position, start.position)


@jax.jit
def _start(spread: Spread, key: jax.Array, position: jax.Array, log_position: jax.Array) -> State:
    """Start on every device. Jitted, since otherwise each call would compile its `shard_map`."""

    def begin(spread, key, position):
        state = spread.kernel().init(key, position)
        return with_labels(state, labels_of(state)[None])

    def start(spread, key, position, log_position):
        own = expanded.own_rows(spread.shard.topics, log_position)
        return begin(spread, key, position)._replace(position=own)

    specs = spread.specs(jax.eval_shape(begin, spread, key, position))
    return spread.map(start, (P(), P(), P()), specs)(spread, key, position, log_position)


def _update(spread: Spread, key: jax.Array, state: State, batch: Batch) -> tuple[State, PyTree]:
    def move(spread, key, state, batch):
        return spread.kernel().update(key, state, batch)

    specs = spread.specs(state)
    return spread.map(move, (P(), specs, P()), (specs, P()))(spread, key, state, batch)


def shared_topics(sampler: str, devices: int, num_topics: int) -> Rows | None:
    """Return the topics of each device; None if each device counts and draws all topics.

    That is the case with samplers that cannot move part of the topics, and without native code, as
    on GPUs and in double precision: XLA gives a part different bits, see `sharded_rows`.
    """
    native = jax.default_backend() == "cpu" and LIBRARY.prefix() is not None
    if native and jnp.result_type(float) == jnp.float32 and kernel.SAMPLERS[sampler].shared:
        return Rows(AXIS, devices, num_topics)
    return None


def rows_of(state: State) -> NamedSharding | None:
    """Return how devices share topics, arrays [chains, K, V]; None if each has all topics."""
    sharding: Any = state.position.sharding
    if sharding.is_fully_replicated:
        return None
    return NamedSharding(sharding.mesh, P(None, AXIS))


def topics_of(state: State) -> jax.Array:
    """Return the logarithm of the topics, [..., K, V], on each device (`gather_rows`)."""
    return sharded_rows.gather_rows(state.position, state.alpha.shape[-1])


def dealt_again(
    saved: Parts, lengths: np.ndarray, like: jax.ShapeDtypeStruct, *, chains: bool = False
) -> jax.Array:
    """Return labels saved by any number of devices, placed on the devices of a run.

    A process reads only the labels of its own documents.

    Args:
        saved: Labels [T] of one device or [shards, T] of several, with a leading axis of chains.
        lengths: Tokens of the D documents.
        like: The shape, dtype and sharding of the result.
        chains: Whether there is an axis of chains.

    Raises:
        ValueError: The labels do not belong to these documents.
    """
    shards = math.prod(like.shape[int(chains) : -1])

    def part(index: Any) -> np.ndarray:
        labels = device.zeros(like.sharding.shard_shape(like.shape), like.dtype)
        own = labels.reshape(*like.shape[: int(chains)], -1)
        fill_labels(own, saved, lengths, index[-2].start if shards > 1 else 0, shards)
        return labels

    return jax.make_array_from_callback(like.shape, like.sharding, part)


def fill_labels(
    labels: np.ndarray, saved: Parts, lengths: np.ndarray, shard: int = 0, shards: int = 1
) -> None:
    """Read the labels of one of several shards of a run, [T], with a leading axis of chains.

    See `dealt_again`. Reads some documents at a time, as `labels` may be a mapped file.
    """
    lead, lengths = labels.shape[:-1], np.sort(lengths)
    old = [
        row
        for _, part in sorted(saved.parts.items())
        for row in np.moveaxis(part.reshape(*lead, -1, part.shape[-1]), -2, 0)
    ]
    fullest = max(int(lengths[first :: len(old)].sum()) for first in range(len(old)))
    if saved.dtype != labels.dtype or saved.shape[-1] < fullest:
        raise ValueError("the checkpoint's labels are not those of these documents")
    if len(old) == shards:
        labels[...] = old[shard]
        return
    before, after = _starts(lengths, len(old)), _starts(lengths, shards)
    own = np.arange(shard, lengths.size, shards)
    for number, row in enumerate(old):
        shared = own[own % len(old) == number]
        for chunk in device.parts(lengths[shared]):
            documents = shared[chunk]
            tokens = lengths[documents]
            source_places = device.runs(before[documents], tokens)
            labels[..., device.runs(after[documents], tokens)] = row[..., source_places]


def _starts(lengths: np.ndarray, shards: int) -> np.ndarray:
    """Return where each document starts in its shard, int64 [D]."""
    starts = np.empty_like(lengths)
    for shard in range(shards):
        own = lengths[shard::shards]
        starts[shard::shards] = np.cumsum(own) - own
    return starts


def labels_of(state: State) -> Any:
    """Return the labels in a state."""
    return state.sampler.memory.labels


def counts_of(state: State) -> Any:
    """Return the counts in a state."""
    return state.sampler.memory.counts


def without_labels(state: State) -> State:
    """Return a state without the labels of memoised counts, if it has any."""
    return with_labels(state, None) if isinstance(state.sampler.memory, Memory) else state


def with_labels(state: State, labels: Any) -> State:
    """Return a state with other labels."""
    return with_spread(state, position=state.position, labels=labels, counts=counts_of(state))


def with_spread(state: State, *, position: Any, labels: Any, counts: Any) -> State:
    """Return a state with other topics, labels and counts, the parts that devices share."""
    memory = state.sampler.memory._replace(labels=labels, counts=counts)
    return state._replace(position=position, sampler=state.sampler._replace(memory=memory))

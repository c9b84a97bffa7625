"""LDA whose documents are spread over devices: GPUs, or the CPUs of several processes.

Every device draws the labels of its own documents; the changes of the counts are summed, and all
devices then move the topics alike. Run by `shard_map`: in a sharded `jit` the exit test of every
rejection loop would be a collective of its own.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from simplex_jax.base import Batch, Kernel, PyTree, bind, static
from simplex_jax.corpus import device
from simplex_jax.corpus.device import DeviceCorpus, HostCorpus
from simplex_jax.geometry import simplex
from simplex_jax.models.lda import kernel
from simplex_jax.models.lda.counts import Shard
from simplex_jax.models.lda.kernel import Means, State
from simplex_jax.schedules import StepSize

AXIS = "documents"


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Spread:
    """The kernel of every device, over the documents that were dealt to it."""

    corpus: DeviceCorpus  # leaves [shards, ...]
    means: Means
    step_size: StepSize
    # (corpus, means, step size) -> the kernel of the documents of a device
    build: Callable = dataclasses.field(metadata={"static": True})
    mesh: Mesh = dataclasses.field(metadata={"static": True})

    def kernel(self) -> Kernel:
        """Return the kernel of the documents of this device; inside `shard_map` only."""
        corpus = jax.tree.map(lambda leaf: leaf[0], self.corpus)
        return self.build(corpus, self.means, self.step_size)

    def map(self, function: Callable, in_specs: tuple, out_specs: PyTree) -> Callable:
        """Return `function(spread, ...)` run on every device with its own documents."""
        specs: Any = {"corpus": P(AXIS), "means": P(), "step_size": P()}
        return jax.shard_map(
            function,
            mesh=self.mesh,
            in_specs=(dataclasses.replace(self, **specs), *in_specs),
            out_specs=out_specs,
            check_vma=False,
        )


def memoised(
    corpus: HostCorpus,
    devices: Sequence[jax.Device],
    means: Means,
    step_size: StepSize,
    options: dict[str, Any],
) -> Kernel:
    """Return the kernel of LDA with memoised counts, spread over two devices or more.

    Its state is that of one device, but for labels [shards, T] that stay where their documents are.
    `options` are the other arguments of `kernel.memoised`.
    """
    mesh = Mesh(np.asarray(devices), (AXIS,))
    spread = Spread(
        corpus=device.deal(corpus, mesh),
        means=means,
        step_size=step_size,
        build=static(kernel.memoised, **options, shard=Shard(AXIS, len(devices))),
        mesh=mesh,
    )
    return Kernel(init=bind(_init, spread), update=bind(_update, spread))


def _init(spread: Spread, key: jax.Array, position: jax.Array) -> State:
    # Not traced: for its errors, and since compiled code rounds otherwise than a single device's.
    log_position = simplex.log_position(position)
    state = _start(spread, key, position)
    return state._replace(position=jax.device_put(log_position, NamedSharding(spread.mesh, P())))


@jax.jit
def _start(spread: Spread, key: jax.Array, position: jax.Array) -> State:
    """Start on every device. Jitted: every call would compile a `shard_map` of its own."""

    def start(spread, key, position):
        return _outside(spread.kernel().init(key, position))

    specs = _specs(jax.eval_shape(start, spread, key, position))
    return spread.map(start, (P(), P()), specs)(spread, key, position)


def _update(spread: Spread, key: jax.Array, state: State, batch: Batch) -> tuple[State, PyTree]:
    def move(spread, key, state, batch):
        state, info = spread.kernel().update(key, _inside(state), batch)
        return _outside(state), info

    specs = _specs(state)
    return spread.map(move, (P(), specs, P()), (specs, P()))(spread, key, state, batch)


def _specs(state: State) -> State:
    """Return how a state is spread: the labels over the devices, the rest on each."""
    return with_labels(jax.tree.map(lambda _: P(), state), P(AXIS))


def _inside(state: State) -> State:
    return with_labels(state, labels_of(state)[0])


def _outside(state: State) -> State:
    return with_labels(state, labels_of(state)[None])


def dealt_again(
    labels: np.ndarray,
    lengths: np.ndarray,
    like: np.ndarray | jax.ShapeDtypeStruct,
    *,
    chains: bool = False,
) -> np.ndarray:
    """Return the labels of a corpus, as any number of devices had them, for those of a run.

    Args:
        labels: Labels [T] of one device or [shards, T] of several, with a leading axis of chains.
        lengths: Tokens of the D documents.
        like: An array of the shape and dtype that they are to have.
        chains: Whether there is that axis.

    Raises:
        ValueError: They are not those of such a corpus.
    """
    lengths, lead = np.sort(lengths), like.shape[:1] if chains else (1,)
    old = labels.reshape(*lead, -1, labels.shape[-1])
    shards = math.prod(like.shape[int(chains) : -1])
    fullest = max(int(lengths[first :: old.shape[1]].sum()) for first in range(old.shape[1]))
    if labels.dtype != like.dtype or old.shape[-1] < fullest:
        raise ValueError("the checkpoint's labels are not those of these documents")
    if old.shape[1] != shards:
        flat = np.empty((*lead, int(lengths.sum())), like.dtype)
        for shard, mine in enumerate(_dealt(lengths, old.shape[1])):
            flat[:, mine] = old[:, shard, : np.count_nonzero(mine)]
        old = np.zeros((*lead, shards, like.shape[-1]), like.dtype)
        for shard, mine in enumerate(_dealt(lengths, shards)):
            old[:, shard, : np.count_nonzero(mine)] = flat[:, mine]
    return old.reshape(like.shape)


def _dealt(lengths: np.ndarray, shards: int) -> Iterator[np.ndarray]:
    """Yield which tokens of all are those of each shard, bool [T]."""
    owner = np.repeat((np.arange(lengths.size) % shards).astype(np.uint16), lengths)
    for shard in range(shards):
        yield owner == shard


def labels_of(state: State) -> Any:
    """Return the labels in a state."""
    return state.sampler.memory.labels


def with_labels(state: State, labels: Any) -> State:
    """Return a state with other labels."""
    memory = state.sampler.memory._replace(labels=labels)
    return state._replace(sampler=state.sampler._replace(memory=memory))

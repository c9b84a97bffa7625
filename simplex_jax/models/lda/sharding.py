"""LDA whose documents are spread over devices: other GPUs, or the cores of a CPU.

Every device draws the labels of its own documents; the changes of the counts are summed, and all
devices then move the topics alike. Run by `shard_map`: in a sharded `jit` the exit test of every
rejection loop would be a collective of its own.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from simplex_jax.base import Batch, Kernel, PyTree, bind, static
from simplex_jax.corpus import device
from simplex_jax.corpus.device import DeviceCorpus
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
    corpus: DeviceCorpus,
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
        corpus=jax.device_put(device.deal(corpus, len(devices)), NamedSharding(mesh, P(AXIS))),
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
    return _with_labels(jax.tree.map(lambda _: P(), state), lambda _: P(AXIS))


def _inside(state: State) -> State:
    return _with_labels(state, lambda labels: labels[0])


def _outside(state: State) -> State:
    return _with_labels(state, lambda labels: labels[None])


def _with_labels(state: State, change: Callable) -> State:
    memory = state.sampler.memory
    memory = memory._replace(labels=change(memory.labels))
    return state._replace(sampler=state.sampler._replace(memory=memory))

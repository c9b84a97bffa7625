"""LDA whose documents are spread over devices: other GPUs, or the cores of a CPU.

Every device draws the labels of its own documents; the changes of the counts are summed, and all
devices then move the topics alike. Run by `shard_map`: in a sharded `jit` the exit test of every
rejection loop would be a collective of its own.
"""

import functools
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
from simplex_jax.models import lda_kernel
from simplex_jax.models.lda_counts import Shard
from simplex_jax.models.lda_kernel import Means, State
from simplex_jax.schedules import StepSize

AXIS = "documents"


def memoised(
    corpus: DeviceCorpus,
    devices: Sequence[jax.Device],
    means: Means,
    step_size: StepSize,
    options: dict[str, Any],
) -> Kernel:
    """Return the kernel of LDA with memoised counts, spread over devices.

    Its state is that of one device, but for labels [shards, T] that stay where their documents are.

    Args:
        corpus: The whole corpus.
        devices: The devices, two or more.
        means: The concentrations.
        step_size: Step size of the sampler.
        options: Other arguments of `lda_kernel.memoised`.
    """
    mesh = Mesh(np.asarray(devices), (AXIS,))
    dealt = jax.device_put(device.deal(corpus, len(devices)), NamedSharding(mesh, P(AXIS)))
    kernel_of = static(_kernel_of, **options, shard=Shard(AXIS, len(devices)))
    bound = (bind(kernel_of), dealt, means, step_size)
    return Kernel(
        init=bind(static(_init, mesh=mesh), *bound), update=bind(static(_update, mesh=mesh), *bound)
    )


def _kernel_of(dealt: DeviceCorpus, means: Means, step_size: StepSize, **options: Any) -> Kernel:
    """Return the kernel of the documents of this device."""
    corpus = jax.tree.map(lambda leaf: leaf[0], dealt)
    return lda_kernel.memoised(corpus, means, step_size, **options)


def _init(
    kernel_of: Callable,
    dealt: DeviceCorpus,
    means: Means,
    step_size: StepSize,
    key: jax.Array,
    position: jax.Array,
    *,
    mesh: Mesh,
) -> State:
    simplex.log_position(position)  # its errors, which traced code cannot raise
    return _start(kernel_of, dealt, means, step_size, key, position, mesh=mesh)


@functools.partial(jax.jit, static_argnames="mesh")
def _start(
    kernel_of: Callable,
    dealt: DeviceCorpus,
    means: Means,
    step_size: StepSize,
    key: jax.Array,
    position: jax.Array,
    *,
    mesh: Mesh,
) -> State:
    """Start on every device. Jitted: every call would compile a `shard_map` of its own."""

    def start(dealt, means, step_size, key, position):
        return _outside(kernel_of(dealt, means, step_size).init(key, position))

    specs = _specs(jax.eval_shape(start, dealt, means, step_size, key, position))
    return jax.shard_map(
        start,
        mesh=mesh,
        in_specs=(P(AXIS), P(), P(), P(), P()),
        out_specs=specs,
        check_vma=False,
    )(dealt, means, step_size, key, position)


def _update(
    kernel_of: Callable,
    dealt: DeviceCorpus,
    means: Means,
    step_size: StepSize,
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    mesh: Mesh,
) -> tuple[State, PyTree]:
    def move(dealt, means, step_size, key, state, batch):
        state, info = kernel_of(dealt, means, step_size).update(key, _inside(state), batch)
        return _outside(state), info

    specs = _specs(state)
    return jax.shard_map(
        move,
        mesh=mesh,
        in_specs=(P(AXIS), P(), P(), P(), specs, P()),
        out_specs=(specs, P()),
        check_vma=False,
    )(dealt, means, step_size, key, state, batch)


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

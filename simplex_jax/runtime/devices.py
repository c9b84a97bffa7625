"""The devices of a run: accelerators, or the cores of a CPU."""

import os
from contextlib import suppress
from pathlib import Path

import jax

from simplex_jax.draws import arguments

_MOST_CORES = 16


def use(count: int | None = None) -> int:
    """Return how many devices to share work between; call it before JAX has started.

    JAX sees a CPU as one device, and work of many small steps then keeps one core busy. Here each
    core becomes a device, unless JAX has started, or `JAX_NUM_CPU_DEVICES` has settled it.

    Args:
        count: How many; by default all accelerators, or the cores that this process may use, at
            most 16.

    Raises:
        ValueError: There are fewer, or `count` is no positive integer.

    Example:
        >>> from simplex_jax.runtime import devices
        >>> devices.use(1)
        1
    """
    if count is not None:
        count = arguments.at_least("devices", count, 1)
    cores = _cores()
    # More than there are cores only to go on with a run of a larger machine.
    wanted = min(_MOST_CORES, cores) if count is None else min(count, max(_MOST_CORES, cores))
    if "JAX_NUM_CPU_DEVICES" not in os.environ:
        with suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", wanted)
    there = len(jax.devices())
    if count is not None and count > there:
        raise ValueError(f"devices must be at most {there}, which is all there are; not {count}")
    return there if count is None else count


def _cores() -> int:
    """Return the cores that this process may use; of a container, those that it is granted."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    quota = ["max"]
    with suppress(OSError):
        quota = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    if quota[0] != "max":
        cores = min(cores or 1, max(1, int(quota[0]) // int(quota[1])))
    return cores or 1

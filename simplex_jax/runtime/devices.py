"""The devices of a run: accelerators, or the cores of a CPU."""

import os
from contextlib import suppress

import jax

_MOST_CORES = 16


def use(count: int | None = None) -> int:
    """Return how many devices to share work between; call it before JAX has started.

    JAX sees a CPU as one device, and work of many small steps then keeps one core busy. Here each
    core becomes a device, unless JAX has started, or `JAX_NUM_CPU_DEVICES` has settled it.

    Args:
        count: How many; by default all accelerators, or the cores that this process may use, at
            most 16.

    Raises:
        ValueError: There are fewer.

    Example:
        >>> from simplex_jax.runtime import devices
        >>> devices.use(1)
        1
    """
    wanted = min(_MOST_CORES, _cores()) if count is None else count
    if "JAX_NUM_CPU_DEVICES" not in os.environ:
        with suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", wanted)
    there = len(jax.devices())
    if count is not None and count > there:
        raise ValueError(f"devices must be at most {there}, which is all there are; not {count}")
    return there if count is None else count


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

"""The devices of a run, accelerators or CPU cores, and their memory."""

import os
from contextlib import suppress
from pathlib import Path

import jax

from simplex_jax._src import arguments
from simplex_jax._src.runtime import processes

_MOST_CORES = 16
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def use(count: int | None = None) -> int:
    """Return the number of devices to share work between; call it before JAX has started.

    JAX treats a CPU as one device, so work in many small steps uses only one core. Here each core
    becomes a device, unless JAX has started or `JAX_NUM_CPU_DEVICES` is set. The default is all
    accelerators, or the cores that this process may use, at most 16. With several processes, see
    `processes.join`, each has `count`.
    """
    if count is not None:
        count = arguments.at_least("devices", count, 1)
    cores = _cores()
    # More devices than cores only continue a run of a larger machine.
    cpus = min(_MOST_CORES, cores) if count is None else min(count, max(_MOST_CORES, cores))
    if "JAX_NUM_CPU_DEVICES" not in os.environ:
        with suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", cpus)
    available = len(jax.local_devices())
    if count is not None and count > available:
        raise ValueError(f"devices must be at most {available}, the number of them; it is {count}")
    return available if count is None else count


def of_all_processes(each: int) -> list[jax.Device]:
    """Return `each` devices of every process, in the order of the processes."""
    devices: dict[int, list[jax.Device]] = {}
    for device in jax.devices() if processes.joined() else jax.local_devices():
        devices.setdefault(device.process_index, []).append(device)
    return [device for number in sorted(devices) for device in devices[number][:each]]


def _cores() -> int:
    """Return the number of cores that this process, or its container, may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    quota = ["max"]
    with suppress(OSError):
        quota = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    if quota[0] != "max":
        cores = min(cores or 1, max(1, int(quota[0]) // int(quota[1])))
    return cores or 1


def memory() -> int:
    """Return the bytes of memory of a device; for a CPU, of all its cores together."""
    stats = jax.local_devices()[0].memory_stats() or {}
    if limit := stats.get("bytes_limit"):
        return limit
    granted = "max"
    with suppress(OSError):
        granted = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return installed if granted == "max" else min(installed, int(granted))


def check_memory(needed: int, remedy: str) -> None:
    """Raise a ValueError ending with a remedy if a device has fewer bytes than needed."""
    if needed > (available := memory()):
        raise ValueError(
            f"the run needs at least {size(needed)} of memory and the device has "
            f"{size(available)}: {remedy}"
        )


def size(count: int) -> str:
    """Return a number of bytes in a suitable unit, such as 3.0 MiB."""
    power = min((max(count, 1).bit_length() - 1) // 10, len(_UNITS) - 1)
    return f"{count / 2 ** (10 * power):.{min(power, 1)}f} {_UNITS[power]}"

"""The processes of one run, on one or more machines, by JAX's distributed runtime.

All processes run the same program on the same data, and all of them must start every computation on
shared arrays. Anything that only one process knows, from a clock, a signal or a disk, is therefore
agreed upon before the run depends on it.

Only processes joined by `join` share runs. If a program has called `jax.distributed.initialize`
itself, each process may have its own runs.
"""

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.typing import ArrayLike

# A process that does not answer for this many seconds is lost, and the others end.
_SECONDS = 30

_joined = False


def join(
    coordinator: str | None = None, processes: int | None = None, process: int | None = None
) -> None:
    """Join the processes of a run; call it before anything starts JAX.

    Under SLURM, Open MPI 4, Kubernetes and other clusters that `jax.distributed.initialize`
    detects, no argument is needed; elsewhere all three are.

    Args:
        coordinator: `HOST:PORT` at which process 0 listens, reachable by all processes.
        processes: Number of processes.
        process: Number of this process, from 0.

    Raises:
        ValueError: Only some arguments are given, they are out of range, or no cluster was
            detected.
        RuntimeError: The other processes were not reached.
    """
    missing = [value is None for value in (coordinator, processes, process)]
    if any(missing) and not all(missing):
        raise ValueError("coordinator, processes and process go together: give all three, or none")
    if processes is not None and process is not None and not 0 <= process < processes:
        raise ValueError(f"process must be from 0 to {processes - 1}; it is {process}")
    if coordinator is not None and not coordinator.rpartition(":")[2].isdigit():
        raise ValueError(f"coordinator must be HOST:PORT; it is {coordinator!r}")
    global _joined
    # Its SIGTERM handler would replace ours.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(
            coordinator,
            processes,
            process,
            heartbeat_timeout_seconds=_SECONDS,
            shutdown_timeout_seconds=_SECONDS,
        )
    except ValueError as error:
        if coordinator is not None:
            raise
        raise ValueError(
            "JAX detects no cluster here (SLURM, Open MPI 4, Kubernetes, ...): give the "
            "coordinator, the number of processes and that of this process"
        ) from error
    _yield_less()
    _joined = True


def _yield_less() -> None:
    """Make woken threads wait for the running one.

    Gloo's receiving thread, once woken, spins on a lock that the sending thread holds. If the two
    share a core and the woken thread preempts the other, which is Linux's default, it spins for its
    whole time slice, some milliseconds. The threads that JAX starts inherit the policy. A
    sandbox may refuse it, which only costs speed.
    """
    with contextlib.suppress(OSError):
        if sys.platform == "linux" and os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def joined() -> bool:
    """Return whether this is one of several processes that share runs; does not start JAX."""
    return _joined and jax.process_count() > 1


def count() -> int:
    """Return the number of processes."""
    return jax.process_count() if joined() else 1


def number() -> int:
    """Return the number of this process."""
    return jax.process_index() if joined() else 0


def is_first() -> bool:
    """Return whether this is process 0, which writes shared files."""
    return number() == 0


def agreed(value: float) -> float:
    """Return the number of process 0."""
    if not joined():
        return value
    return float(_gathered(value)[0])


def highest(value: float) -> float:
    """Return the largest number of any process."""
    if not joined():
        return value
    return float(_gathered(value).max())


def any_of(flags: Sequence[object]) -> bool:
    """Return whether one of the flags of any process is true."""
    return bool(highest(float(any(flags))))


@contextmanager
def in_step(*errors: type[Exception]) -> Iterator[None]:
    """If the block fails on one process, raise its own error there and an OSError on the others."""
    failed = None
    try:
        yield
    except errors as error:
        failed = error
    if any_of([failed]):
        raise failed or OSError("another process could not")


def agreed_text(text: str) -> str:
    """Return the text of process 0."""
    if not joined():
        return text
    data = np.frombuffer(os.fsencode(text), np.uint8)
    room = int(agreed(data.size))
    padded = np.zeros(room, np.uint8)
    padded[: data.size] = data[:room]
    shared = multihost_utils.broadcast_one_to_all(padded)
    return os.fsdecode(np.asarray(shared, np.uint8).tobytes())


def _gathered(value: ArrayLike) -> np.ndarray:
    # As 32-bit words, since JAX would round the number without x64.
    words = np.asarray([value], np.float64).view(np.uint32)
    every = np.ascontiguousarray(multihost_utils.process_allgather(words), np.uint32)
    return every.reshape(-1, words.size).view(np.float64)[:, 0]


def share(total: int) -> range:
    """Return this process's part of 0..total-1."""
    size = -(-total // count())
    first = min(total, number() * size)
    return range(first, min(total, first + size))


def leave(status: int) -> None:
    """Exit at once after an error, since this process and the others would wait for each other."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)

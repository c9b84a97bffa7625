"""The processes of one run, on one machine or on many, by JAX's own distributed runtime.

All processes run the same program on the same data, and every computation on arrays that they
share is one that all of them begin. What a clock, a signal or a disk says to one process alone is
therefore agreed upon before the run depends on it.

Only processes that `join` has brought together share runs: those of a program that has called
`jax.distributed.initialize` itself may each have runs of their own.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.typing import ArrayLike

# A process that does not answer for this time is lost, and the others end.
_SECONDS = 30

_joined = False


def join(
    coordinator: str | None = None, processes: int | None = None, process: int | None = None
) -> None:
    """Join the processes of a run; call it before anything starts JAX.

    Under SLURM, Open MPI 4, Kubernetes and whatever else `jax.distributed.initialize` detects no
    argument is needed; anywhere else all three are.

    Args:
        coordinator: `HOST:PORT` at which process 0 listens, an address that all of them reach.
        processes: Number of processes.
        process: Number of this one, from 0.

    Raises:
        ValueError: Some arguments are given and others missing, they are out of range, or nothing
            was detected.
        RuntimeError: The others were not reached.
    """
    missing = [value is None for value in (coordinator, processes, process)]
    if any(missing) and not all(missing):
        raise ValueError("coordinator, processes and process go together: give all three, or none")
    if processes is not None and process is not None and not 0 <= process < processes:
        raise ValueError(f"process must be from 0 to {processes - 1}; it is {process}")
    if coordinator is not None and not coordinator.rpartition(":")[2].isdigit():
        raise ValueError(f"coordinator must be HOST:PORT; it is {coordinator!r}")
    global _joined
    # Its handler of SIGTERM would take the place of ours.
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
    """Let threads that are woken wait for the one that runs.

    Gloo's receiving thread, once woken, asks in a loop for a lock that the sending thread holds.
    Where the two share a core and the woken thread comes first, which is Linux's default, it does
    so for its whole time slice: a collective of four numbers takes 3 ms, in place of 0.2 ms. The
    policy is inherited by the threads that JAX starts.
    """
    if sys.platform == "linux" and os.sched_getscheduler(0) == os.SCHED_OTHER:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def joined() -> bool:
    """Return whether this is one of several processes that share runs; starts nothing."""
    return _joined and jax.process_count() > 1


def count() -> int:
    """Return the number of processes."""
    return jax.process_count() if joined() else 1


def number() -> int:
    """Return the number of this process."""
    return jax.process_index() if joined() else 0


def is_first() -> bool:
    """Return whether this is process 0, which writes what there is once."""
    return number() == 0


def agreed(value: float) -> float:
    """Return the number that process 0 has."""
    if not joined():
        return value
    return float(_gathered(value)[0])


def highest(value: float) -> float:
    """Return the largest of the numbers that the processes have."""
    if not joined():
        return value
    return float(_gathered(value).max())


def any_of(flags: Sequence[object]) -> bool:
    """Return whether one of the flags of any process is true."""
    return bool(highest(float(any(flags))))


@contextmanager
def in_step(*errors: type[Exception]) -> Iterator[None]:
    """Raise an error of the block on all processes if one of them does: its own, or an OSError."""
    failed = None
    try:
        yield
    except errors as error:
        failed = error
    if any_of([failed]):
        raise failed or OSError("another process could not")


def agreed_text(text: str) -> str:
    """Return the text that process 0 has."""
    if not joined():
        return text
    data = np.frombuffer(os.fsencode(text), np.uint8)
    room = int(agreed(data.size))
    padded = np.zeros(room, np.uint8)
    padded[: data.size] = data[:room]
    shared = multihost_utils.broadcast_one_to_all(padded)
    return os.fsdecode(np.asarray(shared, np.uint8).tobytes())


def _gathered(value: ArrayLike) -> np.ndarray:
    # As words: without x64, JAX would round a number to 32 bits.
    words = np.asarray([value], np.float64).view(np.uint32)
    every = np.ascontiguousarray(multihost_utils.process_allgather(words), np.uint32)
    return every.reshape(-1, words.size).view(np.float64)[:, 0]


def share(total: int) -> range:
    """Return the part of 0..total-1 that is this process's."""
    size = -(-total // count())
    first = min(total, number() * size)
    return range(first, min(total, first + size))


def leave(status: int) -> None:
    """End this process after an error, at once: the others would wait for it, and it for them."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)

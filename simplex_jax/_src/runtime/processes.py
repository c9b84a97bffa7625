"""The processes of one run, on one or more machines, by JAX's distributed runtime.

All processes run the same program on the same data, and all of them must start every computation on
shared arrays. Anything that only one process knows, from a clock, a signal or a disk, is therefore
agreed upon before the run depends on it.

Only processes joined by `join` share runs. If a program has called `jax.distributed.initialize`
itself, each process may have its own runs.
"""

import contextlib
import hashlib
import json
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

# A process that does not answer for this many seconds is lost, and the others end.
_SECONDS = 30

# They wait for each other for this many seconds at the start.
_PATIENCE = 300

# Process 0 of a run that fails waits for this many seconds before it goes.
_GRACE = 5

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
        ConnectionError: The other processes were not reached, or process 0 cannot listen there.

    Example: process 1 of 2, before its first computation.

        >>> from simplex_jax import runtime
        >>> runtime.join("10.0.0.1:9876", processes=2, process=1)  # doctest: +SKIP
    """
    missing = [value is None for value in (coordinator, processes, process)]
    if any(missing) and not all(missing):
        raise ValueError("coordinator, processes and process go together: give all three, or none")
    if processes is not None and process is not None and not 0 <= process < processes:
        raise ValueError(f"process must be from 0 to {processes - 1}; it is {process}")
    if coordinator is not None and not coordinator.rpartition(":")[2].isdigit():
        raise ValueError(f"coordinator must be HOST:PORT; it is {coordinator!r}")
    if coordinator is not None and process is not None:
        _meet(coordinator, process)
    global _joined
    # Its SIGTERM handler would replace ours.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(
            coordinator,
            processes,
            process,
            initialization_timeout=_PATIENCE,
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
    except RuntimeError as error:  # of JAX
        raise ConnectionError(
            f"the processes have not met at {coordinator or 'the coordinator'}: start all of them "
            f"within {_PATIENCE} s of each other, with the same coordinator and number of "
            f"processes ({' '.join(str(error).split())[:200]})"
        ) from error
    _yield_less()
    _joined = True


def _meet(coordinator: str, process: int) -> None:
    """Raise a ConnectionError if process 0 cannot listen at its address, or does not.

    JAX has no message for the first, and ends the program for the second.
    """
    host, _, port = coordinator.rpartition(":")
    if process == 0:
        try:
            socket.create_server(("", int(port))).close()
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConnectionError(
                f"process 0 cannot listen at port {port} of this machine ({reason}): give all "
                "processes a coordinator with another port"
            ) from None
        return
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS).close()
            return
        except OSError as error:
            if time.monotonic() > end:
                raise ConnectionError(
                    f"process 0 has not answered at {coordinator} for {_PATIENCE} s ({error}): "
                    "start it, and give all processes the same coordinator, HOST:PORT, where HOST "
                    "is the machine of process 0"
                ) from None
            time.sleep(0.2)


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
    """Return whether this is process 0, which writes shared files.

    Example:
        >>> from simplex_jax import runtime
        >>> runtime.is_first()  # a single process
        True
    """
    return number() == 0


def broadcast(value: float) -> float:
    """Return the number of process 0."""
    return broadcast_all([value])[0]


def broadcast_all(values: Sequence[float]) -> list[float]:
    """Return the numbers of process 0, in one exchange."""
    if not joined():
        return list(values)
    return list(map(float, _gathered(values)[0]))


def highest(value: float) -> float:
    """Return the largest number of any process."""
    if not joined():
        return value
    return float(_gathered([value]).max())


def any_of(flags: Sequence[object]) -> bool:
    """Return whether one of the flags of any process is true."""
    return bool(highest(float(any(flags))))


@contextmanager
def raise_together(*errors: type[Exception]) -> Iterator[None]:
    """If the block fails on one process, raise its own error there and an OSError on the others."""
    failed = None
    try:
        yield
    except errors as error:
        failed = error
    if any_of([failed]):
        raise failed or OSError("another process could not")


def broadcast_text(text: str) -> str:
    """Return the text of process 0."""
    if not joined():
        return text
    data = np.frombuffer(os.fsencode(text), np.uint8)
    room = int(broadcast(data.size))
    padded = np.zeros(room, np.uint8)
    padded[: data.size] = data[:room]
    shared = multihost_utils.broadcast_one_to_all(padded)
    return os.fsdecode(np.asarray(shared, np.uint8).tobytes())


def check_alike(values: Mapping[str, Any]) -> None:
    """Raise a ValueError on all processes unless they give the same values, which JSON can hold.

    Processes with other shapes of arrays would wait for each other, or JAX would abort them.
    """
    if not joined():
        return
    text = json.dumps(values, sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode()).digest()[:6]  # a whole number that a float holds
    digests = _gathered([float(int.from_bytes(digest))])[:, 0]
    if (digests == digests[0]).all():
        return
    first = json.loads(broadcast_text(text))
    own = json.loads(text)
    names = [name for name in first | own if first.get(name) != own.get(name)]
    others = ", ".join(str(number) for number in np.flatnonzero(digests != digests[0]))
    differing = "; ".join(
        f"{name} is {_short(own.get(name))} here and {_short(first.get(name))} in process 0"
        for name in names[:3]
    )
    raise ValueError(
        f"the processes of a run need the same options and data, and those of process {others} "
        f"differ from those of process 0{f' ({differing})' if differing else ''}: start all with "
        "the same command"
    )


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _gathered(values: Sequence[float]) -> np.ndarray:
    """Return the numbers of every process, [processes, n]."""
    # As 32-bit words, since JAX would round the numbers without x64.
    words = np.asarray(values, np.float64).view(np.uint32)
    every = np.ascontiguousarray(multihost_utils.process_allgather(words), np.uint32)
    return every.reshape(-1, words.size).view(np.float64)


def share(total: int) -> range:
    """Return this process's part of 0..total-1."""
    size = -(-total // count())
    first = min(total, number() * size)
    return range(first, min(total, first + size))


def leave(status: int, *, lost: bool = False) -> None:
    """Exit after an error without a farewell, for which this process and the others would wait.

    Process 0 goes last: JAX aborts the others when it goes, and those with the same error, such as
    a wrong option, would not come to say theirs. If the other one of two is `lost`, it goes at
    once: JAX aborts it, too, when it misses the other.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    if is_first() and not (lost and count() == 2):
        time.sleep(_GRACE)
    os._exit(status)

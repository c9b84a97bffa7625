"""A lock that admits one process at a time to a directory."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # on Windows, where nothing is locked
    fcntl = None  # type: ignore[assignment]

NAME = ".simplex-jax.lock"
"""The file that is locked, with the number of the process in it."""


@contextmanager
def locked(directory: str | Path) -> Iterator[None]:
    """Keep other processes out of an existing directory for the time of a block.

    The lock is the kernel's (`flock`), which frees it when the process ends, however it ends: the
    file may stay behind and blocks nobody. A file system without locks locks nothing. The message
    of the BlockingIOError names the process that is in the directory.
    """
    path = Path(directory) / NAME
    descriptor = _open(path)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        # While it is locked: a process that has opened it meanwhile sees that it is gone.
        with suppress(OSError):
            path.unlink()
        os.close(descriptor)


def check(directory: str | Path) -> None:
    """Raise the BlockingIOError of `locked` if another process is in the directory."""
    if (Path(directory) / NAME).exists():
        with locked(directory):
            pass


def _open(path: Path) -> int:
    """Open a file and lock it, such that it is at its place when it is locked."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        if not _lock(descriptor):
            holder = os.read(descriptor, 20).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise BlockingIOError(
                f"{str(path.parent)!r} is in use by another run"
                f"{f' (process {holder})' if holder else ''}: wait until it has ended, or choose "
                "another directory"
            )
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks, as some of networks are
            pass
    return True

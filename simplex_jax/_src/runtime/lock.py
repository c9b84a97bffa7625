"""A lock that admits one process at a time to a directory."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from simplex_jax._src.runtime import output

try:
    import fcntl
except ImportError:  # on Windows, where nothing is locked
    fcntl = None  # type: ignore[assignment]

NAME = ".simplex-jax.lock"
"""The lock file, which contains the process ID."""


@contextmanager
def locked(directory: str | Path) -> Iterator[None]:
    """Keep other processes out of an existing directory within a block.

    The kernel holds the lock (`flock`) and frees it however the process ends; a file left behind
    blocks nobody. On a file system without locks nothing is locked. The BlockingIOError names the
    process that uses the directory; one that cannot be written to raises a PermissionError.
    """
    path = Path(directory) / NAME
    descriptor = _open(path)
    try:
        with output.named(path):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        # Unlinked while locked, so that a process that has opened it sees that it is gone.
        with suppress(OSError):
            path.unlink()
        os.close(descriptor)


def check(directory: str | Path) -> None:
    """Raise the BlockingIOError of `locked` if another process uses the directory."""
    if (Path(directory) / NAME).exists():
        with locked(directory):
            pass


def _open(path: Path) -> int:
    """Open and lock a file that is still at its path once locked."""
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            raise PermissionError(
                f"{str(path.parent)!r} cannot be written to ({error.strerror}): choose another "
                "directory (--out), or copy the run to one that can"
            ) from None
        if not _lock(descriptor):
            holder = os.read(descriptor, 20).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise BlockingIOError(
                f"{str(path.parent)!r} is in use by another run"
                f"{f' (process {holder})' if holder else ''}: wait until it ends, or choose "
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
        except OSError:  # a file system without locks, like some network file systems
            pass
    return True

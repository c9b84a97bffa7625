"""The hidden folder in which a corpus is written, and those that killed processes left behind."""

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # on Windows, where nothing is locked, and what was left behind stays
    fcntl = None  # type: ignore[assignment]

_FILES = {"indptr.npy", "indices.npy", "data.npy", "vocabulary.json", "names.json", "corpus.json"}


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """Make a hidden folder beside `path`, to be renamed in the block; on an error it is removed.

    It is locked by the kernel (`flock`), which frees it when the process ends, however it ends. So
    the folders of processes that were killed are known; they are removed first.
    """
    _remove_left(path)
    with _made(path) as folder:
        try:
            yield folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


@contextmanager
def _made(path: Path) -> Iterator[Path]:
    """Make a folder and lock it for the time of a block."""
    while True:
        folder = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        folder.mkdir()
        with _locked(folder) as locked:
            # Another process may have taken it for one that was left, before it was locked.
            if locked is not False and folder.exists():
                yield folder
                return


@contextmanager
def _locked(folder: Path) -> Iterator[bool | None]:
    """Lock a folder for the time of a block, and tell whether it is; None where that is unknown."""
    if fcntl is None:
        yield None
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        yield False
        return
    try:
        yield _lock(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool | None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks, as some of networks are
        return None
    return True


def _remove_left(path: Path) -> None:
    """Remove folders that no process holds, if they have no other files than those of a corpus."""
    name = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}\.tmp")
    for folder in path.parent.glob(".*.tmp"):
        if name.fullmatch(folder.name) and folder.is_dir() and not folder.is_symlink():
            with suppress(OSError), _locked(folder) as locked:
                if locked and set(os.listdir(folder)) <= _FILES:
                    shutil.rmtree(folder)

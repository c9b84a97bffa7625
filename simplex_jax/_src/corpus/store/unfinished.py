"""The hidden folder in which a corpus is written, and removal of those that are left over."""

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # on Windows, where nothing is locked and leftovers stay
    fcntl = None  # type: ignore[assignment]

_FILES = {"indptr.npy", "indices.npy", "data.npy", "vocabulary.json", "names.json", "corpus.json"}


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """Make a hidden folder beside `path`, to be renamed in the block; remove it on an error.

    The kernel locks it (`flock`) and frees it when the process ends, however it ends. So folders of
    killed processes can be recognised; they are removed first.
    """
    _remove_leftovers(path)
    with _new_folder(path) as folder:
        try:
            yield folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


@contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    """Make a folder and hold a lock on it for the duration of a block."""
    while True:
        folder = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        folder.mkdir()
        with _locked(folder) as locked:
            # Another process may have removed it as a leftover before it was locked.
            if locked is not False and folder.exists():
                yield folder
                return


@contextmanager
def _locked(folder: Path) -> Iterator[bool | None]:
    """Lock a folder for a block, and yield whether that worked; None if unknown."""
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
    except OSError:  # a file system without locks, as some network file systems are
        return None
    return True


def _remove_leftovers(path: Path) -> None:
    """Remove folders that no process has locked, if they contain only files of a corpus."""
    name = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}\.tmp")
    for folder in path.parent.glob(".*.tmp"):
        if name.fullmatch(folder.name) and folder.is_dir() and not folder.is_symlink():
            with suppress(OSError), _locked(folder) as locked:
                if locked and set(os.listdir(folder)) <= _FILES:
                    shutil.rmtree(folder)

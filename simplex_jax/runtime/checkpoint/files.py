"""Directories that are whole or absent, and in which every byte is known."""

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from simplex_jax.runtime import output
from simplex_jax.runtime.checkpoint.errors import Damaged

SUMS = "SHA256SUMS"
_OS_ERROR = re.compile(r"os_error_code='(\d+)'")  # in the messages of TensorStore


@contextmanager
def publishing(path: Path) -> Iterator[Path]:
    """Make a directory that appears as `path` when the block ends without an error.

    Yields:
        A hidden directory beside it, to be filled and then sealed; it is flushed to the disk, file
        by file, and renamed. On an error it is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for leftover in path.parent.glob(".*.tmp"):
        shutil.rmtree(leftover, ignore_errors=True)
    temporary = _hidden(path)
    try:
        temporary.mkdir()
        yield temporary
        for name in _regular_files(temporary):
            _flush(temporary / name)
        for directory, _, _ in os.walk(temporary):
            output.flush_directory(Path(directory))
        temporary.rename(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    output.flush_directory(path.parent)


def remove(path: Path) -> None:
    """Remove a directory, which is out of sight at once; what cannot be removed now stays."""
    hidden = _hidden(path)
    with suppress(OSError):
        path.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def seal(directory: Path) -> None:
    """Write the SHA-256 of every file to `SHA256SUMS`, as `sha256sum -c` reads it."""
    (directory / SUMS).write_bytes(_sums(directory))


def verify(directory: Path) -> None:
    """Raise `Damaged` unless the directory holds exactly the files, and bytes, that were sealed."""
    try:
        written = (directory / SUMS).read_bytes()
        found = _sums(directory)
    except OSError as error:
        raise Damaged(reason(error)) from None
    if written == found:
        return
    lines = set(written.splitlines()) ^ set(found.splitlines())
    names = {line[66:].decode("utf-8", "replace") for line in lines} - {""}
    sealed = {line[66:].decode("utf-8", "replace") for line in found.splitlines()}
    changed = sorted(names & sealed)
    raise Damaged(f"{changed[0]} has changed" if changed else "a file is missing")


def reason(error: BaseException) -> str:
    """Return why an operation failed, in a few words."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error)
    if match := _OS_ERROR.search(text):
        return os.strerror(int(match[1]))
    return (text.splitlines() or [type(error).__name__])[0][:200]


def _sums(directory: Path) -> bytes:
    lines = []
    for name in _regular_files(directory):
        if name != SUMS:
            with (directory / name).open("rb") as file:
                lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n")
    return "".join(lines).encode()


def _regular_files(directory: Path) -> list[str]:
    found = []
    for parent, directories, files in os.walk(directory):
        for name in [*directories, *files]:
            path = Path(parent, name)
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                raise Damaged(f"{name} is not a plain file")
            if path.is_file():
                found.append(path.relative_to(directory).as_posix())
    return sorted(found)


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _hidden(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")

"""Atomic writes of the files of a run.

Every file is written under a temporary name, flushed to disk and renamed, so that a reader (even
after a crash) sees the complete old or new file. Only the metrics log grows in place.
"""

import codecs
import csv
import errno
import json
import math
import os
import re
import secrets
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import jax
import numpy as np
from jax.typing import ArrayLike


def final_name(path: Path) -> str:
    """Return the final name of an unfinished file or directory; "" for any other."""
    match = re.fullmatch(r"\.(.+)\.[0-9a-f]{8}\.tmp", path.name)
    return match[1] if match else ""


def remove(path: Path) -> None:
    """Remove a file or a link, or a directory with everything in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def is_hidden(path: Path, directory: Path) -> bool:
    """Return whether a file of a directory is hidden, such as a system's own, or its folder is."""
    return any(part.startswith(".") for part in path.relative_to(directory).parts)


def remove_leftovers(directory: Path, pattern: str) -> None:
    """Remove unfinished files of killed writes whose final names match a pattern."""
    for path in directory.glob(".*.tmp"):
        if re.fullmatch(pattern, final_name(path)):
            with suppress(OSError):
                remove(path)


def place_of(path: str | Path) -> Path:
    """Return the path of a file to write, with links resolved.

    If it exists and is not a file, such as /dev/null, raise a FileExistsError: a file would replace
    it.
    """
    place = Path(os.path.realpath(path))
    if place.exists() and not place.is_file():
        raise FileExistsError(f"{path} is not a regular file: choose another name to write to")
    return place


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Open a binary file that replaces `path` when the block ends without an error.

    The bytes go to a hidden file in the same directory (a rename is atomic only within one file
    system). On an error that file is removed and `path` is unchanged.
    """
    target = place_of(path)
    temporary = _hidden(target)
    try:
        with named(temporary), temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    flush_directory(target.parent)


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Add the name of the file being written to system errors that lack one.

    For example, the error of a full disk does not name the file.
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def publishing(path: Path) -> Iterator[Path]:
    """Create a directory that appears as `path` when the block ends without an error.

    Until then it is a hidden directory beside it. Fill it with the functions of this module, which
    flush the files that they write. On an error it is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _hidden(path)
    try:
        temporary.mkdir()
        yield temporary
        temporary.rename(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    flush_directory(path.parent)


def remove_directory(path: Path) -> None:
    """Hide a directory at once and remove it; files that cannot be removed now stay."""
    hidden = _hidden(path)
    with suppress(OSError):
        path.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def _hidden(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


def flush_directory(path: Path) -> None:
    """Flush the names in a directory to disk, which flushing the files does not do."""
    if os.name != "posix":  # elsewhere this is impossible and unnecessary
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:  # some network file systems cannot flush a directory
        if error.errno not in (errno.EBADF, errno.EINVAL):
            raise
    finally:
        os.close(descriptor)


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text with unchanged line ends, atomically."""
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


def write_json(path: str | Path, value: object) -> None:
    """Write a JSON file, atomically, preserving the order of keys.

    The value may nest mappings, sequences, strings, numbers, paths, and NumPy or JAX arrays. NaN
    and infinities, which JSON lacks, become null.
    """
    with replacing(path) as file:
        file.write(_as_bytes(json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n"))


def _as_bytes(text: str) -> bytes:
    """Return JSON as UTF-8, escaping the surrogates that file names may contain."""
    return text.encode("utf-8", "backslashreplace")


def write_csv(path: str | Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a comma-separated file with one header line, atomically."""
    with replacing(path) as file:
        # File names may contain surrogates, which are not valid text.
        writer = csv.writer(_Lines(codecs.getwriter("utf-8")(file, "replace")))
        writer.writerow(header)
        for number, row in enumerate(rows, start=1):
            if len(row) != len(header):
                raise ValueError(
                    f"rows: row {number} has {len(row)} fields and the header {len(header)}"
                )
            writer.writerow(row)


class _Lines:
    """Rows of `csv` on lines that end in a newline.

    `csv` quotes a field that has characters of its line terminator, by default a carriage return
    and a newline: both stay within it.
    """

    def __init__(self, text: codecs.StreamWriter) -> None:
        self._text = text

    def write(self, row: str) -> None:
        self._text.write(row.removesuffix("\r\n") + "\n")


def write_npz(path: str | Path, arrays: Mapping[str, ArrayLike | Sequence[str]]) -> None:
    """Write arrays by name as an uncompressed `.npz` that loads without pickle, atomically.

    No suffix is added to the file name. An array of objects raises a ValueError.
    """
    converted = {name: np.asarray(array) for name, array in arrays.items()}
    for name, array in converted.items():
        if array.dtype.hasobject:
            raise ValueError(f"arrays[{name!r}] holds Python objects: give numbers or strings")
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in converted.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def append_json_line(path: str | Path, record: Mapping[str, object]) -> None:
    """Append one record to a JSON-lines file; it is readable when the call returns."""
    with named(Path(path)), Path(path).open("ab") as file:
        file.write(_as_bytes(json_line(record)))


def json_line(record: Mapping[str, object]) -> str:
    """Return one record as a line of JSON."""
    return json.dumps(plain(record), ensure_ascii=False) + "\n"


def plain(value: object) -> object:
    """Return a value for `write_json` as JSON types, with None for numbers that JSON lacks."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return plain(value.tolist())
    raise TypeError(f"cannot write a {type(value).__name__} as JSON: {value!r}")

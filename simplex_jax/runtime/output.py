"""Files of a run: never over an earlier one unless told, and never half written.

Every file is written beside its final name, flushed to the disk and renamed, so a reader (or a
crash) sees the old file or the new one, whole. Only the metrics log grows in place.
"""

import codecs
import csv
import json
import math
import os
import secrets
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
from jax.typing import ArrayLike


def check(path: str | Path, *, overwrite: bool = False) -> None:
    """Raise what `prepare` would raise, and touch nothing: for a look before the work begins.

    Raises:
        FileExistsError: the directory is not empty and `overwrite` is false.
        NotADirectoryError: `path` is a file.
    """
    directory = Path(path)
    if not directory.exists():
        return
    if not directory.is_dir():
        raise NotADirectoryError(f"output {str(directory)!r} is a file: give a directory")
    found = sorted(entry.name for entry in directory.iterdir())
    if found and not overwrite:
        listed = ", ".join(found[:3]) + (", ..." if len(found) > 3 else "")
        raise FileExistsError(
            f"output directory {str(directory)!r} is not empty ({listed}): "
            "choose another one, or pass --overwrite (overwrite=True) to replace the run in it"
        )


def prepare(path: str | Path, files: Sequence[str], *, overwrite: bool = False) -> Path:
    r"""Make the directory of a run ready and return it.

    With `overwrite`, the named files of an earlier run (and what an interrupted write left of
    them) are removed, so that two runs never mix; any other file in the directory is left alone.
    Call it after the input has been read: bad input then leaves the earlier run as it was.

    Args:
        path: the directory; made, with its parents, when absent.
        files: the names of all files that the run writes.
        overwrite: allow a directory that is not empty.

    Returns:
        The directory as a `Path`.

    Raises:
        FileExistsError: the directory is not empty and `overwrite` is false.
        NotADirectoryError: `path` is a file.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as root:
        ...     directory = prepare(Path(root) / "run", ["config.json"])
        ...     write_json(directory / "config.json", {"seed": 0})
        ...     (directory / "config.json").read_text()
        '{\n  "seed": 0\n}\n'
    """
    check(path, overwrite=overwrite)
    directory = Path(path)
    directory.mkdir(parents=True, exist_ok=True)
    for name in files:
        (directory / name).unlink(missing_ok=True)
        for leftover in directory.glob(f".{name}.*.tmp"):
            leftover.unlink()
    return directory


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Open a binary file that takes the place of `path` when the block ends without an error.

    The bytes go to a hidden file in the same directory (a rename is atomic only within one file
    system). On an error that file is removed and `path` stays as it was.

    Args:
        path: the file to make or replace; its directory must exist.

    Yields:
        The open file.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with replacing(Path(root) / "a.bin") as file:
        ...         _ = file.write(b"whole")
        ...     (Path(root) / "a.bin").read_bytes()
        b'whole'
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    flush_directory(target.parent)


def flush_directory(path: Path) -> None:
    """Flush the names in a directory to the disk, where files do not bring theirs along."""
    if os.name != "posix":  # elsewhere a directory cannot be opened, nor needs to be
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text, atomically.

    Args:
        path: the file to make or replace.
        text: its contents; line ends are kept as they are.
    """
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


def write_json(path: str | Path, value: object) -> None:
    """Write a JSON file, atomically, keeping the order of keys.

    Args:
        path: the file to make or replace.
        value: mappings, sequences, strings, numbers, paths, NumPy or JAX arrays, nested at will.
            NaN and infinities become null: JSON has no such numbers.

    Raises:
        TypeError: a value of another type.
    """
    write_text(path, json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n")


def write_csv(path: str | Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a comma-separated file with one header line, atomically.

    Args:
        path: the file to make or replace.
        header: the column names.
        rows: the lines; fields are quoted where they have to be.

    Raises:
        ValueError: a row whose length is not that of the header.
    """
    with replacing(path) as file:
        writer = csv.writer(codecs.getwriter("utf-8")(file), lineterminator="\n")
        writer.writerow(header)
        for number, row in enumerate(rows, start=1):
            if len(row) != len(header):
                raise ValueError(
                    f"rows: row {number} has {len(row)} fields and the header {len(header)}"
                )
            writer.writerow(row)


def write_npz(path: str | Path, arrays: Mapping[str, ArrayLike | Sequence[str]]) -> None:
    """Write named arrays as an uncompressed `.npz` that loads without pickle, atomically.

    Args:
        path: the file to make or replace; the name is used as given, with no suffix added.
        arrays: name -> array of numbers, booleans or strings.

    Raises:
        ValueError: an array of objects, which only a pickle could hold.
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
    r"""Append one record to a JSON-lines file.

    The line is readable as soon as the call returns, and survives the end of the process.

    Args:
        path: the file, made when absent.
        record: name -> value, of the types that `write_json` takes.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as root:
        ...     append_json_line(Path(root) / "metrics.jsonl", {"step": 5, "perplexity": 1812.5})
        ...     append_json_line(Path(root) / "metrics.jsonl", {"step": 10, "perplexity": None})
        ...     print((Path(root) / "metrics.jsonl").read_text(), end="")
        {"step": 5, "perplexity": 1812.5}
        {"step": 10, "perplexity": null}
    """
    line = json.dumps(plain(record), ensure_ascii=False) + "\n"
    with Path(path).open("ab") as file:
        file.write(line.encode("utf-8"))


def plain(value: object) -> object:
    """Return what JSON has for a value of `write_json`, with None for the numbers it lacks."""
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
    if hasattr(value, "tolist"):  # NumPy and JAX arrays and scalars
        return plain(value.tolist())
    raise TypeError(f"cannot write a {type(value).__name__} as JSON: {value!r}")

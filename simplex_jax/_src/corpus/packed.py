"""Packed files (gzip, xz, bzip2, zip), recognised by their first bytes, and their limits.

A packed file may unpack to `MAX_RATIO` times its size or 64 MiB, whichever is more, but at most
64 GiB. Real corpora stay below 30 times their packed size.
"""

import bz2
import gzip
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import BinaryIO

MAX_RATIO = 200
MAX_UNPACKED = 2**36
FREE = 2**26

SUFFIXES = (".gz", ".xz", ".bz2", ".zip")
"""Suffixes of packed files; their first bytes decide the format."""

# zipfile raises the last two for unknown methods and for encrypted members.
DAMAGED = (
    EOFError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
)
"""Errors of unpacking; `OSError` without `errno` is another."""

ZIP = b"PK"
_PACKED: list[tuple[str, bytes, Callable[[BinaryIO], object]]] = [
    ("gzip", rb"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    ("xz", rb"\xfd7zXZ\0", lzma.LZMAFile),
    ("bzip2", rb"BZh[1-9]1AY&SY", bz2.BZ2File),
]


def unpacked_limit(size: int) -> int:
    """Return the largest number of bytes that a packed file of `size` bytes may unpack to."""
    return min(MAX_UNPACKED, max(FREE, MAX_RATIO * size))


def unpacker(head: bytes) -> tuple[str, Callable[[BinaryIO], object]] | None:
    """Return the name of a compression format and its opener; None if not packed."""
    packings = ((name, opener) for name, magic, opener in _PACKED if re.match(magic, head))
    return next(packings, None)


def content_name(path: Path, members: list[zipfile.ZipInfo] | None = None) -> str:
    """Return the name of the content of a file, in lower case, without a suffix of packed files."""
    if members is not None and len(members) == 1:
        return PurePosixPath(members[0].filename).name.lower()
    name = path.name.lower()
    return next((name.removesuffix(end) for end in SUFFIXES if name.endswith(end)), name)


def zip_members(file: BinaryIO) -> list[zipfile.ZipInfo] | None:
    """Return the files of a zip archive of texts, in the order of their names.

    Hidden files and those of `__MACOSX` are left out. None if the file is not a zip archive, or is
    one of arrays: `.npz` is a separate format.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
    except (*DAMAGED, ValueError, OSError):
        return None
    finally:
        file.seek(0)
    if members and all(member.filename.endswith(".npy") for member in members):
        return None
    return sorted(
        (member for member in members if not _hidden(member.filename)),
        key=lambda member: member.filename,
    )


def _hidden(name: str) -> bool:
    return any(part.startswith(".") or part == "__MACOSX" for part in PurePosixPath(name).parts)

"""Opening files that may be packed, damaged, hostile or not text at all.

Limits, each enforced by one clear error before memory is allocated:

- a packed file may unpack to as much as `packed` allows;
- a document (a line, or a file of a folder) may have 64 MiB;
- a file may declare at most 2**20 documents or words more than it has entries.
"""

import codecs
import functools
import io
import os
import re
import shutil
import stat
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from simplex_jax.corpus import packed
from simplex_jax.corpus.corpus import CorpusError, error_at, printable

MAX_DOCUMENT = 2**26
MAX_UNUSED = 2**20
BLOCK = 2**22
HEAD = 4096

STANDARD_INPUT = Path("-")
"""The path that stands for standard input."""

WHOLE = re.compile(rb"-?\d{1,18}")
"""A whole number in text formats."""

_WIDE = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")


@contextmanager
def reading(path: Path) -> Iterator[tuple[io.BufferedReader, int]]:
    """Open a regular file for reading bytes, unpacked if its first bytes show that it is packed.

    Yields the stream and the largest number of bytes that it may give. All failures of the stream
    are `CorpusError`s that name the file. An archive of several files is refused.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(HEAD)
        file.seek(0)
        limit, kind, source = size, "file", file
        if (packing := packed.unpacker(head)) is not None:
            kind, opener = packing
            limit, source = packed.unpacked_limit(size), opener(file)  # type: ignore[assignment]
        elif head.startswith(packed.ZIP) and (members := packed.zip_members(file)) is not None:
            if len(members) != 1:
                raise error_at(
                    path,
                    f"a zip archive of {len(members)} files",
                    "give an archive of one file, or of texts only (--format folder)",
                )
            limit, kind = packed.unpacked_limit(size), "zip"
            source = open_member(zipfile.ZipFile(file), members[0], path)
        stream: io.BufferedReader = io.BufferedReader(Guarded(source, path, limit, kind), 2**16)
        with stream:
            if stream.peek(len(codecs.BOM_UTF8)).startswith(codecs.BOM_UTF8):
                stream.read(len(codecs.BOM_UTF8))  # Windows writes it even before counts
            if not stream.peek(1):
                raise error_at(path, "the file is empty", "give a non-empty file")
            packed.refuse_unknown(stream.peek(HEAD), path)
            yield stream, limit


def open_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> BinaryIO:
    """Open a file of a zip archive, or raise a CorpusError if it is encrypted or damaged."""
    try:
        return archive.open(member)  # type: ignore[return-value]
    except (*packed.DAMAGED, OSError) as error:
        raise error_at(
            path,
            f"{printable(member.filename)} cannot be unpacked ({printable(error)})",
            "pack it again, without a password",
        ) from None


def as_path(path: str | Path) -> Path:
    """Return a path; an empty one is a CorpusError, and does not mean the current folder."""
    if path == "":
        raise error_at("''", "the path is empty", "name a file or a folder")
    return Path(path)


def location(path: Path) -> Path:
    """Return the path of a file; standard input is copied to a temporary file first."""
    if path != STANDARD_INPUT:
        return path
    if sys.stdin is None:  # as in a program started without it
        raise error_at(path, "standard input is closed", "name a file, or send it one")
    return Path(_spooled(sys.stdin).name)


@functools.lru_cache(maxsize=1)
def _spooled(stream: Any) -> Any:
    """Copy a stream, which can be read only once, to a file deleted when the program ends."""
    file = tempfile.NamedTemporaryFile(prefix="simplex-jax-")  # noqa: SIM115
    shutil.copyfileobj(stream.buffer, file)
    file.flush()
    return file


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file without unpacking it, or raise a `CorpusError`."""
    try:
        place = location(path)
        mode = place.stat().st_mode
        if stat.S_ISDIR(mode):
            raise error_at(path, "this is a folder", "give a file")
        if not stat.S_ISREG(mode):
            # Opening a named pipe would wait forever for a writer.
            raise error_at(path, "not a regular file", "save the data to a file first")
        return place.open("rb")
    except OSError as error:
        raise unreadable(path, error) from None
    except CorpusError:
        raise
    except ValueError as error:
        raise error_at(path, f"not a file name ({printable(error)})", "check the path") from None


def unreadable(path: Path, error: OSError) -> CorpusError:
    """Return the error for a path that the operating system cannot open."""
    reason = (error.strerror or str(error)).lower()
    return error_at(path, reason, "check the path and its permissions")


class Guarded(io.RawIOBase):
    """A raw stream that counts its bytes and turns every failure into a `CorpusError`."""

    def __init__(self, source: BinaryIO, path: Path, limit: int, kind: str):
        self._source, self._path, self._remaining, self._kind = source, path, limit, kind

    def readable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Close the source."""
        self._source.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        """Read up to a buffer's length from the source."""
        try:
            data = self._source.read(len(buffer))
        except (*packed.DAMAGED, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise unreadable(self._path, error) from None
            early = isinstance(error, EOFError)
            problem = "ends early" if early else f"is damaged ({printable(error)})"
            remedy = "copy or download the file again"
            raise error_at(self._path, f"the {self._kind} data {problem}", remedy) from None
        self._remaining -= len(data)
        if self._remaining < 0:
            raise error_at(
                self._path,
                f"unpacks to more than {packed.MAX_RATIO} times its size, like a decompression "
                "bomb",
                "unpack it yourself if you trust it",
            )
        buffer[: len(data)] = data
        return len(data)


def shown(data: bytes) -> str:
    """Return the bytes of a line, quoted for a message."""
    return printable(repr(data[:60].strip())[1:])


def ascii_compatible(encoding: str) -> bool:
    """Return whether line ends are those of ASCII, unlike UTF-16; a ValueError if unknown."""
    try:
        marked = codecs.lookup(encoding).name == "utf-8-sig"  # UTF-8 with a byte-order mark
        return marked or "\r\n".encode(encoding) == b"\r\n"
    except (LookupError, ValueError):
        raise ValueError(f"encoding={encoding!r} is unknown; try utf-8 or latin-1") from None


def text_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    r"""Yield the number (from 1) and text of every line, without its `\n` or `\r\n`."""
    if not ascii_compatible(encoding):
        problem = f"lines cannot be separated in {encoding}"
        raise error_at(path, problem, "convert the file to UTF-8 (iconv)")
    with reading(path) as (stream, _):
        lines = iter(lambda: stream.readline(MAX_DOCUMENT + 1), b"")
        for number, line in enumerate(lines, start=1):
            if len(line) > MAX_DOCUMENT:
                problem = "the line has more than 64 MiB"
                raise error_at(path, problem, "give a document a line", line=number)
            yield number, decoded(line.rstrip(b"\r\n"), path, encoding, number)


def line_blocks(
    stream: io.BufferedReader, path: Path, number: int, longest: int
) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of whole lines, about 4 MiB each, with the number of their first line.

    All lines end in a newline, including the last one of the file. The stream of `reading` is at
    line `number`. A line of more than about `longest` bytes is refused.
    """
    partial = b""
    while block := stream.read(BLOCK):
        block = partial + block
        end = block.rfind(b"\n") + 1
        if end == 0 and len(block) > longest:
            raise error_at(path, "the line is too long", "is this the right format?", line=number)
        if end:
            yield number, block[:end]
            number += block.count(b"\n")
        partial = block[end:]
    if partial:
        yield number, partial + b"\n"


def decoded(data: bytes, path: Path, encoding: str, line: int = 1) -> str:
    """Decode bytes strictly; `line` is the number of their first line, for messages."""
    single = ascii_compatible(encoding)
    if single and line == 1 and data.startswith(_WIDE):
        remedy = "convert the file to UTF-8 (iconv)"
        raise error_at(path, "the text is UTF-16 or UTF-32", remedy, line=1)
    if single and (nul := data.find(b"\0")) >= 0:
        raise error_at(
            path,
            "a NUL byte: this is not text",
            "give text, or leave binary files out",
            line=line + data.count(b"\n", 0, nul),
        )
    try:
        text = data.decode(encoding)
    except UnicodeError as error:
        start = error.start if isinstance(error, UnicodeDecodeError) else 0
        column = start - data.rfind(b"\n", 0, start)
        raise error_at(
            path,
            f"byte {column} of the line is not {encoding}",
            "convert the file, or give its encoding, such as latin-1",
            line=line + data.count(b"\n", 0, start),
        ) from None
    return text.removeprefix("\ufeff") if line == 1 else text

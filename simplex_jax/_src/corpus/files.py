"""Opening files that may be packed, damaged, hostile or not text at all.

Limits, each enforced by one clear error before memory is allocated:

- a packed file may unpack to as much as `packed` allows;
- a document (a line, or a file of a folder) may have 64 MiB;
- a file may declare at most 2**20 documents or words more than it has entries.
"""

import functools
import io
import os
import re
import shutil
import stat
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from simplex_jax._src.corpus import encodings, foreign, packed
from simplex_jax._src.corpus.corpus import CorpusError, error_at, printable
from simplex_jax._src.corpus.encodings import UTF8, Encoding, Stream

MAX_DOCUMENT = 2**26
MAX_UNUSED = 2**20
BLOCK = 2**22
HEAD = 4096

STANDARD_INPUT = Path("-")
"""The path that stands for standard input."""

WHOLE = re.compile(rb"-?\d{1,18}")
"""A whole number in text formats."""


@contextmanager
def reading(path: Path, encoding: Encoding = UTF8) -> Iterator[tuple[Stream, int]]:
    """Open a regular file for reading bytes, unpacked if its first bytes show that it is packed.

    Yields the stream and the largest number of bytes that it may give. Lines end in LF, also where
    those of the file all end in CR alone. All failures of the stream are `CorpusError`s that name
    the file. An archive of several files is refused, and so are kinds of files that have no text.
    """
    with _unpacked(path, encoding) as (stream, limit):
        head = stream.peek(HEAD)
        if b"\r" in head and b"\n" not in head and not _has_line_feed(path, encoding):
            returns = encodings.Translated(stream, lambda data: data.replace(b"\r", b"\n"))
            stream = Stream(returns, stream.encoding)
        yield stream, limit


@contextmanager
def _unpacked(path: Path, encoding: Encoding) -> Iterator[tuple[Stream, int]]:
    """Open a file as `reading` does, with its own line ends."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(HEAD)
        file.seek(0)
        limit, kind, source = size, "file", file
        if (packing := packed.unpacker(head)) is not None:
            kind, opener = packing
            limit, source = packed.unpacked_limit(size), opener(file)  # type: ignore[assignment]
        elif head.startswith(packed.ZIP) and (members := packed.zip_members(file)) is not None:
            foreign.refuse_members([member.filename for member in members], path)
            if len(members) != 1:
                raise error_at(
                    path,
                    f"a zip archive of {len(members)} files",
                    "give an archive of one file, or of texts only (--format folder)",
                )
            limit, kind = packed.unpacked_limit(size), "zip"
            source = open_member(zipfile.ZipFile(file), members[0], path)
        with Stream(Guarded(source, path, limit, kind), encoding) as stream:
            foreign.refuse(stream.peek(HEAD), path)
            text = encodings.recoded(stream, path)
            if not text.peek(1):
                raise error_at(path, "the file is empty", "give a non-empty file")
            yield text, limit


def _has_line_feed(path: Path, encoding: Encoding) -> bool:
    with _unpacked(path, encoding) as (stream, _):
        return any(b"\n" in block for block in iter(lambda: stream.read(BLOCK), b""))


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


def text_lines(path: Path, encoding: Encoding = UTF8) -> Iterator[tuple[int, str]]:
    r"""Yield the number (from 1) and text of every line, without its `\n` or `\r\n`.

    If bytes that are not in the encoding are let through, a warning at the end counts their lines.
    """
    wrong = []
    with reading(path, encoding) as (stream, _):
        lines = iter(lambda: stream.readline(MAX_DOCUMENT + 1), b"")
        for number, line in enumerate(lines, start=1):
            if len(line) > MAX_DOCUMENT:
                problem = "the line has more than 64 MiB"
                raise error_at(path, problem, "give a document a line", line=number)
            text, intact = decoded(line.rstrip(b"\r\n"), path, stream.encoding, number)
            if not intact:
                wrong.append(number)
            yield number, text
    if wrong:
        warn_of_errors(path, encoding, f"{len(wrong):,} lines, the first is line {wrong[0]}")


def warn_of_errors(path: Path, encoding: Encoding, where: str) -> None:
    """Warn of bytes that were not in the encoding, and were let through as it says."""
    warnings.warn(
        f"{path}: bytes that are not {encoding.name} in {where}: treated as "
        f"--encoding-errors (encoding_errors) {encoding.errors} says",
        stacklevel=3,
    )


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


def decoded(data: bytes, path: Path, encoding: Encoding, line: int = 1) -> tuple[str, bool]:
    """Decode bytes of a stream, and tell whether all of them were in its encoding.

    `line` is the number of their first line, for messages. A NUL byte shows that this is no text.
    """
    if (nul := data.find(b"\0")) >= 0:
        if line == 1 and (name := encodings.wide(data)):
            problem = f"a NUL byte: the text may be in {name}"
            raise error_at(path, problem, f"give --encoding (encoding) {name}", line=1)
        place = line + data.count(b"\n", 0, nul)
        raise foreign.error_of_binary(data if line == 1 else b"", path, place)
    return encodings.decoded(data, path, encoding, line)

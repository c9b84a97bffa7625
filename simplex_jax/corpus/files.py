"""Opening files that may be compressed, damaged, hostile or not text at all.

Limits, all refused with one clear error before memory is taken for them:

- a gzip or zip file may unpack to `MAX_RATIO` times its size (or 64 MiB, if that is more), and to
  64 GiB at most; real corpora stay below 30 times;
- a document (a line, or a file of a folder) may have 64 MiB;
- a file may declare at most 2**20 documents or words more than it has entries.
"""

import gzip
import io
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from simplex_jax.corpus.corpus import CorpusError, error_at, printable

MAX_RATIO = 200
MAX_UNPACKED = 2**36
MAX_DOCUMENT = 2**26
MAX_UNUSED = 2**20
FREE = 2**26
BLOCK = 2**22

WHOLE = re.compile(rb"-?\d{1,18}")
REAL = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
"""Numbers as the text formats write them."""

_GZIP = b"\x1f\x8b"
_WIDE = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")


def unpacked_limit(size: int) -> int:
    """Most bytes that a compressed file of `size` bytes may unpack to.

    Example:
        >>> unpacked_limit(10) == 2**26, unpacked_limit(2**30) == 2**36
        (True, True)
    """
    return min(MAX_UNPACKED, max(FREE, MAX_RATIO * size))


@contextmanager
def reading(path: Path) -> Iterator[tuple[io.BufferedReader, int]]:
    """Open a regular file for reading bytes, unpacked if it is gzip by its first bytes.

    Yields:
        The stream, whose every failure is a `CorpusError` naming the file, and the most bytes
        that may come out of it.

    Raises:
        CorpusError: the file is missing, unreadable, not a regular file or empty.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        packed = file.read(2) == _GZIP
        file.seek(0)
        limit = unpacked_limit(size) if packed else size
        source: BinaryIO = gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[assignment]
        stream: io.BufferedReader = io.BufferedReader(_Guarded(source, path, limit), 2**16)
        with stream:
            if not stream.peek(1):
                raise error_at(path, "the file is empty", "give a file with documents in it")
            yield stream, limit


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file as it is, or raise a `CorpusError` that says why not."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise error_at(path, "this is a folder", "give a file")
        if not stat.S_ISREG(mode):
            # Opening a named pipe would wait for a writer for ever.
            raise error_at(path, "not a regular file", "save the data to a file first")
        return path.open("rb")
    except OSError as error:
        raise unreadable(path, error) from None
    except ValueError as error:
        if isinstance(error, CorpusError):
            raise
        raise error_at(path, f"not a file name ({printable(error)})", "check the path") from None


def unreadable(path: Path, error: OSError) -> CorpusError:
    """The error for a path that the operating system refuses."""
    reason = (error.strerror or str(error)).lower()
    return error_at(path, reason, "check the path and its permissions")


class _Guarded(io.RawIOBase):
    """A raw stream that counts what it gives and turns every failure into a `CorpusError`."""

    def __init__(self, source: BinaryIO, path: Path, limit: int):
        self._source, self._path, self._left = source, path, limit

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._source.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._source.read(len(buffer))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            what = "ends early" if isinstance(error, EOFError) else f"is damaged ({error})"
            raise error_at(
                self._path, f"the gzip data {what}", "copy or download the file again"
            ) from None
        except OSError as error:
            raise unreadable(self._path, error) from None
        self._left -= len(data)
        if self._left < 0:
            raise error_at(
                self._path,
                f"unpacks to more than {MAX_RATIO} times its size, like a decompression bomb",
                "unpack it yourself if you trust it",
            )
        buffer[: len(data)] = data
        return len(data)


def ascii_compatible(encoding: str) -> bool:
    """Whether line ends are the bytes that they are in ASCII (false for UTF-16 and UTF-32).

    Raises:
        ValueError: Python does not know the encoding.
    """
    try:
        return "\r\n".encode(encoding) == b"\r\n"
    except (LookupError, UnicodeError):
        raise ValueError(f"encoding={encoding!r} is not known; utf-8 or latin-1?") from None


def text_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    r"""Number (from 1) and text of every line, without its `\n` or `\r\n`.

    Raises:
        CorpusError: the file cannot be read, is not text in `encoding`, or has a line of more
            than 64 MiB.
        ValueError: `encoding` is unknown.
    """
    if not ascii_compatible(encoding):
        raise error_at(
            path, f"lines cannot be told apart in {encoding}", "convert the file to UTF-8 (iconv)"
        )
    with reading(path) as (stream, _):
        number = 0
        while line := stream.readline(MAX_DOCUMENT + 1):
            number += 1
            if len(line) > MAX_DOCUMENT:
                raise error_at(
                    path, "the line has more than 64 MiB", "give a document a line", line=number
                )
            yield number, decoded(line.rstrip(b"\r\n"), path, encoding, number)


def line_blocks(
    stream: io.BufferedReader, path: Path, number: int, longest: int
) -> Iterator[tuple[int, bytes]]:
    """Blocks of whole lines, about 4 MiB each, with the number of their first line.

    Args:
        stream: what `reading` gave.
        path: its file, for messages.
        number: of the line that the stream is at.
        longest: most bytes of a line, about.

    Yields:
        The number, and lines that all end in a newline, the last one of the file too.

    Raises:
        CorpusError: a line is longer.
    """
    rest = b""
    while block := stream.read(BLOCK):
        block = rest + block
        end = block.rfind(b"\n") + 1
        if end == 0 and len(block) > longest:
            raise error_at(path, "the line is too long", "is this the right format?", line=number)
        if end:
            yield number, block[:end]
            number += block.count(b"\n")
        rest = block[end:]
    if rest:
        yield number, rest + b"\n"


def decoded(data: bytes, path: Path, encoding: str, line: int = 1) -> str:
    """Bytes as text, strictly; `line` is the number of their first line.

    Raises:
        CorpusError: naming the file and the line of the first byte that is not text.
        ValueError: `encoding` is unknown.
    """
    single = ascii_compatible(encoding)
    if single and line == 1 and data.startswith(_WIDE):
        raise error_at(
            path, "the text is UTF-16 or UTF-32", "convert the file to UTF-8 (iconv)", line=1
        )
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

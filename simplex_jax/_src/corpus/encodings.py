"""Encodings of text: marks, line ends, and bytes that are not in them."""

import codecs
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from simplex_jax._src.corpus.corpus import CorpusError, error_at, printable

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins with the mark of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte-order marks, and the encodings that they tell."""

_BLOCK = 2**16

ERRORS = ("strict", "replace", "ignore", "backslashreplace", "cp1252")
"""What can be done about bytes that are not in the encoding of a text."""


class Encoding(NamedTuple):
    """An encoding of text, and what to do about bytes that are not in it."""

    name: str = "utf-8"
    errors: str = "strict"  # one of `ERRORS`

    @property
    def handler(self) -> str:
        """The name of the error handler for `codecs`."""
        return "simplex_jax.cp1252" if self.errors == "cp1252" else self.errors


UTF8 = Encoding()


def _as_cp1252(error: UnicodeError) -> tuple[str, int]:
    """Decode bytes that are not UTF-8 as those of Windows, or of Latin-1 where it has none."""
    if not isinstance(error, UnicodeDecodeError) or error.encoding.startswith(("utf-16", "utf-32")):
        return codecs.replace_errors(error)  # type: ignore[return-value]
    data = error.object[error.start : error.end]
    return data.decode("cp1252", "simplex_jax.latin1"), error.end


def _as_latin1(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("latin-1"), error.end


codecs.register_error("simplex_jax.cp1252", _as_cp1252)
codecs.register_error("simplex_jax.latin1", _as_latin1)


def ascii_compatible(name: str) -> bool:
    """Return whether line ends are those of ASCII, unlike UTF-16; a ValueError if unknown."""
    try:
        marked = codecs.lookup(name).name == "utf-8-sig"  # UTF-8 with a byte-order mark
        return marked or "\r\n".encode(name) == b"\r\n"
    except (LookupError, ValueError):
        raise ValueError(f"encoding={name!r} is unknown; try utf-8 or latin-1") from None


class Stream(io.BufferedReader):
    """The bytes of a text, and the encoding in which they are."""

    def __init__(self, raw: io.RawIOBase, encoding: Encoding = UTF8):
        super().__init__(raw, _BLOCK)
        self.encoding = encoding


def recoded(stream: Stream, path: Path) -> Stream:
    """Return a stream whose line ends are those of ASCII, without a byte-order mark.

    A mark overrides the encoding of the stream: as text in another one, it is hardly ever meant.
    UTF-16 and other encodings with line ends of their own become UTF-8.
    """
    name, errors = stream.encoding
    head = stream.peek(4)
    mark, marked = next((pair for pair in _MARKS if head.startswith(pair[0])), (b"", ""))
    if marked == "utf-8":
        stream.read(len(mark))  # Windows writes it even before counts
        stream.encoding = Encoding(marked, errors)
        return stream
    name = marked or name
    if ascii_compatible(name) or not head:
        return stream
    if not mark and codecs.lookup(name).name in ("utf-16", "utf-32"):
        problem = f"no byte-order mark tells the order of bytes in {name}"
        raise error_at(path, problem, f"give --encoding (encoding) {name}-le or {name}-be")
    decoder = codecs.getincrementaldecoder(name)(Encoding(name, errors).handler)
    lines = 1

    def translate(data: bytes) -> bytes:
        nonlocal lines
        try:
            content = decoder.decode(data, final=not data).encode("utf-8")
        except UnicodeError as error:
            problem = f"not {name} in or after this line ({printable(error)})"
            raise _undecodable(path, problem, lines) from None
        lines += content.count(b"\n")
        return content

    return Stream(Translated(stream, translate), Encoding("utf-8", errors))


class Translated(io.RawIOBase):
    """A raw stream of another one's bytes, translated block by block; the last one is empty."""

    def __init__(self, source: io.BufferedReader, translate: Callable[[bytes], bytes]):
        self._source, self._translate = source, translate
        self._ready, self._ended = b"", False

    def readable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Close the source."""
        self._source.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        """Read up to a buffer's length of translated bytes."""
        while not self._ready and not self._ended:
            data = self._source.read(_BLOCK)
            self._ready, self._ended = self._translate(data), not data
        part, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


def decoded(data: bytes, path: Path, encoding: Encoding, line: int = 1) -> tuple[str, bool]:
    """Decode bytes of a `recoded` stream, and tell whether all of them were in the encoding.

    `line` is the number of their first line, for messages.
    """
    try:
        return data.decode(encoding.name), True
    except UnicodeError as error:
        if encoding.errors != "strict":
            return data.decode(encoding.name, encoding.handler), False
        start = error.start if isinstance(error, UnicodeDecodeError) else 0
        column = start - data.rfind(b"\n", 0, start)
        problem = f"byte {column} of the line is not {encoding.name}"
        raise _undecodable(path, problem, line + data.count(b"\n", 0, start)) from None


def _undecodable(path: Path, problem: str, line: int) -> CorpusError:
    remedy = (
        "give --encoding (encoding), such as latin-1, or if only some lines are wrong, "
        "--encoding-errors (encoding_errors) replace, or cp1252 for lines from Windows"
    )
    return error_at(path, problem, remedy, line=line)


def wide(data: bytes) -> str | None:
    """Return the encoding of a Western text in UTF-16 without a mark, by its NUL bytes; or None."""
    pairs = data[: len(data) // 2 * 2]
    for name, nul in (("utf-16-le", rb"(?s)(?:[^\0].)*"), ("utf-16-be", rb"(?s)(?:.[^\0])*")):
        place = 1 if name.endswith("le") else 0
        if 2 * pairs[place::2].count(0) > len(pairs[place::2]) and re.fullmatch(nul, pairs):
            return name
    return None

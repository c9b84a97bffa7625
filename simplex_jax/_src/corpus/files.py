"""Opening files that may be packed, damaged, hostile or not text at all.

Limits, each enforced by one clear error before memory is allocated:

- a packed file may unpack to as much as `unpacked_limit` allows;
- a document (a line, or a file of a folder) may have 64 MiB;
- a file may declare at most 2**20 documents or words more than it has entries.
"""

import bz2
import codecs
import functools
import gzip
import io
import lzma
import os
import re
import shutil
import stat
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple

from simplex_jax._src.corpus.corpus import CorpusError, error_at, printable
from simplex_jax._src.warn import warn_caller

# Packed files (gzip, xz, bzip2, zip), recognised by their first bytes, and their limits.
#
# A packed file may unpack to 64 MiB, to `MAX_RATIO` times its size but at most 64 GiB, or to
# `USUAL_RATIO` times its size, below which real corpora stay, whichever is most.

MAX_RATIO = 200
USUAL_RATIO = 30
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

ZIP = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
"""First bytes of a zip archive: of a file in it, of an empty one, and of one in parts."""

_PACKED: list[tuple[str, bytes, Callable[[BinaryIO], object]]] = [
    ("gzip", rb"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    ("xz", rb"\xfd7zXZ\0", lzma.LZMAFile),
    ("bzip2", rb"BZh[1-9]1AY&SY", bz2.BZ2File),
]


def unpacked_limit(size: int) -> int:
    """Return the largest number of bytes that a packed file of `size` bytes may unpack to."""
    return max(FREE, min(MAX_UNPACKED, MAX_RATIO * size), USUAL_RATIO * size)


def bomb(path: Path, limit: int) -> CorpusError:
    """Return the error for a packed file that unpacks to more than `limit` bytes."""
    problem = f"unpacks to more than {limit >> 20:,} MiB, like a decompression bomb"
    return error_at(path, problem, "unpack it yourself if you trust it")


def unpacker(head: bytes) -> tuple[str, Callable[[BinaryIO], object]] | None:
    """Return the name of a compression format and its opener; None if not packed."""
    packings = ((name, opener) for name, magic, opener in _PACKED if re.match(magic, head))
    return next(packings, None)


def content_name(path: Path, members: list[zipfile.ZipInfo] | None = None) -> str:
    """Return the name of the content of a file, without a suffix of packed files."""
    if members is not None and len(members) == 1:
        return PurePosixPath(members[0].filename).name
    return path.stem if path.suffix.lower() in SUFFIXES else path.name


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


# Encodings of text: marks, line ends, and bytes that are not in them.

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins with the mark of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte-order marks, and the encodings that they tell."""

_PART = 2**16

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
        super().__init__(raw, _PART)
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
            raise _undecodable(path, problem, lines, b"") from None
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
            data = self._source.read(_PART)
            self._ready, self._ended = self._translate(data), not data
        part, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


def decode_as(data: bytes, path: Path, encoding: Encoding, line: int = 1) -> tuple[str, bool]:
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
        text = data[start - column + 1 :].split(b"\n", 1)[0]
        raise _undecodable(path, problem, line + data.count(b"\n", 0, start), text) from None


def _undecodable(path: Path, problem: str, line: int, text: bytes) -> CorpusError:
    """Return the error for a line; `text` are its bytes, if they say something of the encoding."""
    remedy = (
        "give --encoding (encoding), such as latin-1, or if only some lines are wrong, "
        "--encoding-errors (encoding_errors) replace, or cp1252 for lines from Windows"
    )
    if 2 * sum(byte > 127 for byte in text) > len(text):
        remedy = (
            "these are not Latin letters: give --encoding (encoding), such as gb18030, big5, "
            "shift_jis, euc-kr, cp1251 or koi8-r"
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


# Files that are neither text nor counts in a known format, recognised by their first bytes.


class Kind(NamedTuple):
    """A kind of files that are not read."""

    name: str  # with an article
    start: bytes  # regular expression of its first bytes
    remedy: str


_UNPACK = "unpack it, or pack it as .zip, .gz or .xz"
_TEXT_OF = "extract its text first"
_PICTURE = "give texts, such as those that OCR finds in it"
_SOUND = "give texts, such as a transcript of it"
_PICKLED = (
    "no pickle is ever loaded, since it can run any program: where it was written, save counts "
    "with scipy.sparse.save_npz, or texts one a line"
)
_OF_R = "in R, save counts with Matrix::writeMM(counts, 'counts.mtx'), or texts with write.csv"
_OF_PANDAS = "save it as CSV: pandas.{}(file).to_csv('table.csv')"
_SAVE_NPZ = "save counts with scipy.sparse.save_npz(file, scipy.sparse.csr_array(counts))"

_NEVER_READ = (
    Kind("a 7z archive", rb"7z\xbc\xaf\x27\x1c", _UNPACK),
    Kind("a RAR archive", rb"Rar!\x1a\x07", _UNPACK),
    Kind("packed by zstd", rb"\x28\xb5\x2f\xfd", _UNPACK),
    Kind("packed by lz4", rb"\x04\x22\x4d\x18", _UNPACK),
    Kind("packed by compress", rb"\x1f\x9d[\x80-\x90]", _UNPACK),
    Kind("packed by lzip", rb"LZIP\x01", _UNPACK),
    Kind("a tar archive", rb".{257}ustar", _UNPACK),
    Kind("a PDF", rb"\s*%PDF-\d", f"{_TEXT_OF} (pdftotext)"),
    Kind("a PostScript file", rb"%!PS-Adobe", f"{_TEXT_OF} (ps2txt)"),
    Kind("a DjVu file", rb"AT&TFORM", f"{_TEXT_OF} (djvutxt)"),
    Kind(
        "an Office file of before 2007, such as .doc, .xls or .ppt",
        rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "save it as CSV or as a text file first",
    ),
    Kind("a file in Rich Text Format", rb"\{\\rtf", "save it as a text file first"),
    Kind("a web page (HTML)", rb"\s*<(?i:!doctype html|html)[\s>]", f"{_TEXT_OF} (html2text)"),
    Kind("an XML file", rb"\s*<\?xml\s", _TEXT_OF),
    Kind(
        "an object of Java, such as instances that MALLET has imported",
        rb"\xac\xed\0\x05",
        "give the texts that were imported, or the state (--output-state)",
    ),
    Kind("a pickle of Python", rb"\x80[\x02-\x05]", _PICKLED),
    Kind("a pickle of Python", rb"\([dl]p0\n|ccopy_reg\n|c__builtin__\n|cnumpy\.", _PICKLED),
    Kind("an R data file (.RData)", rb"RD[XAB][123]\n", _OF_R),
    Kind(
        "an R object (.rds)",
        rb"X\n\0\0\0[\x01-\x03]|B\n[\x01-\x03]\0\0\0|A\n[23]\n\d{6}\n\d{6}\n",
        _OF_R,
    ),
    Kind("a Parquet file", rb"PAR1\x15", _OF_PANDAS.format("read_parquet")),
    Kind("an Arrow (Feather) file", rb"ARROW1\0|FEA1\0", _OF_PANDAS.format("read_feather")),
    Kind("an ORC file", rb"ORC[\0-\x08]", _OF_PANDAS.format("read_orc")),
    Kind("an Avro file", rb"Obj\x01", "save it as JSON lines or CSV"),
    Kind(
        "an SQLite database",
        rb"SQLite format 3\0",
        "save a table as CSV: sqlite3 -header -csv FILE 'SELECT ...' > table.csv",
    ),
    Kind(
        "a DuckDB database",
        rb".{8}DUCK.\0{7}",  # and the number of its version
        "save a table as CSV: COPY ... TO 'table.csv'",
    ),
    Kind("a Stata file (.dta)", rb"<stata_dta>", _OF_PANDAS.format("read_stata")),
    Kind("an SPSS file (.sav)", rb"\$FL[23]@\(#\)", _OF_PANDAS.format("read_spss")),
    Kind("a SAS file", rb"\0{12}\xc2\xea\x81\x60", _OF_PANDAS.format("read_sas")),
    Kind(
        "a MATLAB file (.mat)",
        rb"MATLAB \d\.\d MAT-file",
        "in Python, scipy.io.loadmat reads it: " + _SAVE_NPZ,
    ),
    Kind("a PNG image", rb"\x89PNG\r\n", _PICTURE),
    Kind("a JPEG image", rb"\xff\xd8\xff", _PICTURE),
    Kind("a GIF image", rb"GIF8[79]a", _PICTURE),
    Kind("a TIFF image", rb"II[*+]\0|MM\0[*+]", _PICTURE),
    Kind("a BMP image", rb"BM.{4}\0{4}", _PICTURE),
    Kind("a WebP image", rb"RIFF.{4}WEBP", _PICTURE),
    Kind("a HEIC or AVIF image", rb"\0{3}.ftyp(?:hei|mif1|avif)", _PICTURE),
    Kind("a video or sound file", rb"\0{3}.ftyp|\x1a\x45\xdf\xa3|RIFF.{4}(?:WAVE|AVI )", _SOUND),
    Kind("a sound file", rb"ID3[\x02-\x04]|OggS\0|fLaC\0|\xff\xfb[\x90-\xe0]", _SOUND),
    Kind("a program", rb"\x7fELF|MZ.{58}.{2}\0\0|\xcf\xfa\xed\xfe", "give text, or leave it out"),
)

_BINARY = (
    Kind("an array of NumPy (.npy)", rb"\x93NUMPY", _SAVE_NPZ),
    Kind("an HDF5 file", rb"\x89HDF\r", "give it by itself, not in a folder of texts"),
    Kind("a compressed pickle of Python", rb"\x78[\x01\x5e\x9c\xda]", _PICKLED),
)
"""Kinds that are read in other places, or whose start may be text."""

_OFFICE = (
    Kind("a Word document", rb"word/", "save it as a text file"),
    Kind("an Excel workbook", rb"xl/", "save it as CSV"),
    Kind("a PowerPoint presentation", rb"ppt/", "save its text first"),
    Kind("an OpenDocument file or an e-book", rb"mimetype$", "save it as CSV or as a text file"),
    Kind("an Office file", rb"", "save it as CSV or as a text file"),
)
"""Zip archives in which programs keep tables, texts or books, by the names of their members."""

_PICKLES = (".pkl", ".pickle", ".joblib", ".dill", ".pt", ".pth")


def refuse(head: bytes, path: Path) -> None:
    """Raise a CorpusError if the first bytes are those of a file that is never read."""
    for kind in _NEVER_READ:
        if re.match(kind.start, head, re.DOTALL):
            raise error_at(path, f"this is {kind.name}", kind.remedy)


def refuse_members(names: Sequence[str], path: Path) -> None:
    """Raise a CorpusError for a zip archive of parts in XML, which would be read as texts."""
    if not {"[Content_Types].xml", "mimetype"}.isdisjoint(names):
        members = [name.encode() for name in names]
        kind = next(kind for kind in _OFFICE if any(re.match(kind.start, name) for name in members))
        raise error_at(path, f"this is {kind.name}", kind.remedy)
    if any(name.endswith("data.pkl") for name in names):
        raise error_at(path, "this is a saved model of PyTorch, a pickle", _PICKLED)


def error_of_binary(head: bytes, path: Path, line: int) -> CorpusError:
    """Return the error for a file with a NUL byte in this line; `head` is its first bytes."""
    for kind in _BINARY:
        if re.match(kind.start, head, re.DOTALL):
            return error_at(path, f"this is {kind.name}, not text", kind.remedy, line=line)
    if path.name.lower().endswith(_PICKLES):
        return error_at(path, "this is a pickle, not text", _PICKLED, line=line)
    remedy = "give text, or leave binary files out"
    return error_at(path, "a NUL byte: this is not text", remedy, line=line)


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
        # The first line may be longer than the head.
        possible = b"\n" not in head and (b"\r" in head or len(head) >= HEAD)
        if possible and _ends_in_returns(path, encoding):
            returns = Translated(stream, lambda data: data.replace(b"\r", b"\n"))
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
        if (packing := unpacker(head)) is not None:
            kind, opener = packing
            limit, source = unpacked_limit(size), opener(file)  # type: ignore[assignment]
        elif head.startswith(ZIP) and (members := zip_members(file)) is not None:
            refuse_members([member.filename for member in members], path)
            if len(members) != 1:
                raise error_at(
                    path,
                    f"a zip archive of {len(members)} files",
                    "give an archive of one file, or of texts only (--format folder)",
                )
            limit, kind = unpacked_limit(size), "zip"
            source = open_member(zipfile.ZipFile(file), members[0], path)
        with Stream(Guarded(source, path, limit, kind), encoding) as stream:
            refuse(stream.peek(HEAD), path)
            text = recoded(stream, path)
            if not text.peek(1):
                raise error_at(path, "the file is empty", "give a non-empty file")
            yield text, limit


def _ends_in_returns(path: Path, encoding: Encoding) -> bool:
    """Return whether a file has a CR, and no LF."""
    found = False
    with _unpacked(path, encoding) as (stream, _):
        for block in iter(lambda: stream.read(BLOCK), b""):
            if b"\n" in block:
                return False
            found = found or b"\r" in block
    return found


def open_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> BinaryIO:
    """Open a file of a zip archive, or raise a CorpusError if it is encrypted or damaged."""
    try:
        return archive.open(member)  # type: ignore[return-value]
    except (*DAMAGED, OSError) as error:
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
        raise error_at(path, "standard input is closed", "pass the name of a file, or pipe data in")
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
        self._source, self._path, self._kind = source, path, kind
        self._limit = self._remaining = limit

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
        except (*DAMAGED, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise unreadable(self._path, error) from None
            early = isinstance(error, EOFError)
            problem = "ends early" if early else f"is damaged ({printable(error)})"
            remedy = "copy or download the file again"
            raise error_at(self._path, f"the {self._kind} data {problem}", remedy) from None
        self._remaining -= len(data)
        if self._remaining < 0:
            raise bomb(self._path, self._limit)
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
        where = f"line {wrong[0]}"
        if len(wrong) > 1:
            where = f"{len(wrong):,} lines, the first is line {wrong[0]}"
        warn_of_errors(path, encoding, where)


def warn_of_errors(path: Path, encoding: Encoding, where: str) -> None:
    """Warn of bytes that were not in the encoding, and were let through as it says."""
    warn_caller(
        f"{path}: bytes that are not {encoding.name} in {where}: treated as "
        f"--encoding-errors (encoding_errors) {encoding.errors} says",
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
        if line == 1 and (name := wide(data)):
            problem = f"a NUL byte: the text may be in {name}"
            raise error_at(path, problem, f"give --encoding (encoding) {name}", line=1)
        place = line + data.count(b"\n", 0, nul)
        raise error_of_binary(data if line == 1 else b"", path, place)
    return decode_as(data, path, encoding, line)

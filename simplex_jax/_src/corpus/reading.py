"""Options for reading files, the parts of a corpus, and what a format is."""

import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import scipy.sparse as sp

from simplex_jax._src.corpus import files
from simplex_jax._src.corpus.corpus import Corpus
from simplex_jax._src.corpus.files import ERRORS, Encoding
from simplex_jax._src.corpus.text import TextOptions, from_texts
from simplex_jax._src.corpus.vocabulary import read_vocabulary
from simplex_jax._src.options import option, options


@options
class Reading:
    """Options for reading files of any format; `formats.FORMATS` lists those that each uses."""

    format: str | None = option(
        "Name of the format.", default=None, unset="recognised", kw_only=False, metavar="name"
    )
    vocabulary: str | Path | None = option(
        "File with one word a line. For texts, only these words are counted; for uci and ldac it "
        "replaces the vocabulary next to the file; for other counts and for vectors it names the "
        "columns. A store has its own.",
        default=None,
        unset="none",
        flag="--vocab",
        kw_only=False,
    )
    text: TextOptions | None = option(
        "Tokens and vocabulary limits, for texts.",
        default=None,
        unset="TextOptions()",
        command=False,
        kw_only=False,
    )
    encoding: str = option(
        "Encoding of texts and tables; vocabularies are UTF-8. A byte-order mark overrides it.",
        default="utf-8",
        kw_only=False,
    )
    encoding_errors: str = option(
        "What to do about bytes that are not in the encoding. replace: U+FFFD in their place; "
        "ignore: leave them out; backslashreplace: escapes; cp1252: take them for Windows' Western "
        "European. All but strict warn of them.",
        default="strict",
        choices=ERRORS,
    )
    names: str | Path | None = option(
        "File with one document name a line.", default=None, unset="those in the file"
    )
    transpose: bool = option("Words are in rows and documents in columns.", default=False)
    layer: str | None = option(
        "Layer of the file that holds the counts, such as raw for raw.X, or type of the features "
        "(10x).",
        default=None,
        unset="X, or the only type",
    )
    first_index: int | None = option(
        "Index of the first word.", default=None, least=0, most=1, unset="1 in svmlight, 0 in ldac"
    )
    text_column: str | None = option(
        "Column or field of the text, or of the words (triples), or its number from 1 in a file "
        "without a header.",
        default=None,
        unset="recognised, such as text or body",
    )
    id_column: str | None = option(
        "Column or field of the document names.", default=None, unset="recognised"
    )

    @property
    def coding(self) -> Encoding:
        """The encoding, and what to do about errors."""
        return Encoding(self.encoding, self.encoding_errors)


@options
class VectorReading(Reading):
    """Options for reading unit vectors."""

    normalise: bool = option("Accept vectors of any length but 0.", default=False)


class Blocks(NamedTuple):
    """A corpus read a few documents at a time."""

    vocabulary: Sequence[str]  # V words
    # Counts of successive documents, [n, V] each; valid while the file is open
    counts: Iterator[sp.csr_array]
    names: Sequence[str] | None = None  # D names, if any

    @classmethod
    def whole(cls, corpus: Corpus) -> "Blocks":
        """Return a corpus that was read as a whole, as one block."""
        return cls(corpus.vocabulary, iter([corpus.counts]), corpus.names)


class CategoryType(NamedTuple):
    """The type of a categorical column, with what of pandas' own is used."""

    categories: tuple[Any, ...]

    def __str__(self) -> str:
        return "category"


class Categorical(list[Any]):
    """Values of a categorical column, None if missing: groups, even if they look like numbers.

    Attributes:
        codes: Number of the category of each value, -1 if missing.
        dtype: Its type, as for a categorical column of pandas.
    """

    def __init__(self, codes: Sequence[int], categories: Sequence[Any]) -> None:
        super().__init__(None if code < 0 else categories[code] for code in codes)
        self.codes, self.dtype = list(codes), CategoryType(tuple(categories))

    def take(self, rows: Sequence[int]) -> "Categorical":
        """Return the values of some documents."""
        return Categorical([self.codes[row] for row in rows], self.dtype.categories)


class Metadata(NamedTuple):
    """Document metadata: names and columns."""

    names: tuple[str, ...]  # D names
    # By name, D values each: strings, numbers, or None if missing; or `Categorical`
    columns: dict[str, Sequence[Any]]
    numbered: bool = False  # whether names are 1, 2, ... for want of a column of names


def corpus_of_texts(documents: Iterable[tuple[str, str]], path: Path, reading: Reading) -> Corpus:
    """Make a corpus from the names and texts in a file; see `from_texts`."""
    names: list[str] = []

    def texts() -> Iterator[str]:
        for name, text in documents:
            names.append(name)
            yield text

    words = None if reading.vocabulary is None else read_vocabulary(reading.vocabulary)
    return from_texts(texts(), names, options=reading.text, vocabulary=words, source=str(path))


# A file format as a record of functions, and the source that these recognise.

Kind = Literal["counts", "vectors"]
"""Contents of a file: a `Corpus` or `UnitVectors`."""


class Source(NamedTuple):
    """A file or folder whose format is to be recognised."""

    path: Path  # the file or folder
    name: str  # of its content, in lower case, without a suffix of packed files
    head: bytes  # up to 4 KiB of its unpacked content; empty for a folder
    folder: bool  # true for a folder, and for a zip archive of several files

    def named(self, *endings: str) -> bool:
        """Return whether it is a file whose name ends in one of these."""
        return not self.folder and self.name.endswith(endings)


class Format(NamedTuple):
    """A file format."""

    name: str  # as users give it
    kind: Kind  # of its contents
    description: str  # noun phrase, for help texts and docs
    recognises: Callable[[Source], bool]  # tells whether a source is in this format
    read: Callable[[Path, Reading], Any]  # `(path, reading)`, the contents
    # Fields of `Reading` that it uses, besides those that all formats use
    options: tuple[str, ...] = ()
    # `(path, reading)`, the options with those filled in that the file determines
    resolve: Callable[[Path, Reading], Reading] = lambda path, reading: reading
    # `(path, reading)`, a corpus a few documents at a time; None if it is read as a whole
    blocks: Callable[[Path, Reading], AbstractContextManager[Blocks]] | None = None
    # `(path, reading, wanted)`, document names and metadata columns; None if it has no such columns
    columns: Callable[[Path, Reading, Sequence[str]], Metadata] | None = None
    # `(path, reading)`, names and texts of the documents; None if it has no texts
    texts: Callable[[Path, Reading], Iterator[tuple[str, str]]] | None = None
    # `(path, reading)`, what is read from which columns, for people; None if it has no columns
    describe: Callable[[Path, Reading], str] | None = None


def text_format(
    name: str,
    description: str,
    recognises: Callable[[Source], bool],
    texts: Callable[[Path, Reading], Iterator[tuple[str, str]]],
    **more: Any,
) -> Format:
    """Return a format of texts, whose words are counted."""

    def read(path: Path, reading: Reading) -> Corpus:
        return corpus_of_texts(texts(path, reading), path, reading)

    return Format(name, "counts", description, recognises, read, texts=texts, **more)


def source_of(path: Path) -> Source:
    """Return the source at a path; raise a CorpusError if it is unreadable or empty."""
    if os.path.isdir(path):
        return Source(path, path.name.lower(), b"", folder=True)
    members = members_of(path)
    name = files.content_name(path, members).lower()
    if members is not None and len(members) != 1:
        return Source(path, name, b"", folder=True)
    with files.reading(path, Encoding(errors="replace")) as (stream, _):
        return Source(path, name, stream.peek(files.HEAD)[: files.HEAD], folder=False)


def members_of(path: Path) -> list[zipfile.ZipInfo] | None:
    """Return the files of a zip archive (see `files.zip_members`); None for other files."""
    with files.open_regular(path) as file:
        magic = file.read(4)
        return files.zip_members(file) if magic in files.ZIP else None

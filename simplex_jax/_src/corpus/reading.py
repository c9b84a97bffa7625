"""Options for reading files, and the parts of a corpus."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import scipy.sparse as sp

from simplex_jax._src.corpus.corpus import Corpus
from simplex_jax._src.corpus.encodings import Encoding
from simplex_jax._src.corpus.text import TextOptions, from_texts
from simplex_jax._src.corpus.vocabulary import read_vocabulary


@dataclass(frozen=True)
class Reading:
    r"""Options for reading files of any format; `formats.FORMATS` lists those of each.

    Attributes:
        format: Name of the format; None to recognise it.
        vocabulary: File with one word a line, or a table (see `vocabulary.read_vocabulary`). For
            text, only these words are counted; for `uci` and `ldac` it replaces the vocabulary next
            to the file; for other counts and for unit vectors it names the columns. A `store` has
            its own.
        text: Tokens and vocabulary limits of text.
        encoding: Encoding of text and tables; vocabularies are UTF-8. A byte-order mark of UTF-8,
            UTF-16 or UTF-32 in a file overrides it.
        encoding_errors: What to do about bytes that are not in the encoding: `strict`, an error;
            `replace`, U+FFFD in their place; `ignore`, leave them out; `backslashreplace`, escapes
            such as `\xe9`; `cp1252`, take them for Windows' Western European.
        names: File with one document name a line.
        transpose: True if words are in rows and documents in columns.
        layer: Layer of an `h5ad` file with the counts, where `raw` is `raw.X`; None for `X`. Type
            of the features, or genome, in `10x`, if there are several.
        first_index: Index of the first word, 0 or 1; None for what the format defines: 1 in
            `svmlight`, 0 in `ldac`.
        text_column: Column or field of the text, or its number from 1 in a table without a
            header; column of the words in `triples`. None to recognise it by common names.
        id_column: Column or field of the document names; None to recognise it, if there is one.
        normalise: True to accept vectors of any length but 0.
    """

    format: str | None = None
    vocabulary: Path | None = None
    text: TextOptions = field(default_factory=TextOptions)
    encoding: str = "utf-8"
    encoding_errors: str = "strict"
    names: Path | None = None
    transpose: bool = False
    layer: str | None = None
    first_index: int | None = None
    text_column: str | None = None
    id_column: str | None = None
    normalise: bool = False

    @property
    def coding(self) -> Encoding:
        """The encoding, and what to do about errors."""
        return Encoding(self.encoding, self.encoding_errors)


class Blocks(NamedTuple):
    """A corpus read a few documents at a time."""

    vocabulary: Sequence[str]  # V words
    # Counts of successive documents, [n, V] each; valid while the file is open
    counts: Iterator[sp.csr_array]
    names: Sequence[str] | None = None  # D names, if any


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

    def taken(self, rows: Sequence[int]) -> "Categorical":
        """Return the values of some documents."""
        return Categorical([self.codes[row] for row in rows], self.dtype.categories)


class Metadata(NamedTuple):
    """Document metadata: names and columns."""

    names: tuple[str, ...]  # D names
    # By name, D values each: strings, numbers, or None if missing; or `Categorical`
    columns: dict[str, Sequence[Any]]


def corpus_of_texts(documents: Iterable[tuple[str, str]], path: Path, reading: Reading) -> Corpus:
    """Make a corpus from the names and texts in a file; see `from_texts`."""
    names: list[str] = []

    def texts() -> Iterator[str]:
        for name, text in documents:
            names.append(name)
            yield text

    words = None if reading.vocabulary is None else read_vocabulary(reading.vocabulary)
    return from_texts(texts(), names, options=reading.text, vocabulary=words, source=str(path))

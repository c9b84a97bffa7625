"""Options for reading files, and the parts of a corpus."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import scipy.sparse as sp

from simplex_jax._src.corpus.corpus import Corpus
from simplex_jax._src.corpus.encodings import ERRORS, Encoding
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

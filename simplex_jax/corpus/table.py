"""Tables of text, `.csv` and `.tsv`: a document a record, with columns for its name and text."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from simplex_jax.corpus import columns
from simplex_jax.corpus.corpus import Corpus, error_at
from simplex_jax.corpus.files import MAX_DOCUMENT, text_lines
from simplex_jax.corpus.reading import Reading, corpus_of_texts


class Record(NamedTuple):
    """The fields of a record, and the line at which it starts."""

    line: int
    fields: list[str]


def recognises_csv(path: Path, head: bytes) -> bool:
    """Whether the name ends in `.csv`, or `.csv.gz`."""
    return path.name.lower().removesuffix(".gz").endswith(".csv")


def recognises_tsv(path: Path, head: bytes) -> bool:
    """Whether the name ends in `.tsv` or `.tab`, or these with `.gz`."""
    return path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab"))


def read_csv(path: Path, how: Reading) -> Corpus:
    """Read comma-separated records; fields may be quoted, and then hold line ends.

    The first line has the names of the columns. Semicolons separate if it has more of them than of
    commas. Columns are chosen by `how`: `columns.TEXT` and `columns.IDENTITY` are recognised; a
    number, from 1, means a column of a file without a line of names. Without a column of names,
    documents are numbered from 1. Blank lines are passed over; a blank text is an empty document.

    Raises:
        CorpusError: naming the file and the line.
    """
    return _read(path, how, separator_of(path, how.encoding), quoted=True)


def read_tsv(path: Path, how: Reading) -> Corpus:
    """Read tab-separated lines, as `read_csv` but for quotes, which mean nothing.

    Raises:
        CorpusError: naming the file and the line.
    """
    return _read(path, how, "\t", quoted=False)


def _read(path: Path, how: Reading, separator: str, *, quoted: bool) -> Corpus:
    names: list[str] = []

    def documents() -> Iterator[str]:
        found = records(path, how.encoding, separator, quoted)
        first = next(found, None)
        if first is None:
            raise error_at(path, "no record in the file", "give a line with column names")
        if named := not (how.text_column or "").isdecimal():
            titles = first.fields
        else:
            titles = [str(i) for i in range(1, len(first.fields) + 1)]
        text = titles.index(columns.text_column(titles, how.text_column, path, first.line))
        identity = columns.id_column(titles, how.id_column, path, first.line)
        name = None if identity is None else titles.index(identity)
        rest = found if named else chain([first], found)
        for number, (line, fields) in enumerate(rest, start=1):
            check_length(fields, len(titles), path, line)
            names.append(str(number) if name is None else fields[name])
            yield fields[text]

    with long_fields():
        return corpus_of_texts(documents(), names, path, how)


def separator_of(path: Path, encoding: str) -> str:
    """What separates the fields of a `.csv`: a semicolon if its first line has more of them."""
    _, header = next(text_lines(path, encoding))
    return ";" if header.count(";") > header.count(",") else ","


def check_length(fields: list[str], wanted: int, path: Path, line: int) -> None:
    """Refuse a record that has not as many fields as there are columns."""
    if len(fields) != wanted:
        raise error_at(
            path,
            f"{len(fields)} fields instead of {wanted}",
            "quote fields that hold a separator or a line end",
            line=line,
        )


def records(path: Path, encoding: str, separator: str, quoted: bool) -> Iterator[Record]:
    """All records but blank ones, with the lines at which they start."""
    lines = (line + "\n" for _, line in text_lines(path, encoding))
    if quoted:
        reader = csv.reader(lines, delimiter=separator, strict=True)
    else:
        reader = csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE)
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise error_at(
                path,
                f"not a record that ends ({error})",
                "write a quote inside a quoted field twice, and close every field",
                line=line,
            ) from None
        if fields:
            yield Record(line, fields)


@contextmanager
def long_fields() -> Iterator[None]:
    """Let `csv` read documents of 64 MiB; its limit is one of the whole process."""
    before = csv.field_size_limit(MAX_DOCUMENT)
    try:
        yield
    finally:
        csv.field_size_limit(before)

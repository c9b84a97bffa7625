"""Tables of text, `.csv` and `.tsv`: a document a record, with columns for its name and text."""

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from simplex_jax.corpus.corpus import Corpus, error_at
from simplex_jax.corpus.files import MAX_DOCUMENT, text_lines
from simplex_jax.corpus.formats import columns
from simplex_jax.corpus.formats.format import Format, Source
from simplex_jax.corpus.reading import Metadata, Reading, corpus_of_texts
from simplex_jax.corpus.vocabulary import numbered

COMMAS, TABS = (".csv",), (".tsv", ".tab")
"""Endings of the names of tables."""


class Record(NamedTuple):
    """The fields of a record, and the line at which it starts."""

    line: int
    fields: list[str]


def recognises(source: Source, *endings: str) -> bool:
    """Recognise a table by the ending of its name."""
    return source.named(*(endings or (*COMMAS, *TABS)))


def read(path: Path, reading: Reading, *, tabs: bool) -> Corpus:
    """Read records separated by tabs, without quotes, or by commas.

    Fields between commas may be quoted, and then hold line ends; semicolons separate if the first
    line has more of them. The first line has the names of the columns, chosen by
    `columns.resolved`; a number, from 1, means a column of a file without a line of names. Without
    a column of names, documents are numbered from 1. Blank lines are skipped; a blank text is an
    empty document.
    """
    return corpus_of_texts(texts(path, reading, tabs=tabs), path, reading)


def texts(path: Path, reading: Reading, *, tabs: bool) -> Iterator[tuple[str, str]]:
    """Yield names and texts of the records."""
    with long_fields():
        table = records(path, reading.encoding, tabs=tabs)
        first = first_record(table, path)
        titles = _titles(first, reading)
        chosen = columns.resolved(titles, reading, path, first.line)
        text = titles.index(chosen.text_column or "")
        name = None if chosen.id_column is None else titles.index(chosen.id_column)
        body = table if titles is first.fields else chain([first], table)
        for number, (line, fields) in enumerate(body, start=1):
            check_length(fields, len(titles), path, line)
            yield str(number) if name is None else fields[name], fields[text]


def resolve(path: Path, reading: Reading, *, tabs: bool) -> Reading:
    """Fill in the columns; see `columns.resolved`."""
    with long_fields():
        first = first_record(records(path, reading.encoding, tabs=tabs), path)
    return columns.resolved(_titles(first, reading), reading, path, first.line)


def metadata(path: Path, reading: Reading, wanted: Sequence[str], *, tabs: bool) -> Metadata:
    """Read columns of the records, which are named as `read` names them."""
    with long_fields():
        table = records(path, reading.encoding, tabs=tabs)
        first = first_record(table, path)
        titles = _titles(first, reading)
        name = columns.id_column(titles, reading.id_column, path, first.line)
        chosen = columns.wanted(titles, wanted, path, first.line)
        places = [titles.index(column) for column in (*chosen, *([name] if name else []))]
        rows = []
        for line, fields in table if titles is first.fields else chain([first], table):
            check_length(fields, len(titles), path, line)
            rows.append([fields[place] for place in places])
    values = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in places]
    names = values[-1] if name else numbered(len(rows), 1)
    return Metadata(tuple(names), dict(zip(chosen, values, strict=False)))


def _titles(first: Record, reading: Reading) -> list[str]:
    """Return the names of the columns: numbers if the column of the text is named by a number."""
    if (reading.text_column or "").isdecimal():
        return [str(number) for number in range(1, len(first.fields) + 1)]
    return first.fields


def first_record(table: Iterator[Record], path: Path) -> Record:
    """Return the first record, or raise a CorpusError where there is none."""
    first = next(table, None)
    if first is None:
        raise error_at(path, "no record in the file", "give a line with column names")
    return first


def check_length(fields: list[str], columns: int, path: Path, line: int) -> None:
    """Raise a CorpusError unless a record has as many fields as there are columns."""
    if len(fields) != columns:
        remedy = "quote fields that hold a separator or a line end"
        raise error_at(path, f"{len(fields)} fields instead of {columns}", remedy, line=line)


def records(path: Path, encoding: str, *, tabs: bool) -> Iterator[Record]:
    """Yield all records but blank ones, with their first lines."""
    lines = (line + "\n" for _, line in text_lines(path, encoding))
    if tabs:
        reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
        header = next(lines)
        separator = ";" if header.count(";") > header.count(",") else ","
        reader = csv.reader(chain([header], lines), delimiter=separator, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            remedy = "write a quote inside a quoted field twice, and close every field"
            raise error_at(path, f"malformed record ({error})", remedy, line=line) from None
        if fields:
            yield Record(line, fields)


@contextmanager
def long_fields() -> Iterator[None]:
    """Allow fields of 64 MiB in `csv`, whose limit is that of the whole process."""
    before = csv.field_size_limit(MAX_DOCUMENT)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _text_table(name: str, endings: tuple[str, ...], *, tabs: bool) -> Format:
    return Format(
        name,
        "counts",
        f"{name.upper()} with a column of texts",
        lambda source: recognises(source, *endings),
        partial(read, tabs=tabs),
        options=("text_column", "id_column"),
        resolve=partial(resolve, tabs=tabs),
        columns=partial(metadata, tabs=tabs),
        texts=partial(texts, tabs=tabs),
    )


CSV, TSV = _text_table("csv", COMMAS, tabs=False), _text_table("tsv", TABS, tabs=True)

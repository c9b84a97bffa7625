"""Tables of text, `.csv` and `.tsv`: one document per record, with columns for name and text."""

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import NamedTuple

from simplex_jax._src.corpus.corpus import Corpus, error_at, printable
from simplex_jax._src.corpus.encodings import Encoding
from simplex_jax._src.corpus.files import MAX_DOCUMENT, text_lines
from simplex_jax._src.corpus.formats import columns
from simplex_jax._src.corpus.formats.format import Format, Source
from simplex_jax._src.corpus.reading import Metadata, Reading, corpus_of_texts
from simplex_jax._src.corpus.vocabulary import numbered

COMMAS, TABS = (".csv",), (".tsv", ".tab")
"""File name endings of tables."""

_REMEDY = (
    ", a number if the table has no header; or --format (format) dense if columns are counts of "
    "words, triples if a record is one word of a document"
)

_SEPARATOR = re.compile(r"sep=([,;|\t])\s*", re.IGNORECASE)


class Record(NamedTuple):
    """The fields of a record, and the line at which it starts."""

    line: int
    fields: list[str]


def recognises(source: Source, *endings: str) -> bool:
    """Recognise a table by the ending of its file name."""
    return source.named(*(endings or (*COMMAS, *TABS)))


def read(path: Path, reading: Reading, *, tabs: bool) -> Corpus:
    """Read records with fields separated by tabs, without quotes, or by commas.

    Fields between commas may be quoted, and then contain line ends. The separator is a semicolon if
    the first line has more of these, or as a preceding line such as Excel's `sep=;` says. The first
    line has the column names, from which `columns.resolved` chooses; a column number, from 1, means
    that there is no such line. Without a column of names, documents are numbered from 1. Blank
    lines are skipped; a blank text is an empty document.
    """
    return corpus_of_texts(texts(path, reading, tabs=tabs), path, reading)


def texts(path: Path, reading: Reading, *, tabs: bool) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of records."""
    with long_fields():
        table = records(path, reading.coding, tabs=tabs)
        first = first_record(table, path)
        titles = _titles(first, reading, path, tabs=tabs)
        chosen = columns.resolved(titles, reading, path, first.line, remedy=_REMEDY)
        text = titles.index(chosen.text_column or "")
        name = None if chosen.id_column is None else titles.index(chosen.id_column)
        body = table if titles is first.fields else chain([first], table)
        for number, (line, fields) in enumerate(body, start=1):
            check_length(fields, len(titles), path, line, tabs=tabs)
            yield str(number) if name is None else fields[name], fields[text]


def resolve(path: Path, reading: Reading, *, tabs: bool) -> Reading:
    """Fill in the columns; see `columns.resolved`."""
    titles, line = _header(path, reading, tabs=tabs)
    return columns.resolved(titles, reading, path, line, remedy=_REMEDY)


def taken(path: Path, reading: Reading, *, tabs: bool) -> str:
    """Return from which columns texts and names come, and which others there are."""
    titles, _ = _header(path, reading, tabs=tabs)
    return columns.taken(titles, reading)


def _header(path: Path, reading: Reading, *, tabs: bool) -> tuple[list[str], int]:
    """Return the column names and their line."""
    with long_fields():
        first = first_record(records(path, reading.coding, tabs=tabs), path)
    return _titles(first, reading, path, tabs=tabs), first.line


def metadata(path: Path, reading: Reading, wanted: Sequence[str], *, tabs: bool) -> Metadata:
    """Read columns of the records; documents are named as by `read`."""
    with long_fields():
        table = records(path, reading.coding, tabs=tabs)
        first = first_record(table, path)
        titles = _titles(first, reading, path, wanted, tabs=tabs)
        name = columns.id_column(titles, reading.id_column, path, first.line)
        chosen = columns.wanted(titles, wanted, path, first.line)
        places = [titles.index(column) for column in (*chosen, *([name] if name else []))]
        rows = []
        for line, fields in table if titles is first.fields else chain([first], table):
            check_length(fields, len(titles), path, line, tabs=tabs)
            rows.append([fields[place] for place in places])
    values = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in places]
    names = values[-1] if name else numbered(len(rows), 1)
    return Metadata(tuple(names), dict(zip(chosen, values, strict=False)))


def _titles(
    first: Record, reading: Reading, path: Path, wanted: Sequence[str] = (), *, tabs: bool
) -> list[str]:
    """Return the column names: numbers if the text column is given by its number."""
    titles = first.fields
    if (reading.text_column or "").isdecimal():
        return [str(number) for number in range(1, len(titles) + 1)]
    if set(titles).isdisjoint((reading.text_column, *wanted)):
        if tabs and all(re.fullmatch(r'".*"', title) for title in titles):
            problem = "the column names are in quotes, which are part of the fields of a TSV"
            raise error_at(path, problem, "leave them out, or write CSV", line=first.line)
        if not tabs:
            refuse_tab(first, path, "give --format tsv (format)")
    return titles


def refuse_tab(first: Record, path: Path, remedy: str) -> None:
    """Raise a CorpusError if the first record looks tab-separated instead of comma-separated."""
    if len(first.fields) == 1 and "\t" in first.fields[0].strip():
        problem = f"the only column is called '{printable(first.fields[0])}'"
        raise error_at(path, problem, f"if tabs separate columns, {remedy}", line=first.line)


def first_record(table: Iterator[Record], path: Path) -> Record:
    """Return the first record, or raise a CorpusError if there is none."""
    first = next(table, None)
    if first is None:
        raise error_at(path, "no record in the file", "give a line with column names")
    return first


def check_length(fields: list[str], columns: int, path: Path, line: int, *, tabs: bool) -> None:
    """Raise a CorpusError unless a record has one field per column."""
    if len(fields) != columns:
        remedy = "quote fields that hold a separator or a line end"
        if tabs:
            remedy = "fields of a TSV cannot contain tabs or line ends: write CSV"
        raise error_at(path, f"{len(fields)} fields instead of {columns}", remedy, line=line)


def records(path: Path, encoding: Encoding, *, tabs: bool) -> Iterator[Record]:
    """Yield all records that are not blank, with their first line numbers."""
    lines: Iterator[str] = (line + "\n" for _, line in text_lines(path, encoding))
    if tabs:
        reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
        separator, lines = _separator_of(lines)
        reader = csv.reader(lines, delimiter=separator, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "new-line" in str(error):
                problem = "a carriage return (CR) within the line"
                remedy = (
                    "convert the file if its lines end in CR alone, or take it out of the field"
                )
                raise error_at(path, problem, remedy, line=line) from None
            remedy = "write a quote inside a quoted field twice, and close every field"
            raise error_at(path, f"malformed record ({error})", remedy, line=line) from None
        if fields:
            yield Record(line, fields)


def first_line(path: Path, encoding: Encoding) -> str:
    """Return the first line that is neither blank nor Excel's `sep=`; empty without one."""
    lines = (line for _, line in text_lines(path, encoding))
    return next((line for line in lines if line.strip() and not _SEPARATOR.fullmatch(line)), "")


def separator_in(line: str) -> str:
    """Return what separates the column names in a line, tabs included."""
    return "\t" if "\t" in line else ";" if line.count(";") > line.count(",") else ","


def _separator_of(lines: Iterator[str]) -> tuple[str, Iterator[str]]:
    """Return the separator and the lines, with Excel's `sep=` line, if any, blanked."""
    for blank, line in enumerate(lines):
        if line.strip():
            hint = _SEPARATOR.fullmatch(line)
            separator = ";" if line.count(";") > line.count(",") else ","
            start = chain(repeat("\n", blank), ["\n" if hint else line])
            return hint[1] if hint else separator, chain(start, lines)
    return ",", iter(())


@contextmanager
def long_fields() -> Iterator[None]:
    """Allow fields of 64 MiB in `csv`, whose limit applies to the whole process."""
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
        taken=partial(taken, tabs=tabs),
    )


CSV, TSV = _text_table("csv", COMMAS, tabs=False), _text_table("tsv", TABS, tabs=True)

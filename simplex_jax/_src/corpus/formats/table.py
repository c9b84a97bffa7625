"""Tables, `.csv` and `.tsv`: one document per record, with columns for name and text, or any."""

import csv
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import NamedTuple

from simplex_jax._src.corpus.cells import MISSING
from simplex_jax._src.corpus.corpus import Corpus, error_at, printable
from simplex_jax._src.corpus.encodings import Encoding
from simplex_jax._src.corpus.files import MAX_DOCUMENT, text_lines
from simplex_jax._src.corpus.formats import columns
from simplex_jax._src.corpus.formats.format import Format, Source, source_of
from simplex_jax._src.corpus.frames import Frame
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
    table = records(path, reading.coding, tabs=tabs)
    first = first_record(table, path)
    titles = _titles(first, reading, path, tabs=tabs)
    chosen = columns.resolved(titles, reading, path, first.line, remedy=_REMEDY)
    text = titles.index(chosen.text_column or "")
    name = None if chosen.id_column is None else titles.index(chosen.id_column)
    body = table if titles is first.fields else chain([first], table)
    for number, (_, fields) in enumerate(of_width(body, len(titles), path, tabs=tabs), start=1):
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
    first = first_record(records(path, reading.coding, tabs=tabs), path)
    return _titles(first, reading, path, tabs=tabs), first.line


def metadata(path: Path, reading: Reading, wanted: Sequence[str], *, tabs: bool) -> Metadata:
    """Read columns of the records; documents are named as by `read`."""
    table = records(path, reading.coding, tabs=tabs)
    first = first_record(table, path)
    titles = _titles(first, reading, path, wanted, tabs=tabs)
    name = columns.id_column(titles, reading.id_column, path, first.line)
    chosen = columns.wanted(titles, wanted, path, first.line)
    places = [titles.index(column) for column in (*chosen, *([name] if name else []))]
    body = table if titles is first.fields else chain([first], table)
    checked = of_width(body, len(titles), path, tabs=tabs)
    rows = [[fields[place] for place in places] for _, fields in checked]
    values = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in places]
    names = values[-1] if name else numbered(len(rows), 1)
    return Metadata(tuple(names), dict(zip(chosen, values, strict=False)))


def read_frame(
    path: Path, reading: Reading, drop: Sequence[str] = (), variables: Collection[str] = ()
) -> Frame:
    r"""Read a table of any columns, whose first line names them.

    Blanks around fields are left out, and fields in `cells.MISSING` become None; rows without any
    value are kept. The column of row names is not among the columns: it is `reading.id_column`, or
    one called `id` or the like (see `columns.IDENTITY`) if its fields are distinct and it is not
    in `variables`. Without one, rows are numbered from 1. Columns in `drop` are left out.

    Raises:
        CorpusError: A record has the wrong number of fields; a column name is empty or repeated; a
            column is missing; or there is no row.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     file = pathlib.Path(place, "fruit.csv")
        ...     _ = file.write_text("id,colour,size\na,red,small\nb,green,?\n")
        ...     frame = read_frame(file, Reading())
        >>> frame.columns, frame.names
        ({'colour': ['red', 'green'], 'size': ['small', None]}, ('a', 'b'))
    """
    tabs = recognises(source_of(path), *TABS)
    table = records(path, reading.coding, tabs=tabs)
    header = first_record(table, path)
    if not tabs:
        refuse_tab(header, path, "name the file .tsv")
    titles = [field.strip() for field in header.fields]
    for place, title in enumerate(titles):
        if not title or title in titles[:place]:
            problem = "has no name" if not title else f"is {printable(title)!r} again"
            remedy = "give every column a name of its own"
            raise error_at(path, f"column {place + 1} {problem}", remedy, line=header.line)
    checked = of_width(table, len(titles), path, tabs=tabs)
    rows = [[field.strip() for field in fields] for _, fields in checked]
    if not rows:
        raise error_at(path, "no row below the column names", "give a table with rows")
    found = dict(zip(titles, zip(*rows, strict=True), strict=True))
    for name in drop:
        if name not in found:
            raise error_at(path, f"no column {printable(name)!r}", "drop others", line=header.line)
        del found[name]
    key = columns.id_column(list(found), reading.id_column, path, header.line)
    if reading.id_column is None and key is not None:
        key = None if key in variables or len(set(found[key])) < len(rows) else key
    names = numbered(len(rows), 1) if key is None else found.pop(key)
    if not found:
        raise error_at(path, "no column is left", "give a table with a variable", line=header.line)
    cells = {name: [None if x in MISSING else x for x in own] for name, own in found.items()}
    return Frame(cells, tuple(names))


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


def of_width(table: Iterable[Record], columns: int, path: Path, *, tabs: bool) -> Iterator[Record]:
    """Yield records, or raise a CorpusError for one without one field per column."""
    for record in table:
        if len(record.fields) != columns:
            problem = f"{len(record.fields)} fields instead of {columns}"
            remedy = "quote fields that hold a separator or a line end"
            if tabs:
                remedy = "fields of a TSV cannot contain tabs or line ends: write CSV"
            raise error_at(path, problem, remedy, line=record.line)
        yield record


def records(path: Path, encoding: Encoding, *, tabs: bool) -> Iterator[Record]:
    """Yield all records that are not blank, with their first line numbers."""
    lines: Iterator[str] = (line + "\n" for _, line in text_lines(path, encoding))
    if tabs:
        reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
        separator, lines = _separator_of(lines)
        reader = csv.reader(lines, delimiter=separator, strict=True)
    with _long_fields():
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
def _long_fields() -> Iterator[None]:
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

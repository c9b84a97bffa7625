"""Tables, `.csv` and `.tsv`: of texts, of counts, with a word in each record, or of any columns."""

import csv
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice, repeat
from pathlib import Path
from sys import intern
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus.corpus import (
    MAX_COUNT,
    Corpus,
    CorpusError,
    Tokens,
    error_at,
    from_counts,
    printable,
)
from simplex_jax._src.corpus.files import MAX_DOCUMENT, Encoding, text_lines
from simplex_jax._src.corpus.formats.matrices import corpus_of
from simplex_jax._src.corpus.frames import (
    COUNT,
    DOCUMENT,
    MISSING,
    PROSE,
    TEXT,
    WORD,
    Frame,
    Triple,
    counted,
    triple_of,
)
from simplex_jax._src.corpus.reading import (
    Format,
    Metadata,
    Reading,
    Source,
    source_of,
    text_format,
)
from simplex_jax._src.corpus.vocabulary import numbered, read_vocabulary, to_vocabulary
from simplex_jax._src.warn import warn_caller

IDENTITY = (
    "id", "doc_id", "docid", "document_id", "uid", "uuid", "key", "name", "filename", "file",
    "path", "url", "title",
)  # fmt: skip


def resolve_columns(
    columns: Sequence[str], reading: Reading, path: Path, line: int, *, remedy: str = ""
) -> Reading:
    """Fill in the columns of text and names: those given, or the first with a common name.

    Case and surrounding blanks of common names are ignored. The column of names may be None. If
    there is no column of text, the error has further remedies.
    """
    titles = {column.strip().lower() for column in columns}
    if (
        reading.text_column is None
        and titles & set(WORD)
        and titles & set(DOCUMENT) - {"id"}
        and not titles & PROSE
    ):
        raise error_at(
            path,
            "a record is a word of a document, not a document, by the columns "
            f"{list_columns(columns)}",
            "give --format triples (format) and, if several columns have words, the one to count "
            "as --text-column (text_column); or --text-column alone, if it has texts",
            line=line,
        )
    text = find_column(columns, reading.text_column, TEXT, "text_column", path, line)
    if text is None:
        raise error_at(
            path,
            f"no column of text among {list_columns(columns)}",
            f"give --text-column (text_column){remedy}",
            line=line,
        )
    return replace(
        reading, text_column=text, id_column=find_id_column(columns, reading.id_column, path, line)
    )


def describe_columns(columns: Sequence[str], reading: Reading) -> str:
    """Return from which columns texts and names come, and which others there are."""
    text, name = reading.text_column, reading.id_column
    names = f"names from {printable(name)!r}" if name else "no column of names"
    others = [column for column in columns if column not in (text, name) and column.strip()]
    more = f"; other columns, for --by: {list_columns(others)}" if others else ""
    return f"text from {printable(text)!r}; {names}{more}"


def find_id_column(columns: Sequence[str], name: str | None, path: Path, line: int) -> str | None:
    """Return the column of names: the one given, or the first of `IDENTITY`; None if absent."""
    return find_column(columns, name, IDENTITY, "id_column", path, line)


def find_columns(
    columns: Sequence[str], names: Sequence[str], path: Path, line: int | None
) -> list[str]:
    """Return the columns with these names; a missing or repeated one is a CorpusError."""
    columns_of_names = []
    for name in names:
        if name not in columns:
            problem = f"no column {printable(name)!r} among {list_columns(columns)}"
            raise error_at(path, problem, "give one of these", line=line)
        columns_of_names.append(find_column(columns, name, (), "by", path, line or 0) or name)
    return columns_of_names


def find_column(
    columns: Sequence[str],
    name: str | None,
    usual: Sequence[str],
    option: str,
    path: Path,
    line: int,
) -> str | None:
    """Return the column `name` or, if that is None, the first with a usual name, if any."""
    titles = list(columns)
    if name is None:
        titles = [column.strip().lower() for column in columns]
        name = next((title for title in usual if title in titles), None)
        if name is None:
            return None
    if name not in titles:
        raise error_at(
            path,
            f"no column {printable(name)!r} among {list_columns(columns)}",
            f"give another --{option.replace('_', '-')} ({option})",
            line=line,
        )
    if titles.count(name) > 1:
        problem = f"two columns are called {printable(name)!r}"
        raise error_at(path, problem, "give the columns different names", line=line)
    return columns[titles.index(name)]


def list_columns(columns: Sequence[str]) -> str:
    """Return the first names of columns, for a message."""
    shown = ", ".join(
        printable(column if len(column) <= 60 else f"{column[:57]}...") for column in columns[:12]
    )
    return printable(shown + (", ..." if len(columns) > 12 else "")) or "none"


# Tables, `.csv` and `.tsv`: one document per record, with columns for name and text, or any.

COMMAS, TABS = (".csv",), (".tsv", ".tab")
"""File name endings of tables."""

_REMEDY = (
    ", a number if the table has no header; or --format (format) dense if columns are counts of "
    "words, triples if a record is one word of a document"
)

_GUESSED_FROM = 20  # records

_SEPARATOR = re.compile(r"sep=([,;|\t])\s*", re.IGNORECASE)
_QUOTED = re.compile(r'(?<![^,;|])"(?:[^"]|"")*+"')  # at the start of a field


class Record(NamedTuple):
    """The fields of a record, and the line at which it starts."""

    line: int
    fields: list[str]


def recognises(source: Source, *endings: str) -> bool:
    """Recognise a table by the ending of its file name."""
    return source.named(*(endings or (*COMMAS, *TABS)))


def texts(path: Path, reading: Reading, *, tabs: bool) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of records, with fields separated by tabs, or by commas.

    Fields between commas may be quoted, and then contain line ends; others have no quotes. The
    separator is a semicolon or a vertical bar if the first line has more of these, or as a
    preceding line such as Excel's `sep=;` says. The first line has the column names, from which
    `resolve_columns` chooses; a column number, from 1, means that there is no such line, unless the
    line has this number and nothing but numbers: pandas names columns 0, 1, 2. Without a column of
    names, documents are numbered from 1. Blank lines are skipped; a blank text is an empty
    document.
    """
    titles, line, body = _table(path, reading, tabs=tabs)
    chosen = _resolved(titles, reading, path, line, body)
    text = titles.index(chosen.text_column or "")
    name = None if chosen.id_column is None else titles.index(chosen.id_column)
    for number, (_, fields) in enumerate(body, start=1):
        yield str(number) if name is None else fields[name], fields[text]


def resolve(path: Path, reading: Reading, *, tabs: bool) -> Reading:
    """Fill in the columns; see `resolve_columns`."""
    titles, line, body = _table(path, reading, tabs=tabs)
    return _resolved(titles, reading, path, line, body)


def _resolved(
    titles: Sequence[str], reading: Reading, path: Path, line: int, body: Iterator[Record]
) -> Reading:
    """Fill in the columns of a table with these records; see `resolve_columns`."""
    found = find_column(titles, reading.text_column, TEXT, "text_column", path, line)
    guess = "" if found else _longest(titles, body)
    return resolve_columns(titles, reading, path, line, remedy=guess + _REMEDY)


def _longest(titles: Sequence[str], body: Iterator[Record]) -> str:
    """Return a guess at the column of texts for an error: that with the longest fields."""
    lengths = np.zeros(len(titles))
    for record in islice(body, _GUESSED_FROM):
        lengths += [len(field) for field in record.fields]
    column = titles[int(lengths.argmax())]
    return f", perhaps {printable(column)!r}" if lengths.any() else ""


def column_names(path: Path, reading: Reading, *, tabs: bool) -> list[str]:
    """Return the names of the columns."""
    return _table(path, reading, tabs=tabs)[0]


def describe_texts(path: Path, reading: Reading, *, tabs: bool) -> str:
    """Return from which columns texts and names come, and which others there are."""
    titles, _, _ = _table(path, reading, tabs=tabs)
    return describe_columns(titles, reading)


def _table(
    path: Path, reading: Reading, wanted: Sequence[str] = (), *, tabs: bool
) -> tuple[list[str], int, Iterator[Record]]:
    """Return the column names, their line, and the records below."""
    body = records(path, reading.coding, tabs=tabs)
    first = first_record(body, path)
    if (reading.text_column or "").isdecimal() and not _are_numbered(first, reading.text_column):
        titles, body = list(numbered(len(first.fields), 1)), chain([first], body)
        _warn_of_titles(first, reading.text_column or "", path)
    else:
        titles = _titles(first, reading, path, wanted, tabs=tabs)
    return titles, first.line, of_width(body, len(titles), path, tabs=tabs)


def _warn_of_titles(first: Record, column: str, path: Path) -> None:
    """Warn of a first record that seems to have column names, where columns have numbers."""
    titles = dict(zip(numbered(len(first.fields), 1), _stripped(first).fields, strict=True))
    if (title := titles.get(column, "")).casefold() in TEXT:
        warn_caller(
            f"{printable(str(path))}:{first.line}: the first line, which is taken for a document, "
            f"seems to have column names: then give {printable(title)!r} as the column of texts "
            "(--text-column, text_column)",
        )


def _are_numbered(first: Record, column: str | None) -> bool:
    """Return whether the first record has numbers as column names, this one among them.

    Each document has a text, so its record has more than numbers. A written index has no name.
    """
    titles = _stripped(first).fields
    return column in titles and all(title.isdecimal() for title in titles if title)


def metadata(path: Path, reading: Reading, wanted: Sequence[str], *, tabs: bool) -> Metadata:
    """Read columns of the records; documents are named as by `texts`."""
    titles, line, body = _table(path, reading, wanted, tabs=tabs)
    name = find_id_column(titles, reading.id_column, path, line)
    chosen = find_columns(titles, wanted, path, line)
    places = [titles.index(column) for column in (*chosen, *([name] if name else []))]
    rows = [[fields[place] for place in places] for _, fields in body]
    values = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in places]
    names = values[-1] if name else numbered(len(rows), 1)
    return Metadata(tuple(names), dict(zip(chosen, values, strict=False)), numbered=not name)


def read_frame(
    path: Path, reading: Reading, drop: Sequence[str] = (), variables: Collection[str] = ()
) -> Frame:
    r"""Read a table of any columns, whose first line names them.

    Blanks around fields are left out, and fields in `frames.MISSING` become None; rows without any
    value are kept. The column of row names is not among the columns: it is `reading.id_column`, or
    one called `id` or the like (see `IDENTITY`) if its fields are distinct and it is not
    in `variables`, or else the first one if it has no name and distinct fields, as pandas and R
    write it. Without one, rows are numbered from 1. Columns in `drop` are left out.

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
    header, body = _headed(path, reading)
    titles = header.fields
    rows = [[field.strip() for field in fields] for _, fields in body]
    unnamed = len(titles) > 1 and not titles[0] and len({row[0] for row in rows}) == len(rows)
    for place, title in enumerate(titles[unnamed:], start=unnamed):
        if not title or title in titles[:place]:
            problem = "has no name" if not title else f"is {printable(title)!r} again"
            remedy = "give every column a name of its own"
            raise error_at(path, f"column {place + 1} {problem}", remedy, line=header.line)
    if not rows:
        raise error_at(path, "no row below the column names", "give a table with rows")
    found = dict(zip(titles, zip(*rows, strict=True), strict=True))
    index = found.pop("") if unnamed else None
    for name in drop:
        if name not in found:
            raise error_at(path, f"no column {printable(name)!r}", "drop others", line=header.line)
        del found[name]
    key = find_id_column(list(found), reading.id_column, path, header.line)
    if reading.id_column is None and key is not None:
        key = None if key in variables or len(set(found[key])) < len(rows) else key
    names = (index or numbered(len(rows), 1)) if key is None else found.pop(key)
    if not found:
        raise error_at(path, "no column is left", "give a table with a variable", line=header.line)
    cells = {name: [None if x in MISSING else x for x in own] for name, own in found.items()}
    return Frame(cells, tuple(names))


def _titles(
    first: Record, reading: Reading, path: Path, wanted: Sequence[str] = (), *, tabs: bool
) -> list[str]:
    """Return the column names in the first record."""
    titles = _stripped(first).fields
    if set(titles).isdisjoint((reading.text_column, *wanted)):
        if tabs and _are_quoted(titles):
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


def _headed(path: Path, reading: Reading) -> tuple[Record, Iterator[Record]]:
    """Return the column names of a table with a header, and its other records, checked."""
    tabs = recognises(source_of(path), *TABS)
    table = records(path, reading.coding, tabs=tabs)
    header = first_record(table, path)
    if not tabs:
        refuse_tab(header, path, "name the file .tsv")
    return _stripped(header), of_width(table, len(header.fields), path, tabs=tabs)


def _stripped(header: Record) -> Record:
    """Return a record of column names without the blanks around them."""
    return header._replace(fields=[title.strip() for title in header.fields])


def _are_quoted(titles: Sequence[str]) -> bool:
    """Return whether all column names are in quotes, as R's `write.table` writes them."""
    return all(re.fullmatch(r'".*"', title) for title in titles)


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


def records(
    path: Path, encoding: Encoding, *, tabs: bool, quoted: bool = False
) -> Iterator[Record]:
    """Yield all records that are not blank, with their first line numbers.

    Fields between tabs have no quotes, unless they are `quoted`.
    """
    lines: Iterator[str] = (line + "\n" for _, line in text_lines(path, encoding))
    if tabs and quoted:
        reader = csv.reader(lines, delimiter="\t", strict=True)
    elif tabs:
        reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
        separator, lines = _separator_of(lines)
        reader = csv.reader(lines, delimiter=separator, strict=True)
    while True:
        line = reader.line_num + 1
        limit = csv.field_size_limit(MAX_DOCUMENT)  # of the process: for a record at a time
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
        finally:
            csv.field_size_limit(limit)
        if fields:
            yield Record(line, fields)


def first_line(path: Path, encoding: Encoding) -> str:
    """Return the first line that is neither blank nor Excel's `sep=`; empty without one."""
    lines = (line for _, line in text_lines(path, encoding))
    return next((line for line in lines if line.strip() and not _SEPARATOR.fullmatch(line)), "")


def separator_in(line: str) -> str:
    """Return what separates the column names in a line, tabs included."""
    return "\t" if "\t" in line else _most_frequent(line)


def _most_frequent(line: str) -> str:
    """Return the separator of which a line has most, a comma if there is none."""
    return max(",;|", key=_QUOTED.sub("", line).count)


def _separator_of(lines: Iterator[str]) -> tuple[str, Iterator[str]]:
    """Return the separator and the lines, with Excel's `sep=` line, if any, blanked."""
    for blank, line in enumerate(lines):
        if line.strip():
            hint = _SEPARATOR.fullmatch(line)
            separator = _most_frequent(line)
            start = chain(repeat("\n", blank), ["\n" if hint else line])
            return hint[1] if hint else separator, chain(start, lines)
    return ",", iter(())


def _text_table(name: str, endings: tuple[str, ...], *, tabs: bool) -> Format:
    return text_format(
        name,
        f"{name.upper()} with a column of texts",
        lambda source: recognises(source, *endings),
        partial(texts, tabs=tabs),
        options=("text_column", "id_column"),
        resolve=partial(resolve, tabs=tabs),
        columns=partial(metadata, tabs=tabs),
        describe=partial(describe_texts, tabs=tabs),
    )


CSV, TSV = _text_table("csv", COMMAS, tabs=False), _text_table("tsv", TABS, tabs=True)


# Tables of counts, `.csv` and `.tsv`: one document a record, and one word a column.
#
# Other tables have columns of numbers too, so the format is used only where it is named.

_NUMBERS = re.compile(r"(?:[ \t]*+\d++(?:\.\d*+)?(?:[eE]\+?\d++)?[ \t]*+\n)*+", re.ASCII)
"""Numbers, one a line; that they are whole is checked later. R writes 1e+05."""


def read_dense(path: Path, reading: Reading) -> Corpus:
    """Read counts [D, V], or [V, D] with `reading.transpose`, below a line of column names.

    Documents are named by the column `reading.id_column`, or by the first one if it has no title,
    as pandas and R write it, or a usual title such as `doc_id`; else they are numbered from 1. As
    that title may be a word, names in such a column must be distinct.
    """
    values, places, ends, names = [], [], [0], []
    header, body = _headed(path, reading)
    words = list(header.fields)
    place = _place_of_names(words, reading, path, header.line)
    if place is not None:
        del words[place]
    for line, fields in body:
        if place is not None:
            names.append(fields.pop(place))
        row = _numbers(fields, words, path, line)
        nonzero = np.flatnonzero(row)
        values.append(row[nonzero])
        places.append(nonzero)
        ends.append(ends[-1] + len(nonzero))
    if place == 0 and reading.id_column is None and len(set(names)) < len(names):
        title = printable(header.fields[0])
        raise error_at(
            path,
            f"the first column, {title!r}, names two documents alike",
            "if it has names, give --id-column (id_column); if it has counts, put it elsewhere",
        )
    if not values or not words:
        raise error_at(path, "no counts below the line of column names", "give documents and words")
    parts = np.concatenate(values), np.concatenate(places), np.array(ends)
    counts = sp.csr_array(parts, shape=(len(values), len(words)))
    return corpus_of(counts, path, reading, words, names or None, first=1)


DENSE = Format(
    "dense",
    "counts",
    "CSV or TSV with a column of counts for each word, only if named",
    lambda source: False,
    read_dense,
    options=("id_column", "names", "transpose"),
)


def _place_of_names(titles: Sequence[str], reading: Reading, path: Path, line: int) -> int | None:
    """Return the column of the document names, or None if there is none."""
    if reading.id_column is not None:
        return titles.index(find_id_column(titles, reading.id_column, path, line) or "")
    first = titles[0].lower()
    return 0 if not first or first in IDENTITY else None


def _numbers(fields: Sequence[str], words: Sequence[str], path: Path, line: int) -> np.ndarray:
    """Return the numbers of a record, or raise a CorpusError for a field that is not one."""
    if _are_numbers(fields):
        return np.array(fields, np.float64)
    place = next(n for n, field in enumerate(fields) if not _are_numbers([field]))
    raise error_at(
        path,
        f"{printable(fields[place])!r} in column {printable(words[place])!r} is not a count",
        "correct it, or name the column of the documents' names with --id-column (id_column)",
        line=line,
    )


def _are_numbers(fields: Sequence[str]) -> bool:
    lines = "".join(f"{field}\n" for field in fields)
    return lines.count("\n") == len(fields) and _NUMBERS.fullmatch(lines) is not None


# Tables with a count of a word in a document in each record, as tidytext and quanteda write them.
#
# Also tables with a token of a document in each record.

_NUMBER = re.compile(r"\d+(\.\d*)?([eE]\+?\d{1,2})?", re.ASCII)  # R writes 1e+05


def recognises_triples(source: Source) -> bool:
    """Recognise a table by the name of the file and the names of its columns."""
    if not recognises(source):
        return False
    try:
        line = first_line(source.path, Encoding(errors="replace"))
        titles = next(csv.reader([line], delimiter=separator_in(line)), [])
    except (CorpusError, csv.Error):
        return False
    return triple_of(titles) is not None


def read_triples(path: Path, reading: Reading) -> Corpus:
    """Read counts: documents and words are in the order of their first records.

    Records of the same document and word are summed. Without a column of counts, each record is a
    token. `reading.id_column` is the column of documents and `reading.text_column` that of words,
    if their names are not usual ones. With a vocabulary, only its words are counted.
    """
    documents: list[str] = []
    words: list[str] = []
    counts: list[int] = []
    tabs, first, lines = _headed_triples(path, reading.coding)
    chosen = _chosen(first, reading, path)
    document, word = first.fields.index(chosen.documents), first.fields.index(chosen.words)
    title = chosen.counts or ""
    count = first.fields.index(title) if title else None
    weights: list[str] = []  # other columns of numbers
    for line, fields in of_width(lines, len(first.fields), path, tabs=tabs):
        if not documents and count is None:
            names = zip(first.fields, fields, strict=True)
            weights = [
                name for name, field in names if name != chosen.documents and _is_real(field)
            ]
        documents.append(intern(fields[document]))  # a string for each, not for each record
        words.append(intern(fields[word].strip()))
        counts.append(1 if count is None else _count(fields[count], title, path, line))
        if not documents[-1].strip() or not words[-1]:
            empty = chosen.words if documents[-1].strip() else chosen.documents
            problem = f"nothing in column {printable(empty)!r}"
            raise error_at(path, problem, "fill it in, or drop the record", line=line)
    if not counts:
        raise error_at(path, "no record below the column names", "give documents and words")
    found = counted(documents, words, counts)
    by_line = chosen.documents.strip().lower() == "id" and len(found.names) == len(counts) > 1
    if by_line and reading.id_column is None:
        raise error_at(
            path,
            f"each record has its own {printable(chosen.documents)!r}, so that it may be a list of "
            "words with the numbers of its lines",
            "give the column of documents, --id-column (id_column)",
        )
    if weights and 1 < len(counts) == len(set(zip(documents, words, strict=True))):
        warn_caller(
            f"{path}: each record is counted as one token, although no word of a document has two, "
            f"so that there may be a number of each in {list_columns(weights)}: if these are "
            "counts, call the column count (others, such as tf-idf, are no counts)",
        )
    corpus = from_counts(found.table, found.words, found.names, source=str(path))
    if reading.vocabulary is None:
        return corpus
    vocabulary = read_vocabulary(reading.vocabulary)
    mapped = to_vocabulary(corpus, vocabulary, source=str(path))
    kept = int(mapped.corpus.counts.sum())
    lost = {"not in the vocabulary": mapped.unknown} if mapped.unknown else {}
    some = from_counts(mapped.corpus.counts, vocabulary, found.names, source=str(path))
    return some._replace(tokens=Tokens(kept + mapped.unknown, kept, lost))


def resolve_triples(path: Path, reading: Reading) -> Reading:
    """Fill in the columns of words and documents."""
    _, first, _ = _headed_triples(path, reading.coding)
    chosen = _chosen(first, reading, path)
    return replace(reading, text_column=chosen.words, id_column=chosen.documents)


def describe_triples(path: Path, reading: Reading) -> str:
    """Return which columns are read."""
    _, first, _ = _headed_triples(path, reading.coding)
    chosen = _chosen(first, reading, path)
    what = "tokens" if chosen.counts is None else "counts"
    return f"{what} from columns {list_columns([name for name in chosen if name])}"


TRIPLES = Format(
    "triples",
    "counts",
    "CSV or TSV with columns document, term and count, or document and term",
    recognises_triples,
    read_triples,
    options=("text_column", "id_column"),
    resolve=resolve_triples,
    describe=describe_triples,
)


def _headed_triples(path: Path, encoding: Encoding) -> tuple[bool, Record, Iterator[Record]]:
    """Return whether tabs separate fields, the column names and the records below."""
    line = first_line(path, encoding)
    tabs = separator_in(line) == "\t"
    lines = records(path, encoding, tabs=tabs, quoted=_are_quoted(line.split("\t")))
    return tabs, _stripped(first_record(lines, path)), lines


def _chosen(first: Record, reading: Reading, path: Path) -> Triple:
    """Return the columns that the options name, or those with usual names."""
    titles, line = first.fields, first.line
    usual = [title.strip().lower() for title in titles]
    document = find_column(titles, reading.id_column, DOCUMENT, "id_column", path, line)
    word = find_column(titles, reading.text_column, WORD, "text_column", path, line)
    count = find_column(titles, None, COUNT, "count", path, line)
    for what, name, option in (("documents", document, "id"), ("words", word, "text")):
        if name is None:
            raise error_at(
                path,
                f"no column of {what} among {list_columns(titles)}",
                f"give --{option}-column ({option}_column), or a first line with the names of the "
                "columns, such as document,term,count",
                line=line,
            )
    several = [title for title, name in zip(titles, usual, strict=True) if name in WORD]
    if reading.text_column is None and len(several) > 1:
        problem = f"several columns have words: {list_columns(several)}"
        raise error_at(path, problem, "give one of these, --text-column (text_column)", line=line)
    if len({document, word, count}) < 3:
        problem = f"column {printable(document)!r} has both documents and words or counts"
        remedy = (
            "give others, --id-column (id_column) and --text-column (text_column), or "
            "--format (format) csv or tsv if a record is a document"
        )
        raise error_at(path, problem, remedy, line=line)
    return Triple(document or "", word or "", count)


def _is_real(field: str) -> bool:
    try:
        return np.isfinite(float(field))
    except ValueError:
        return False


def _count(field: str, title: str, path: Path, line: int) -> int:
    if _NUMBER.fullmatch(field.strip()):
        number = float(field)
        if number.is_integer() and number <= MAX_COUNT:
            return int(number)
    raise error_at(
        path,
        f"{printable(field)!r} in column {printable(title)!r} is not a count",
        f"counts are whole numbers from 0 to 2**24 = {MAX_COUNT}",
        line=line,
    )

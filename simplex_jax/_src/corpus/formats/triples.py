"""Tables with a count of a word in a document in each record, as tidytext and quanteda write them.

Also tables with a token of a document in each record.
"""

import csv
import re
from dataclasses import replace
from pathlib import Path
from sys import intern

from simplex_jax._src.corpus.corpus import (
    MAX_COUNT,
    Corpus,
    CorpusError,
    Tokens,
    error_at,
    from_counts,
    printable,
)
from simplex_jax._src.corpus.encodings import Encoding
from simplex_jax._src.corpus.formats import columns, table
from simplex_jax._src.corpus.formats.format import Format, Source
from simplex_jax._src.corpus.frames import COUNT, DOCUMENT, WORD, Triple, counted, triple_of
from simplex_jax._src.corpus.mapping import to_vocabulary
from simplex_jax._src.corpus.reading import Reading
from simplex_jax._src.corpus.vocabulary import read_vocabulary

_NUMBER = re.compile(r"\d+(\.\d*)?([eE]\+?\d{1,2})?", re.ASCII)  # R writes 1e+05


def recognises(source: Source) -> bool:
    """Recognise a table by the name of the file and the names of its columns."""
    if not table.recognises(source):
        return False
    try:
        line = table.first_line(source.path, Encoding(errors="replace"))
        titles = next(csv.reader([line], delimiter=table.separator_in(line)), [])
    except (CorpusError, csv.Error):
        return False
    return triple_of(titles) is not None


def read(path: Path, reading: Reading) -> Corpus:
    """Read counts: documents and words are in the order of their first records.

    Records of the same document and word are summed. Without a column of counts, each record is a
    token. `reading.id_column` is the column of documents and `reading.text_column` that of words,
    if their names are not usual ones. With a vocabulary, only its words are counted.
    """
    documents, words, counts = [], [], []
    tabs = _has_tabs(path, reading.coding)
    lines = table.records(path, reading.coding, tabs=tabs)
    first = table.first_record(lines, path)
    chosen = _chosen(first, reading, path)
    document, word = first.fields.index(chosen.documents), first.fields.index(chosen.words)
    title = chosen.counts or ""
    count = first.fields.index(title) if title else None
    for line, fields in table.of_width(lines, len(first.fields), path, tabs=tabs):
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
    corpus = from_counts(found.table, found.words, found.names, source=str(path))
    if reading.vocabulary is None:
        return corpus
    vocabulary = read_vocabulary(reading.vocabulary)
    mapped = to_vocabulary(corpus, vocabulary, source=str(path))
    kept = int(mapped.corpus.counts.sum())
    lost = {"not in the vocabulary": mapped.unknown} if mapped.unknown else {}
    some = from_counts(mapped.corpus.counts, vocabulary, found.names, source=str(path))
    return some._replace(tokens=Tokens(kept + mapped.unknown, kept, lost))


def resolve(path: Path, reading: Reading) -> Reading:
    """Fill in the columns of words and documents."""
    chosen = _chosen(_first(path, reading.coding), reading, path)
    return replace(reading, text_column=chosen.words, id_column=chosen.documents)


def taken(path: Path, reading: Reading) -> str:
    """Return which columns are read."""
    chosen = _chosen(_first(path, reading.coding), reading, path)
    what = "tokens" if chosen.counts is None else "counts"
    return f"{what} from columns {columns.listed([name for name in chosen if name])}"


FORMAT = Format(
    "triples",
    "counts",
    "CSV or TSV with columns document, term and count, or document and term",
    recognises,
    read,
    options=("text_column", "id_column"),
    resolve=resolve,
    taken=taken,
)


def _has_tabs(path: Path, encoding: Encoding) -> bool:
    """Return whether tabs separate the names of the columns."""
    return table.separator_in(table.first_line(path, encoding)) == "\t"


def _first(path: Path, encoding: Encoding) -> table.Record:
    lines = table.records(path, encoding, tabs=_has_tabs(path, encoding))
    return table.first_record(lines, path)


def _chosen(first: table.Record, reading: Reading, path: Path) -> Triple:
    """Return the columns that the options name, or those with usual names."""
    titles, line = first.fields, first.line
    usual = [title.strip().lower() for title in titles]
    document = columns.found(titles, reading.id_column, DOCUMENT, "id_column", path, line)
    word = columns.found(titles, reading.text_column, WORD, "text_column", path, line)
    count = columns.found(titles, None, COUNT, "count", path, line)
    for what, name, option in (("documents", document, "id"), ("words", word, "text")):
        if name is None:
            raise error_at(
                path,
                f"no column of {what} among {columns.listed(titles)}",
                f"give --{option}-column ({option}_column)",
                line=line,
            )
    several = [title for title, name in zip(titles, usual, strict=True) if name in WORD]
    if reading.text_column is None and len(several) > 1:
        problem = f"several columns have words: {columns.listed(several)}"
        raise error_at(path, problem, "give one of these, --text-column (text_column)", line=line)
    if len({document, word, count}) < 3:
        problem = f"column {printable(document)!r} has both documents and words or counts"
        remedy = (
            "give others, --id-column (id_column) and --text-column (text_column), or "
            "--format (format) csv or tsv if a record is a document"
        )
        raise error_at(path, problem, remedy, line=line)
    return Triple(document or "", word or "", count)


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

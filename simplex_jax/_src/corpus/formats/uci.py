"""The bag-of-words format of the UCI repository: `docword.NAME.txt[.gz]` and `vocab.NAME.txt`.

Three header lines (documents D, words W, entries N), then N lines `document word count`, with ids
from 1 and counts from 0.
"""

import io
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus import files
from simplex_jax._src.corpus.corpus import MAX_COUNT, MAX_WORDS, Corpus, error_at, from_counts
from simplex_jax._src.corpus.files import content_name
from simplex_jax._src.corpus.formats.matrices import check_length
from simplex_jax._src.corpus.reading import Blocks, Format, Reading, Source
from simplex_jax._src.corpus.vocabulary import (
    numbered,
    read_names,
    read_vocabulary,
    vocabulary_beside,
)

_SHORTEST_ENTRY = 6  # "1 1 1\n"
_ENTRIES_LINE = 3
_FIELDS = ("document id", "word id", "count")


class _Header(NamedTuple):
    documents: int
    words: int
    entries: int


def recognises(source: Source) -> bool:
    """Recognise a name that starts with `docword.`, or three lines of one number each."""
    named = source.name.startswith("docword.") and not source.folder
    return named or bool(re.match(rb"(\s*\d+[ \t]*\r?\n){3}", source.head))


def read(path: Path, reading: Reading) -> Corpus:
    """Read a docword file and its vocabulary; documents are named by their ids.

    Entries may be in any order. Duplicates are summed, counts of 0 are dropped, and ids without
    entries are empty documents. The default vocabulary for `docword.a.b.txt.gz` is the first of
    `vocab.a.b.txt`, `vocab.a.txt` and `vocab.txt` next to it, each also packed.
    """
    with _open(path, reading) as (header, words, parts):
        document, word, count = np.concatenate(list(parts)).T
    table = sp.coo_array((count, (document - 1, word - 1)), shape=header[:2])
    names = read_names(reading.names) if reading.names else numbered(header.documents)
    check_length(path, reading, "names", names, "documents", header.documents)
    return from_counts(table, words, names, source=str(path))


@contextmanager
def blocks(path: Path, reading: Reading) -> Iterator[Blocks]:
    """Read a docword file a few documents at a time; entries must be sorted by document."""
    with _open(path, reading) as (header, words, parts):
        yield Blocks(words, _blocks_of(parts, header, path))


_NOUN = "UCI bag of words, `docword` beside `vocab`"
FORMAT = Format("uci", "counts", _NOUN, recognises, read, options=("names",), blocks=blocks)


def _blocks_of(parts: Iterable[np.ndarray], header: _Header, path: Path) -> Iterator[sp.csr_array]:
    """Yield counts of successive documents, none of them split between blocks."""

    def table(entries: np.ndarray, first: int, end: int) -> sp.csr_array:
        document, word, count = entries.T
        return sp.csr_array(
            (count, (document - first, word - 1)), shape=(end - first, header.words)
        )

    first, pending = 1, np.zeros((0, 3), np.int32)
    for part in parts:
        pending = np.concatenate([pending, part])
        document = pending[:, 0]
        if (back := np.flatnonzero(np.diff(document) < 0)).size:
            problem = f"document {document[back[0] + 1]} comes after document {document[back[0]]}"
            raise error_at(path, problem, "sort the lines by document to store it")
        if len(pending) and (last := int(document[-1])) > first:
            end = int(np.searchsorted(document, last))
            yield table(pending[:end], first, last)
            first, pending = last, pending[end:]
    yield table(pending, first, header.documents + 1)


@contextmanager
def _open(
    path: Path, reading: Reading
) -> Iterator[tuple[_Header, tuple[str, ...], Iterator[np.ndarray]]]:
    """Yield the header, the words and an iterator of entries; the file is open in the block."""
    with files.reading(path) as (stream, limit):
        header = _header(stream, path, limit)
        words = read_vocabulary(reading.vocabulary or _vocabulary_beside(path))
        if len(words) != header.words:
            problem = f"the header declares {header.words} words, the vocabulary has {len(words)}"
            raise error_at(path, problem, "give the vocabulary that belongs to this file", line=2)
        yield header, words, _entries(stream, path, header)


def _header(stream: io.BufferedReader, path: Path, limit: int) -> _Header:
    sizes = []
    for line, unit in enumerate(("documents", "words", "entries"), start=1):
        text = stream.readline(80).strip()
        if not re.fullmatch(rb"\d{1,18}", text) or int(text) == 0:
            problem = f"the number of {unit} is {files.shown(text)}"
            remedy = "start the file with three lines: documents, words, entries"
            raise error_at(path, problem, remedy, line=line)
        sizes.append(int(text))
    header = _Header(*sizes)
    if header.entries * _SHORTEST_ENTRY > limit + 1:
        problem = f"{header.entries} entries are more than fit into the file"
        remedy = "is the file complete, and its third line right?"
        raise error_at(path, problem, remedy, line=_ENTRIES_LINE)
    if header.documents > header.entries + files.MAX_UNUSED:
        problem = f"{header.documents} documents with only {header.entries} entries"
        raise error_at(path, problem, "is the first line right?", line=1)
    for line, size, unit in ((1, header.documents, "documents"), (2, header.words, "words")):
        if size > MAX_WORDS:
            raise error_at(path, f"{size} {unit}", f"keep at most {MAX_WORDS}", line=line)
    return header


def _vocabulary_beside(path: Path) -> Path:
    _, *parts = content_name(path).split(".")
    if parts and parts[-1].lower() == "txt":
        del parts[-1]
    names = [".".join(["vocab", *parts[:n], "txt"]) for n in range(len(parts), -1, -1)]
    file = vocabulary_beside(path, names)
    if file is None:
        problem = f"no vocabulary next to it (tried {', '.join(names)})"
        raise error_at(path, problem, "give a vocabulary file")
    return file


def _entries(stream: io.BufferedReader, path: Path, header: _Header) -> Iterator[np.ndarray]:
    """Yield document and word ids from 1 and counts 0..2**24, int32 [n, 3], in file order."""
    count = 0
    for number, chunk in files.line_blocks(stream, path, _ENTRIES_LINE + 1, files.BLOCK):
        table = _parse_block(chunk, header)
        if table is None or count + len(table) > header.entries:
            table = _parse_lines(chunk, path, header, number, count)
        count += len(table)
        yield table
    if count < header.entries:
        problem = f"the header declares {header.entries} entries, the file has {count}"
        raise error_at(path, problem, "is the file complete?", line=_ENTRIES_LINE)


def _parse_block(chunk: bytes, header: _Header) -> np.ndarray | None:
    """Return the entries if all lines are well formed and in range; None if one may not be."""
    lines = chunk.count(b"\n")
    # Without digits, all well-formed lines look the same. Lines that look different, have an empty
    # field or a number out of range are read again by `_parse_lines`, which allows more blanks and
    # says which line is wrong.
    if chunk.translate(None, b"0123456789") != b"  \n" * lines:
        return None
    numbers = np.fromstring(chunk, np.int64, sep=" ")
    if numbers.size != 3 * lines:
        return None
    table = numbers.reshape(lines, 3)
    if (table < (1, 1, 0)).any() or (table > (header.documents, header.words, MAX_COUNT)).any():
        return None
    return table.astype(np.int32)


def _parse_lines(chunk: bytes, path: Path, header: _Header, line: int, count: int) -> np.ndarray:
    table: list[list[int]] = []
    for number, text in enumerate(chunk.split(b"\n"), start=line):
        if not text.strip():
            continue
        table.append(_entry(text, path, header, number))
        if count + len(table) > header.entries:
            problem = f"more entries than the {header.entries} that the header declares"
            raise error_at(path, problem, f"correct line {_ENTRIES_LINE} of the file", line=number)
    return np.array(table, np.int32).reshape(-1, 3)


def _entry(text: bytes, path: Path, header: _Header, line: int) -> list[int]:
    """Return the entry on a line."""
    fields = text.split()
    if len(fields) != 3 or not all(map(files.WHOLE.fullmatch, fields)):
        problem = f"{files.shown(text)} is not three whole numbers"
        raise error_at(path, problem, "write `document word count`", line=line)
    entry = [int(field) for field in fields]
    ranges = ((1, header.documents), (1, header.words), (0, MAX_COUNT))
    for name, number, (low, high) in zip(_FIELDS, entry, ranges, strict=True):
        if not low <= number <= high:
            problem = f"{name} {number} is not in {low}..{high}"
            raise error_at(path, problem, "correct the line, or the header", line=line)
    return entry

"""The bag-of-words format of the UCI repository: `docword.NAME.txt[.gz]` and `vocab.NAME.txt`.

Three header lines (documents D, words W, entries N), then N lines `document word count`, with ids
from 1 and counts from 0.
"""

import io
import os
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax.corpus.corpus import MAX_COUNT, MAX_WORDS, Corpus, error_at, from_counts, printable
from simplex_jax.corpus.files import MAX_UNUSED, reading
from simplex_jax.corpus.text import TextOptions
from simplex_jax.corpus.vocabulary import read_vocabulary

_CHUNK = 2**22
_SHORTEST_ENTRY = 6  # "1 1 1\n"
_FIRST_ENTRY_LINE = 4


class _Header(NamedTuple):
    documents: int
    words: int
    entries: int


def recognises(path: Path, head: bytes) -> bool:
    """Whether the name starts with `docword.` or the file with three lines of one number each."""
    return path.name.startswith("docword.") or bool(re.match(rb"(\s*\d+[ \t]*\r?\n){3}", head))


def read(path: Path, vocabulary: Path | None, text: TextOptions, encoding: str) -> Corpus:
    """Read a docword file and its vocabulary; documents are named by their ids.

    Entries may come in any order, those stored twice are summed, counts of 0 are dropped, and ids
    without entries are empty documents. Without `vocabulary`, the file is looked for next to
    `path`: for `docword.a.b.txt.gz` it is the first there of `vocab.a.b.txt`, `vocab.a.txt` and
    `vocab.txt`, each also with `.gz`.

    Raises:
        CorpusError: naming the file and the line.
    """
    with reading(path) as (stream, limit):
        header = _header(stream, path, limit)
        words = read_vocabulary(vocabulary or _vocabulary_beside(path))
        if len(words) != header.words:
            raise error_at(
                path,
                f"the header declares {header.words} words, the vocabulary has {len(words)}",
                "give the vocabulary that belongs to this file",
                line=2,
            )
        document, word, count = _entries(stream, path, header)
    table = sp.coo_array((count, (document, word)), shape=header[:2])
    names = [str(number) for number in range(1, header.documents + 1)]
    return from_counts(table, words, names, source=str(path))


def _header(stream: io.BufferedReader, path: Path, limit: int) -> _Header:
    sizes = []
    for line, what in enumerate(("documents", "words", "entries"), start=1):
        text = stream.readline(80).strip()
        if not re.fullmatch(rb"\d{1,18}", text) or int(text) == 0:
            raise error_at(
                path,
                f"the number of {what} is {printable(repr(text)[1:])}",
                "start the file with three lines: documents, words, entries",
                line=line,
            )
        sizes.append(int(text))
    header = _Header(*sizes)
    if header.entries * _SHORTEST_ENTRY > limit + 1:
        raise error_at(
            path,
            f"{header.entries} entries are more than fit into the file",
            "is the file complete, and its third line right?",
            line=3,
        )
    if header.words > MAX_WORDS:
        raise error_at(path, f"{header.words} words", f"keep at most {MAX_WORDS}", line=2)
    if header.documents > header.entries + MAX_UNUSED:
        raise error_at(
            path,
            f"{header.documents} documents with only {header.entries} entries",
            "is the first line right?",
            line=1,
        )
    return header


def _vocabulary_beside(path: Path) -> Path:
    name = path.name.removesuffix(".gz").removesuffix(".txt")
    parts = name.split(".")[1:]
    tried = [".".join(["vocab", *parts[:n], "txt"]) for n in range(len(parts), -1, -1)]
    for candidate in tried:
        for file in (path.with_name(candidate), path.with_name(candidate + ".gz")):
            if os.path.isfile(file):
                return file
    raise error_at(
        path, f"no vocabulary next to it (tried {', '.join(tried)})", "give a vocabulary file"
    )


def _entries(
    stream: io.BufferedReader, path: Path, header: _Header
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Zero-based document and word ids, and counts, of all entries."""
    parts: list[np.ndarray] = []
    found, line, rest = 0, _FIRST_ENTRY_LINE, b""
    while block := stream.read(_CHUNK):
        block = rest + block
        end = block.rfind(b"\n") + 1
        if end == 0 and len(block) > _CHUNK:
            raise error_at(path, "the line is too long", "write `document word count`", line=line)
        chunk, rest = block[:end], block[end:]
        parts.append(_parse(chunk, path, header, line, found))
        found += len(parts[-1])
        line += chunk.count(b"\n")
    parts.append(_parse(rest, path, header, line, found))
    found += len(parts[-1])
    if found < header.entries:
        raise error_at(
            path,
            f"the header declares {header.entries} entries, the file has {found}",
            "is the file complete?",
            line=3,
        )
    document, word, count = np.concatenate(parts).T
    return document - 1, word - 1, count


def _parse(chunk: bytes, path: Path, header: _Header, line: int, found: int) -> np.ndarray:
    """Entries [n, 3] of whole lines, the first being line `line` of the file."""
    lines = chunk.count(b"\n")
    # With the digits taken out, well-formed lines all look the same. What looks different, has an
    # empty field, or a number out of range is read again slowly, to allow more blanks or to say
    # which line is wrong.
    plain = chunk.translate(None, b"0123456789") == b"  \n" * lines
    if plain and lines:
        numbers = np.fromstring(chunk, np.int64, sep=" ")
        if numbers.size == 3 * lines and found + lines <= header.entries:
            table = numbers.reshape(lines, 3)
            if (table >= (1, 1, 0)).all() and (table <= (*header[:2], MAX_COUNT)).all():
                return table.astype(np.int32)
    return _parse_slowly(chunk, path, header, line, found)


def _parse_slowly(chunk: bytes, path: Path, header: _Header, line: int, found: int) -> np.ndarray:
    entries: list[list[int]] = []
    for number, text in enumerate(chunk.split(b"\n"), start=line):
        fields = text.split()
        if not fields:
            continue
        shown = printable(repr(text[:60].strip())[1:])
        if not all(re.fullmatch(rb"-?\d{1,18}", field) for field in fields) or len(fields) != 3:
            raise error_at(
                path,
                f"{shown} is not three whole numbers",
                "write `document word count`",
                line=number,
            )
        values = [int(field) for field in fields]
        for what, value, low, high in zip(
            ("document id", "word id", "count"),
            values,
            (1, 1, 0),
            (header.documents, header.words, MAX_COUNT),
            strict=True,
        ):
            if not low <= value <= high:
                raise error_at(
                    path,
                    f"{what} {value} is not in {low}..{high}",
                    "correct the line, or the sizes in the header",
                    line=number,
                )
        entries.append(values)
        if found + len(entries) > header.entries:
            raise error_at(
                path,
                f"more entries than the {header.entries} that the header declares",
                "correct the third line of the file",
                line=number,
            )
    return np.array(entries, np.int32).reshape(-1, 3)

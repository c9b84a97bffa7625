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

from simplex_jax.corpus.corpus import MAX_WORDS, Corpus, error_at, from_counts, printable
from simplex_jax.corpus.files import MAX_UNUSED, reading
from simplex_jax.corpus.matrix import check_length
from simplex_jax.corpus.reading import Blocks, Reading
from simplex_jax.corpus.triples import Layout, entries
from simplex_jax.corpus.vocabulary import numbered, read_names, read_vocabulary, vocabulary_beside

_SHORTEST_ENTRY = 6  # "1 1 1\n"
_FIRST_ENTRY_LINE = 4


class _Header(NamedTuple):
    documents: int
    words: int
    entries: int


def recognises(path: Path, head: bytes) -> bool:
    """Whether the name starts with `docword.` or the file with three lines of one number each."""
    return path.name.startswith("docword.") or bool(re.match(rb"(\s*\d+[ \t]*\r?\n){3}", head))


def read(path: Path, how: Reading) -> Corpus:
    """Read a docword file and its vocabulary; documents are named by their ids.

    Entries may come in any order, those stored twice are summed, counts of 0 are dropped, and ids
    without entries are empty documents. Without `how.vocabulary`, the file is looked for next to
    `path`: for `docword.a.b.txt.gz` it is the first there of `vocab.a.b.txt`, `vocab.a.txt` and
    `vocab.txt`, each also with `.gz`.

    Raises:
        CorpusError: naming the file and the line.
    """
    with _opened(path, how) as (header, words, parts):
        document, word, count = np.concatenate(list(parts)).T
    table = sp.coo_array((count, (document - 1, word - 1)), shape=header[:2])
    names = read_names(how.names) if how.names else numbered(header.documents)
    check_length(path, how, "names", names, "documents", header.documents)
    return from_counts(table, words, names, source=str(path))


@contextmanager
def blocks(path: Path, how: Reading) -> Iterator[Blocks]:
    """Read a docword file a few documents at a time; their entries must be in order.

    Raises:
        CorpusError: as `read`, or the entries of a document come after those of a later one.
    """
    with _opened(path, how) as (header, words, parts):
        yield Blocks(words, _grouped(parts, header, path))


def _grouped(parts: Iterable[np.ndarray], header: _Header, path: Path) -> Iterator[sp.csr_array]:
    """Counts of successive documents, none of them cut in two."""

    def table(entries: np.ndarray, first: int, end: int) -> sp.csr_array:
        document, word, count = entries.T
        return sp.csr_array(
            (count, (document - first, word - 1)), shape=(end - first, header.words)
        )

    done, held = 1, np.zeros((0, 3), np.int32)
    for part in parts:
        held = np.concatenate([held, part])
        document = held[:, 0]
        if (back := np.flatnonzero(np.diff(document) < 0)).size:
            raise error_at(
                path,
                f"document {document[back[0] + 1]} comes after document {document[back[0]]}",
                "sort the lines by document to store it",
            )
        if len(held) and (last := int(document[-1])) > done:
            end = int(np.searchsorted(document, last))
            yield table(held[:end], done, last)
            done, held = last, held[end:]
    yield table(held, done, header.documents + 1)


@contextmanager
def _opened(
    path: Path, how: Reading
) -> Iterator[tuple[_Header, tuple[str, ...], Iterator[np.ndarray]]]:
    """Header, words and the entries to come; the file is open as long as the block lasts."""
    with reading(path) as (stream, limit):
        header = _header(stream, path, limit)
        words = read_vocabulary(how.vocabulary or _vocabulary_beside(path))
        if len(words) != header.words:
            raise error_at(
                path,
                f"the header declares {header.words} words, the vocabulary has {len(words)}",
                "give the vocabulary that belongs to this file",
                line=2,
            )
        layout = Layout(("document id", "word id", "count"), header[:2], header.entries, 3)
        yield header, words, entries(stream, path, layout, _FIRST_ENTRY_LINE)


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
    if header.documents > header.entries + MAX_UNUSED:
        raise error_at(
            path,
            f"{header.documents} documents with only {header.entries} entries",
            "is the first line right?",
            line=1,
        )
    for line, size, what in ((1, header.documents, "documents"), (2, header.words, "words")):
        if size > MAX_WORDS:
            raise error_at(path, f"{size} {what}", f"keep at most {MAX_WORDS}", line=line)
    return header


def _vocabulary_beside(path: Path) -> Path:
    parts = path.name.removesuffix(".gz").removesuffix(".txt").split(".")[1:]
    tried = [".".join(["vocab", *parts[:n], "txt"]) for n in range(len(parts), -1, -1)]
    if (found := vocabulary_beside(path, tried)) is None:
        raise error_at(
            path, f"no vocabulary next to it (tried {', '.join(tried)})", "give a vocabulary file"
        )
    return found

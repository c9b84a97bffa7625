"""The lda-c format: one document a line, `M id:count id:count ...`, M pairs with ids from 0.

Some programs write ids from 1.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus import files
from simplex_jax._src.corpus.corpus import MAX_COUNT, MAX_WORDS, Corpus, error_at
from simplex_jax._src.corpus.files import content_name
from simplex_jax._src.corpus.formats.matrices import corpus_of
from simplex_jax._src.corpus.reading import Blocks, Format, Reading, Source
from simplex_jax._src.corpus.vocabulary import read_vocabulary, vocabulary_beside
from simplex_jax._src.warn import warn_caller

_LINE = re.compile(rb"(\d{1,9})((?:[ \t]+\d+:\d+)*)[ \t]*\r?")
_DIGITS = b"0123456789"


class _Documents(NamedTuple):
    """Consecutive documents."""

    sizes: np.ndarray  # number of pairs of each, int64 [n]
    ids: np.ndarray  # words of all pairs, from 0, int64
    counts: np.ndarray  # of all pairs, 0..2**24, int64


def recognises(source: Source) -> bool:
    """Recognise lines that start with the number of their pairs of whole numbers.

    If the first line is longer than the head, the head has no more pairs than this number.
    """
    *whole, last = source.head.split(b"\n")
    if not whole:
        start = _LINE.match(last)
        return start is not None and int(start[1]) >= start[2].count(b":") > 0
    lines = [_LINE.fullmatch(line) for line in whole if line.strip()]
    nonempty = any(line[2] for line in lines if line)
    return nonempty and all(line and int(line[1]) == line[2].count(b":") for line in lines)


def read(path: Path, reading: Reading) -> Corpus:
    """Read documents, by default named by their line numbers.

    `0` is an empty document; repeated ids are summed. Ids count from 0 unless `reading.first_index`
    says otherwise; a warning tells if none is 0. The default vocabulary is the first of
    `vocab.NAME.txt`, `NAME.vocab` and `vocab.txt` next to `path` (each also packed); without one,
    the words are `w0, w1, ...` up to the largest id in the file.
    """
    words = _vocabulary(path, reading)
    parts = list(_documents(path, MAX_WORDS if words is None else len(words), reading.first_index))
    if not parts:
        raise error_at(path, "no document in the file", "give one a line")
    sizes, ids, counts = map(np.concatenate, zip(*parts, strict=True))
    columns = 1 + int(ids.max(initial=0)) if words is None else len(words)
    table = _table(_Documents(sizes, ids, counts), columns)
    return corpus_of(table, path, replace(reading, vocabulary=None), words, first=1)


@contextmanager
def blocks(path: Path, reading: Reading) -> Iterator[Blocks]:
    """Read a few documents at a time; a vocabulary is required."""
    words = _vocabulary(path, reading)
    if words is None:
        raise error_at(path, "no vocabulary next to it", "give a vocabulary file to store it")
    parts = _documents(path, len(words), reading.first_index)
    yield Blocks(words, (_table(part, len(words)) for part in parts))


FORMAT = Format(
    "ldac", "counts", "lda-c", recognises, read, ("names", "first_index"), blocks=blocks
)


def _vocabulary(path: Path, reading: Reading) -> tuple[str, ...] | None:
    name = content_name(path).rpartition(".")[0] or path.name
    names = [f"vocab.{name}.txt", f"{name}.vocab", "vocab.txt"]
    file = reading.vocabulary or vocabulary_beside(path, names)
    return None if file is None else read_vocabulary(file)


def _table(documents: _Documents, columns: int) -> sp.csr_array:
    starts = np.concatenate([[0], np.cumsum(documents.sizes)])
    entries = (documents.counts, documents.ids, starts)
    return sp.csr_array(entries, shape=(len(documents.sizes), columns))


def _documents(path: Path, words: int, first_index: int | None) -> Iterator[_Documents]:
    """Yield documents, some thousands at a time; blank lines are allowed only at the end."""
    blank, first, least = 0, first_index or 0, MAX_WORDS
    with files.reading(path) as (stream, _):
        for line, chunk in files.line_blocks(stream, path, 1, files.MAX_DOCUMENT):
            content = chunk.rstrip()
            if content and blank:
                raise _blank_line(path, blank)
            end = content.count(b"\n") + bool(content)
            if chunk.count(b"\n") > end:
                blank = blank or line + end
            if content:
                within = range(first, first + words)
                part = _parse_block(content + b"\n", within)
                part = _parse_lines(content, path, within, line) if part is None else part
                least = min(least, int(part.ids.min(initial=MAX_WORDS)))
                yield part._replace(ids=part.ids - first)
    if first_index is None and 0 < least < MAX_WORDS:
        warn_caller(
            f"{path}: no word has id 0, and ids are taken to count from 0: give --first-index "
            "(first_index) 1 if they count from 1, or 0 to confirm",
        )


def _blank_line(path: Path, line: int) -> Exception:
    return error_at(path, "the line is blank", "write 0 for an empty document", line=line)


def _parse_block(chunk: bytes, within: range) -> _Documents | None:
    """Return the documents if all lines are well formed and in range; None if one may not be."""
    chunk = chunk.replace(b"\r\n", b"\n").replace(b" \n", b"\n")
    lines = [line.partition(b" ") for line in chunk.split(b"\n")[:-1]]
    sizes = np.array([pairs.count(b":") for _, _, pairs in lines], np.int64)
    body = b"".join(b" " + pairs for _, _, pairs in lines if pairs)
    # Without digits, all well-formed pairs look the same.
    if body.translate(None, _DIGITS) != b" :" * int(sizes.sum()):
        return None
    if any(head != b"%d" % size for (head, _, _), size in zip(lines, sizes, strict=True)):
        return None
    numbers = np.fromstring(body.replace(b":", b" "), np.int64, sep=" ") if body else np.zeros(0)
    if numbers.size != 2 * sizes.sum():
        return None
    ids, counts = numbers.astype(np.int64).reshape(-1, 2).T
    if (ids < within.start).any() or (ids >= within.stop).any() or (counts > MAX_COUNT).any():
        return None
    return _Documents(sizes, ids, counts)


def _parse_lines(chunk: bytes, path: Path, within: range, line: int) -> _Documents:
    sizes, pairs = [], []
    for number, text in enumerate(chunk.split(b"\n"), start=line):
        head, *fields = text.split() or [b""]
        if not head:
            raise _blank_line(path, number)
        if not re.fullmatch(rb"\d{1,18}", head) or int(head) != len(fields):
            problem = f"{len(fields)} pairs after the number {files.shown(head)}"
            remedy = "start the line with the number of its pairs `id:count`"
            raise error_at(path, problem, remedy, line=number)
        sizes.append(len(fields))
        pairs += [_pair(field, path, within, number) for field in fields]
    ids, counts = np.array(pairs, np.int64).reshape(-1, 2).T
    return _Documents(np.array(sizes, np.int64), ids, counts)


def _pair(field: bytes, path: Path, within: range, line: int) -> tuple[int, int]:
    word, _, count = field.partition(b":")
    if not files.WHOLE.fullmatch(word) or not files.WHOLE.fullmatch(count):
        raise error_at(
            path, f"{files.shown(field)} is not `id:count`", "correct the pair", line=line
        )
    if int(word) not in within:
        problem = f"word id {int(word)} is not in {within.start}..{within.stop - 1}"
        remedy = "correct the pair, or give the vocabulary that belongs to this file"
        if int(word) == within.stop and within.start == 0:
            remedy += ", or --first-index (first_index) 1 if ids count from 1"
        raise error_at(path, problem, remedy, line=line)
    if not 0 <= int(count) <= MAX_COUNT:
        problem = f"count {int(count)} is not in 0..{MAX_COUNT}"
        raise error_at(path, problem, "correct the pair", line=line)
    return int(word), int(count)

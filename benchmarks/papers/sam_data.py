"""Unit vectors in the format of SAM's authors, which is like SVMlight.

It is text: a line `V D`; for each document a line `n label id:value id:value ...` with n pairs, ids
from 0; and a last line with the number of labels, which may be missing. The data sets of Liu, Zhu
and Song (2016), "Stochastic Gradient Geodesic MCMC Methods", have this format.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus import files, vectors
from simplex_jax._src.corpus.corpus import MAX_WORDS, error_at, printable
from simplex_jax._src.corpus.vectors import UnitVectors
from simplex_jax._src.corpus.vocabulary import numbered, read_vocabulary, vocabulary_beside

_HEADER = re.compile(rb"(\d{1,18})[ \t]+(\d{1,18})[ \t]*\r?\n")
_NUMBER = rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_DOCUMENT = re.compile(rb"(\d{1,9})[ \t]+(\S+)((?:[ \t]+\d{1,10}:" + _NUMBER + rb")*)")
_SHAPE = "begin the file with a line `words documents`"


class _Size(NamedTuple):
    words: int
    documents: int


def read(path: Path, *, normalise: bool = False) -> UnitVectors:
    """Read unit vectors of documents, compressed or not, with the vocabulary beside them.

    The vocabulary of `a.b.data` is `a.b.voc` or `a.voc`; without one the words are `w0, w1, ...`.
    Documents are named by numbers from 1.

    Args:
        path: The file.
        normalise: Accept vectors of any length but 0.

    Raises:
        CorpusError: Something is wrong with the data, such as a vector that is zero, not finite or
            not of length 1; one line `FILE:LINE: what is wrong; what to do`.
    """
    parts = path.name.split(".")
    beside = [".".join([*parts[:end], "voc"]) for end in range(len(parts) - 1, 0, -1)]
    file = vocabulary_beside(path, beside)
    words = None if file is None else read_vocabulary(file)
    table = _text(path, normalise, None if words is None else len(words))
    names = numbered(table.shape[0])
    return vectors.from_array(table, words, names, normalise=normalise, source=str(path))


def _text(path: Path, normalise: bool, words: int | None) -> sp.csr_array:
    with files.reading(path) as (stream, _):
        lines = _lines(stream, path)
        size = _header(next(lines)[1], path, words)
        sizes: list[int] = []
        ids, values = [], []
        labels: set[bytes] = set()
        for number, line in lines:
            if len(sizes) == size.documents:
                _trailer(line, number, len(labels), path, lines)
                break
            label, columns, entries = _document(line, number, size.words, path)
            problem = vectors.wrong_length(np.sqrt([entries @ entries]), normalise=normalise)
            if problem is not None:
                raise error_at(path, f"the vector {problem[1]}", problem[2], line=number)
            labels.add(label)
            sizes.append(len(columns))
            ids.append(columns)
            values.append(entries)
    if len(sizes) < size.documents:
        raise error_at(
            path,
            f"{len(sizes)} documents, and the first line declares {size.documents}",
            "the file is cut short, or correct the first line",
        )
    if words is None and size.words > sum(sizes) + files.MAX_UNUSED:
        raise error_at(path, f"{size.words} words declared", "give a vocabulary", line=1)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    table = (np.concatenate(values), np.concatenate(ids), starts)
    return sp.csr_array(table, shape=(size.documents, size.words))


def _lines(stream: object, path: Path) -> Iterator[tuple[int, bytes]]:
    for first, block in files.line_blocks(stream, path, 1, files.MAX_DOCUMENT):  # type: ignore[arg-type]
        for number, line in enumerate(block.split(b"\n")[:-1], start=first):
            yield number, line.rstrip()


def _header(line: bytes, path: Path, words: int | None) -> _Size:
    result = _HEADER.fullmatch(line + b"\n")
    if result is None:
        raise error_at(path, f"the first line is {_shown(line)}", _SHAPE, line=1)
    size = _Size(*(int(number) for number in result.groups()))
    if min(size) < 1 or size.words > MAX_WORDS:
        raise error_at(path, f"{size.words} words, {size.documents} documents", _SHAPE, line=1)
    if words is not None and words != size.words:
        raise error_at(
            path,
            f"{size.words} words declared, and {words} in the vocabulary",
            "give the vocabulary that belongs to this file",
            line=1,
        )
    return size


def _trailer(
    line: bytes, number: int, labels: int, path: Path, rest: Iterator[tuple[int, bytes]]
) -> None:
    if re.fullmatch(rb"\d{1,18}", line) is None or int(line) < labels:
        raise error_at(
            path,
            f"{_shown(line)} after the last document, where the number of its {labels} labels goes",
            "correct the number of documents in the first line, or this one",
            line=number,
        )
    for more, content in rest:
        if content:
            raise error_at(
                path, f"{_shown(content)} after the end", "end the file before", line=more
            )


def _document(
    line: bytes, number: int, words: int, path: Path
) -> tuple[bytes, np.ndarray, np.ndarray]:
    """Return the label, ids and values of a line."""

    def refused(problem: str, remedy: str = "correct the line") -> Exception:
        return error_at(path, problem, remedy, line=number)

    result = _DOCUMENT.fullmatch(line)
    if result is None:
        raise refused(f"{_shown(line)} is not a document", "write `n label id:value id:value ...`")
    declared, label, body = result.groups()
    numbers = np.array(body.replace(b":", b" ").split(), dtype=np.bytes_).astype(np.float64)
    ids, values = numbers.reshape(-1, 2).T
    if int(declared) != len(ids):
        raise refused(f"{len(ids)} pairs after the number {int(declared)}")
    if len(ids) and ids.max() >= words:
        raise refused(f"word id {int(ids.max())} is not in 0..{words - 1}")
    if len(np.unique(ids)) < len(ids):
        raise refused("a word is there twice")
    return label, ids.astype(np.int64), values


def _shown(line: bytes) -> str:
    return printable(repr(line[:60])[1:])

"""Files of unit vectors: the SVMlight-like format of SAM's authors, and arrays of NumPy and SciPy.

The first is text: a line `V D`; of each document a line `n label id:value id:value ...` with n
pairs, ids from 0; and a last line with the number of labels, which may be missing. It is that of
the data sets of Liu, Zhu and Song (2016), "Stochastic Gradient Geodesic MCMC Methods".
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax.corpus import files, npz, vectors
from simplex_jax.corpus.corpus import MAX_WORDS, error_at, printable
from simplex_jax.corpus.vectors import UnitVectors
from simplex_jax.corpus.vocabulary import numbered, read_names, read_vocabulary, vocabulary_beside

_NPY = b"\x93NUMPY"
_HEADER = re.compile(rb"(\d{1,18})[ \t]+(\d{1,18})[ \t]*\r?\n")
_NUMBER = rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_DOCUMENT = re.compile(rb"(\d{1,9})[ \t]+(\S+)((?:[ \t]+\d{1,10}:" + _NUMBER + rb")*)")
_SHAPE = "begin the file with a line `words documents`"


class _Size(NamedTuple):
    words: int
    documents: int


def recognises(path: str | Path) -> bool:
    """Whether a file is one of unit vectors by its first line: an array (.npy), or `V D`.

    An `.npz` may hold counts as well, and is not recognised.

    Raises:
        CorpusError: the file cannot be read.
    """
    place = Path(path)
    if place.is_dir():
        return False
    with files.reading(place) as (stream, _):
        head = stream.peek(4096)[:4096]
    first = _HEADER.match(head)
    if first is None:
        return head.startswith(_NPY)
    second = head[first.end() :].partition(b"\n")[0]
    return re.match(rb"\d+[ \t]+\S+[ \t]+\d+:[-+]?[\d.]", second) is not None


def read(
    path: str | Path,
    vocabulary: str | Path | None = None,
    names: str | Path | None = None,
    *,
    normalise: bool = False,
) -> UnitVectors:
    r"""Read unit vectors of documents from a file, gzip or not.

    Args:
        path: text as above, a SciPy sparse array (`.npz`) or a NumPy array (`.npy`) [D, V].
        vocabulary: file with one word a line. For text it is looked for beside `path` when left
            out: of `a.b.data` that is `a.b.voc` or `a.voc`. Without one the words are `w0, w1,
            ...`.
        names: file with one document name a line; numbers from 1 when left out.
        normalise: take vectors of any length but 0.

    Returns:
        The unit vectors.

    Raises:
        CorpusError: something is wrong with the data, such as a vector that is zero, not finite or
            not of length 1; one line `FILE:LINE: what is wrong; what to do`.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     file = pathlib.Path(place, "x.data")
        ...     _ = file.write_text("3 2\n2 1 0:0.6 2:0.8\n1 2 1:1\n2\n")
        ...     found = read(file)
        >>> found.values.toarray().round(1).tolist() == [[0.6000000238418579, 0.0,
        ...     0.800000011920929], [0.0, 1.0, 0.0]]
        True
    """
    place = Path(path)
    with files.reading(place) as (stream, _):
        head = stream.peek(8)[:8]
    words = None if vocabulary is None else read_vocabulary(vocabulary)
    table: sp.sparray | np.ndarray
    if head.startswith(b"PK") or head.startswith(_NPY):
        table = _sparse(place) if head.startswith(b"PK") else npz.dense_array(place)
    else:
        if vocabulary is None and (beside := _beside(place)):
            words = read_vocabulary(beside)
        table = _text(place, normalise, None if words is None else len(words))
    labels = numbered(table.shape[0]) if names is None else read_names(Path(names))
    return vectors.from_array(table, words, labels, normalise=normalise, source=str(place))


def _sparse(path: Path) -> sp.sparray:
    table = npz.sparse_array(path)
    if max(table.shape) > table.nnz + files.MAX_UNUSED:
        raise error_at(path, f"shape {table.shape}, {table.nnz} entries", "check the shape")
    return table


def _beside(path: Path) -> Path | None:
    parts = path.name.split(".")
    found = [".".join([*parts[:end], "voc"]) for end in range(len(parts) - 1, 0, -1)]
    return vocabulary_beside(path, found)


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
    found = _HEADER.fullmatch(line + b"\n")
    if found is None:
        raise error_at(path, f"the first line is {_shown(line)}", _SHAPE, line=1)
    size = _Size(*(int(number) for number in found.groups()))
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
    """Label, ids and values of a line."""

    def refused(problem: str, remedy: str = "correct the line") -> Exception:
        return error_at(path, problem, remedy, line=number)

    found = _DOCUMENT.fullmatch(line)
    if found is None:
        raise refused(f"{_shown(line)} is no document", "write `n label id:value id:value ...`")
    declared, label, body = found.groups()
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

"""Documents as lines of `id:count` pairs behind a first field: what lda-c and SVMlight share."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax.corpus import files
from simplex_jax.corpus.corpus import MAX_COUNT, MAX_WORDS, Corpus, error_at, printable
from simplex_jax.corpus.matrix import corpus_of
from simplex_jax.corpus.reading import Reading

_DIGITS = b"0123456789"


class Layout(NamedTuple):
    """What the lines of a format look like.

    Attributes:
        first_id: the id of the first word, 0 or 1.
        words: how many there are; None if only the file tells.
        svmlight: the first field is a label, there may be comments, `qid` pairs, blank lines, and
            counts with a decimal point; else it is the number of pairs.
    """

    first_id: int
    words: int | None
    svmlight: bool


class Documents(NamedTuple):
    """Some documents, one after the other.

    Attributes:
        sizes: number of pairs of each, int64 [n].
        ids: words of all pairs, from 0, int64.
        counts: of all pairs, 0..2**24, int64.
    """

    sizes: np.ndarray
    ids: np.ndarray
    counts: np.ndarray


def read(path: Path, how: Reading, layout: Layout, words: Sequence[str] | None = None) -> Corpus:
    """Read a whole file; pairs that are there twice are summed.

    Args:
        path: the file.
        how: `names` is looked at.
        layout: its format.
        words: the vocabulary; `w0, w1, ...` when left out.

    Raises:
        CorpusError: naming the file and the line.
    """
    parts = [part for part in documents(path, layout) if len(part.sizes)]
    if not parts:
        raise error_at(path, "no document in the file", "give one a line")
    sizes, ids, counts = map(np.concatenate, zip(*parts, strict=True))
    largest = 1 + int(ids.max(initial=0))
    table = sp.csr_array(
        (counts, ids, np.concatenate([[0], np.cumsum(sizes)])),
        shape=(len(sizes), layout.words or largest),
    )
    return corpus_of(table, path, replace(how, vocabulary=None), words, first=1)


def documents(path: Path, layout: Layout) -> Iterator[Documents]:
    """Read the documents of a file, some thousands at a time.

    Raises:
        CorpusError: a line is no document, naming it.
    """
    blank = 0
    with files.reading(path) as (stream, _):
        for line, chunk in files.line_blocks(stream, path, 1, files.MAX_DOCUMENT):
            content = chunk.rstrip()
            if content and blank:
                raise _blank(path, blank)
            end = content.count(b"\n") + bool(content)
            if not layout.svmlight and chunk.count(b"\n") > end:
                blank = blank or line + end
            if content:
                found = _quickly(content + b"\n", layout)
                yield _slowly(content, path, layout, line) if found is None else found


def _blank(path: Path, line: int) -> Exception:
    return error_at(path, "the line is blank", "write 0 for an empty document", line=line)


def _quickly(chunk: bytes, layout: Layout) -> Documents | None:
    """Documents of lines that are all well formed and in range; None if one may not be."""
    chunk = chunk.replace(b"\r\n", b"\n").replace(b" \n", b"\n")
    if layout.svmlight:
        chunk = re.sub(rb"\.0+(?=[ \n])", b"", chunk)
    lines = [line.partition(b" ") for line in chunk.split(b"\n")[:-1]]
    sizes = np.array([pairs.count(b":") for _, _, pairs in lines], np.int64)
    if layout.svmlight:
        sound = all(files.REAL.fullmatch(label) for label, _, _ in lines)
    else:
        sound = all(head == b"%d" % size for (head, _, _), size in zip(lines, sizes, strict=True))
    body = b"".join(b" " + pairs for _, _, pairs in lines if pairs)
    # Without digits, well-formed pairs all look the same.
    if not sound or body.translate(None, _DIGITS) != b" :" * int(sizes.sum()):
        return None
    numbers = np.fromstring(body.replace(b":", b" "), np.int64, sep=" ") if body else np.zeros(0)
    if numbers.size != 2 * sizes.sum():
        return None
    words, counts = numbers.astype(np.int64).reshape(-1, 2).T
    words = words - layout.first_id
    if (words < 0).any() or (words >= (layout.words or MAX_WORDS)).any():
        return None
    return None if (counts > MAX_COUNT).any() else Documents(sizes, words, counts)


def _slowly(chunk: bytes, path: Path, layout: Layout, line: int) -> Documents:
    sizes, pairs = [], []
    for number, text in enumerate(chunk.split(b"\n"), start=line):
        fields = (text.partition(b"#")[0] if layout.svmlight else text).split()
        if not fields:
            if not layout.svmlight:
                raise _blank(path, number)
            continue
        head, *rest = fields
        if layout.svmlight:
            rest = [field for field in rest if not field.startswith(b"qid:")]
            if not all(map(files.REAL.fullmatch, head.split(b","))):
                raise error_at(
                    path,
                    f"the label is {_shown(head)}",
                    "write `label index:count index:count ...`",
                    line=number,
                )
        elif not re.fullmatch(rb"\d{1,18}", head) or int(head) != len(rest):
            raise error_at(
                path,
                f"{len(rest)} pairs after the number {_shown(head)}",
                "start the line with the number of its pairs `id:count`",
                line=number,
            )
        sizes.append(len(rest))
        pairs += [_pair(field, path, layout, number) for field in rest]
    words, counts = np.array(pairs, np.int64).reshape(-1, 2).T
    return Documents(np.array(sizes, np.int64), words, counts)


def _pair(field: bytes, path: Path, layout: Layout, line: int) -> tuple[int, int]:
    word, _, count = field.partition(b":")
    real = layout.svmlight
    grammar = files.REAL if real else files.WHOLE
    if not files.WHOLE.fullmatch(word) or not grammar.fullmatch(count):
        raise error_at(path, f"{_shown(field)} is not `id:count`", "correct the pair", line=line)
    low, high = layout.first_id, layout.first_id + (layout.words or MAX_WORDS) - 1
    if not low <= int(word) <= high:
        zero = low == 1 and int(word) == 0
        raise error_at(
            path,
            f"word id {int(word)} is not in {low}..{high}",
            "give --zero-based (zero_based=True) if ids count from 0"
            if zero
            else "correct the pair, or give the vocabulary that belongs to this file",
            line=line,
        )
    value = float(count) if real else int(count)
    if not 0 <= value <= MAX_COUNT:
        problem, remedy = f"is not in 0..{MAX_COUNT}", "correct the pair"
    elif value % 1:
        problem, remedy = "is not a whole number", "give counts, not weights such as tf-idf"
    else:
        return int(word) - low, int(value)
    raise error_at(path, f"count {printable(count.decode())} {problem}", remedy, line=line)


def _shown(field: bytes) -> str:
    return printable(repr(field[:60])[1:])

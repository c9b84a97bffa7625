"""Matrix Market exchange format, `.mtx[.gz]`, in coordinates.

The banner `%%MatrixMarket matrix coordinate FIELD general`, comments, a line with the numbers of
rows, columns and entries, and lines `row column value` with ids from 1. `scipy.io.mmread` is not
used for the entries: it takes `1.5` in an integer file for 1, and leaves what follows a number out.
"""

import io
import re
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from simplex_jax.corpus.corpus import MAX_WORDS, Corpus, error_at, printable
from simplex_jax.corpus.files import reading
from simplex_jax.corpus.matrix import corpus_of
from simplex_jax.corpus.reading import Reading
from simplex_jax.corpus.triples import Layout, entries

_BANNER = "start it with `%%MatrixMarket matrix coordinate integer general`"
_FIELDS = {
    "integer": "integer",
    "unsigned-integer": "integer",
    "real": "real",
    "double": "real",
    "pattern": "pattern",
}
_SHORTEST = {"integer": 6, "real": 6, "pattern": 4}  # "1 1 1\n", "1 1\n"
_LONGEST = 2**16


def recognises(path: Path, head: bytes) -> bool:
    """Whether the file starts with `%%MatrixMarket`."""
    return head[:14].lower() == b"%%matrixmarket"


def read(path: Path, how: Reading) -> Corpus:
    """Read a matrix [D, V], or [V, D] with `how.transpose`.

    Integer, real (the values must be whole) and pattern (all counts are 1) matrices without
    symmetry. Entries may come in any order, those stored twice are summed. The words are `w0, w1,
    ...` unless a vocabulary is given, the documents `1, 2, ...` unless names are.

    Raises:
        CorpusError: naming the file and the line.
    """
    with reading(path) as (stream, limit):
        field = _banner(stream, path)
        shape, size, line = _sizes(stream, path)
        if size * _SHORTEST[field] > limit + 1:
            raise error_at(
                path,
                f"{size} entries are more than fit into the file",
                "is it complete?",
                line=line,
            )
        for length, what in zip(shape, ("rows", "columns"), strict=True):
            if length > MAX_WORDS:
                raise error_at(path, f"{length} {what}", f"keep at most {MAX_WORDS}", line=line)
        layout = Layout(("row", "column", "value"), shape, size, line, field)
        row, column, value = np.concatenate(list(entries(stream, path, layout, line + 1))).T
    table = sp.coo_array((value, (row - 1, column - 1)), shape=shape)
    return corpus_of(table, path, how, first=1)


def _banner(stream: io.BufferedReader, path: Path) -> str:
    """The field of the matrix, as a kind of value of `triples.Layout`."""
    words = stream.readline(200).decode("latin-1").lower().split()
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise error_at(path, "no Matrix Market banner", _BANNER, line=1)
    layout, field, symmetry = words[2:]
    if layout != "coordinate":
        raise error_at(path, f"the matrix is {printable(layout)}", "save it sparse", line=1)
    if field not in _FIELDS:
        raise error_at(
            path, f"the values are {printable(field)}", "give whole numbers (integer)", line=1
        )
    if symmetry != "general":
        raise error_at(
            path, f"the matrix is {printable(symmetry)}", "save all of it (general)", line=1
        )
    return _FIELDS[field]


def _sizes(stream: io.BufferedReader, path: Path) -> tuple[tuple[int, int], int, int]:
    """Shape and entries as declared, and the number of the line that does."""
    line = 1
    while text := stream.readline(_LONGEST):
        line += 1
        if len(text) == _LONGEST:
            raise error_at(path, "the line is too long", "is this a Matrix Market file?", line=line)
        if text.startswith(b"%") or not text.strip():
            continue
        if not re.fullmatch(rb"\s*\d{1,18}\s+\d{1,18}\s+\d{1,18}\s*", text):
            shown = printable(repr(text[:60].strip())[1:])
            raise error_at(
                path, f"{shown} is not three sizes", "give rows, columns, entries", line=line
            )
        rows, columns, size = map(int, text.split())
        if min(rows, columns, size) == 0:
            raise error_at(
                path, f"{rows} rows, {columns} columns, {size} entries", "give counts", line=line
            )
        return (rows, columns), size, line
    raise error_at(path, "the file ends before the sizes", "is it complete?", line=line)

"""Matrix Market exchange format, `.mtx`, in coordinates, read by `scipy.io.mmread`.

SciPy reads `1.5` in an integer file as 1, and ignores characters after a number and a fourth
field. So the grammar of the entries is checked first.
"""

import io
import os
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

from simplex_jax._src.corpus import files
from simplex_jax._src.corpus.corpus import MAX_WORDS, Corpus, CorpusError, error_at, printable
from simplex_jax._src.corpus.formats.format import Format, Source
from simplex_jax._src.corpus.formats.matrix import corpus_of
from simplex_jax._src.corpus.packed import content_name
from simplex_jax._src.corpus.reading import Reading
from simplex_jax._src.corpus.vocabulary import is_dictionary, vocabulary_beside

_VALUES = {
    "integer": rb"[ \t]++-?\d++",
    "real": rb"[ \t]++[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?",
    "pattern": rb"",
}
_VALUES |= {"unsigned-integer": _VALUES["integer"], "double": _VALUES["real"]}
_LINE = rb"(?:[ \t]*+(?:\d++[ \t]++\d++%b[ \t]*+)?\r?\n)*+"
_BEGIN = "begin with `%%MatrixMarket matrix coordinate integer general` and a line of three sizes"
_CORRECT = "correct the line, or the sizes that the file declares"
_SHORTEST = 4  # "1 1\n"
_LONGEST = 2**16


def recognises(source: Source) -> bool:
    """Recognise a file that starts with `%%MatrixMarket`, or whose name ends in `.mtx`."""
    return source.named(".mtx") or source.head.startswith(b"%%MatrixMarket")


def read(path: Path, reading: Reading) -> Corpus:
    """Read a matrix [D, V], or [V, D] with `reading.transpose`.

    The matrix is integer, real (with whole values) or pattern (all counts are 1), without symmetry.
    Entries may be in any order; duplicates are summed. By default the words are `w0, w1, ...` and
    the documents `1, 2, ...`. The words of gensim's `.mm` are those of a `dictionary.txt`, or of
    `NAME_wordids.txt` for `NAME_bow.mm`, next to it, if it is a dictionary that gensim saved.
    """
    if reading.vocabulary is None and not reading.transpose:
        reading = replace(reading, vocabulary=dictionary_beside(path))
    return corpus_of(matrix(path), path, reading, first=1)


FORMAT = Format("mtx", "counts", "Matrix Market", recognises, read, options=("names", "transpose"))


def matrix(path: Path) -> sp.coo_array:
    """Read the matrix in a file."""
    field = _check_header(path)
    _check_entries(path, field)
    with files.reading(path) as (stream, _):
        table = _call_scipy(partial(scipy.io.mmread, spmatrix=False), stream, path, _CORRECT)
    return sp.coo_array(table)


def dictionary_beside(path: Path) -> Path | None:
    """Return gensim's dictionary next to its corpus, if there is one."""
    stem, ending = os.path.splitext(content_name(path))
    if ending != ".mm":
        return None
    names = ["dictionary.txt", f"{stem.removesuffix('_bow').removesuffix('_tfidf')}_wordids.txt"]
    file = vocabulary_beside(path, names)
    return file if file is not None and is_dictionary(file) else None


def has_fractions(path: Path, head: bytes) -> bool:
    """Return whether a file has a value that is not a whole number; `head` is its beginning."""
    if not re.match(rb"%%MatrixMarket\s+matrix\s+coordinate\s+(?:real|double)\b", head, re.I):
        return False
    values = matrix(path).data
    return bool((values != np.floor(values)).any())


def _check_header(path: Path) -> str:
    """Return the type of the values, after checking that the matrix can be counts in this file."""
    with files.reading(path) as (stream, limit):
        rows, columns, entries, layout, field, symmetry = _call_scipy(
            scipy.io.mminfo, stream, path, _BEGIN
        )
    if layout != "coordinate":
        raise error_at(path, f"the matrix is {printable(layout)}", "save it sparse", line=1)
    if field not in _VALUES:
        problem = f"the values are {printable(field)}"
        raise error_at(path, problem, "give whole numbers (integer)", line=1)
    if symmetry != "general":
        problem = f"the matrix is {printable(symmetry)}"
        raise error_at(path, problem, "save all of it (general)", line=1)
    sizes = f"{rows} rows, {columns} columns, {entries} entries"
    if min(rows, columns, entries) < 1:
        raise error_at(path, sizes, "give counts")
    if entries * _SHORTEST > limit + 1:
        problem = f"{entries} entries are more than fit into the file"
        raise error_at(path, problem, "is it complete?")
    if max(rows, columns) > MAX_WORDS:
        raise error_at(path, sizes, f"keep at most {MAX_WORDS} rows and columns")
    return field


def _check_entries(path: Path, field: str) -> None:
    """Raise a CorpusError for a line that is not an entry."""
    grammar = re.compile(_LINE % _VALUES[field])
    with files.reading(path) as (stream, _):
        number, header = 1, stream.readline(_LONGEST)
        while header.startswith(b"%") or not header.strip():
            number, header = number + 1, stream.readline(_LONGEST)
        for line, block in files.line_blocks(stream, path, number + 1, files.BLOCK):
            end = grammar.match(block).end()  # type: ignore[union-attr]
            if end < len(block):
                shown = files.shown(block[end : end + 60].split(b"\n")[0])
                raise error_at(
                    path,
                    f"{shown} is not an entry of {printable(field)} values",
                    "write `row column`" if field == "pattern" else "write `row column value`",
                    line=line + block.count(b"\n", 0, end),
                )


def _call_scipy(function: Callable, stream: io.BufferedReader, path: Path, remedy: str) -> Any:
    """Call a function of SciPy; its error messages begin with the number of the line."""
    try:
        return function(stream)
    except CorpusError:
        raise
    except (ValueError, OverflowError, MemoryError) as error:
        place, _, message = printable(error).rpartition("Line ")[2].partition(": ")
        if not place.isdecimal():
            place, message = "", printable(error)
        message = message.lower().rstrip(".").replace(". ", ", ")
        raise error_at(path, message, remedy, line=int(place) if place else None) from None

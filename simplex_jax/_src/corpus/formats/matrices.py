"""Matrices of counts or unit vectors: SciPy's `.npz`, NumPy's `.npy` and Matrix Market."""

import io
import math
import os
import re
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy  # whose `io`, which is slow to import, is imported when it is used
import scipy.sparse as sp

from simplex_jax._src.corpus import files, vectors
from simplex_jax._src.corpus.corpus import (
    MAX_WORDS,
    Corpus,
    CorpusError,
    error_at,
    from_counts,
    printable,
)
from simplex_jax._src.corpus.files import (
    MAX_UNUSED,
    ZIP,
    content_name,
    open_regular,
    unpacked_limit,
)
from simplex_jax._src.corpus.reading import Format, Reading, Source, VectorReading, source_of
from simplex_jax._src.corpus.vectors import UnitVectors
from simplex_jax._src.corpus.vocabulary import (
    is_dictionary,
    numbered,
    read_names,
    read_vocabulary,
    vocabulary_beside,
)


def corpus_of(
    table: sp.sparray,
    path: Path,
    reading: Reading,
    words: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    *,
    first: int = 0,
) -> Corpus:
    """Make a corpus from the matrix in a file, with the words and names that the options give.

    `words` and `names` are the file's own labels of columns and rows, if any. Documents without
    names are numbered from `first`.
    """
    if reading.transpose:
        table, words, names = table.T, names, words
    if reading.vocabulary is not None:
        table, words = with_words(table, reading.vocabulary)
    if reading.names is not None:
        names = read_names(reading.names)
    documents, columns = table.shape
    check_length(path, reading, "words in the vocabulary", words, "columns", columns, documents)
    check_length(path, reading, "names", names, "documents", documents, columns)
    if names is None and documents > table.nnz + MAX_UNUSED:
        raise error_at(path, f"{documents} documents, {table.nnz} entries", "check the shape")
    if words is None and columns > table.nnz + MAX_UNUSED:
        raise error_at(path, f"{columns} words, {table.nnz} entries", "give a vocabulary")
    if names is None:
        names = numbered(documents, first)
    return from_counts(table, words, names, source=str(path))


def with_words(table: sp.sparray, vocabulary: str | Path) -> tuple[sp.sparray, tuple[str, ...]]:
    """Return a matrix and the words in a file, with columns for all words of gensim's dictionary.

    gensim's corpora end at the last word that they have.
    """
    words = read_vocabulary(vocabulary)
    if len(words) > table.shape[1] and is_dictionary(vocabulary):
        entries = sp.coo_array(table)
        entries.resize(table.shape[0], len(words))
        table = entries
    return table, words


def check_length(
    path: Path,
    reading: Reading,
    what: str,
    labels: Sequence[str] | None,
    unit: str,
    expected: int,
    other: int | None = None,
) -> None:
    """Raise a CorpusError unless there is one label (`what`: words or names) for each unit.

    There are `expected` units. If there are `other` labels, the number of units of the transposed
    matrix, the message suggests to transpose.
    """
    if labels is None or len(labels) == expected:
        return
    remedy = "give the file that belongs to these counts"
    if len(labels) == other:
        remedy = (
            "leave --transpose (transpose=True) out"
            if reading.transpose
            else "words are in rows: give --transpose (transpose=True)"
        )
    raise error_at(path, f"{len(labels)} {what} for {expected} {unit}", remedy)


def assembled(
    layout: str,
    shape: np.ndarray,
    parts: tuple[np.ndarray, np.ndarray, np.ndarray],
    path: Path,
    remedy: str,
) -> sp.sparray:
    """Return a sparse array from its parts, or raise a CorpusError.

    The layout is `csr`, `csc` or `coo`; the parts are the values, then indices and pointers, or
    rows and columns.
    """
    data, first, second = parts
    if data.dtype.kind not in "biuf" or any(
        array.dtype.kind not in "iu" for array in (shape, first, second)
    ):
        raise error_at(path, "arrays of the wrong types", remedy)
    sizes = tuple(shape.ravel().tolist())
    if len(sizes) != 2 or min(sizes) < 1:
        problem = f"the shape is {printable(sizes)}"
        raise error_at(path, problem, "give documents in rows, words in columns")
    try:
        if layout == "coo":
            return sp.coo_array((data, (first, second)), shape=sizes)
        return getattr(sp, f"{layout}_array")((data, first, second), shape=sizes)
    except (ValueError, TypeError, OverflowError) as error:
        raise error_at(path, f"inconsistent arrays ({printable(error)})", remedy) from None


# Arrays saved by `scipy.sparse.save_npz`; nothing is ever unpickled.

_REMEDY = "save the counts with scipy.sparse.save_npz(file, counts.tocsr())"
_NEEDED = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
}


def recognises_npz(source: Source) -> bool:
    """Recognise a zip archive, as every npz is, or a name that ends in `.npz`."""
    return source.named(".npz") or source.head.startswith(ZIP)


def read_npz(path: Path, reading: Reading) -> Corpus:
    """Read a sparse array [D, V], or [V, D] with `reading.transpose`, in csr, csc or coo format.

    By default the words are `w0, w1, ...` and the documents `0, 1, ...`.
    """
    return corpus_of(sparse_array(path), path, reading)


NPZ = Format(
    "npz", "counts", "a SciPy sparse matrix, .npz", recognises_npz, read_npz, ("names", "transpose")
)


def sparse_array(path: Path) -> sp.sparray:
    """Read a sparse array saved by `scipy.sparse.save_npz`, in csr, csc or coo format."""
    arrays = _arrays(path)
    members = ", ".join(printable(name) for name in arrays) or "nothing"
    if not {"format", "shape", "data"} <= arrays.keys():
        raise error_at(path, f"not a SciPy sparse array (it holds {members})", _REMEDY)
    layout = arrays["format"].tobytes().replace(b"\0", b"").decode("latin-1")
    needed = _NEEDED.get(layout)
    if needed is None or not arrays.keys() >= set(needed):
        raise error_at(path, f"sparse format {printable(layout)} with {members}", _REMEDY)
    data, first, second = (arrays[name] for name in needed)
    return assembled(layout, arrays["shape"], (data, first, second), path, _REMEDY)


def _arrays(path: Path) -> dict[str, np.ndarray]:
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                if sum(member.file_size for member in members) > unpacked_limit(size):
                    raise error_at(path, "unpacks to far more than its size", _REMEDY)
                arrays = {}
                for member in members:
                    name = member.filename.removesuffix(".npy")
                    with archive.open(member) as content:
                        arrays[name] = array_of(content, member.file_size, printable(name))
                return arrays
        except CorpusError:
            raise
        except Exception as error:
            # NumPy and zipfile raise many kinds of errors for damaged files.
            raise error_at(path, f"not an intact npz file ({printable(error)})", _REMEDY) from None


def array_of(content: IO[bytes], size: int, name: str) -> np.ndarray:
    """Read the array in an npy file of `size` bytes; `name` is for error messages."""
    version = np.lib.format.read_magic(content)
    readers = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
    if version[0] not in readers:
        raise ValueError(f"{name} has version {version} of the npy format")
    shape, fortran, dtype = readers[version[0]](content)
    if dtype.hasobject:
        raise ValueError(f"{name} holds pickled objects, which are never loaded")
    if math.prod(shape) * dtype.itemsize != size - content.tell():
        raise ValueError(f"{name} is not of the size that its header declares")
    flat = np.frombuffer(content.read(), dtype)
    native = flat.astype(dtype.newbyteorder("="))
    return native.reshape(shape, order="F" if fortran else "C")


# Matrix Market exchange format, `.mtx`, in coordinates, read by `scipy.io.mmread`.
#
# SciPy reads `1.5` in an integer file as 1, and ignores characters after a number and a fourth
# field. So the grammar of the entries is checked first.

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


def recognises_mtx(source: Source) -> bool:
    """Recognise a file that starts with `%%MatrixMarket`, or whose name ends in `.mtx`."""
    return source.named(".mtx") or source.head.startswith(b"%%MatrixMarket")


def read_mtx(path: Path, reading: Reading) -> Corpus:
    """Read a matrix [D, V], or [V, D] with `reading.transpose`.

    The matrix is integer, real (with whole values) or pattern (all counts are 1), without symmetry.
    Entries may be in any order; duplicates are summed. By default the words are `w0, w1, ...` and
    the documents `1, 2, ...`. The words of gensim's `.mm` are those of a `dictionary.txt`, or of
    `NAME_wordids.txt` for `NAME_bow.mm`, next to it, if it is a dictionary that gensim saved.
    """
    if reading.vocabulary is None and not reading.transpose:
        reading = replace(reading, vocabulary=dictionary_beside(path))
    return corpus_of(read_matrix(path), path, reading, first=1)


MTX = Format(
    "mtx", "counts", "Matrix Market", recognises_mtx, read_mtx, options=("names", "transpose")
)


def read_matrix(path: Path) -> sp.coo_array:
    """Read the matrix in a file."""
    field = _check_header(path)
    _check_entries(path, field)
    with files.reading(path) as (stream, _):
        table = _call_scipy(partial(scipy.io.mmread, spmatrix=False), stream, path, _CORRECT)
    return sp.coo_array(table)


def dictionary_beside(path: Path) -> Path | None:
    """Return gensim's dictionary next to its corpus, if there is one."""
    stem, ending = os.path.splitext(content_name(path))
    if ending.lower() != ".mm":
        return None
    names = ["dictionary.txt", f"{stem.removesuffix('_bow').removesuffix('_tfidf')}_wordids.txt"]
    file = vocabulary_beside(path, names)
    return file if file is not None and is_dictionary(file) else None


def has_fractions(path: Path, head: bytes) -> bool:
    """Return whether a file has a value that is not a whole number; `head` is its beginning."""
    if not re.match(rb"%%MatrixMarket\s+matrix\s+coordinate\s+(?:real|double)\b", head, re.I):
        return False
    values = read_matrix(path).data
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


# Unit vectors in files of `numpy.save` and `scipy.sparse.save_npz`, and in Matrix Market.

_NPY = b"\x93NUMPY"


def recognises_vectors(source: Source) -> bool:
    """Recognise an array of `numpy.save`, and a matrix with fractions in Matrix Market.

    An `.npz`, and a matrix of whole numbers, may hold counts instead.
    """
    if source.head.startswith(_NPY):
        return True
    return has_fractions(source.path, source.head)


def read_vectors(path: Path, reading: Reading) -> UnitVectors:
    """Read unit vectors [D, V]; see `corpus.read_vectors`."""
    with files.open_regular(path) as file:
        packed = file.read(4) in ZIP
    vocabulary = reading.vocabulary
    table: Any
    if not packed and recognises_mtx(source_of(path)):
        table = _checked(read_matrix(path), path)
        vocabulary = vocabulary or dictionary_beside(path)
    elif packed:
        table = _checked(sparse_array(path), path)
    else:
        table = _dense(path)
    words: tuple[str, ...] | None = None
    if vocabulary is not None:
        table, words = with_words(table, vocabulary)
    names = numbered(table.shape[0]) if reading.names is None else read_names(reading.names)
    any_length = isinstance(reading, VectorReading) and reading.normalise
    return vectors.from_array(table, words, names, normalise=any_length, source=str(path))


_NOUN = "unit vectors, .npy, .npz or .mtx"
VECTORS = Format(
    "vectors", "vectors", _NOUN, recognises_vectors, read_vectors, ("names", "normalise")
)


def _checked(table: sp.sparray, path: Path) -> sp.sparray:
    if max(table.shape) > table.nnz + files.MAX_UNUSED:
        raise error_at(path, f"shape {table.shape}, {table.nnz} entries", "check the shape")
    return table


def _dense(path: Path) -> np.ndarray:
    with files.reading(path) as (stream, _):
        content = stream.read()
    try:
        array = array_of(io.BytesIO(content), len(content), "it")
    except CorpusError:
        raise
    except Exception as error:
        # NumPy raises many kinds of errors for damaged files.
        problem = f"not an intact npy file ({printable(error)})"
        raise error_at(path, problem, "save the array with numpy.save(file, array)") from None
    return array.reshape(array.shape or (1,))

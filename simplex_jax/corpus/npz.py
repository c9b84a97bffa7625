"""Counts saved by `scipy.sparse.save_npz`.

The arrays are decoded here, from a strict header and a list of allowed types, so that nothing in
the file is ever evaluated or unpickled and nothing larger than the file is allocated on its word.
"""

import math
import os
import re
import zipfile
import zlib
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from simplex_jax.corpus.corpus import Corpus, CorpusError, error_at, from_counts, printable
from simplex_jax.corpus.files import MAX_UNUSED, open_regular, unpacked_limit
from simplex_jax.corpus.text import TextOptions
from simplex_jax.corpus.vocabulary import read_vocabulary

_REMEDY = "save the counts with scipy.sparse.save_npz(file, counts.tocsr())"
_MAGIC = rb"\x93NUMPY(?:\x01\x00(?s:..)|\x02\x00(?s:....))"
_HEADER = re.compile(
    _MAGIC + rb"\{'descr': '([<>|=])([a-zA-Z])(\d{0,9})', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,18}(?:, \d{1,18})*)?),?\), \} *\n"
)
_NEEDED = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
}


def recognises(path: Path, head: bytes) -> bool:
    """Whether the file is a zip archive, as every npz is."""
    return head.startswith(b"PK")


def read(path: Path, vocabulary: Path | None, text: TextOptions, encoding: str) -> Corpus:
    """Read a sparse array of shape [D, V], in csr, csc or coo format.

    The words are `w0, w1, ...` unless a vocabulary file is given, the documents `0, 1, ...`.

    Raises:
        CorpusError: the file is not such an archive, is damaged or unpacks to too much, holds a
            pickle or inconsistent arrays, or a count that `from_counts` refuses.
    """
    words = read_vocabulary(vocabulary) if vocabulary else None
    table = _sparse(_arrays(path), path)
    if words is None and table.shape[1] > table.nnz + MAX_UNUSED:
        raise error_at(path, f"{table.shape[1]} words, {table.nnz} entries", "give a vocabulary")
    return from_counts(table, words, source=str(path))


def _arrays(path: Path) -> dict[str, np.ndarray]:
    damaged = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                if sum(member.file_size for member in members) > unpacked_limit(size):
                    raise error_at(path, "unpacks to far more than its size", _REMEDY)
                return {
                    member.filename.removesuffix(".npy"): _array(archive, member, path)
                    for member in members
                }
        except CorpusError:
            raise
        except (*damaged, OSError, ValueError, LookupError) as error:
            raise error_at(path, f"not an intact npz file ({printable(error)})", _REMEDY) from None


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> np.ndarray:
    with archive.open(member) as file:
        content = file.read()
    name = printable(member.filename)
    header = _HEADER.match(content[:1000])
    if header is None:
        raise error_at(path, f"{name} is no plain array", _REMEDY)
    order, kind, width, fortran, lengths = (field.decode() for field in header.groups())
    if kind == "O":
        raise error_at(path, f"{name} holds pickled objects, which are never loaded", _REMEDY)
    if kind not in "biufSU":
        raise error_at(path, f"{name} has the type {order}{kind}{width}", _REMEDY)
    dtype = np.dtype(f"{order}{kind}{width}")
    shape = tuple(int(length) for length in re.findall(r"\d+", lengths))
    if math.prod(shape) * dtype.itemsize != len(content) - header.end():
        raise error_at(path, f"{name} is not of the size its header declares", _REMEDY)
    flat = np.frombuffer(content, dtype, offset=header.end())
    return flat.astype(dtype.newbyteorder("=")).reshape(
        shape, order="F" if fortran == "True" else "C"
    )


def _sparse(arrays: dict[str, np.ndarray], path: Path) -> sp.sparray:
    found = ", ".join(printable(name) for name in arrays) or "nothing"
    if not {"format", "shape", "data"} <= arrays.keys():
        raise error_at(path, f"not a SciPy sparse array (it holds {found})", _REMEDY)
    layout = arrays["format"].tobytes().replace(b"\0", b"").decode("latin-1")
    needed = _NEEDED.get(layout)
    if needed is None or not arrays.keys() >= set(needed):
        raise error_at(path, f"sparse format {printable(layout)} with {found}", _REMEDY)
    data, first, second = (arrays[name] for name in needed)
    if data.dtype.kind not in "biuf" or any(
        arrays[name].dtype.kind not in "iu" for name in ("shape", *needed[1:])
    ):
        raise error_at(path, "arrays of the wrong types", _REMEDY)
    shape = tuple(arrays["shape"].ravel().tolist())
    if len(shape) != 2 or min(shape) < 1:
        raise error_at(
            path, f"the shape is {printable(shape)}", "give documents in rows, words in columns"
        )
    if shape[0] > data.size + MAX_UNUSED:
        raise error_at(path, f"{shape[0]} documents, {data.size} entries", "check the shape")
    try:
        if layout == "coo":
            return sp.coo_array((data, (first, second)), shape=shape)
        return getattr(sp, f"{layout}_array")((data, first, second), shape=shape)
    except (ValueError, TypeError, OverflowError) as error:
        raise error_at(path, f"inconsistent arrays ({printable(error)})", _REMEDY) from None

"""Arrays saved by `scipy.sparse.save_npz` and `numpy.save`.

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

from simplex_jax.corpus.corpus import Corpus, CorpusError, error_at, printable
from simplex_jax.corpus.files import open_regular, reading, unpacked_limit
from simplex_jax.corpus.matrix import assembled, corpus_of
from simplex_jax.corpus.reading import Reading

_REMEDY = "save the counts with scipy.sparse.save_npz(file, counts.tocsr())"
_REMEDY_DENSE = "save the array with numpy.save(file, array)"
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


def read(path: Path, how: Reading) -> Corpus:
    """Read a sparse array [D, V], or [V, D] with `how.transpose`, in csr, csc or coo format.

    The words are `w0, w1, ...` unless a vocabulary is given, the documents `0, 1, ...` unless names
    are.

    Raises:
        CorpusError: the file is not such an archive, is damaged or unpacks to too much, holds a
            pickle or inconsistent arrays, or a count that `from_counts` refuses.
    """
    return corpus_of(sparse_array(path), path, how)


def sparse_array(path: Path) -> sp.sparray:
    """Read the sparse array in a file of `scipy.sparse.save_npz`, in csr, csc or coo format.

    Raises:
        CorpusError: the file is not such an archive, is damaged or unpacks to too much, holds a
            pickle or inconsistent arrays.
    """
    return _sparse(_arrays(path), path)


def dense_array(path: Path) -> np.ndarray:
    """Read the array in a file of `numpy.save`, gzip or not.

    Raises:
        CorpusError: the file is not such an array, is damaged or holds a pickle.
    """
    with reading(path) as (stream, _):
        return _decoded(stream.read(), "the file", path, _REMEDY_DENSE)


def _arrays(path: Path) -> dict[str, np.ndarray]:
    damaged = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
    broken = (OSError, ValueError, TypeError, LookupError)  # of what the headers say
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
        except (*damaged, *broken) as error:
            raise error_at(path, f"not an intact npz file ({printable(error)})", _REMEDY) from None


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> np.ndarray:
    with archive.open(member) as file:
        return _decoded(file.read(), printable(member.filename), path, _REMEDY)


def _decoded(content: bytes, name: str, path: Path, remedy: str) -> np.ndarray:
    """The array in the bytes of an npy file, which the messages call `name`."""
    header = _HEADER.match(content[:1000])
    if header is None:
        raise error_at(path, f"{name} is no plain array", remedy)
    order, kind, width, fortran, lengths = (field.decode() for field in header.groups())
    if kind == "O":
        raise error_at(path, f"{name} holds pickled objects, which are never loaded", remedy)
    if kind not in "biufSU":
        raise error_at(path, f"{name} has the type {order}{kind}{width}", remedy)
    dtype = np.dtype(f"{order}{kind}{width}")
    shape = tuple(int(length) for length in re.findall(r"\d+", lengths))
    if math.prod(shape) * dtype.itemsize != len(content) - header.end():
        raise error_at(path, f"{name} is not of the size its header declares", remedy)
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
    return assembled(layout, arrays["shape"], (data, first, second), path, _REMEDY)

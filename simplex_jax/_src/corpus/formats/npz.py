"""Arrays saved by `scipy.sparse.save_npz`; nothing is ever unpickled."""

import math
import os
import zipfile
from pathlib import Path
from typing import IO

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus.corpus import Corpus, CorpusError, error_at, printable
from simplex_jax._src.corpus.files import open_regular
from simplex_jax._src.corpus.formats.format import Format, Source
from simplex_jax._src.corpus.formats.matrix import assembled, corpus_of
from simplex_jax._src.corpus.packed import ZIP, unpacked_limit
from simplex_jax._src.corpus.reading import Reading

_REMEDY = "save the counts with scipy.sparse.save_npz(file, counts.tocsr())"
_NEEDED = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
}


def recognises(source: Source) -> bool:
    """Recognise a zip archive, as every npz is, or a name that ends in `.npz`."""
    return source.named(".npz") or source.head.startswith(ZIP)


def read(path: Path, reading: Reading) -> Corpus:
    """Read a sparse array [D, V], or [V, D] with `reading.transpose`, in csr, csc or coo format.

    By default the words are `w0, w1, ...` and the documents `0, 1, ...`.
    """
    return corpus_of(sparse_array(path), path, reading)


FORMAT = Format(
    "npz", "counts", "a SciPy sparse matrix, .npz", recognises, read, ("names", "transpose")
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

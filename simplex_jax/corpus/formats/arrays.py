"""Unit vectors in files written by `numpy.save` and `scipy.sparse.save_npz`."""

import io
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from simplex_jax.corpus import files, vectors
from simplex_jax.corpus.corpus import CorpusError, error_at, printable
from simplex_jax.corpus.formats import npz
from simplex_jax.corpus.formats.format import Format, Source
from simplex_jax.corpus.packed import ZIP
from simplex_jax.corpus.reading import Reading
from simplex_jax.corpus.vectors import UnitVectors
from simplex_jax.corpus.vocabulary import numbered, read_names, read_vocabulary

_NPY = b"\x93NUMPY"


def recognises(source: Source) -> bool:
    """Recognise an array written by `numpy.save`; an `.npz` may hold counts instead."""
    return source.head.startswith(_NPY)


def read(path: Path, reading: Reading) -> UnitVectors:
    """Read unit vectors [D, V] from an `.npy` or `.npz` file; see `corpus.read_vectors`."""
    with files.open_regular(path) as file:
        packed = file.read(2) == ZIP
    table = _sparse(path) if packed else _dense(path)
    words = None if reading.vocabulary is None else read_vocabulary(reading.vocabulary)
    names = numbered(table.shape[0]) if reading.names is None else read_names(reading.names)
    return vectors.from_array(table, words, names, normalise=reading.normalise, source=str(path))


FORMAT = Format(
    "vectors", "vectors", "unit vectors, .npy or .npz", recognises, read, ("names", "normalise")
)


def _sparse(path: Path) -> sp.sparray:
    table = npz.sparse_array(path)
    if max(table.shape) > table.nnz + files.MAX_UNUSED:
        raise error_at(path, f"shape {table.shape}, {table.nnz} entries", "check the shape")
    return table


def _dense(path: Path) -> np.ndarray:
    with files.reading(path) as (stream, _):
        content = stream.read()
    try:
        array = npz.array_of(io.BytesIO(content), len(content), "it")
    except CorpusError:
        raise
    except Exception as error:
        # NumPy raises many kinds of errors for damaged files.
        problem = f"not an intact npy file ({printable(error)})"
        raise error_at(path, problem, "save the array with numpy.save(file, array)") from None
    return array.reshape(array.shape or (1,))

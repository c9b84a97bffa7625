"""Unit vectors in files of `numpy.save` and `scipy.sparse.save_npz`, and in Matrix Market."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus import files, vectors
from simplex_jax._src.corpus.corpus import CorpusError, error_at, printable
from simplex_jax._src.corpus.formats import matrix_market, npz
from simplex_jax._src.corpus.formats.format import Format, Source, source_of
from simplex_jax._src.corpus.formats.matrix import with_words
from simplex_jax._src.corpus.packed import ZIP
from simplex_jax._src.corpus.reading import Reading, VectorReading
from simplex_jax._src.corpus.vectors import UnitVectors
from simplex_jax._src.corpus.vocabulary import numbered, read_names

_NPY = b"\x93NUMPY"


def recognises(source: Source) -> bool:
    """Recognise an array of `numpy.save`, and a matrix with fractions in Matrix Market.

    An `.npz`, and a matrix of whole numbers, may hold counts instead.
    """
    if source.head.startswith(_NPY):
        return True
    return matrix_market.has_fractions(source.path, source.head)


def read(path: Path, reading: Reading) -> UnitVectors:
    """Read unit vectors [D, V]; see `corpus.read_vectors`."""
    with files.open_regular(path) as file:
        packed = file.read(2) == ZIP
    vocabulary = reading.vocabulary
    table: Any
    if not packed and matrix_market.recognises(source_of(path)):
        table = _checked(matrix_market.matrix(path), path)
        vocabulary = vocabulary or matrix_market.dictionary_beside(path)
    elif packed:
        table = _checked(npz.sparse_array(path), path)
    else:
        table = _dense(path)
    words: tuple[str, ...] | None = None
    if vocabulary is not None:
        table, words = with_words(table, vocabulary)
    names = numbered(table.shape[0]) if reading.names is None else read_names(reading.names)
    any_length = isinstance(reading, VectorReading) and reading.normalise
    return vectors.from_array(table, words, names, normalise=any_length, source=str(path))


_NOUN = "unit vectors, .npy, .npz or .mtx"
FORMAT = Format("vectors", "vectors", _NOUN, recognises, read, ("names", "normalise"))


def _checked(table: sp.sparray, path: Path) -> sp.sparray:
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

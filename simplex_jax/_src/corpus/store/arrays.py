"""The files of a stored corpus: arrays written in pieces, and their full check.

An array is a one-dimensional `.npy` file with a header of fixed length. So the header can be
written last, and is compared byte by byte instead of parsed when the file is opened.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from simplex_jax._src.corpus.corpus import MAX_COUNT, CorpusError, digest_parts, error_at, printable
from simplex_jax._src.corpus.files import open_regular, unreadable

_HEADER = 128
_BLOCK = 2**20
REMEDY = "copy the stored corpus again, or write it again"


class ArrayFile:
    """A new array on disk, written in pieces; a context manager."""

    def __init__(self, path: Path, dtype: str):
        self._dtype, self._length = dtype, 0
        self._file = path.open("xb")
        self._file.write(bytes(_HEADER))

    def __enter__(self) -> "ArrayFile":
        return self

    def __exit__(self, *_: object) -> None:
        with self._file as file:
            file.seek(0)
            file.write(_header(self._dtype, self._length))
            file.flush()
            os.fsync(file.fileno())

    def append(self, values: npt.ArrayLike) -> None:
        """Append `values` [n]."""
        array = np.ascontiguousarray(values, self._dtype)
        self._length += array.size
        self._file.write(array.data)


def _header(dtype: str, length: int) -> bytes:
    described = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({length},), }}"
    size = _HEADER - 10
    return b"\x93NUMPY\x01\x00" + size.to_bytes(2, "little") + f"{described:<{size - 1}}\n".encode()


def _map_array(path: Path, dtype: str, length: int) -> np.ndarray:
    """Memory-map an array [length] read-only, or raise a CorpusError if the file is not one."""
    with open_regular(path) as file:
        expected = _HEADER + length * np.dtype(dtype).itemsize
        size = os.fstat(file.fileno()).st_size
        if size != expected:
            raise error_at(path, f"the file has {size} bytes, not {expected}", REMEDY)
        if file.read(_HEADER) != _header(dtype, length):
            raise error_at(path, f"not {length} numbers of type {dtype}", REMEDY)
        return np.asarray(np.memmap(file, dtype, "r", _HEADER, (length,)))


def map_arrays(
    directory: Path, documents: int, entries: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Memory-map `indptr` [D + 1], `indices` and `data` [entries] of a stored corpus."""
    return (
        _map_array(directory / "indptr.npy", "<i8", documents + 1),
        _map_array(directory / "indices.npy", "<i4", entries),
        _map_array(directory / "data.npy", "<i4", entries),
    )


def load_json(path: Path) -> Any:
    """Return the value in a JSON file."""
    try:
        with open_regular(path) as file:
            return json.loads(file.read())
    except OSError as error:
        raise unreadable(path, error) from None
    except RecursionError:
        raise error_at(path, "nested too deeply", REMEDY) from None
    except CorpusError:
        raise
    except ValueError as error:
        raise error_at(path, f"not JSON ({printable(error)})", REMEDY) from None


def checked(
    directory: Path,
    vocabulary: tuple[str, ...],
    indptr: np.ndarray,
    indices: np.ndarray,
    data: np.ndarray,
) -> tuple[str, np.ndarray]:
    """Check the counts [D, V] in one pass; messages name the directory.

    Returns the digest of the corpus and the number of tokens before every document and at the end,
    int64 [D + 1]. The entries of a document must be sorted, and all numbers in range.
    """
    starts = np.zeros(len(indptr), np.int64)

    def blocks() -> Iterator[np.ndarray]:
        yield from _pointers(indptr, len(indices), directory)
        yield from _words(indptr, indices, len(vocabulary), directory)
        yield from _counts(indptr, data, starts, directory)

    return digest_parts((len(indptr) - 1, len(vocabulary)), blocks(), vocabulary), starts


def _pointers(indptr: np.ndarray, entries: int, directory: Path) -> Iterator[np.ndarray]:
    if indptr[0] != 0 or indptr[-1] != entries:
        raise error_at(directory / "indptr.npy", f"not from 0 to {entries}", REMEDY)
    for first in range(0, len(indptr), _BLOCK):
        if (np.diff(indptr[first : first + _BLOCK + 1]) < 0).any():
            raise error_at(directory / "indptr.npy", "the numbers decrease", REMEDY)
        yield indptr[first : first + _BLOCK]


def _words(
    indptr: np.ndarray, indices: np.ndarray, words: int, directory: Path
) -> Iterator[np.ndarray]:
    for first in range(0, len(indices), _BLOCK):
        block = indices[first : first + _BLOCK]
        if block.min() < 0 or block.max() >= words:
            raise error_at(directory / "indices.npy", f"a word is not below {words}", REMEDY)
        # Words increase, except from the last one of a document to the first of the next.
        after = indices[first : first + len(block) + 1]
        inside = np.ones(len(after), bool)
        low, high = np.searchsorted(indptr, (first, first + len(after)))
        inside[indptr[low:high] - first] = False
        if (inside[1:] & (np.diff(after) <= 0)).any():
            raise error_at(directory / "indices.npy", "words are not in order", REMEDY)
        yield block


def _counts(
    indptr: np.ndarray, data: np.ndarray, starts: np.ndarray, directory: Path
) -> Iterator[np.ndarray]:
    total = 0
    for first in range(0, len(data), _BLOCK):
        block = data[first : first + _BLOCK]
        if block.min() < 1 or block.max() > MAX_COUNT:
            raise error_at(directory / "data.npy", f"a count is not in 1..{MAX_COUNT}", REMEDY)
        ends = np.cumsum(block, dtype=np.int64)
        low, high = np.searchsorted(indptr, (first, first + len(block)))
        place = indptr[low:high] - first
        starts[low:high] = total + ends[place] - block[place]
        total += int(ends[-1])
        yield block
    starts[np.searchsorted(indptr, len(data)) :] = total

"""HDF5 files: arrays, strings and sparse matrices, checked before they are read.

Only the necessary parts are read, with h5py alone. Links out of the file and virtual or external
arrays are refused, and so are arrays that declare more than the file can hold. The HDF5 library
itself is not safe for hostile files: some make it loop forever. Use files from trusted sources.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus.corpus import CorpusError, error_at, printable
from simplex_jax._src.corpus.files import location, open_regular
from simplex_jax._src.corpus.formats.matrix import assembled
from simplex_jax._src.corpus.packed import unpacked_limit

SIGNATURE = b"\x89HDF\r\n\x1a\n"

_STRINGS = 256  # read at a time
_ENTRIES = 2**22  # likewise, of a matrix in blocks


@contextmanager
def corpus_errors(path: Path) -> Iterator[None]:
    """Turn errors of h5py into a CorpusError."""
    try:
        yield
    except CorpusError:
        raise
    except (OSError, LookupError, ValueError, TypeError, RuntimeError, OverflowError) as error:
        problem = f"not an intact HDF5 file ({printable(error)})"
        raise error_at(path, problem, "copy the file again") from None


@contextmanager
def opened(path: Path, remedy: str) -> Iterator["Contents"]:
    """Open a file; `remedy` is for arrays that are not as expected."""
    try:
        import h5py
    except ImportError:
        needed = "pip install 'simplex_jax[h5ad]'"
        raise error_at(path, "reading HDF5, such as .h5ad, needs h5py", needed) from None
    with open_regular(path) as plain:
        limit = unpacked_limit(os.fstat(plain.fileno()).st_size)
        if plain.read(len(SIGNATURE)) != SIGNATURE:
            advice = "give a file that anndata wrote, unpacked, or name its --format (format)"
            raise error_at(path, "not an HDF5 file", advice)
    with corpus_errors(path):
        file = h5py.File(location(path), "r", locking=False)
    with file:
        yield Contents(file, path, limit, h5py, remedy)


class Pieces(NamedTuple):
    """A matrix that is read some documents at a time."""

    shape: tuple[int, int]  # documents and words
    cuts: Iterator[tuple[int, int]]  # the first and last document of each piece
    read: Callable[[int, int], sp.csr_array]  # `(first, last) -> counts` of documents


class Contents:
    """The parts of an open file, each checked before it is read."""

    def __init__(self, file: Any, path: Path, limit: int, h5py: Any, remedy: str):
        self.file, self.path = file, path
        self._remaining, self._h5py, self._remedy = limit, h5py, remedy

    def error(self, problem: str, remedy: str | None = None) -> CorpusError:
        """Return an error that names the file."""
        return error_at(self.path, problem, remedy or self._remedy)

    def is_group(self, member: Any) -> bool:
        """Return whether this is a group, rather than an array."""
        return isinstance(member, self._h5py.Group)

    def has(self, *names: str) -> bool:
        """Return whether the file has all of these members."""
        return all(name in self.file for name in names)

    def item(self, group: Any, name: str) -> Any:
        """Return a member of a group that is stored in this file."""
        if not self.is_group(group) or name not in group:
            raise self.error(f"there is no {printable(name)}")
        if not isinstance(group.get(name, getlink=True), self._h5py.HardLink):
            raise self.error(f"{printable(name)} is a link")
        return group[name]

    def numbers(self, array: Any, dimensions: int) -> np.ndarray:
        """Return an array of numbers."""
        self.check_numbers(array, dimensions)
        return array[()]

    def check_numbers(self, array: Any, dimensions: int) -> None:
        """Raise a CorpusError unless this is an array of numbers that the file can hold."""
        if not isinstance(array, self._h5py.Dataset) or array.ndim != dimensions:
            raise self.error(f"not an array of {dimensions} dimensions")
        if array.dtype.kind not in "biuf":
            raise self.error(f"values of type {printable(array.dtype)}")
        self._take(array)

    def strings(self, index: Any, what: str) -> list[str]:
        """Return a list of strings."""
        self.check_strings(index, what)
        self._take(index)
        labels: list[str] = []
        # A few at a time: many entries may share one long string in the file.
        for first in range(0, len(index), _STRINGS):
            part = [entry.decode("utf-8") for entry in index[first : first + _STRINGS]]
            self._remaining -= sum(map(len, part))
            if self._remaining < 0:
                raise self.error("unpacks to far more than its size", "is its source trusted?")
            labels += part
        return labels

    def check_strings(self, index: Any, what: str) -> None:
        """Raise a CorpusError unless this is a list of strings."""
        if not isinstance(index, self._h5py.Dataset) or index.ndim != 1:
            raise self.error(f"{what} is not a list of strings")
        if not self.are_strings(index):
            raise self.error(f"{what} is not of strings")

    def are_strings(self, array: Any) -> bool:
        """Return whether this is an array of strings."""
        return self._h5py.check_string_dtype(getattr(array, "dtype", None)) is not None

    def compressed(self, group: Any, layout: str, shape: Any) -> sp.sparray:
        """Return the sparse matrix in a group, in the layout `csr` or `csc`."""
        data, indices, indptr = (
            self.numbers(self.item(group, part), 1) for part in ("data", "indices", "indptr")
        )
        return assembled(
            layout, np.asarray(shape), (data, indices, indptr), self.path, self._remedy
        )

    def dense_pieces(self, array: Any) -> Pieces:
        """Return an array of documents in rows in pieces."""
        self.check_numbers(array, 2)
        step = max(1, _ENTRIES // max(array.shape[1], 1))
        firsts = range(0, array.shape[0], step)
        cuts = ((first, min(first + step, array.shape[0])) for first in firsts)
        return Pieces(array.shape, cuts, lambda first, last: sp.csr_array(array[first:last]))

    def compressed_pieces(self, group: Any, documents: int, words: int) -> Pieces:
        """Return a sparse matrix in pieces; the entries of each document are contiguous."""
        data, indices = (self.item(group, part) for part in ("data", "indices"))
        for array in (data, indices):
            self.check_numbers(array, 1)
        starts = self.numbers(self.item(group, "indptr"), 1)
        if starts.size != documents + 1 or starts[0] != 0 or starts[-1] != data.size:
            raise self.error("inconsistent arrays (indptr)")
        if (np.diff(starts) < 0).any():
            raise self.error("inconsistent arrays (indptr decreases)")

        def read(first: int, last: int) -> sp.csr_array:
            inside = slice(int(starts[first]), int(starts[last]))
            parts = (data[inside], indices[inside], starts[first : last + 1] - starts[first])
            shape = np.array([last - first, words])
            rows: Any = assembled("csr", shape, parts, self.path, self._remedy)
            return rows

        def cuts() -> Iterator[tuple[int, int]]:
            first, wide = 0, starts.astype(np.int64)  # a sum may overflow the dtype of `starts`
            while first < documents:
                fits = int(np.searchsorted(wide, wide[first] + _ENTRIES, side="right")) - 1
                last = min(max(fits, first + 1), documents)
                yield first, last
                first = last

        return Pieces((documents, words), cuts(), read)

    def _take(self, array: Any) -> None:
        """Deduct the bytes of an array from the limit, before it is read."""
        if array.is_virtual or array.external:
            raise self.error("an array lies in another file")
        self._remaining -= array.size * array.dtype.itemsize
        if self._remaining < 0:
            raise self.error("unpacks to far more than its size", "is its source trusted?")

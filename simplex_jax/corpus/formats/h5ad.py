"""AnnData files, `.h5ad`: counts of features (words) in cells (documents), with their names.

Only the necessary parts are read, with h5py alone. Links out of the file and virtual or external
arrays are refused, and so are arrays that declare more than the file can hold. The HDF5 library
itself is not safe for hostile files: some make it loop forever. Use files from trusted sources.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax.corpus.categories import MISSING
from simplex_jax.corpus.corpus import Corpus, CorpusError, error_at, printable
from simplex_jax.corpus.files import location, open_regular
from simplex_jax.corpus.formats import columns
from simplex_jax.corpus.formats.format import Format, Source
from simplex_jax.corpus.formats.matrix import assembled, check_length, corpus_of
from simplex_jax.corpus.packed import unpacked_limit
from simplex_jax.corpus.reading import Blocks, Categorical, Metadata, Reading
from simplex_jax.corpus.vocabulary import read_names, read_vocabulary

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_DATE = re.compile(r"\d{4}-\d{2}(?!\d)")
_REMEDY = "write the file with anndata 0.7 or later: adata.write_h5ad(file)"
_STRINGS = 256  # read at a time
_ENTRIES = 2**22  # likewise, of a matrix in blocks


def recognises(source: Source) -> bool:
    """Recognise HDF5, or a name that ends in `.h5ad`."""
    return source.named(".h5ad") or source.head.startswith(_SIGNATURE)


def read(path: Path, reading: Reading) -> Corpus:
    """Read `X`, or the layer `reading.layer`, sparse or dense.

    Names come from `obs` and words from `var`; with `reading.transpose` it is the reverse. Needs
    h5py: `pip install 'simplex_jax[h5ad]'`.
    """
    with _corpus_errors(path), _open(path) as contents:
        table = contents.matrix(reading.layer)
        words, names = contents.labels("var"), contents.labels("obs")
    return corpus_of(table, path, reading, words, names)


@contextmanager
def blocks(path: Path, reading: Reading) -> Iterator[Blocks]:
    """Read some documents at a time if each is contiguous: a dense or `csr` array of cells.

    With `reading.transpose`, a `csc` array. Any other array is read whole.
    """
    with _open(path) as contents:
        with _corpus_errors(path):
            pieces = contents.pieces(reading.layer, transpose=reading.transpose)
        if pieces is None:
            corpus = read(path, reading)
            yield Blocks(corpus.vocabulary, iter([corpus.counts]), corpus.names)
            return
        with _corpus_errors(path):
            axes = ("obs", "var") if reading.transpose else ("var", "obs")
            words, names = map(contents.labels, axes)
        if reading.vocabulary is not None:
            words = list(read_vocabulary(reading.vocabulary))
        check_length(path, reading, "words in the vocabulary", words, "columns", pieces.shape[1])
        yield Blocks(words, _counts(path, pieces), names)


def _counts(path: Path, pieces: "_Pieces") -> Iterator[sp.csr_array]:
    for first, last in pieces.cuts:
        with _corpus_errors(path):
            block = pieces.read(first, last)
        yield block


def metadata(path: Path, reading: Reading, wanted: Sequence[str]) -> Metadata:
    """Read columns of `obs`, or of `var` with `reading.transpose`."""
    axis = "var" if reading.transpose else "obs"
    with _corpus_errors(path), _open(path) as contents:
        names = contents.labels(axis)
        values = {name: contents.column(axis, name) for name in contents.wanted(axis, wanted)}
    if reading.names is not None:
        names = list(read_names(reading.names))
    return Metadata(tuple(names), values)


def _is_date_or_missing(value: Any) -> bool:
    return isinstance(value, str) and (value in MISSING or _DATE.match(value) is not None)


@contextmanager
def _corpus_errors(path: Path) -> Iterator[None]:
    """Turn errors of h5py into a CorpusError."""
    try:
        yield
    except CorpusError:
        raise
    except (OSError, LookupError, ValueError, TypeError, RuntimeError, OverflowError) as error:
        problem = f"not an intact HDF5 file ({printable(error)})"
        raise error_at(path, problem, "copy the file again") from None


@contextmanager
def _open(path: Path) -> Iterator["_Contents"]:
    try:
        import h5py
    except ImportError:
        remedy = "pip install 'simplex_jax[h5ad]'"
        raise error_at(path, "reading .h5ad needs h5py", remedy) from None
    with open_regular(path) as opened:
        limit = unpacked_limit(os.fstat(opened.fileno()).st_size)
        if opened.read(len(_SIGNATURE)) != _SIGNATURE:
            remedy = "give a file that anndata wrote, unpacked, or name its --format (format)"
            raise error_at(path, "not an HDF5 file", remedy)
    with _corpus_errors(path):
        file = h5py.File(location(path), "r", locking=False)
    with file:
        yield _Contents(file, path, limit, h5py)


FORMAT = Format(
    "h5ad",
    "counts",
    "AnnData, .h5ad",
    recognises,
    read,
    ("names", "transpose", "layer"),
    blocks=blocks,
    columns=metadata,
)


class _Pieces(NamedTuple):
    """A matrix that is read some documents at a time."""

    shape: tuple[int, int]  # documents and words
    cuts: Iterator[tuple[int, int]]  # the first and last document of each piece
    read: Callable[[int, int], sp.csr_array]  # `(first, last) -> counts` of documents


class _Contents:
    """The parts of an open file, each checked before it is read."""

    def __init__(self, file: Any, path: Path, limit: int, h5py: Any):
        self._file, self._path, self._remaining, self._h5py = file, path, limit, h5py

    def matrix(self, layer: str | None) -> sp.sparray:
        """Return the matrix `X`, or a layer."""
        member, name = self._matrix(layer)
        if isinstance(member, self._h5py.Dataset):
            table: sp.sparray = sp.coo_array(self._numbers(member, 2))
        else:
            table = self._sparse(member, name)
        self._check_whole(table.data, name)
        return table

    def pieces(self, layer: str | None, *, transpose: bool) -> _Pieces | None:
        """Return the matrix in pieces; None if documents are not contiguous."""
        member, name = self._matrix(layer)
        if isinstance(member, self._h5py.Dataset):
            return None if transpose else self._rows(member, name)
        if member.attrs.get("encoding-type") != ("csc_matrix" if transpose else "csr_matrix"):
            return None
        return self._compressed(member, name, transpose=transpose)

    def _rows(self, array: Any, name: str) -> _Pieces:
        self._check_numbers(array, 2)

        def read(first: int, last: int) -> sp.csr_array:
            rows = sp.csr_array(array[first:last])
            self._check_whole(rows.data, name)
            return rows

        step = max(1, _ENTRIES // max(array.shape[1], 1))
        firsts = range(0, array.shape[0], step)
        cuts = ((first, min(first + step, array.shape[0])) for first in firsts)
        return _Pieces(array.shape, cuts, read)

    def _compressed(self, group: Any, name: str, *, transpose: bool) -> _Pieces:
        data, indices = (self._item(group, part) for part in ("data", "indices"))
        for array in (data, indices):
            self._check_numbers(array, 1)
        starts = self._numbers(self._item(group, "indptr"), 1)
        documents, words = np.asarray(group.attrs["shape"])[:: -1 if transpose else 1].tolist()
        layout = np.array([documents, words])
        if starts.size != documents + 1 or starts[0] != 0 or starts[-1] != data.size:
            raise self._error("inconsistent arrays (indptr)", _REMEDY)
        if (np.diff(starts) < 0).any():
            raise self._error("inconsistent arrays (indptr decreases)", _REMEDY)

        def read(first: int, last: int) -> sp.csr_array:
            inside = slice(int(starts[first]), int(starts[last]))
            parts = (data[inside], indices[inside], starts[first : last + 1] - starts[first])
            layout[0] = last - first
            rows: Any = assembled("csr", layout, parts, self._path, _REMEDY)
            self._check_whole(rows.data, name)
            return rows

        def cuts() -> Iterator[tuple[int, int]]:
            first, wide = 0, starts.astype(np.int64)  # a sum may overflow the dtype of `starts`
            while first < documents:
                fits = int(np.searchsorted(wide, wide[first] + _ENTRIES, side="right")) - 1
                last = min(max(fits, first + 1), documents)
                yield first, last
                first = last

        return _Pieces((documents, words), cuts(), read)

    def _matrix(self, layer: str | None) -> tuple[Any, str]:
        """Return the dataset or group of the matrix `X`, or of a layer, and its name."""
        if layer is None:
            return self._item(self._file, "X"), "X"
        if layer in self._layers():
            return self._item(self._file["layers"], layer), f"layers/{layer}"
        remedy = f"give one of its layers: {self._available()}"
        raise self._error(f"no layer {printable(layer)!r}", remedy)

    def _layers(self) -> list[str]:
        return list(self._item(self._file, "layers")) if "layers" in self._file else []

    def _available(self) -> str:
        return ", ".join(map(printable, self._layers())) or "none"

    def _check_whole(self, values: np.ndarray, name: str) -> None:
        if values.dtype.kind == "f" and (values != np.floor(values)).any():
            raise self._error(
                f"{printable(name)} has values that are not whole numbers",
                f"give --layer (layer) with the raw counts; there are: {self._available()}",
            )

    def labels(self, axis: str) -> list[str]:
        """Return the index of `obs` or `var`."""
        table = self._item(self._file, axis)
        if not isinstance(table, self._h5py.Group):
            raise self._error(f"{axis} is in an old format", _REMEDY)
        index = self._item(table, str(table.attrs["_index"]))
        what = f"the index of {axis}"
        if self._nullable(index):
            self._check_strings(self._item(index, "values"), what)
            labels = self._values(index, what)
            if None in labels:
                problem = f"{what} has no label at row {labels.index(None)} (counted from 0)"
                raise self._error(problem, "give every row one")
            return labels
        return self._strings(index, what)

    def wanted(self, axis: str, names: Sequence[str]) -> list[str]:
        """Return names of columns of `obs` or `var`, checking that all exist."""
        return columns.wanted(list(self._item(self._file, axis)), names, self._path, None)

    def column(self, axis: str, name: str) -> Sequence[Any]:
        """Return a column of `obs` or `var`: numbers, booleans, strings, or categories.

        A missing value is None, and categories that are dates are strings.
        """
        member = self._item(self._item(self._file, axis), name)
        what = f"column {printable(name)} of {axis}"
        if isinstance(member, self._h5py.Group) and not self._nullable(member):
            if member.attrs.get("encoding-type") != "categorical":
                raise self._error(f"{what} is not of numbers, strings or categories", _REMEDY)
            groups = self._values(self._item(member, "categories"), what)
            codes = self._numbers(self._item(member, "codes"), 1)
            values = Categorical(codes.tolist(), groups)
            # AnnData writes texts as categories, too, and texts that are dates are no groups.
            return list(values) if all(map(_is_date_or_missing, groups)) else values
        return self._values(member, what)

    def _nullable(self, member: Any) -> bool:
        """Return whether this has values and a mask of missing ones, as nullable pandas arrays."""
        encoding = str(member.attrs.get("encoding-type"))
        return isinstance(member, self._h5py.Group) and encoding.startswith("nullable-")

    def _values(self, array: Any, what: str) -> list[Any]:
        if self._nullable(array):
            values = self._values(self._item(array, "values"), what)
            mask = self._numbers(self._item(array, "mask"), 1).tolist()
            if len(mask) != len(values):
                raise self._error(f"{what} has {len(mask)} of {len(values)} masks", _REMEDY)
            return [None if hidden else value for hidden, value in zip(mask, values, strict=True)]
        if self._h5py.check_string_dtype(getattr(array, "dtype", None)) is not None:
            return self._strings(array, what)
        return self._numbers(array, 1).tolist()

    def _strings(self, index: Any, what: str) -> list[str]:
        """Return a list of strings."""
        self._check_strings(index, what)
        self._take(index)
        labels: list[str] = []
        # A few at a time: many entries may share one long string in the file.
        for first in range(0, len(index), _STRINGS):
            part = [entry.decode("utf-8") for entry in index[first : first + _STRINGS]]
            self._remaining -= sum(map(len, part))
            if self._remaining < 0:
                raise self._error("unpacks to far more than its size", "is its source trusted?")
            labels += part
        return labels

    def _check_strings(self, index: Any, what: str) -> None:
        if not isinstance(index, self._h5py.Dataset) or index.ndim != 1:
            raise self._error(f"{what} is not a list of strings", _REMEDY)
        if self._h5py.check_string_dtype(index.dtype) is None:
            raise self._error(f"{what} is not of strings", _REMEDY)

    def _sparse(self, group: Any, name: str) -> sp.sparray:
        encoding = group.attrs.get("encoding-type")
        if encoding not in ("csr_matrix", "csc_matrix"):
            raise self._error(f"{printable(name)} is {printable(encoding)}", _REMEDY)
        data, indices, indptr = (
            self._numbers(self._item(group, part), 1) for part in ("data", "indices", "indptr")
        )
        shape = np.asarray(group.attrs["shape"])
        return assembled(encoding[:3], shape, (data, indices, indptr), self._path, _REMEDY)

    def _numbers(self, array: Any, dimensions: int) -> np.ndarray:
        self._check_numbers(array, dimensions)
        return array[()]

    def _check_numbers(self, array: Any, dimensions: int) -> None:
        if not isinstance(array, self._h5py.Dataset) or array.ndim != dimensions:
            raise self._error(f"not an array of {dimensions} dimensions", _REMEDY)
        if array.dtype.kind not in "biuf":
            raise self._error(f"values of type {printable(array.dtype)}", _REMEDY)
        self._take(array)

    def _take(self, array: Any) -> None:
        """Deduct the bytes of an array from the limit, before it is read."""
        if array.is_virtual or array.external:
            raise self._error("an array lies in another file", _REMEDY)
        self._remaining -= array.size * array.dtype.itemsize
        if self._remaining < 0:
            raise self._error("unpacks to far more than its size", "is its source trusted?")

    def _item(self, group: Any, name: str) -> Any:
        """Return a member of a group that is stored in this file."""
        if not isinstance(group, self._h5py.Group) or name not in group:
            raise self._error(f"there is no {printable(name)}", _REMEDY)
        if not isinstance(group.get(name, getlink=True), self._h5py.HardLink):
            raise self._error(f"{printable(name)} is a link", _REMEDY)
        return group[name]

    def _error(self, problem: str, remedy: str) -> CorpusError:
        return error_at(self._path, problem, remedy)

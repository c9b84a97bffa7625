"""AnnData files, `.h5ad`: counts of features (words) in cells (documents), with their names.

Only what is needed is read, by h5py alone: links out of the file, virtual and external arrays are
refused, and no array is read that declares more than the file can hold. The HDF5 library itself is
not made for hostile files: on some it loops for ever. Give it files from places that you trust.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from simplex_jax.corpus.corpus import Corpus, CorpusError, error_at, printable
from simplex_jax.corpus.files import location, open_regular
from simplex_jax.corpus.formats import columns
from simplex_jax.corpus.formats.format import Format, Source
from simplex_jax.corpus.formats.matrix import assembled, corpus_of
from simplex_jax.corpus.packed import unpacked_limit
from simplex_jax.corpus.reading import Metadata, Reading
from simplex_jax.corpus.vocabulary import read_names

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_REMEDY = "write the file with anndata 0.7 or later: adata.write_h5ad(file)"
_STRINGS = 256  # read at once


def recognises(source: Source) -> bool:
    """Recognise HDF5, or the name of an AnnData file."""
    named = source.name.endswith(".h5ad") and not source.folder
    return named or source.head.startswith(_SIGNATURE)


def read(path: Path, reading: Reading) -> Corpus:
    """Read `X`, or the layer `reading.layer`, sparse or dense.

    Names come from `obs`, words from `var`, with `reading.transpose` the other way round. Needs
    h5py: `pip install 'simplex_jax[h5ad]'`.
    """
    with _opened(path) as contents:
        table = contents.matrix(reading.layer)
        words, names = contents.labels("var"), contents.labels("obs")
    return corpus_of(table, path, reading, words, names)


def metadata(path: Path, reading: Reading, wanted: Sequence[str]) -> Metadata:
    """Read columns of `obs`, or of `var` with `reading.transpose`."""
    axis = "var" if reading.transpose else "obs"
    with _opened(path) as contents:
        names = contents.labels(axis)
        found = {name: contents.column(axis, name) for name in contents.wanted(axis, wanted)}
    if reading.names is not None:
        names = list(read_names(reading.names))
    return Metadata(tuple(names), found)


@contextmanager
def _opened(path: Path) -> Iterator["_Contents"]:
    """Open a file; what goes wrong in it is a CorpusError."""
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
    try:
        with h5py.File(location(path), "r", locking=False) as file:
            yield _Contents(file, path, limit, h5py)
    except CorpusError:
        raise
    except (OSError, KeyError, ValueError, TypeError, RuntimeError, OverflowError) as error:
        problem = f"not an intact HDF5 file ({printable(error)})"
        raise error_at(path, problem, "copy the file again") from None


FORMAT = Format(
    "h5ad",
    "counts",
    "AnnData, .h5ad",
    recognises,
    read,
    ("names", "transpose", "layer"),
    columns=metadata,
)


class _Contents:
    """The parts of an open file, each checked before it is read."""

    def __init__(self, file: Any, path: Path, limit: int, h5py: Any):
        self._file, self._path, self._left, self._h5py = file, path, limit, h5py

    def matrix(self, layer: str | None) -> sp.sparray:
        """The matrix `X`, or a layer."""
        layers = self._item(self._file, "layers") if "layers" in self._file else {}
        available = ", ".join(map(printable, layers)) or "none"
        if layer is None:
            name, member = "X", self._item(self._file, "X")
        elif layer in layers:
            name, member = f"layers/{layer}", self._item(layers, layer)
        else:
            remedy = f"give one of its layers: {available}"
            raise self._error(f"no layer {printable(layer)!r}", remedy)
        if isinstance(member, self._h5py.Dataset):
            table: sp.sparray = sp.coo_array(self._numbers(member, 2))
        else:
            table = self._sparse(member, name)
        if table.data.dtype.kind == "f" and (table.data != np.floor(table.data)).any():
            raise self._error(
                f"{printable(name)} has values that are not whole numbers",
                f"give --layer (layer) with the raw counts; there are: {available}",
            )
        return table

    def labels(self, axis: str) -> list[str]:
        """The index of `obs` or `var`."""
        table = self._item(self._file, axis)
        if not isinstance(table, self._h5py.Group):
            raise self._error(f"{axis} is in an old format", _REMEDY)
        index = self._item(table, str(table.attrs["_index"]))
        return self._strings(index, f"the index of {axis}")

    def wanted(self, axis: str, names: Sequence[str]) -> list[str]:
        """The names of columns of `obs` or `var`, all of which it must have."""
        return columns.wanted(list(self._item(self._file, axis)), names, self._path, None)

    def column(self, axis: str, name: str) -> Sequence[Any]:
        """A column of `obs` or `var`: numbers, truths, strings, or categories."""
        member = self._item(self._item(self._file, axis), name)
        what = f"column {printable(name)} of {axis}"
        if isinstance(member, self._h5py.Group):
            if member.attrs.get("encoding-type") != "categorical":
                raise self._error(f"{what} is not of numbers, strings or categories", _REMEDY)
            groups = self._column(self._item(member, "categories"), what)
            codes = self._numbers(self._item(member, "codes"), 1)
            return [None if code < 0 else groups[code] for code in codes.tolist()]
        return self._column(member, what)

    def _column(self, array: Any, what: str) -> list[Any]:
        if self._h5py.check_string_dtype(getattr(array, "dtype", None)) is not None:
            return self._strings(array, what)
        return self._numbers(array, 1).tolist()

    def _strings(self, index: Any, what: str) -> list[str]:
        """A list of strings."""
        if not isinstance(index, self._h5py.Dataset) or index.ndim != 1:
            raise self._error(f"{what} is not a list of strings", _REMEDY)
        if self._h5py.check_string_dtype(index.dtype) is None:
            raise self._error(f"{what} is not of strings", _REMEDY)
        self._take(index)
        labels: list[str] = []
        # A few at a time: any number of entries may share one long string of the file.
        for first in range(0, len(index), _STRINGS):
            part = [entry.decode("utf-8") for entry in index[first : first + _STRINGS]]
            self._left -= sum(map(len, part))
            if self._left < 0:
                raise self._error("unpacks to far more than its size", "is it from a safe place?")
            labels += part
        return labels

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
        if not isinstance(array, self._h5py.Dataset) or array.ndim != dimensions:
            raise self._error(f"not an array of {dimensions} dimensions", _REMEDY)
        if array.dtype.kind not in "biuf":
            raise self._error(f"values of type {printable(array.dtype)}", _REMEDY)
        self._take(array)
        return array[()]

    def _take(self, array: Any) -> None:
        """Count what an array takes, before it is read."""
        if array.is_virtual or array.external:
            raise self._error("an array lies in another file", _REMEDY)
        self._left -= array.size * array.dtype.itemsize
        if self._left < 0:
            raise self._error("unpacks to far more than its size", "is it from a safe place?")

    def _item(self, group: Any, name: str) -> Any:
        """A member of a group, in this file."""
        if not isinstance(group, self._h5py.Group) or name not in group:
            raise self._error(f"there is no {printable(name)}", _REMEDY)
        if not isinstance(group.get(name, getlink=True), self._h5py.HardLink):
            raise self._error(f"{printable(name)} is a link", _REMEDY)
        return group[name]

    def _error(self, problem: str, remedy: str) -> CorpusError:
        return error_at(self._path, problem, remedy)

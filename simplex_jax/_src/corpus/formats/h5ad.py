"""AnnData files, `.h5ad`: counts of features (words) in cells (documents), with their names."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus.cells import MISSING
from simplex_jax._src.corpus.corpus import Corpus, printable
from simplex_jax._src.corpus.formats import columns
from simplex_jax._src.corpus.formats.format import Format, Source
from simplex_jax._src.corpus.formats.hdf5 import SIGNATURE, Contents, Pieces, corpus_errors, opened
from simplex_jax._src.corpus.formats.matrix import check_length, corpus_of
from simplex_jax._src.corpus.reading import Blocks, Categorical, Metadata, Reading
from simplex_jax._src.corpus.vocabulary import read_names, read_vocabulary

_DATE = re.compile(r"\d{4}-\d{2}(?!\d)")
_REMEDY = "write the file with anndata 0.7 or later: adata.write_h5ad(file)"
_OTHERS = {
    "a loom file": (
        ("matrix", "row_attrs", "col_attrs"),
        "convert it with anndata: anndata.io.read_loom(file).write_h5ad('cells.h5ad')",
    ),
    "a MuData file (.h5mu), of several modalities": (
        ("mod",),
        "write one of them: mudata.read(file)['rna'].write_h5ad('cells.h5ad')",
    ),
    "a Seurat file (.h5seurat)": (
        ("assays", "cell.names"),
        "in R, SeuratDisk::Convert(file, 'h5ad'), or Matrix::writeMM(counts, 'counts.mtx')",
    ),
    "CellRanger's molecule_info.h5, with a row for each molecule": (
        ("barcode_idx", "molecule_info"),
        "give filtered_feature_bc_matrix.h5, which is beside it",
    ),
}
"""Other HDF5 files: some members of each, one at least, and what to do."""


def recognises(source: Source) -> bool:
    """Recognise HDF5, or a name that ends in `.h5ad`."""
    return source.named(".h5ad") or source.head.startswith(SIGNATURE)


def read(path: Path, reading: Reading) -> Corpus:
    """Read `X`, or the layer `reading.layer`, sparse or dense; `raw` is `raw.X`.

    Names come from `obs` and words from `var`, or from `raw.var`; with `reading.transpose` it is
    the reverse. Needs h5py: `pip install 'simplex_jax[h5ad]'`.
    """
    with corpus_errors(path), _opened(path) as data:
        table = data.matrix(reading.layer)
        words, names = data.words(reading.layer), data.labels("obs")
    return corpus_of(table, path, reading, words, names)


@contextmanager
def blocks(path: Path, reading: Reading) -> Iterator[Blocks]:
    """Read some documents at a time if each is contiguous: a dense or `csr` array of cells.

    With `reading.transpose`, a `csc` array. Any other array is read whole.
    """
    with _opened(path) as data:
        with corpus_errors(path):
            pieces = data.pieces(reading.layer, transpose=reading.transpose)
        if pieces is None:
            corpus = read(path, reading)
            yield Blocks(corpus.vocabulary, iter([corpus.counts]), corpus.names)
            return
        with corpus_errors(path):
            words, names = data.words(reading.layer), data.labels("obs")
        if reading.transpose:
            words, names = names, words
        if reading.vocabulary is not None:
            words = list(read_vocabulary(reading.vocabulary))
        check_length(path, reading, "words in the vocabulary", words, "columns", pieces.shape[1])
        yield Blocks(words, _counts(path, data, pieces, reading.layer), names)


def _counts(
    path: Path, data: "_AnnData", pieces: Pieces, layer: str | None
) -> Iterator[sp.csr_array]:
    for first, last in pieces.cuts:
        with corpus_errors(path):
            block = pieces.read(first, last)
            data.check_whole(block.data, layer)
        yield block


def metadata(path: Path, reading: Reading, wanted: Sequence[str]) -> Metadata:
    """Read columns of `obs`, or of `var` with `reading.transpose`."""
    axis = "var" if reading.transpose else "obs"
    with corpus_errors(path), _opened(path) as data:
        names = data.labels(axis)
        values = {name: data.column(axis, name) for name in data.wanted(axis, wanted)}
    if reading.names is not None:
        names = list(read_names(reading.names))
    return Metadata(tuple(names), values)


def taken(path: Path, reading: Reading) -> str:
    """Return which columns there are of `obs`, or of `var` with `reading.transpose`."""
    axis = "var" if reading.transpose else "obs"
    with corpus_errors(path), _opened(path) as data:
        titles = data.titles(axis)
    return f"columns of {axis}, for --by: {columns.listed(titles)}"


FORMAT = Format(
    "h5ad",
    "counts",
    "AnnData, .h5ad",
    recognises,
    read,
    ("names", "transpose", "layer"),
    blocks=blocks,
    columns=metadata,
    taken=taken,
)


@contextmanager
def _opened(path: Path) -> Iterator["_AnnData"]:
    with opened(path, _REMEDY) as contents:
        yield _AnnData(contents)


def _is_date_or_missing(value: Any) -> bool:
    return isinstance(value, str) and (value in MISSING or _DATE.match(value) is not None)


class _AnnData:
    """The matrices and tables of an open file."""

    def __init__(self, contents: Contents):
        self._contents = contents
        for kind, (members, remedy) in _OTHERS.items():
            if not contents.has("obs", "var") and contents.has(*members):
                raise contents.error(f"this is {kind}", remedy)

    def matrix(self, layer: str | None) -> sp.sparray:
        """Return the matrix `X`, or a layer."""
        member = self._member(layer)
        if self._contents.is_group(member):
            encoding = member.attrs.get("encoding-type")
            if encoding not in ("csr_matrix", "csc_matrix"):
                raise self._contents.error(f"{_named(layer)} is {printable(encoding)}")
            table = self._contents.compressed(member, encoding[:3], member.attrs["shape"])
        else:
            table = sp.coo_array(self._contents.numbers(member, 2))
        self.check_whole(table.data, layer)
        return table

    def pieces(self, layer: str | None, *, transpose: bool) -> Pieces | None:
        """Return the matrix in pieces; None if documents are not contiguous."""
        member = self._member(layer)
        if not self._contents.is_group(member):
            return None if transpose else self._contents.dense_pieces(member)
        if member.attrs.get("encoding-type") != ("csc_matrix" if transpose else "csr_matrix"):
            return None
        documents, words = np.asarray(member.attrs["shape"])[:: -1 if transpose else 1].tolist()
        return self._contents.compressed_pieces(member, documents, words)

    def _member(self, layer: str | None) -> Any:
        """Return the dataset or group of the matrix `X`, or of a layer."""
        places = self._layers()
        name = "X" if layer is None else layer
        if name in places:
            parts, member = places[name], self._contents.file
            for part in parts:
                member = self._contents.item(member, part)
            return member
        if layer is None:
            problem, option = "there is no X", "give --layer (layer), "
        else:
            problem, option = f"no layer {printable(layer)!r}", "give "
        listed = ", ".join(map(printable, places))
        raise self._contents.error(problem, f"{option}one of these: {listed}" if places else None)

    def _layers(self) -> dict[str, tuple[str, ...]]:
        """Return the places of the matrices: `X`, the layers, and `raw.X` as `raw`, if any.

        If a layer is called `raw`, `raw.X` has its full name.
        """
        contents, places = self._contents, dict[str, tuple[str, ...]]()
        if contents.has("X"):
            member = contents.item(contents.file, "X")
            if member.attrs.get("encoding-type") != "null":
                places["X"] = ("X",)
        if contents.has("layers"):
            layers = contents.item(contents.file, "layers")
            places |= {name: ("layers", name) for name in layers}
        if contents.has("raw") and contents.is_group(contents.item(contents.file, "raw")):
            places["raw.X" if "raw" in places else "raw"] = ("raw", "X")
        return places

    def check_whole(self, values: np.ndarray, layer: str | None) -> None:
        """Raise a CorpusError unless all values are whole numbers."""
        if values.dtype.kind == "f" and (values != np.floor(values)).any():
            others = [printable(name) for name in self._layers() if name != (layer or "X")]
            choice = ", ".join(others) or "none"
            raise self._contents.error(
                f"{_named(layer)} has values that are not whole numbers",
                f"give --layer (layer) with the raw counts; there are: {choice}",
            )

    def words(self, layer: str | None) -> list[str]:
        """Return the words of a matrix: `raw` has its own."""
        if layer is not None and self._layers().get(layer) == ("raw", "X"):
            return self._index(self._contents.item(self._contents.file, "raw"), "var", "raw.var")
        return self.labels("var")

    def labels(self, axis: str) -> list[str]:
        """Return the index of `obs` or `var`."""
        return self._index(self._contents.file, axis, axis)

    def _index(self, group: Any, axis: str, name: str) -> list[str]:
        table = self._contents.item(group, axis)
        if not self._contents.is_group(table):
            raise self._contents.error(f"{name} is in an old format")
        index = self._contents.item(table, str(table.attrs["_index"]))
        what = f"the index of {name}"
        if self._nullable(index):
            self._contents.check_strings(self._contents.item(index, "values"), what)
            labels = self._values(index, what)
            if None in labels:
                problem = f"{what} has no label at row {labels.index(None)} (counted from 0)"
                raise self._contents.error(problem, "give every row one")
            return labels
        return self._contents.strings(index, what)

    def titles(self, axis: str) -> list[str]:
        """Return the names of the columns of `obs` or `var`."""
        table = self._contents.item(self._contents.file, axis)
        index = str(table.attrs["_index"])
        return [name for name in table if name != index and not name.startswith("__")]

    def wanted(self, axis: str, names: Sequence[str]) -> list[str]:
        """Return names of columns of `obs` or `var`, checking that all exist."""
        contents = self._contents
        return columns.wanted(list(contents.item(contents.file, axis)), names, contents.path, None)

    def column(self, axis: str, name: str) -> Sequence[Any]:
        """Return a column of `obs` or `var`: numbers, booleans, strings, or categories.

        A missing value is None, and categories that are dates are strings.
        """
        contents = self._contents
        member = contents.item(contents.item(contents.file, axis), name)
        what = f"column {printable(name)} of {axis}"
        if contents.is_group(member) and not self._nullable(member):
            if member.attrs.get("encoding-type") != "categorical":
                raise contents.error(f"{what} is not of numbers, strings or categories")
            groups = self._values(contents.item(member, "categories"), what)
            codes = contents.numbers(contents.item(member, "codes"), 1)
            values = Categorical(codes.tolist(), groups)
            # AnnData writes texts as categories, too, and texts that are dates are no groups.
            return list(values) if all(map(_is_date_or_missing, groups)) else values
        return self._values(member, what)

    def _nullable(self, member: Any) -> bool:
        """Return whether this has values and a mask of missing ones, as nullable pandas arrays."""
        encoding = str(member.attrs.get("encoding-type"))
        return self._contents.is_group(member) and encoding.startswith("nullable-")

    def _values(self, array: Any, what: str) -> list[Any]:
        contents = self._contents
        if self._nullable(array):
            values = self._values(contents.item(array, "values"), what)
            mask = contents.numbers(contents.item(array, "mask"), 1).tolist()
            if len(mask) != len(values):
                raise contents.error(f"{what} has {len(mask)} of {len(values)} masks")
            return [None if hidden else value for hidden, value in zip(mask, values, strict=True)]
        if contents.are_strings(array):
            return contents.strings(array, what)
        return contents.numbers(array, 1).tolist()


def _named(layer: str | None) -> str:
    return "X" if layer is None else f"layer {printable(layer)}"

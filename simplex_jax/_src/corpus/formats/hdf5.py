"""HDF5 files: arrays, strings and sparse matrices, checked before they are read.

Only the necessary parts are read, with h5py alone. Links out of the file and virtual or external
arrays are refused, and so are arrays that declare more than the file can hold. The HDF5 library
itself is not safe for hostile files: some make it loop forever. Use files from trusted sources.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus.corpus import Corpus, CorpusError, error_at, printable
from simplex_jax._src.corpus.files import (
    SUFFIXES,
    content_name,
    location,
    open_regular,
    unpacked_limit,
)
from simplex_jax._src.corpus.formats import matrices, tables
from simplex_jax._src.corpus.formats.matrices import assembled, check_length, corpus_of
from simplex_jax._src.corpus.frames import MISSING
from simplex_jax._src.corpus.reading import Blocks, Categorical, Format, Metadata, Reading, Source
from simplex_jax._src.corpus.vocabulary import (
    FEATURES,
    distinct,
    read_features,
    read_names,
    read_vocabulary,
)

SIGNATURE = b"\x89HDF\r\n\x1a\n"

_Opened = TypeVar("_Opened", bound="Contents")

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
def opened(path: Path, remedy: str, kind: "type[_Opened]") -> "Iterator[_Opened]":
    """Open a file as `kind`; `remedy` is for arrays that are not as expected."""
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
        yield kind(file, path, limit, h5py, remedy)


class Pieces(NamedTuple):
    """A matrix that is read some documents at a time."""

    shape: tuple[int, int]  # documents and words
    cuts: Iterator[tuple[int, int]]  # the first and last document of each piece
    read: Callable[[int, int], sp.csr_array]  # `(first, last) -> counts` of documents

    def blocks(
        self, path: Path, convert: Callable[[sp.csr_array], sp.csr_array]
    ) -> Iterator[sp.csr_array]:
        """Yield the pieces, each read and converted within `corpus_errors`."""
        for first, last in self.cuts:
            with corpus_errors(path):
                block = convert(self.read(first, last))
            yield block


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

    def item(self, group: Any, *names: str) -> Any:
        """Return a member of a group, or of a group in it, that is stored in this file."""
        for name in names:
            if not self.is_group(group) or name not in group:
                raise self.error(f"there is no {printable(name)}")
            if not isinstance(group.get(name, getlink=True), self._h5py.HardLink):
                raise self.error(f"{printable(name)} is a link")
            group = group[name]
        return group

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


# AnnData files, `.h5ad`: counts of features (words) in cells (documents), with their names.

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


def recognises_h5ad(source: Source) -> bool:
    """Recognise HDF5, or a name that ends in `.h5ad`."""
    return source.named(".h5ad") or source.head.startswith(SIGNATURE)


def read_h5ad(path: Path, reading: Reading) -> Corpus:
    """Read `X`, or the layer `reading.layer`, sparse or dense; `raw` is `raw.X`.

    Names come from `obs` and words from `var`, or from `raw.var`; with `reading.transpose` it is
    the reverse. Needs h5py: `pip install 'simplex_jax[h5ad]'`.
    """
    with corpus_errors(path), _opened(path) as data:
        table = data.matrix(reading.layer)
        words, names = data.words(reading.layer), data.labels("obs")
    return corpus_of(table, path, reading, words, names)


@contextmanager
def h5ad_blocks(path: Path, reading: Reading) -> Iterator[Blocks]:
    """Read some documents at a time if each is contiguous: a dense or `csr` array of cells.

    With `reading.transpose`, a `csc` array. Any other array is read whole.
    """
    with _opened(path) as data:
        with corpus_errors(path):
            pieces = data.pieces(reading.layer, transpose=reading.transpose)
        if pieces is None:
            yield Blocks.whole(read_h5ad(path, reading))
            return
        with corpus_errors(path):
            words, names = data.words(reading.layer), data.labels("obs")
        if reading.transpose:
            words, names = names, words
        if reading.vocabulary is not None:
            words = list(read_vocabulary(reading.vocabulary))
        check_length(path, reading, "words in the vocabulary", words, "columns", pieces.shape[1])

        def checked(block: sp.csr_array) -> sp.csr_array:
            data.check_whole(block.data, reading.layer)
            return block

        yield Blocks(words, pieces.blocks(path, checked), names)


def metadata(path: Path, reading: Reading, wanted: Sequence[str]) -> Metadata:
    """Read columns of `obs`, or of `var` with `reading.transpose`."""
    axis = "var" if reading.transpose else "obs"
    with corpus_errors(path), _opened(path) as data:
        names = data.labels(axis)
        values = {name: data.column(axis, name) for name in data.wanted(axis, wanted)}
    if reading.names is not None:
        names = list(read_names(reading.names))
    return Metadata(tuple(names), values)


def describe_columns_of(path: Path, reading: Reading) -> str:
    """Return which columns there are of `obs`, or of `var` with `reading.transpose`."""
    axis = "var" if reading.transpose else "obs"
    with corpus_errors(path), _opened(path) as data:
        titles = data.titles(axis)
    return f"columns of {axis}, for --by: {tables.list_columns(titles)}"


H5AD = Format(
    "h5ad",
    "counts",
    "AnnData, .h5ad",
    recognises_h5ad,
    read_h5ad,
    ("names", "transpose", "layer"),
    blocks=h5ad_blocks,
    columns=metadata,
    describe=describe_columns_of,
)


@contextmanager
def _opened(path: Path) -> Iterator["_AnnData"]:
    with opened(path, _REMEDY, _AnnData) as data:
        for kind, (members, remedy) in _OTHERS.items():
            if not data.has("obs", "var") and data.has(*members):
                raise data.error(f"this is {kind}", remedy)
        yield data


def _is_date_or_missing(value: Any) -> bool:
    return isinstance(value, str) and (value in MISSING or _DATE.match(value) is not None)


class _AnnData(Contents):
    """The matrices and tables of an open file."""

    def matrix(self, layer: str | None) -> sp.sparray:
        """Return the matrix `X`, or a layer."""
        member = self._member(layer)
        if self.is_group(member):
            encoding = member.attrs.get("encoding-type")
            if encoding not in ("csr_matrix", "csc_matrix"):
                raise self.error(f"{_named(layer)} is {printable(encoding)}")
            table = self.compressed(member, encoding[:3], member.attrs["shape"])
        else:
            table = sp.coo_array(self.numbers(member, 2))
        self.check_whole(table.data, layer)
        return table

    def pieces(self, layer: str | None, *, transpose: bool) -> Pieces | None:
        """Return the matrix in pieces; None if documents are not contiguous."""
        member = self._member(layer)
        if not self.is_group(member):
            return None if transpose else self.dense_pieces(member)
        if member.attrs.get("encoding-type") != ("csc_matrix" if transpose else "csr_matrix"):
            return None
        documents, words = np.asarray(member.attrs["shape"])[:: -1 if transpose else 1].tolist()
        return self.compressed_pieces(member, documents, words)

    def _member(self, layer: str | None) -> Any:
        """Return the dataset or group of the matrix `X`, or of a layer."""
        places = self._layers()
        name = "X" if layer is None else layer
        if name in places:
            return self.item(self.file, *places[name])
        if layer is None:
            problem, option = "there is no X", "give --layer (layer), "
        else:
            problem, option = f"no layer {printable(layer)!r}", "give "
        listed = ", ".join(map(printable, places))
        raise self.error(problem, f"{option}one of these: {listed}" if places else None)

    def _layers(self) -> dict[str, tuple[str, ...]]:
        """Return the places of the matrices: `X`, the layers, and `raw.X` as `raw`, if any.

        If a layer is called `raw`, `raw.X` has its full name, and so has a layer called `X`.
        """
        places = dict[str, tuple[str, ...]]()
        if self.has("X"):
            member = self.item(self.file, "X")
            if member.attrs.get("encoding-type") != "null":
                places["X"] = ("X",)
        if self.has("layers"):
            layers = self.item(self.file, "layers")
            places |= {
                f"layers/{name}" if name in places else name: ("layers", name) for name in layers
            }
        if self.has("raw") and self.is_group(self.item(self.file, "raw")):
            places["raw.X" if "raw" in places else "raw"] = ("raw", "X")
        return places

    def check_whole(self, values: np.ndarray, layer: str | None) -> None:
        """Raise a CorpusError unless all values are whole numbers."""
        if values.dtype.kind == "f" and (values != np.floor(values)).any():
            others = [printable(name) for name in self._layers() if name != (layer or "X")]
            choice = ", ".join(others) or "none"
            raise self.error(
                f"{_named(layer)} has values that are not whole numbers",
                f"give --layer (layer) with the raw counts; there are: {choice}",
            )

    def words(self, layer: str | None) -> list[str]:
        """Return the words of a matrix: `raw` has its own."""
        if layer is not None and self._layers().get(layer) == ("raw", "X"):
            return self._index(self.item(self.file, "raw"), "var", "raw.var")
        return self.labels("var")

    def labels(self, axis: str) -> list[str]:
        """Return the index of `obs` or `var`."""
        return self._index(self.file, axis, axis)

    def _index(self, group: Any, axis: str, name: str) -> list[str]:
        table = self.item(group, axis)
        if not self.is_group(table):
            raise self.error(f"{name} is in an old format")
        index = self.item(table, str(table.attrs["_index"]))
        what = f"the index of {name}"
        if self._nullable(index):
            self.check_strings(self.item(index, "values"), what)
            labels = self._values(index, what)
            if None in labels:
                problem = f"{what} has no label at row {labels.index(None)} (counted from 0)"
                raise self.error(problem, "give every row one")
            return labels
        return self.strings(index, what)

    def titles(self, axis: str) -> list[str]:
        """Return the names of the columns of `obs` or `var`."""
        table = self.item(self.file, axis)
        index = str(table.attrs["_index"])
        return [name for name in table if name != index and not name.startswith("__")]

    def wanted(self, axis: str, names: Sequence[str]) -> list[str]:
        """Return names of columns of `obs` or `var`, checking that all exist."""
        return tables.find_columns(list(self.item(self.file, axis)), names, self.path, None)

    def column(self, axis: str, name: str) -> Sequence[Any]:
        """Return a column of `obs` or `var`: numbers, booleans, strings, or categories.

        A missing value is None, and categories that are dates are strings.
        """
        table = self.item(self.file, axis)
        member = self.item(table, name)
        what = f"column {printable(name)} of {axis}"
        if self.is_group(member) and not self._nullable(member):
            if member.attrs.get("encoding-type") != "categorical":
                raise self.error(f"{what} is not of numbers, strings or categories")
            codes, categories = (self.item(member, part) for part in ("codes", "categories"))
        elif "categories" in member.attrs and f"__categories/{name}" in table:
            # AnnData before 0.8 writes the codes as the column.
            codes, categories = member, self.item(table, "__categories", name)
        else:
            return self._values(member, what)
        groups = self._values(categories, what)
        values = Categorical(self.numbers(codes, 1).tolist(), groups)
        # AnnData writes texts as categories, too, and texts that are dates are no groups.
        return list(values) if all(map(_is_date_or_missing, groups)) else values

    def _nullable(self, member: Any) -> bool:
        """Return whether this has values and a mask of missing ones, as nullable pandas arrays."""
        encoding = str(member.attrs.get("encoding-type"))
        return self.is_group(member) and encoding.startswith("nullable-")

    def _values(self, array: Any, what: str) -> list[Any]:
        if self._nullable(array):
            values = self._values(self.item(array, "values"), what)
            mask = self.numbers(self.item(array, "mask"), 1).tolist()
            if len(mask) != len(values):
                raise self.error(f"{what} has {len(mask)} of {len(values)} masks")
            return [None if hidden else value for hidden, value in zip(mask, values, strict=True)]
        if self.are_strings(array):
            return self.strings(array, what)
        return self.numbers(array, 1).tolist()


def _named(layer: str | None) -> str:
    return "X" if layer is None else f"layer {printable(layer)}"


# 10x Genomics: a folder of a matrix, its features and barcodes, or CellRanger's `.h5`.
#
# Features are words, and barcodes are documents.

_MATRIX, _BARCODES = "matrix.mtx", ("barcodes.tsv",)
_REMEDY_10X = "give filtered_feature_bc_matrix.h5 as CellRanger wrote it"


class _Place(NamedTuple):
    """The files of one matrix."""

    matrix: Path
    features: Path
    barcodes: Path


class _Features(NamedTuple):
    """The features to count."""

    words: Sequence[str]  # distinct
    chosen: np.ndarray  # their places among all features, int64


def recognises_tenx(source: Source) -> bool:
    """Recognise the folder, the matrix in it, or a `.h5` file of CellRanger."""
    if source.head.startswith(SIGNATURE):
        return not source.named(".h5ad") and _is_of_cellranger(source.path)
    return bool(_places(source.path))


def read_tenx(path: Path, reading: Reading) -> Corpus:
    """Read the counts of features in barcodes.

    The words are the names of the features; those that occur again get `-1`, `-2` and so on, as in
    AnnData. Of features of several types, such as genes and antibodies, or of several genomes
    (CellRanger 2), `reading.layer` says which are counted. Names of files may have a common prefix,
    as in GEO. The features are in rows, whether or not `reading.transpose` says so.
    """
    if os.path.isdir(path) or _places(path):
        table, features, barcodes = _read_folder(path, reading)
    else:
        with corpus_errors(path), opened(path, _REMEDY_10X, Contents) as contents:
            group, features, barcodes, shape = _members(contents, reading)
            table = contents.compressed(group, "csr", shape)
    counts = _of_features(sp.csr_array(table), features.chosen, path)
    return corpus_of(counts, path, replace(reading, transpose=False), features.words, barcodes)


def _of_features(table: sp.csr_array, chosen: np.ndarray, path: Path) -> sp.csr_array:
    """Return some columns of a table; SciPy would index with whatever the file has as places."""
    try:
        table.check_format(full_check=True)
    except ValueError as error:
        raise error_at(path, f"inconsistent arrays ({printable(error)})", _REMEDY_10X) from None
    return table[:, chosen]


@contextmanager
def tenx_blocks(path: Path, reading: Reading) -> Iterator[Blocks]:
    """Read some barcodes of a `.h5` file at a time; a folder is read whole."""
    if os.path.isdir(path) or _places(path):
        yield Blocks.whole(read_tenx(path, reading))
        return
    with opened(path, _REMEDY_10X, Contents) as contents:
        with corpus_errors(path):
            group, features, barcodes, shape = _members(contents, reading)
            pieces = contents.compressed_pieces(group, *shape)
        words = features.words
        if reading.vocabulary is not None:
            words = read_vocabulary(reading.vocabulary)
        width = len(features.words)
        check_length(path, reading, "words in the vocabulary", words, "features", width)
        counts = pieces.blocks(path, lambda block: _of_features(block, features.chosen, path))
        yield Blocks(words, counts, barcodes)


TENX = Format(
    "10x",
    "counts",
    "10x Genomics, a folder of matrix, features and barcodes, or CellRanger's .h5",
    recognises_tenx,
    read_tenx,
    ("names", "transpose", "layer"),
    blocks=tenx_blocks,
)


def _places(path: Path) -> list[_Place]:
    """Return the matrices of a folder, or the one of a file, with features and barcodes beside."""
    if os.path.isdir(path):
        folder, files = path, sorted(os.listdir(path))
    else:
        folder, files = path.parent, [path.name]
    places = []
    for name in files:
        plain = content_name(Path(name))
        if not plain.lower().endswith(_MATRIX):
            continue
        prefix = name[: len(plain) - len(_MATRIX)]
        features, barcodes = _beside(folder, prefix, FEATURES), _beside(folder, prefix, _BARCODES)
        if features is not None and barcodes is not None:
            places.append(_Place(folder / name, features, barcodes))
    return places


def _beside(folder: Path, prefix: str, names: Sequence[str]) -> Path | None:
    files = (folder / f"{prefix}{name}{end}" for name in names for end in ("", *SUFFIXES))
    return next((file for file in files if file.is_file()), None)


def _read_folder(path: Path, reading: Reading) -> tuple[sp.sparray, _Features, Sequence[str]]:
    """Return counts of all features [barcodes, features], the features to count, and barcodes."""
    places = _places(path)
    if len(places) != 1:
        several = ", ".join(printable(place.matrix.name) for place in places[:4])
        problem = f"{len(places)} matrices ({several})" if places else "no matrix.mtx"
        remedy = "give the matrix with its features.tsv and barcodes.tsv beside it"
        raise error_at(path, problem, remedy)
    place = places[0]
    ids, names, types = read_features(place.features)
    barcodes = read_names(place.barcodes)
    table: sp.sparray = matrices.read_matrix(place.matrix).T
    if table.shape != (len(barcodes), len(ids)):
        if table.shape != (len(ids), len(barcodes)):
            rows, columns = table.shape[::-1]
            problem = (
                f"{rows} rows and {columns} columns for {len(ids)} features in "
                f"{printable(place.features.name)} and {len(barcodes)} barcodes"
            )
            raise error_at(place.matrix, problem, "give files of the same samples")
        table = table.T  # as some programs write it: the labels show how it lies
    return table, _selected(names, types, place.features, reading), barcodes


def _selected(
    names: Sequence[str], types: Sequence[str], path: Path, reading: Reading
) -> _Features:
    """Select features of one type, that of the layer."""
    kinds = dict.fromkeys(types)
    layer = reading.layer
    if layer is None and len(kinds) == 1:
        layer = types[0]
    if layer not in kinds:
        counted = ", ".join(f"{printable(kind)!r} ({types.count(kind):,})" for kind in kinds)
        problem = f"features of {len(kinds)} types: {counted}" if len(kinds) > 1 else counted
        if reading.layer is not None:
            problem = f"no features of type {printable(reading.layer)!r}, but {counted}"
        raise error_at(path, problem, "give one of these as --layer (layer)")
    chosen = [place for place, kind in enumerate(types) if kind == layer]
    return _Features(distinct([names[place] for place in chosen]), np.array(chosen))


def _is_of_cellranger(path: Path) -> bool:
    """Return whether an HDF5 file is one of CellRanger; False if that cannot be found out."""
    try:
        with corpus_errors(path), opened(path, _REMEDY_10X, Contents) as contents:
            return bool(_groups(contents))
    except CorpusError:
        return False  # `h5ad` gives the reason


def _groups(contents: Contents) -> list[str]:
    """Return the names of the matrices: `matrix`, or those of genomes (CellRanger 2)."""
    if contents.has("matrix"):
        group = contents.file["matrix"]
        return ["matrix"] if contents.is_group(group) and "barcodes" in group else []
    return [
        name
        for name, group in contents.file.items()
        if contents.is_group(group) and {"barcodes", "gene_names", "indptr"} <= set(group)
    ]


def _members(
    contents: Contents, reading: Reading
) -> tuple[Any, _Features, Sequence[str], tuple[int, int]]:
    """Return the group of the counts, the features to count, the barcodes and the shape."""
    groups = _groups(contents)
    if not groups:
        raise contents.error("no matrix with barcodes")
    if groups == ["matrix"]:
        group = contents.item(contents.file, "matrix")
        table = contents.item(group, "features")
        names = contents.strings(contents.item(table, "name"), "the names of features")
        types = contents.strings(contents.item(table, "feature_type"), "the types of features")
        features = _selected(names, types, contents.path, reading)
    else:
        genome = reading.layer if len(groups) > 1 or reading.layer else groups[0]
        if genome not in groups:
            listed = ", ".join(map(printable, groups))
            remedy = "give one of these as --layer (layer)"
            raise contents.error(f"genes of these genomes: {listed}", remedy)
        group = contents.item(contents.file, genome)
        names = contents.strings(contents.item(group, "gene_names"), "the names of genes")
        features = _Features(distinct(names), np.arange(len(names)))
    barcodes = contents.strings(contents.item(group, "barcodes"), "the barcodes")
    width, documents = contents.numbers(contents.item(group, "shape"), 1).tolist()
    if (documents, width) != (len(barcodes), len(names)):
        problem = f"shape {width}, {documents} with {len(names)} features, {len(barcodes)} barcodes"
        raise contents.error(problem)
    return group, features, barcodes, (documents, width)

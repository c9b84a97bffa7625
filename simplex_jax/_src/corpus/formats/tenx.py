"""10x Genomics: a folder of a matrix, its features and barcodes, or CellRanger's `.h5`.

Features are words, and barcodes are documents.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus.corpus import Corpus, CorpusError, error_at, printable
from simplex_jax._src.corpus.formats import matrix_market
from simplex_jax._src.corpus.formats.format import Format, Source
from simplex_jax._src.corpus.formats.hdf5 import SIGNATURE, Contents, corpus_errors, opened
from simplex_jax._src.corpus.formats.matrix import check_length, corpus_of
from simplex_jax._src.corpus.packed import SUFFIXES, content_name
from simplex_jax._src.corpus.reading import Blocks, Reading
from simplex_jax._src.corpus.vocabulary import (
    FEATURES,
    distinct,
    read_features,
    read_names,
    read_vocabulary,
)

_MATRIX, _BARCODES = "matrix.mtx", ("barcodes.tsv",)
_REMEDY = "give filtered_feature_bc_matrix.h5 as CellRanger wrote it"


class _Place(NamedTuple):
    """The files of one matrix."""

    matrix: Path
    features: Path
    barcodes: Path


class _Features(NamedTuple):
    """The features to count."""

    words: Sequence[str]  # distinct
    chosen: np.ndarray  # their places among all features, int64


def recognises(source: Source) -> bool:
    """Recognise the folder, the matrix in it, or a `.h5` file of CellRanger."""
    if source.head.startswith(SIGNATURE):
        return not source.named(".h5ad") and _is_of_cellranger(source.path)
    return bool(_places(source.path))


def read(path: Path, reading: Reading) -> Corpus:
    """Read the counts of features in barcodes.

    The words are the names of the features; those that occur again get `-1`, `-2` and so on, as in
    AnnData. Of features of several types, such as genes and antibodies, or of several genomes
    (CellRanger 2), `reading.layer` says which are counted. Names of files may have a common prefix,
    as in GEO. The features are in rows, whether or not `reading.transpose` says so.
    """
    if os.path.isdir(path) or _places(path):
        table, features, barcodes = _read_folder(path, reading)
    else:
        with corpus_errors(path), opened(path, _REMEDY) as contents:
            group, features, barcodes, shape = _members(contents, reading)
            table = contents.compressed(group, "csr", shape)
    counts = sp.csr_array(table)[:, features.chosen]
    return corpus_of(counts, path, replace(reading, transpose=False), features.words, barcodes)


@contextmanager
def blocks(path: Path, reading: Reading) -> Iterator[Blocks]:
    """Read some barcodes of a `.h5` file at a time; a folder is read whole."""
    if os.path.isdir(path) or _places(path):
        corpus = read(path, reading)
        yield Blocks(corpus.vocabulary, iter([corpus.counts]), corpus.names)
        return
    with opened(path, _REMEDY) as contents:
        with corpus_errors(path):
            group, features, barcodes, shape = _members(contents, reading)
            pieces = contents.compressed_pieces(group, *shape)
        words = features.words
        if reading.vocabulary is not None:
            words = read_vocabulary(reading.vocabulary)
        width = len(features.words)
        check_length(path, reading, "words in the vocabulary", words, "features", width)

        def counts() -> Iterator[sp.csr_array]:
            for first, last in pieces.cuts:
                with corpus_errors(path):
                    block = pieces.read(first, last)[:, features.chosen]
                yield block

        yield Blocks(words, counts(), barcodes)


FORMAT = Format(
    "10x",
    "counts",
    "10x Genomics, a folder of matrix, features and barcodes, or CellRanger's .h5",
    recognises,
    read,
    ("names", "transpose", "layer"),
    blocks=blocks,
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
        if not plain.endswith(_MATRIX):
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
    table: sp.sparray = matrix_market.matrix(place.matrix).T
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
        with corpus_errors(path), opened(path, _REMEDY) as contents:
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

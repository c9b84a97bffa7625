"""Reading files in a recognised or named format: counts, unit vectors and metadata."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from simplex_jax._src.corpus import store
from simplex_jax._src.corpus.corpus import Corpus, error_at, printable
from simplex_jax._src.corpus.files import as_path
from simplex_jax._src.corpus.formats import registry, tables
from simplex_jax._src.corpus.reading import (
    Categorical,
    Format,
    Kind,
    Metadata,
    Reading,
    VectorReading,
    source_of,
)
from simplex_jax._src.corpus.vectors import UnitVectors
from simplex_jax._src.corpus.vocabulary import columns_of, read_names
from simplex_jax._src.options import with_options

_MIN_NONEMPTY = 0.1
"""Smallest share of lines with a word at which a file counts as text."""


@with_options(Reading)
def read(path: str | Path, reading: Reading) -> Corpus:
    r"""Read a corpus from a file or folder, or from standard input (`-`).

    It may be a folder of text files; CSV, TSV or JSON lines with a column of texts; a text a line;
    or counts of 10x Genomics, AnnData, SciPy, Matrix Market, UCI, lda-c, SVMlight or MALLET. Files
    may be packed by gzip, xz, bzip2 or zip, whatever their names. A file that no format recognises
    is read as `lines`; a tenth of these must have a word.

    Args:
        path: The file or folder.
        {options}

    Returns:
        The corpus, including empty documents.

    Raises:
        CorpusError: The data cannot be used; the message is `FILE:LINE: problem; remedy`.
        ValueError: `format`, `encoding` or `encoding_errors` is unknown, or the format does not
            support an option.

    Example:
        >>> import pathlib, tempfile
        >>> from simplex_jax.corpus import TextOptions
        >>> with tempfile.TemporaryDirectory() as place:
        ...     file = pathlib.Path(place, "fruit.txt")
        ...     _ = file.write_text("apple pear\npear plum\n")
        ...     corpus = read(file, text=TextOptions(min_df=1, max_df=1.0))
        >>> corpus.vocabulary, corpus.names
        (('apple', 'pear', 'plum'), ('1', '2'))
    """
    path = as_path(path)
    return _read_whole(path, registry.selected(path, reading, "counts"), reading)


@with_options(Reading)
def read_texts(path: str | Path, reading: Reading) -> Iterator[tuple[str, str]]:
    r"""Read the names and texts of documents, one at a time.

    Args:
        path: The file or folder.
        {options}

    Returns:
        An iterator of (name, text).

    Raises:
        CorpusError: The file cannot be read, or its format has counts instead of texts.
        ValueError: As for `read`.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     file = pathlib.Path(place, "fruit.txt")
        ...     _ = file.write_text("apple pear\npear plum\n")
        ...     list(read_texts(file))
        [('1', 'apple pear'), ('2', 'pear plum')]
    """
    path = as_path(path)
    selected = registry.selected(path, reading, "counts")
    if selected.texts is None:
        names = [entry.name for entry in registry.formats_of("counts") if entry.texts]
        raise error_at(
            path, f"{selected.name} has no texts", f"give the texts themselves: {', '.join(names)}"
        )
    return selected.texts(path, reading)


@with_options(Reading)
def convert(path: str | Path, directory: str | Path, reading: Reading) -> store.Stored:
    r"""Store a corpus as memory-mapped arrays, for a corpus that does not fit into memory.

    `uci` (lines sorted by document), `ldac` (with a vocabulary) and `h5ad` (dense, or `csr` of
    cells by features) are read a few documents at a time. Other formats are first read whole.

    Args:
        path: The file or folder. This and the options are as for `read`.
        directory: The folder to create.
        {options}

    Returns:
        The stored corpus, opened.

    Raises:
        CorpusError: The data cannot be used.
        ValueError: As for `read`.
        FileExistsError: `directory` exists and is not empty.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     file, words = pathlib.Path(place, "x.dat"), pathlib.Path(place, "vocab.txt")
        ...     _ = file.write_text("2 0:1 2:5\n1 1:1\n"), words.write_text("apple\npear\nplum\n")
        ...     stored = convert(file, pathlib.Path(place, "store"))
        >>> stored.documents, stored.tokens, stored.vocabulary
        (2, 7, ('apple', 'pear', 'plum'))
    """
    path = as_path(path)
    store.check_new(directory)
    selected = registry.selected(path, reading, "counts")
    if selected.blocks is None:
        return store.write(directory, _read_whole(path, selected, reading))
    with selected.blocks(path, reading) as blocks:
        labels = read_names(reading.names) if reading.names else blocks.names
        return store.write_blocks(
            directory, blocks.counts, blocks.vocabulary, labels, source=str(path)
        )


@with_options(VectorReading)
def read_vectors(path: str | Path, reading: VectorReading) -> UnitVectors:
    """Read unit vectors of documents from an array [D, V]: `.npy`, SciPy's sparse `.npz` or `.mtx`.

    Args:
        path: The file.
        {options}

    Returns:
        The unit vectors. By default the words are `w0, w1, ...`, and documents are numbered from 1.

    Raises:
        CorpusError: The data cannot be used, for example if a vector is zero, not finite or not of
            length 1.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     file = pathlib.Path(place, "x.npy")
        ...     np.save(file, [[3.0, 4.0], [0.0, -1.0]])
        ...     vectors = read_vectors(file, normalise=True)
        >>> vectors.values.toarray().round(1).tolist(), vectors.names
        ([[0.6000000238418579, 0.800000011920929], [0.0, -1.0]], ('1', '2'))
    """
    path = as_path(path)
    return registry.selected(path, reading, "vectors").read(path, reading)


@with_options(Reading)
def read_columns(path: str | Path, columns: Sequence[str], reading: Reading) -> Metadata:
    r"""Read document metadata: columns of a table, or fields of records.

    Args:
        path: The file: CSV, TSV, JSON lines or AnnData (columns of `obs`). It may be the file of a
            corpus, and need not have texts.
        columns: Names of the columns.
        {options}

    Returns:
        The document names, and the columns by name, in the order of the file.

    Raises:
        CorpusError: The file cannot be read, or has no such column.
        ValueError: As for `read`.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     file = pathlib.Path(place, "fruit.csv")
        ...     _ = file.write_text("id,year,text\na,1999,apple\nb,2001,pear\n")
        ...     metadata = read_columns(file, ["year"])
        >>> metadata.names, metadata.columns
        (('a', 'b'), {'year': ['1999', '2001']})
    """
    path = as_path(path)
    selected = registry.selected(path, reading, "counts")
    if selected is tables.TRIPLES and reading.format is None:
        # A column of metadata may be called term, such as that of a president.
        selected = tables.TSV if source_of(path).named(*tables.TABS) else tables.CSV
    if selected.columns is None:
        formats = [entry.name for entry in registry.formats_of("counts") if entry.columns]
        raise error_at(
            path,
            f"{selected.name} has no columns",
            f"give a file with columns (--metadata), in one of {', '.join(formats)}",
        )
    return selected.columns(path, reading, columns)


def resolve(path: str | Path, reading: Reading, kind: Kind = "counts") -> Reading:
    r"""Fill in the options of reading that the file determines: its format and columns.

    Args:
        path: The file or folder.
        reading: The options given by the user.
        kind: Kind of its contents.

    Returns:
        The options with format and columns.

    Raises:
        CorpusError: The file cannot be read, or has no such column.
        ValueError: As for `read`.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     file = pathlib.Path(place, "fruit.csv")
        ...     _ = file.write_text("key,Body\n1,apple\n")
        ...     reading = resolve(file, Reading())
        >>> reading.format, reading.text_column, reading.id_column
        ('csv', 'Body', 'key')
    """
    path = as_path(path)
    selected = registry.selected(path, reading, kind)
    return replace(selected.resolve(path, reading), format=selected.name)


def _read_whole(path: Path, selected: Format, reading: Reading) -> Corpus:
    """Read a whole corpus; refuse a file of no known format if few of its lines have a word."""
    corpus = selected.read(path, reading)
    lines, nonempty = len(corpus.names), np.count_nonzero(np.diff(corpus.counts.indptr))
    fallback = reading.format is None and selected.name == "lines"
    if fallback and nonempty < _MIN_NONEMPTY * lines:
        raise error_at(
            path,
            f"no known format, and only {nonempty} of {lines} lines have a word",
            "name the format, give --format lines (format='lines') if a line is a document, or "
            "--token-pattern (token_pattern) if its words are of one or two letters",
        )
    return corpus


def reordered(
    metadata: Metadata,
    documents: Sequence[str],
    path: str | Path,
    option: str = "--id-column (id_column)",
) -> Metadata:
    """Return the metadata in the order of the documents of a corpus, by their names.

    Names may repeat if the records are in this order. Records without a column of names are those
    of numbered documents, and of no others. Errors name the option that says which column has the
    names.

    Raises:
        CorpusError: A document has no record, or two records in another order have the same name.
    """
    if metadata.names == tuple(documents):
        return metadata
    if metadata.numbered:
        raise error_at(
            path,
            f"no column of names, and the {len(documents):,} documents are not called 1 to "
            f"{len(metadata.names):,}",
            f"give the column of the documents' names, {option}, or call it id",
        )
    rows = {name: row for row, name in enumerate(metadata.names)}
    if len(rows) < len(metadata.names):
        repeated = next(name for row, name in enumerate(metadata.names) if rows[name] != row)
        problem = f"two records are called {printable(repeated)!r}"
        raise error_at(path, problem, f"give {option} with the documents' names")
    # macOS decomposes accented letters in file names.
    places = list(map(columns_of(metadata.names), documents))
    if missing := [name for name, row in zip(documents, places, strict=True) if row is None]:
        raise error_at(
            path,
            f"{len(missing):,} of {len(documents):,} documents are missing, the first is "
            f"{printable(missing[0])!r}",
            f"add them, or give {option} with the documents' names",
        )
    order = [row for row in places if row is not None]
    ordered: dict[str, Sequence[Any]] = {
        name: values.take(order)
        if isinstance(values, Categorical)
        else [values[row] for row in order]
        for name, values in metadata.columns.items()
    }
    return Metadata(tuple(documents), ordered)

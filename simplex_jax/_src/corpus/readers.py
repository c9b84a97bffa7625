"""Reading files in a recognised or named format: counts and unit vectors."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from simplex_jax._src.corpus import store
from simplex_jax._src.corpus.corpus import Corpus, error_at
from simplex_jax._src.corpus.files import as_path
from simplex_jax._src.corpus.formats import registry
from simplex_jax._src.corpus.formats.format import Format, Kind
from simplex_jax._src.corpus.reading import Reading
from simplex_jax._src.corpus.text import TextOptions
from simplex_jax._src.corpus.vectors import UnitVectors
from simplex_jax._src.corpus.vocabulary import read_names

_MIN_NONEMPTY = 0.1
"""Smallest share of lines with a word at which a file counts as text."""


def read(
    path: str | Path,
    format: str | None = None,
    vocabulary: str | Path | None = None,
    text: TextOptions | None = None,
    encoding: str = Reading.encoding,
    *,
    encoding_errors: str = Reading.encoding_errors,
    names: str | Path | None = None,
    transpose: bool = False,
    layer: str | None = None,
    first_index: int | None = None,
    text_column: str | None = None,
    id_column: str | None = None,
) -> Corpus:
    r"""Read a corpus from a file or folder, or from standard input (`-`).

    Files may be packed by gzip, xz, bzip2 or zip, whatever their names.

    Args:
        path: The file or folder.
        format: One of the formats of `formats.described("counts")`, by default recognised. A file
            that no other format recognises is read as `lines`; a tenth of these must have a word.
        vocabulary: File with one word a line; see `Reading`.
        text: Tokens and vocabulary limits, for formats of texts only; by default `TextOptions()`.
        encoding: Encoding of text; vocabularies are UTF-8. A byte-order mark in a file overrides
            it.
        encoding_errors: What to do about bytes that are not in it: `strict`, `replace`, `ignore`,
            `backslashreplace` or `cp1252`; see `Reading`. All but `strict` warn of them.
        names: File with one document name a line.
        transpose: True if words are in rows and documents in columns.
        layer: Layer with the counts (`h5ad`), where `raw` is `raw.X`; None for `X`. Type of the
            features (`10x`).
        first_index: Index of the first word, 0 or 1; None for what the format defines: 1 in
            `svmlight`, 0 in `ldac`.
        text_column: Column or field of the text; see `Reading`.
        id_column: Column or field of the document names; None to recognise it, if there is one.

    Returns:
        The corpus, including empty documents.

    Raises:
        CorpusError: The data cannot be used; the message is `FILE:LINE: problem; remedy`.
        ValueError: `format`, `encoding` or `encoding_errors` is unknown, or the format does not
            support an option.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     file = pathlib.Path(place, "fruit.txt")
        ...     _ = file.write_text("apple pear\npear plum\n")
        ...     corpus = read(file, text=TextOptions(min_df=1, max_df=1.0))
        >>> corpus.vocabulary, corpus.names
        (('apple', 'pear', 'plum'), ('1', '2'))
    """
    reading = Reading(
        format=format,
        vocabulary=_optional_path(vocabulary),
        text=text or TextOptions(),
        encoding=encoding,
        encoding_errors=encoding_errors,
        names=_optional_path(names),
        transpose=transpose,
        layer=layer,
        first_index=first_index,
        text_column=text_column,
        id_column=id_column,
    )
    path = as_path(path)
    return _read_whole(path, registry.selected(path, reading, "counts"), reading)


def read_texts(
    path: str | Path,
    format: str | None = None,
    encoding: str = Reading.encoding,
    *,
    encoding_errors: str = Reading.encoding_errors,
    text_column: str | None = None,
    id_column: str | None = None,
) -> Iterator[tuple[str, str]]:
    r"""Read the names and texts of documents, one at a time.

    Args:
        path: The file or folder.
        format: Format of the file. This and the arguments that follow are as for `read`.
        encoding: Encoding of the texts.
        encoding_errors: What to do about bytes that are not in it.
        text_column: Column or field of the text.
        id_column: Column or field of the document names.

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
    reading = Reading(
        format=format,
        encoding=encoding,
        encoding_errors=encoding_errors,
        text_column=text_column,
        id_column=id_column,
    )
    path = as_path(path)
    selected = registry.selected(path, reading, "counts")
    if selected.texts is None:
        names = [entry.name for entry in registry.formats_of("counts") if entry.texts]
        raise error_at(
            path, f"{selected.name} has no texts", f"give the texts themselves: {', '.join(names)}"
        )
    return selected.texts(path, reading)


def convert(
    path: str | Path,
    directory: str | Path,
    format: str | None = None,
    vocabulary: str | Path | None = None,
    text: TextOptions | None = None,
    encoding: str = Reading.encoding,
    *,
    encoding_errors: str = Reading.encoding_errors,
    names: str | Path | None = None,
    transpose: bool = False,
    layer: str | None = None,
    first_index: int | None = None,
    text_column: str | None = None,
    id_column: str | None = None,
) -> store.Stored:
    r"""Store a corpus as memory-mapped arrays, for a corpus that does not fit into memory.

    `uci` (lines sorted by document), `ldac` (with a vocabulary) and `h5ad` (dense, or `csr` of
    cells by features) are read a few documents at a time. Other formats are first read whole.

    Args:
        path: The file or folder. This and the arguments after `directory` are as for `read`.
        directory: The folder to create.

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
    reading = Reading(
        format=format,
        vocabulary=_optional_path(vocabulary),
        text=text or TextOptions(),
        encoding=encoding,
        encoding_errors=encoding_errors,
        names=_optional_path(names),
        transpose=transpose,
        layer=layer,
        first_index=first_index,
        text_column=text_column,
        id_column=id_column,
    )
    path = as_path(path)
    store.check_new(directory)
    selected = registry.selected(path, reading, "counts")
    if selected.blocks is None:
        return store.write(directory, _read_whole(path, selected, reading))
    with selected.blocks(path, reading) as blocks:
        labels = read_names(reading.names) if reading.names else blocks.names
        return store.write_blocks(directory, blocks.counts, blocks.vocabulary, labels)


def read_vectors(
    path: str | Path,
    vocabulary: str | Path | None = None,
    names: str | Path | None = None,
    *,
    normalise: bool = False,
) -> UnitVectors:
    """Read unit vectors of documents from an array [D, V], `.npy` or SciPy's sparse `.npz`.

    Args:
        path: The file.
        vocabulary: File with one word a line; by default the words are `w0, w1, ...`.
        names: File with one document name a line; by default numbers from 1.
        normalise: Accept vectors of any length but 0.

    Returns:
        The unit vectors.

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
    reading = Reading(
        vocabulary=_optional_path(vocabulary), names=_optional_path(names), normalise=normalise
    )
    path = as_path(path)
    return registry.selected(path, reading, "vectors").read(path, reading)


def kind_of(path: str | Path, *kinds: Kind) -> Kind:
    """Return the kind of a file's contents, trying `kinds` in order."""
    return registry.recognised(as_path(path), *kinds).kind


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


def _optional_path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


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

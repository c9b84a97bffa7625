"""Reading a corpus from disk, its format recognised or named."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simplex_jax.corpus import (
    folder,
    h5ad,
    jsonl,
    ldac,
    lines,
    matrix_market,
    msweb,
    npz,
    store,
    svmlight,
    table,
    uci,
)
from simplex_jax.corpus.corpus import Corpus, error_at
from simplex_jax.corpus.files import ascii_compatible, reading
from simplex_jax.corpus.reading import Blocks, Reading
from simplex_jax.corpus.store import stored
from simplex_jax.corpus.text import TextOptions
from simplex_jax.corpus.vocabulary import read_names

_FEWEST_WORDED = 0.1
"""Share of lines with a word below which a file is not taken for text."""


class Format(NamedTuple):
    """A file format: functions of one module.

    Attributes:
        recognises: `(path, head)`, whether the path, or the first 4 KiB of its unpacked content,
            tell that it is in this format.
        read: `(path, how)`, the corpus.
        options: the fields of `Reading` that it looks at, besides the vocabulary and those about
            text.
        blocks: `(path, how)`, the corpus a few documents at a time; None if it is read as a whole.
    """

    recognises: Callable[[Path, bytes], bool]
    read: Callable[[Path, Reading], Corpus]
    options: tuple[str, ...] = ()
    blocks: Callable[[Path, Reading], AbstractContextManager[Blocks]] | None = None


FORMATS = {
    "store": Format(stored.recognises, stored.read),
    "folder": Format(folder.recognises, folder.read),
    "npz": Format(npz.recognises, npz.read, ("names", "transpose")),
    "h5ad": Format(h5ad.recognises, h5ad.read, ("names", "transpose", "layer")),
    "mtx": Format(matrix_market.recognises, matrix_market.read, ("names", "transpose")),
    "csv": Format(table.recognises_csv, table.read_csv, ("text_column", "id_column")),
    "tsv": Format(table.recognises_tsv, table.read_tsv, ("text_column", "id_column")),
    "jsonl": Format(jsonl.recognises, jsonl.read, ("text_column", "id_column")),
    "msweb": Format(msweb.recognises, msweb.read, ("names",)),
    "uci": Format(uci.recognises, uci.read, ("names",), uci.blocks),
    "ldac": Format(ldac.recognises, ldac.read, ("names",), ldac.blocks),
    "svmlight": Format(svmlight.recognises, svmlight.read, ("names", "zero_based")),
    "lines": Format(lines.recognises, lines.read),
}
"""All formats by name, in the order in which they are tried."""


def read(
    path: str | Path,
    format: str | None = None,
    vocabulary: str | Path | None = None,
    text: TextOptions | None = None,
    encoding: str = "utf-8",
    **options: Any,
) -> Corpus:
    r"""Read a corpus from a file or folder; files may be gzip, whatever their name.

    Args:
        path: where it is.
        format: one of `FORMATS`; recognised when left out, and what looks like none of them is
            then taken for `lines`, of which a tenth must have a word. Text: `folder` (of text
            files), `lines` (one document a line), `csv`, `tsv` and `jsonl` (a column or field with
            the text). Counts: `uci` (docword and vocab), `ldac`, `svmlight`, `mtx` (Matrix
            Market), `npz` (SciPy sparse), `h5ad` (AnnData), `msweb` (the Microsoft web data) and
            `store` (what `convert` made).
        vocabulary: file with one word a line. For text, only these words are counted; for `uci`
            and `ldac` it replaces the vocabulary next to `path`; for other counts it names the
            columns; a `store` has its own.
        text: tokens and vocabulary limits for text; `TextOptions()` when left out.
        encoding: of text; vocabularies are UTF-8.
        **options: what only some formats have:

            - names: file with one document name a line, for counts but `store`;
            - transpose: True if words are in rows and documents in columns (`npz`, `mtx`, `h5ad`);
            - layer: layer of an `h5ad` file with the counts, instead of `X`;
            - zero_based: True if indices count from 0 (`svmlight`);
            - text_column, id_column: columns or fields of text and names (`csv`, `tsv`, `jsonl`),
              recognised by usual names when left out; a number, from 1, for a table whose first
              line has no names.

    Returns:
        The corpus, empty documents included.

    Raises:
        CorpusError: something is wrong with the data; one line `FILE:LINE: what is wrong; what to
            do`.
        ValueError: `format` or `encoding` is unknown, or the format has no use for an option.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     file = pathlib.Path(place, "fruit.txt")
        ...     _ = file.write_text("apple pear\npear plum\n")
        ...     corpus = read(file, text=TextOptions(min_df=1, max_df=1.0))
        >>> corpus.vocabulary, corpus.names
        (('apple', 'pear', 'plum'), ('1', '2'))
    """
    name, how = _chosen(path, format, vocabulary, text, encoding, options)
    return _whole(Path(path), name, how, guessed=format is None)


def convert(
    path: str | Path,
    directory: str | Path,
    format: str | None = None,
    vocabulary: str | Path | None = None,
    text: TextOptions | None = None,
    encoding: str = "utf-8",
    **options: Any,
) -> store.Stored:
    r"""Store a corpus as arrays that are mapped into memory, for one that does not fit into it.

    `uci` (its lines sorted by document) and `ldac` (with a vocabulary) are read a few documents at
    a time; the others as a whole first.

    Args:
        path: where it is.
        directory: the folder to make.
        format: as for `read`, like all that follows.
        vocabulary: file with one word a line.
        text: tokens and vocabulary limits.
        encoding: of text.
        **options: what only some formats have.

    Returns:
        The stored corpus, opened.

    Raises:
        CorpusError: something is wrong with the data.
        ValueError: as `read`.
        FileExistsError: `directory` is there, and not empty.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     file, words = pathlib.Path(place, "x.dat"), pathlib.Path(place, "vocab.txt")
        ...     _ = file.write_text("2 0:1 2:5\n1 1:1\n"), words.write_text("apple\npear\nplum\n")
        ...     stored = convert(file, pathlib.Path(place, "store"))
        >>> stored.documents, stored.tokens, stored.vocabulary
        (2, 7, ('apple', 'pear', 'plum'))
    """
    name, how = _chosen(path, format, vocabulary, text, encoding, options)
    reader = FORMATS[name].blocks
    if reader is None:
        return store.write(directory, _whole(Path(path), name, how, guessed=format is None))
    with reader(Path(path), how) as blocks:
        names = read_names(how.names) if how.names else None
        return store.write_blocks(directory, blocks.counts, blocks.vocabulary, names)


def _chosen(
    path: str | Path,
    format: str | None,
    vocabulary: str | Path | None,
    text: TextOptions | None,
    encoding: str,
    options: dict[str, Any],
) -> tuple[str, Reading]:
    """The name of the format, and how to read it."""
    if format is not None and format not in FORMATS:
        raise ValueError(f"format={format!r}: give one of {', '.join(FORMATS)}")
    ascii_compatible(encoding)  # raises for an unknown one, before any file is read
    if unknown := options.keys() - {field.name for field in fields(Reading)}:
        raise TypeError(f"read() has no option {min(unknown)!r}")
    name = format or _recognised(Path(path))
    for option, value in options.items():
        if value and option not in FORMATS[name].options:
            raise ValueError(f"{option}={value!r}: the format {name} has no use for it")
    files = {"vocabulary": vocabulary, "names": options.get("names")}
    paths = {what: None if file is None else Path(file) for what, file in files.items()}
    how = Reading(text=text or TextOptions(), encoding=encoding, **{**options, **paths})
    return name, how


def _whole(path: Path, name: str, how: Reading, *, guessed: bool) -> Corpus:
    """Read all of a corpus, refusing what was taken for lines of text and hardly has a word."""
    found = FORMATS[name].read(path, how)
    if guessed and name == "lines":
        lines = found.counts.shape[0]
        worded = int(np.count_nonzero(np.diff(found.counts.indptr)))
        if worded < _FEWEST_WORDED * lines:
            raise error_at(
                path,
                f"no known format, and as text {worded} of {lines} lines have a word",
                "name the format, or give --format lines (format='lines') if a line is a document",
            )
    return found


def _recognised(path: Path) -> str:
    head = b""
    if not os.path.isdir(path):
        with reading(path) as (stream, _):
            head = stream.peek(4096)[:4096]
    return next(name for name, kind in FORMATS.items() if kind.recognises(path, head))

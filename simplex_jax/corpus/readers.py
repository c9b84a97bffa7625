"""Reading files, their format recognised or named: counts, unit vectors and tables."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from simplex_jax.corpus import store
from simplex_jax.corpus.categories import Categories
from simplex_jax.corpus.corpus import Corpus, error_at, printable
from simplex_jax.corpus.files import ascii_compatible
from simplex_jax.corpus.formats import categories, registry
from simplex_jax.corpus.formats.format import Format, Kind, source_of
from simplex_jax.corpus.reading import Metadata, Reading
from simplex_jax.corpus.text import TextOptions
from simplex_jax.corpus.vectors import UnitVectors
from simplex_jax.corpus.vocabulary import read_names

_FEWEST_WORDED = 0.1
"""Share of lines with a word below which a file is not taken for text."""

_EVERYWHERE = ("format", "vocabulary", "text", "encoding")
"""Options that the formats do not list."""


def read(
    path: str | Path,
    format: str | None = None,
    vocabulary: str | Path | None = None,
    text: TextOptions | None = None,
    encoding: str = "utf-8",
    **options: Any,
) -> Corpus:
    r"""Read a corpus from a file or folder, or from standard input (`-`).

    Files may be packed by gzip, xz, bzip2 or zip, whatever their names.

    Args:
        path: where it is.
        format: one of the formats of `formats.described("counts")`; recognised when left out. A
            file of no other format is then taken for `lines`, of which a tenth must have a word.
        vocabulary: file with one word a line; see `Reading`.
        text: tokens and vocabulary limits for text; `TextOptions()` when left out.
        encoding: of text; vocabularies are UTF-8.
        **options: options of only some formats, by the names of `Reading`: `names`, `transpose`,
            `layer`, `zero_based`, `text_column`, `id_column`.

    Returns:
        The corpus, empty documents included.

    Raises:
        CorpusError: the data cannot be used; one line `FILE:LINE: problem; remedy`.
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
    options |= {"format": format, "vocabulary": vocabulary, "text": text, "encoding": encoding}
    return _whole(*_opened(path, "counts", options))


def read_texts(
    path: str | Path, format: str | None = None, encoding: str = "utf-8", **options: Any
) -> Iterator[tuple[str, str]]:
    r"""Read the names and texts of documents, one after the other.

    Args:
        path: where it is.
        format: as for `read`, like all that follows.
        encoding: of the texts.
        **options: options of only some formats.

    Returns:
        An iterator of (name, text).

    Raises:
        CorpusError: the file cannot be read, or its format has counts and no texts.
        ValueError: as `read`.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     file = pathlib.Path(place, "fruit.txt")
        ...     _ = file.write_text("apple pear\npear plum\n")
        ...     list(read_texts(file))
        [('1', 'apple pear'), ('2', 'pear plum')]
    """
    options |= {"format": format, "encoding": encoding}
    place, chosen, reading = _opened(path, "counts", options)
    if chosen.texts is None:
        able = [entry.name for entry in registry.formats_of("counts") if entry.texts]
        raise error_at(
            path, f"{chosen.name} has no texts", f"give the texts themselves: {', '.join(able)}"
        )
    return chosen.texts(place, reading)


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

    `uci` (its lines sorted by document), `ldac` (with a vocabulary) and `h5ad` (dense, or `csr` of
    cells by features) are read a few documents at a time; the others as a whole first.

    Args:
        path: where it is.
        directory: the folder to make.
        format: as for `read`, like all that follows.
        vocabulary: file with one word a line.
        text: tokens and vocabulary limits.
        encoding: of text.
        **options: options of only some formats.

    Returns:
        The stored corpus, opened.

    Raises:
        CorpusError: the data cannot be used.
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
    options |= {"format": format, "vocabulary": vocabulary, "text": text, "encoding": encoding}
    place, chosen, reading = _opened(path, "counts", options)
    if chosen.blocks is None:
        return store.write(directory, _whole(place, chosen, reading))
    with chosen.blocks(place, reading) as blocks:
        names = read_names(reading.names) if reading.names else blocks.names
        return store.write_blocks(directory, blocks.counts, blocks.vocabulary, names)


def read_vectors(
    path: str | Path,
    vocabulary: str | Path | None = None,
    names: str | Path | None = None,
    *,
    normalise: bool = False,
) -> UnitVectors:
    """Read unit vectors of documents from an array [D, V], `.npy` or SciPy's sparse `.npz`.

    Args:
        path: where it is.
        vocabulary: file with one word a line; the words are `w0, w1, ...` when left out.
        names: file with one document name a line; numbers from 1 when left out.
        normalise: take vectors of any length but 0.

    Returns:
        The unit vectors.

    Raises:
        CorpusError: the data cannot be used, such as a vector that is zero, not finite or not of
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
    options = {"vocabulary": vocabulary, "names": names, "normalise": normalise}
    place, chosen, reading = _opened(path, "vectors", options)
    return chosen.read(place, reading)


def read_table(
    path: str | Path,
    *,
    id_column: str | None = None,
    drop: tuple[str, ...] = (),
    encoding: str = "utf-8",
    variables: categories.Variables | None = None,
) -> Categories:
    r"""Read a table of categorical columns whose first line names them.

    A `.tsv` or `.tab` is separated by tabs, without quotes; all else is comma-separated, or by
    semicolons if its first line has more of them. Blanks around a field do not count, and a field
    of `categories.MISSING` is missing; a row without any value is kept. Values are texts: 1 and 1.0
    differ.

    Args:
        path: where it is.
        id_column: the column of row names, which is not a variable. Left out, a column called `id`
            (see `columns.IDENTITY`) is taken if no two of its fields are equal; else rows are
            numbered from 1.
        drop: columns to leave out.
        encoding: of the text.
        variables: names of columns and the values of each, as a model has them. Other columns are
            then passed over, in any order, and other values taken for missing, and counted.

    Returns:
        The table.

    Raises:
        CorpusError: naming the file and the line: a record of another length, a column name that is
            empty or there twice, a column that is not there, has no value at all or more than
            1,000; no row, or no column.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     file = pathlib.Path(place, "fruit.csv")
        ...     _ = file.write_text("colour,size\nred,small\ngreen,?\n")
        ...     table = read_table(file)
        >>> table.codes.tolist(), table.values
        ([[1, 0], [0, -1]], (('green', 'red'), ('small',)))
    """
    reading = Reading(id_column=id_column, drop=tuple(drop), encoding=encoding)
    return categories.read(_place(path), reading, variables)


def kind_of(path: str | Path, *kinds: Kind) -> Kind:
    """Kind of the contents of a file, by the format that recognises it: the first of some kinds."""
    return registry.recognised(source_of(_place(path)), *kinds).kind


def resolve(path: str | Path, reading: Reading, kind: Kind = "counts") -> Reading:
    r"""Fill in the options of reading that a file itself decides: its format, and its columns.

    Args:
        path: where it is.
        reading: the options as they were given.
        kind: of its contents.

    Returns:
        The options with both.

    Raises:
        CorpusError: the file cannot be read, or has no such column.
        ValueError: as `read`.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     file = pathlib.Path(place, "fruit.csv")
        ...     _ = file.write_text("key,Body\n1,apple\n")
        ...     reading = resolve(file, Reading())
        >>> reading.format, reading.text_column, reading.id_column
        ('csv', 'Body', 'key')
    """
    place = _place(path)
    chosen = _chosen(place, reading, kind)
    return replace(chosen.resolve(place, reading), format=chosen.name)


def read_columns(
    path: str | Path,
    columns: Sequence[str],
    documents: Sequence[str] | None = None,
    format: str | None = None,
    encoding: str = "utf-8",
    **options: Any,
) -> Metadata:
    r"""Read what is known of documents besides their words: columns of a table, or fields.

    Args:
        path: where it is: CSV, TSV, JSON lines or AnnData, whose `obs` has the columns. It may be
            the file of a corpus, or have no texts at all.
        columns: their names.
        documents: names of the documents of a corpus, to which the records are put in order, and
            of which each must have one; left out, they are those of the file, in its order.
        format: as for `read`.
        encoding: of the text.
        **options: others of `read` that say which column has the names of the documents, which
            are those that `read` gives them.

    Returns:
        The names of the documents and the columns, by name.

    Raises:
        CorpusError: the file cannot be read, has no such column, lacks a document, or has two
            records of one name where these are to be put in order.
        ValueError: as `read`.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     file = pathlib.Path(place, "fruit.csv")
        ...     _ = file.write_text("id,year,text\na,1999,apple\nb,2001,pear\n")
        ...     found = read_columns(file, ["year"])
        >>> found.names, found.columns
        (('a', 'b'), {'year': ['1999', '2001']})
    """
    options |= {"format": format, "encoding": encoding}
    place, chosen, reading = _opened(path, "counts", options)
    if chosen.columns is None:
        able = [entry.name for entry in registry.formats_of("counts") if entry.columns]
        raise error_at(
            path,
            f"{chosen.name} has no columns",
            f"give a file that has (--metadata), in one of {', '.join(able)}",
        )
    found = chosen.columns(place, reading, columns)
    return found if documents is None else _in_order(found, documents, place)


def _in_order(found: Metadata, documents: Sequence[str], path: Path) -> Metadata:
    rows = {name: row for row, name in enumerate(found.names)}
    if len(rows) < len(found.names):
        twice = next(name for row, name in enumerate(found.names) if rows[name] != row)
        problem = f"two records are called {printable(twice)!r}"
        raise error_at(path, problem, "give --id-column (id_column) with the documents' names")
    if missing := [name for name in documents if name not in rows]:
        raise error_at(
            path,
            f"{len(missing):,} of {len(documents):,} documents are missing, the first is "
            f"{printable(missing[0])!r}",
            "add them, or give --id-column (id_column) with the documents' names",
        )
    order = [rows[name] for name in documents]
    ordered: dict[str, Sequence[Any]] = {
        name: [values[row] for row in order] for name, values in found.columns.items()
    }
    return Metadata(tuple(documents), ordered)


def _place(path: str | Path) -> Path:
    if path == "":
        raise error_at("''", "the path is empty", "name a file or a folder")
    return Path(path)


def _opened(path: str | Path, kind: Kind, options: dict[str, Any]) -> tuple[Path, Format, Reading]:
    """Return the place of a file, its format and the options of reading it."""
    if unknown := options.keys() - {field.name for field in fields(Reading)}:
        raise TypeError(f"read() has no option {min(unknown)!r}")
    for name in ("vocabulary", "names"):
        if options.get(name) is not None:
            options[name] = Path(options[name])
    reading = Reading(**options | {"text": options.get("text") or TextOptions()})
    place = _place(path)
    return place, _chosen(place, reading, kind), reading


def _chosen(path: Path, reading: Reading, kind: Kind) -> Format:
    """Return the format of a file, which must have a use for all options that are given."""
    ascii_compatible(reading.encoding)  # raises for an unknown one, before any file is read
    if reading.format is None:
        chosen = registry.recognised(source_of(path), kind)
    else:
        chosen = registry.named(reading.format, kind)
    usable = {*_EVERYWHERE, *chosen.options}
    for option in (field.name for field in fields(Reading)):
        value = getattr(reading, option)
        if value and option not in usable:
            raise ValueError(
                f"{option}={printable(value)}: the format {chosen.name} has no use for it; these "
                f"have: {registry.having(option)}"
            )
    return chosen


def _whole(path: Path, chosen: Format, reading: Reading) -> Corpus:
    """Read all of a corpus, refusing a file that was taken for lines of text with few words."""
    corpus = chosen.read(path, reading)
    lines, worded = len(corpus.names), np.count_nonzero(np.diff(corpus.counts.indptr))
    taken_for_lines = reading.format is None and chosen.name == "lines"
    if taken_for_lines and worded < _FEWEST_WORDED * lines:
        raise error_at(
            path,
            f"no known format, and as text {worded} of {lines} lines have a word",
            "name the format, give --format lines (format='lines') if a line is a document, or "
            "--token-pattern (token_pattern) if its words are of one or two letters",
        )
    return corpus

"""Reading document metadata, the columns of a table or the fields of records."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simplex_jax.corpus.corpus import error_at, printable
from simplex_jax.corpus.files import as_path
from simplex_jax.corpus.formats import registry
from simplex_jax.corpus.reading import Metadata, Reading
from simplex_jax.corpus.vocabulary import columns_of


def read_columns(
    path: str | Path,
    columns: Sequence[str],
    documents: Sequence[str] | None = None,
    format: str | None = None,
    encoding: str = Reading.encoding,
    *,
    names: str | Path | None = None,
    transpose: bool = False,
    text_column: str | None = None,
    id_column: str | None = None,
) -> Metadata:
    r"""Read document metadata: columns of a table, or fields of records.

    Args:
        path: The file: CSV, TSV, JSON lines or AnnData, whose `obs` has the columns. It may be
            the file of a corpus, or have no texts at all.
        columns: Their names.
        documents: Names of the documents of a corpus, in whose order the records are put, and of
            which each must have one; left out, they are those of the file, in its order.
        format: As for `read`, like all that follows, which say how the documents are named.
        encoding: Encoding of the text.
        names: File with one document name a line (`h5ad`).
        transpose: True if documents are in columns, so that `var` has the metadata (`h5ad`).
        text_column: Column of the text; a number for a table without a line of names.
        id_column: Column or field of the names.

    Returns:
        The names of the documents and the columns, by name.

    Raises:
        CorpusError: The file cannot be read, has no such column, lacks a document, or has two
            records of one name where these are to be put in order.
        ValueError: As `read`.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     file = pathlib.Path(place, "fruit.csv")
        ...     _ = file.write_text("id,year,text\na,1999,apple\nb,2001,pear\n")
        ...     metadata = read_columns(file, ["year"])
        >>> metadata.names, metadata.columns
        (('a', 'b'), {'year': ['1999', '2001']})
    """
    reading = Reading(
        format=format,
        encoding=encoding,
        names=None if names is None else Path(names),
        transpose=transpose,
        text_column=text_column,
        id_column=id_column,
    )
    path = as_path(path)
    selected = registry.selected(path, reading, "counts")
    if selected.columns is None:
        able = [entry.name for entry in registry.formats_of("counts") if entry.columns]
        raise error_at(
            path,
            f"{selected.name} has no columns",
            f"give a file that has (--metadata), in one of {', '.join(able)}",
        )
    metadata = selected.columns(path, reading, columns)
    return metadata if documents is None else _in_order(metadata, documents, path)


def _in_order(metadata: Metadata, documents: Sequence[str], path: Path) -> Metadata:
    """Return the metadata of some documents, in their order."""
    rows = {name: row for row, name in enumerate(metadata.names)}
    if len(rows) < len(metadata.names):
        repeated = next(name for row, name in enumerate(metadata.names) if rows[name] != row)
        problem = f"two records are called {printable(repeated)!r}"
        raise error_at(path, problem, "give --id-column (id_column) with the documents' names")
    # A Mac writes the letters of a file's name apart.
    places = list(map(columns_of(metadata.names), documents))
    if missing := [name for name, row in zip(documents, places, strict=True) if row is None]:
        raise error_at(
            path,
            f"{len(missing):,} of {len(documents):,} documents are missing, the first is "
            f"{printable(missing[0])!r}",
            "add them, or give --id-column (id_column) with the documents' names",
        )
    order = [row for row in places if row is not None]
    ordered: dict[str, Sequence[Any]] = {
        name: [values[row] for row in order] for name, values in metadata.columns.items()
    }
    return Metadata(tuple(documents), ordered)

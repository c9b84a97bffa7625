"""Reading document metadata: columns of a table or fields of records."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simplex_jax._src.corpus.corpus import error_at, printable
from simplex_jax._src.corpus.files import as_path
from simplex_jax._src.corpus.formats import registry
from simplex_jax._src.corpus.reading import Categorical, Metadata, Reading
from simplex_jax._src.corpus.vocabulary import columns_of


def read_columns(
    path: str | Path,
    columns: Sequence[str],
    documents: Sequence[str] | None = None,
    format: str | None = None,
    encoding: str = Reading.encoding,
    *,
    encoding_errors: str = Reading.encoding_errors,
    names: str | Path | None = None,
    transpose: bool = False,
    text_column: str | None = None,
    id_column: str | None = None,
) -> Metadata:
    r"""Read document metadata: columns of a table, or fields of records.

    Args:
        path: The file: CSV, TSV, JSON lines or AnnData (columns of `obs`). It may be the file of a
            corpus, and need not have texts.
        columns: Names of the columns.
        documents: Document names of a corpus. Records are put in their order, and each document
            must have one. By default all records, in the order of the file.
        format: Format of the file. This and the arguments that follow are as for `read`.
        encoding: Encoding of the text.
        encoding_errors: What to do about bytes that are not in it.
        names: File with one document name a line (`h5ad`).
        transpose: True if documents are in columns, with metadata in `var` (`h5ad`).
        text_column: Column of the text; a number for a table without a header.
        id_column: Column or field of the document names.

    Returns:
        The document names, and the columns by name.

    Raises:
        CorpusError: The file cannot be read, has no such column or lacks a document; or, with
            `documents`, two records have the same name.
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
    reading = Reading(
        format=format,
        encoding=encoding,
        encoding_errors=encoding_errors,
        names=None if names is None else Path(names),
        transpose=transpose,
        text_column=text_column,
        id_column=id_column,
    )
    path = as_path(path)
    selected = registry.selected(path, reading, "counts")
    if selected.columns is None:
        formats = [entry.name for entry in registry.formats_of("counts") if entry.columns]
        raise error_at(
            path,
            f"{selected.name} has no columns",
            f"give a file with columns (--metadata), in one of {', '.join(formats)}",
        )
    metadata = selected.columns(path, reading, columns)
    return metadata if documents is None else _reorder(metadata, documents, path)


def _reorder(metadata: Metadata, documents: Sequence[str], path: Path) -> Metadata:
    """Return the metadata in the order of the given documents."""
    rows = {name: row for row, name in enumerate(metadata.names)}
    if len(rows) < len(metadata.names):
        repeated = next(name for row, name in enumerate(metadata.names) if rows[name] != row)
        problem = f"two records are called {printable(repeated)!r}"
        raise error_at(path, problem, "give --id-column (id_column) with the documents' names")
    # macOS decomposes accented letters in file names.
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
        name: values.taken(order)
        if isinstance(values, Categorical)
        else [values[row] for row in order]
        for name, values in metadata.columns.items()
    }
    return Metadata(tuple(documents), ordered)

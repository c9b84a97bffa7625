"""Finding the columns or fields that hold the text and the name of a document."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from simplex_jax._src.corpus.corpus import error_at, printable
from simplex_jax._src.corpus.frames import DOCUMENT, PROSE, TEXT, WORD
from simplex_jax._src.corpus.reading import Reading

IDENTITY = (
    "id", "doc_id", "docid", "document_id", "uid", "uuid", "key", "name", "filename", "file",
    "path", "url", "title",
)  # fmt: skip


def resolved(
    columns: Sequence[str], reading: Reading, path: Path, line: int, *, remedy: str = ""
) -> Reading:
    """Fill in the columns of text and names: those given, or the first with a common name.

    Case and surrounding blanks of common names are ignored. The column of names may be None. If
    there is no column of text, the error has further remedies.
    """
    titles = {column.strip().lower() for column in columns}
    if (
        reading.text_column is None
        and titles & set(WORD)
        and titles & set(DOCUMENT) - {"id"}
        and not titles & PROSE
    ):
        raise error_at(
            path,
            f"a record is a word of a document, not a document, by the columns {listed(columns)}",
            "give --format triples (format) and, if several columns have words, the one to count "
            "as --text-column (text_column); or --text-column alone, if it has texts",
            line=line,
        )
    text = found(columns, reading.text_column, TEXT, "text_column", path, line)
    if text is None:
        raise error_at(
            path,
            f"no column of text among {listed(columns)}",
            f"give --text-column (text_column){remedy}",
            line=line,
        )
    return replace(
        reading, text_column=text, id_column=id_column(columns, reading.id_column, path, line)
    )


def taken(columns: Sequence[str], reading: Reading) -> str:
    """Return from which columns texts and names come, and which others there are."""
    text, name = reading.text_column, reading.id_column
    names = f"names from {printable(name)!r}" if name else "no column of names"
    others = [column for column in columns if column not in (text, name) and column.strip()]
    more = f"; other columns, for --by: {listed(others)}" if others else ""
    return f"text from {printable(text)!r}; {names}{more}"


def id_column(columns: Sequence[str], name: str | None, path: Path, line: int) -> str | None:
    """Return the column of names: the one given, or the first of `IDENTITY`; None if absent."""
    return found(columns, name, IDENTITY, "id_column", path, line)


def wanted(columns: Sequence[str], names: Sequence[str], path: Path, line: int | None) -> list[str]:
    """Return the columns with these names; a missing or repeated one is a CorpusError."""
    columns_of_names = []
    for name in names:
        if name not in columns:
            problem = f"no column {printable(name)!r} among {listed(columns)}"
            raise error_at(path, problem, "give one of these", line=line)
        columns_of_names.append(found(columns, name, (), "by", path, line or 0) or name)
    return columns_of_names


def found(
    columns: Sequence[str],
    name: str | None,
    usual: Sequence[str],
    option: str,
    path: Path,
    line: int,
) -> str | None:
    """Return the column `name` or, if that is None, the first with a usual name, if any."""
    titles = list(columns)
    if name is None:
        titles = [column.strip().lower() for column in columns]
        name = next((title for title in usual if title in titles), None)
        if name is None:
            return None
    if name not in titles:
        raise error_at(
            path,
            f"no column {printable(name)!r} among {listed(columns)}",
            f"give another --{option.replace('_', '-')} ({option})",
            line=line,
        )
    if titles.count(name) > 1:
        problem = f"two columns are called {printable(name)!r}"
        raise error_at(path, problem, "give the columns different names", line=line)
    return columns[titles.index(name)]


def listed(columns: Sequence[str]) -> str:
    """Return the first names of columns, for a message."""
    shown = ", ".join(printable(column) for column in columns[:12])
    return printable(shown + (", ..." if len(columns) > 12 else "")) or "none"

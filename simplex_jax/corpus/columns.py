"""Which column of a table, or field of an object, holds the text and which the name."""

from collections.abc import Sequence
from pathlib import Path

from simplex_jax.corpus.corpus import error_at, printable

TEXT = (
    "text", "body", "content", "contents", "document", "abstract", "message", "review", "article",
    "description", "comment", "tweet", "post", "sentence", "summary",
)  # fmt: skip
IDENTITY = (
    "id", "doc_id", "docid", "document_id", "uid", "uuid", "key", "name", "filename", "file",
    "path", "url", "title",
)  # fmt: skip


def text_column(columns: Sequence[str], given: str | None, path: Path, line: int) -> str:
    """The column with the text: the one given, or the first of `TEXT` that is there.

    Case and blanks around a name do not count where it is recognised.

    Raises:
        CorpusError: it is not there.
    """
    found = _given(columns, given, "--text-column (text_column)", path, line)
    found = found or _known(columns, TEXT)
    if found is None:
        raise error_at(
            path,
            f"no known column of text among {_listed(columns)}",
            "give --text-column (text_column); of a table without a line of names, by its number",
            line=line,
        )
    return found


def id_column(columns: Sequence[str], given: str | None, path: Path, line: int) -> str | None:
    """The column with the names: the one given, or the first of `IDENTITY`; None without any.

    Raises:
        CorpusError: the one given is not there.
    """
    found = _given(columns, given, "--id-column (id_column)", path, line)
    return found or _known(columns, IDENTITY)


def _given(
    columns: Sequence[str], given: str | None, option: str, path: Path, line: int
) -> str | None:
    if given is not None and given not in columns:
        raise error_at(
            path,
            f"no column {printable(given)!r} among {_listed(columns)}",
            f"give another {option}",
            line=line,
        )
    return given


def _known(columns: Sequence[str], known: Sequence[str]) -> str | None:
    plain = {column.strip().lower(): column for column in reversed(columns)}
    return next((plain[name] for name in known if name in plain), None)


def _listed(columns: Sequence[str]) -> str:
    shown = ", ".join(printable(column) for column in columns[:12])
    return printable(shown + (", ..." if len(columns) > 12 else "")) or "none"

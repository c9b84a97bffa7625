"""Tables of other libraries: data frames of pandas and polars, pyarrow tables, and AnnData."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

TEXT = (
    "text", "full_text", "fulltext", "body", "content", "contents", "document", "abstract",
    "message", "review", "article", "description", "comment", "tweet", "post", "sentence",
    "summary",
)  # fmt: skip
"""Usual names of columns of texts."""

PROSE = frozenset(TEXT) - {"document", "sentence"}
"""Those that no column of names or numbers has."""

DOCUMENT = ("document", "doc", "doc_id", "docid", "document_id", "id")
WORD = ("term", "word", "token", "feature", "lemma")
COUNT = ("count", "n", "freq", "frequency")
"""Usual names of the columns of tables with a word of a document in each row."""

_MOST_COLUMNS = 10  # of such a table: one with more may have a column for each word


class Triple(NamedTuple):
    """The columns of a table with a word of a document in each row."""

    documents: str
    words: str
    counts: str | None  # None if each row is a single token


def triple_of(titles: Sequence[str]) -> Triple | None:
    """Return the columns of documents, words and counts, as tidytext and quanteda call them.

    Without a column of counts, these must be the only columns with a title. A table with columns
    of words of several kinds, or of texts, has another meaning.

    Example:
        >>> triple_of(["", "Document", "term", "n"])
        Triple(documents='Document', words='term', counts='n')
        >>> triple_of(["doc_id", "token", "lemma"]) is None
        True
    """
    usual = [title.strip().lower() for title in titles]
    documents, words, counts = (
        [name for name in names if name in usual] for names in (DOCUMENT, WORD, COUNT)
    )
    if not documents or len(words) != 1 or len(titles) > _MOST_COLUMNS or PROSE & set(usual):
        return None
    names = [documents[0], words[0], *counts[:1]]
    if any(usual.count(name) > 1 for name in names) or (
        not counts and set(usual) - {""} != set(names)
    ):
        return None
    document, word, *count = (titles[usual.index(name)] for name in names)
    return Triple(document, word, count[0] if count else None)


class Counts(NamedTuple):
    """Counts with the names of their rows and columns."""

    table: sp.coo_array  # [D, V]; entries may occur again
    words: list[str]
    names: list[str]


def counted(documents: Iterable[str], words: Iterable[str], counts: Any) -> Counts:
    """Return triples as counts: documents and words are in the order of their first appearance.

    Example:
        >>> counted(["b", "a", "b"], ["elm", "elm", "oak"], [2, 1, 5]).table.toarray().tolist()
        [[2, 5], [1, 0]]
    """
    names, vocabulary = dict[str, int](), dict[str, int]()
    rows = [names.setdefault(document, len(names)) for document in documents]
    columns = [vocabulary.setdefault(word, len(vocabulary)) for word in words]
    shape = (len(names), len(vocabulary))
    return Counts(sp.coo_array((counts, (rows, columns)), shape), list(vocabulary), list(names))


def triple_in(table: Any) -> Triple | None:
    """Return the columns of a data frame with a word of a document in each row; None for others."""
    names = None if isinstance(table, tuple) else names_of(table)  # a tuple may name its parts
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    if (chosen := triple_of(names)) is None:
        return None
    words = np.asarray(table[chosen.words])
    # Numbers are counts of the words "document", "term" and "count".
    return chosen if any(isinstance(word, str) for word in words.ravel()) else None


def counts_in(table: Any, chosen: Triple) -> Counts:
    """Return the counts of a data frame with a word of a document in each row.

    Raises:
        ValueError: A row has no document or no word, or the counts are not numbers.
    """
    columns = columns_of(table)
    words = np.asarray(columns[chosen.words]).tolist()
    documents = np.asarray(columns[chosen.documents]).tolist()
    for name, cells, kinds in (
        (chosen.documents, documents, str | int | float),
        (chosen.words, words, str),
    ):
        for row, cell in enumerate(cells):
            if not isinstance(cell, kinds) or cell != cell or cell == "":
                raise ValueError(
                    f"column {name!r} has {cell!r} in row {row} (counted from 0); "
                    "drop the row, or name its document and its word"
                )
    if chosen.counts is None:
        counts = np.ones(len(words), np.int64)
    else:
        counts = np.asarray(columns[chosen.counts])
        if counts.dtype.kind == "O":  # numbers of pandas that may be missing
            try:
                counts = counts.astype(np.float64)
            except (TypeError, ValueError):
                raise ValueError(
                    f"column {chosen.counts!r} has cells that are not numbers; drop their rows"
                ) from None
    return counted(map(_label, documents), words, counts)


def _label(cell: str | float) -> str:
    # pandas converts whole numbers to floats where some are missing.
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def is_annotated(table: Any) -> bool:
    """Return whether this is an AnnData object: a matrix `X` with names of rows and columns."""
    return all(hasattr(table, part) for part in ("X", "var_names", "obs_names", "layers"))


def matrix_of(annotated: Any) -> Any:
    """Return the matrix `X` of an AnnData object; read from its file if it is left there."""
    return _in_memory(annotated.X)


def count_layers(annotated: Any) -> str:
    """Return what to do if `X` of an AnnData object has no counts: where there are some."""
    layers = {
        f"adata.layers[{name!r}]": ("adata", matrix) for name, matrix in annotated.layers.items()
    }
    if (raw := getattr(annotated, "raw", None)) is not None:
        layers["adata.raw.X"] = ("adata.raw", raw.X)
    if not layers:
        return "give the counts from before they were normalised; there are no layers and no raw"
    found = [place for place, (_, matrix) in layers.items() if _are_counts(_in_memory(matrix))]
    if not found:
        listed = ", ".join(layers)
        return f"give the counts from before they were normalised; {listed} have none either"
    names = f"{layers[found[0]][0]}.var_names, adata.obs_names"
    more = f" (or {', '.join(found[1:])})" if len(found) > 1 else ""
    return f"give the counts: corpus.from_counts({found[0]}, {names}){more}"


def _in_memory(matrix: Any) -> Any:
    return matrix.to_memory() if hasattr(matrix, "to_memory") else matrix


def _are_counts(matrix: Any) -> bool:
    values = matrix.data if sp.issparse(matrix) else np.asarray(matrix)
    if values.dtype.kind not in "biuf" or not values.any():
        return False
    return bool((values >= 0).all() and (values == np.floor(values)).all())


def names_of(table: Any) -> list[Any] | None:
    """Return the names of the columns of a table; None for what has no named columns.

    Example:
        >>> names_of(np.zeros((2, 3))) is None
        True
    """
    for attribute in ("column_names", "columns"):  # the `columns` of a pyarrow table are values
        if hasattr(table, attribute):
            return list(getattr(table, attribute))
    return None


def columns_of(table: Any) -> dict[str, Any]:
    """Return the columns of a table or a mapping by name.

    Columns of pyarrow are NumPy arrays, in which a null is NaN or None.

    Raises:
        ValueError: There are no named columns, or two of one name.

    Example:
        >>> columns_of({"year": [1914, 2009]})
        {'year': [1914, 2009]}
    """
    names = list(table) if isinstance(table, Mapping) else names_of(table)
    if names is None:
        raise ValueError(
            f"a {type(table).__name__} has no named columns: give a mapping or a table"
        )
    if len(set(map(str, names))) < len(names):
        raise ValueError("two columns of the table have one name: give them different names")
    columns = {str(name): table[name] for name in names}
    return {name: np.asarray(c) if _is_arrow(c) else c for name, c in columns.items()}


def _is_arrow(column: Any) -> bool:
    return hasattr(column, "__arrow_c_stream__") and not hasattr(column, "dtype")


class Frame(NamedTuple):
    """Columns of equal lengths by name, and the names of the rows."""

    columns: dict[str, Any]
    names: tuple[str, ...]


def is_frame(rows: Any) -> bool:
    """Tell whether rows are a data frame, a mapping of columns or a structured array."""
    if isinstance(rows, np.ndarray):
        return rows.dtype.names is not None
    return isinstance(rows, Mapping) or names_of(rows) is not None


def as_frame(rows: Any) -> Frame:
    """Return the columns of a data frame, a mapping or a structured array with at least one row.

    Rows are named by the index of a pandas data frame, and numbered from 0 otherwise.
    """
    if isinstance(rows, Frame):
        columns = rows.columns
    elif isinstance(rows, np.ndarray):
        columns = {name: rows[name] for name in rows.dtype.names or ()}
    else:
        columns = columns_of(rows)
    if not columns:
        raise ValueError("the table has no column left: give one with a variable")
    sizes = {name: len(column) for name, column in columns.items()}
    if len(set(sizes.values())) != 1 or 0 in sizes.values():
        raise ValueError(f"a table must have columns of one length, with rows; it has {sizes}")
    if isinstance(rows, Frame):
        return rows
    size = next(iter(sizes.values()))
    index = getattr(rows, "index", None)
    return Frame(columns, tuple(map(str, range(size) if index is None else index)))

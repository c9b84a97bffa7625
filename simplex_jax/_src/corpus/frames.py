"""Tables of users: their cells, and data frames of pandas and polars, pyarrow tables, AnnData."""

import itertools
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.arguments import as_number

# Cells of columns of a user's table: which are missing, and what are numbers, dates and texts.
#
# Tables (`dpm`) and covariates (`lda effects`) both read columns by these functions, and warn
# of the same columns.

MISSING = frozenset((
    "", "?", "NA", "na", "N/A", "n/a", "<NA>", "NaN", "nan", "NaT", "null", "NULL", "None",
))  # fmt: skip
"""Texts that count as missing."""

_SIGNS = str.maketrans(
    "\N{MINUS SIGN}\N{EN DASH}",
    "--",
    ",% ()\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{RIGHT SINGLE QUOTATION MARK}'$€£¥",
)

_ISO = re.compile(
    r"(?P<year>\d{4})"
    r"|(?P<day>\d{4}-\d{2}(-\d{2})?)Z?"
    r"|(?P<time>\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)"
    r"(Z|[+-]\d{2}(:?\d{2}(:?\d{2})?)?)?"  # the offset of a clock from UTC
)
_DAYS = (
    *("%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d.%m.%Y", "%m-%d-%Y", "%d-%m-%Y", "%Y-%m-%d"),
    *("%d %B %Y", "%d %b %Y", "%d-%b-%Y", "%B %d, %Y", "%b %d, %Y", "%B %d %Y", "%b %d %Y"),
    *("%B %Y", "%b %Y"),
)
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_SHORT = re.compile(r"\d{1,2}([/.-])\d{1,2}\1\d{2}")
_YEAR = re.compile(r"\d{4}")
_MOST_TRIED = 200  # texts, each of which is tried in all formats
_PERIOD = re.compile(
    r"\d{4}[ -]?(Q[1-4]|W\d{1,2})|(Q[1-4]|W\d{1,2})[ /-]?\d{4}|\d{1,2}[/.-]\d{4}|\d{4}[/.]\d{1,2}",
    re.IGNORECASE,
)
_OF_A_DAY, _OF_YEARS = r"(0?[1-9]|[12]\d|3[01])", r"(1[5-9]|20)\d\d"
_LIKE_DATES = re.compile(
    r"([^\W\d]{2,}\.?,? )?"  # a weekday
    rf"({_OF_YEARS}(?P<a>[-/]){_OF_A_DAY}(?P=a){_OF_A_DAY}"
    rf"|{_OF_A_DAY}(?P<b>[-/.]){_OF_A_DAY}(?P=b){_OF_YEARS}"
    rf"|{_OF_A_DAY}(\.|st|nd|rd|th)?[ -][^\W\d]{{3,}}\.?,?[ -]{_OF_YEARS})"
    r"([ T,].*)?"
)
_COMPACT = re.compile(r"(18|19|20)\d{2}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])?")


def cells_of(name: str, column: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return a column as an array [n], and which of its cells are missing.

    Missing values are NaN, NaT and others that differ from themselves, None, texts in
    `MISSING`, and those that a masked array hides; of a pandas categorical, what it calls so and
    blanks.

    Args:
        name: The name of the column, for errors.
        column: One value a row: an array, a column of a data frame, or a list.

    Returns:
        The cells, numbers, booleans, `datetime64` or objects, and a mask.

    Raises:
        ValueError: There are several values a row, or they are of another kind.

    Example:
        >>> cells_of("size", ["1", None, "NA"])[1].tolist()
        [False, True, True]
    """
    if isinstance(column, np.ma.MaskedArray):
        array, missing = cells_of(name, column.data)
        return array, missing | np.ma.getmaskarray(column)
    if str(getattr(column, "dtype", "")) == "category":
        categories = getattr(column, "cat", column)
        blank = [isinstance(one, str) and not one.strip() for one in categories.categories]
        return np.asarray(column), np.append(blank, True)[categories.codes]
    if hasattr(column, "dtype"):
        array = np.asarray(column)
    else:  # NumPy would convert a list to one type, and a NaN among texts to a text
        if isinstance(column, str | bytes) or not isinstance(column, Iterable):
            raise _single(name, column)
        array = np.asarray(list(column), object)
    if array.ndim != 1:
        raise ValueError(f"column {name!r} must have one value a row; its shape is {array.shape}")
    if array.dtype.kind == "f":
        return array, np.isnan(array)
    if array.dtype.kind in "iub":
        return array, np.zeros(len(array), bool)
    if array.dtype.kind == "M":
        return array, np.isnat(array)
    if array.dtype.kind not in "OUST":
        raise unusable(name, array.dtype)
    array = array.astype(object)
    return array, np.fromiter(map(_is_missing, array), bool, len(array))


def check_order(rows: Any, columns: Mapping[str, Any]) -> None:
    """Raise a ValueError if a column has the labels of the rows in another order.

    Only those of pandas are compared, and other labels, as after `reset_index`, say nothing.
    """
    index: Any = getattr(rows, "index", None)
    for name, column in columns.items():
        other: Any = getattr(column, "index", None)
        if not (hasattr(index, "equals") and hasattr(other, "equals")):  # as of a list
            continue
        if len(index) == len(other) and not index.equals(other) and set(index) == set(other):
            raise ValueError(
                f"{name}: its labels are those of the documents in another order: sort it as the "
                "documents, such as by column.loc[texts.index], or leave out its labels "
                "(to_numpy()) if it is in their order"
            )


def unusable(name: str, kind: object) -> ValueError:
    """Return the error for a column of another kind, such as complex numbers."""
    return ValueError(
        f"column {name!r} has {kind}: give numbers, such as days from a date on, or text"
    )


def _is_missing(cell: Any) -> bool:
    if isinstance(cell, str):  # first, as most cells are
        return cell.strip() in MISSING
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):  # pandas
        return True
    if isinstance(cell, bytes):
        return not cell.strip()
    return bool(cell != cell)


def texts_of(name: str, cells: Iterable[Any]) -> list[str]:
    """Return cells of a column as stripped texts in NFC; 1 and 1.0 are one text.

    pandas converts integers to floats if a cell of the column is missing.

    Raises:
        ValueError: A cell has bytes that are not UTF-8.
    """
    try:
        return list(map(_text, cells))
    except UnicodeDecodeError:
        raise ValueError(f"column {name!r} has bytes that are not UTF-8: give text") from None


def _text(cell: Any) -> str:
    if isinstance(cell, str):  # first, as most cells are
        text = str(cell)
    elif is_number(cell) and float(cell).is_integer():
        return str(int(cell))
    else:
        text = cell.decode("utf-8") if isinstance(cell, bytes) else str(cell)
    return unicodedata.normalize("NFC", text).strip()


def is_number(cell: object) -> bool:
    """Return whether a cell is a number, and not a text or a boolean."""
    return isinstance(cell, Real | Decimal) and not isinstance(cell, bool | np.bool_)


def reads_as_number(cell: object) -> bool:
    """Return whether a cell is a number or a text of one."""
    if not isinstance(cell, str | bytes):
        return is_number(cell)
    try:
        as_number(cell)
    except ValueError:
        return False
    return True


def dates_of(texts: Sequence[str]) -> np.ndarray | None:
    """Return texts as local dates, `datetime64[s]`; None if there is no one way to read them all.

    These are ISO 8601 dates, or dates in another usual format, the same for all: 3/14/2020,
    14.3.2020 or March 14, 2020, with or without a time. Whether the month or the day is first must
    be clear from at least one of them.

    Example:
        >>> dates_of(["3/4/2020", "3/14/2020"]).astype("datetime64[D]").tolist()
        [datetime.date(2020, 3, 4), datetime.date(2020, 3, 14)]
        >>> dates_of(["3/4/2020"]) is None
        True
    """
    readings = _readings(texts)
    return readings[0] if len(readings) == 1 else None


def _readings(texts: Sequence[str]) -> list[np.ndarray]:
    """Return the ways in which all texts are dates, without those that give the same dates."""
    if not len(texts):
        return []
    matches = list(itertools.takewhile(bool, map(_ISO.fullmatch, texts)))
    if len(matches) == len(texts):
        # Use the local date: in UTC a New Year's Day may fall in the year before.
        clocks = [match["year"] or match["day"] or match["time"] for match in matches if match]
        try:
            return [np.array(clocks, "datetime64[s]")]
        except ValueError:  # the 30th of February
            return []
    distinct, places = np.unique(np.asarray(texts, object), return_inverse=True)
    found = dict[bytes, np.ndarray]()
    for form in map("".join, itertools.product(_DAYS, _CLOCKS)):
        try:
            dates = [datetime.strptime(text, form) for text in distinct]
        except ValueError:
            continue
        array = np.array(dates, "datetime64[s]")
        found[array.tobytes()] = array[places]
    return list(found.values())


def doubtful_numbers(cells: Sequence[Any] | np.ndarray) -> str | None:
    """Return why cells, not all of which are numbers, may be meant as such; None without a reason.

    Args:
        cells: The cells of a column that is taken for a category, without missing ones.

    Returns:
        A problem and a remedy, for a message.

    Example:
        >>> doubtful_numbers(["1,000", "250"])
        "'1,000' is not a number: write numbers without commas, blanks or signs, as -1234.5"
        >>> doubtful_numbers(["red", "blue"]) is None
        True
    """
    texts = [cell for cell in cells if not (reads_as_number(cell) and np.isfinite(float(cell)))]
    if texts and len(texts) < len(cells) / 2:
        return (
            f"{len(cells) - len(texts):,} of its {len(cells):,} cells are numbers, and "
            f"{texts[0]!r} is not: empty the cell if it is missing"
        )
    if texts and all(map(_reads_without_signs, texts)):
        remedy = "write numbers without commas, blanks or signs, as -1234.5"
        return f"{texts[0]!r} is not a number: {remedy}"
    return None


def _reads_without_signs(cell: object) -> bool:
    return isinstance(cell, str) and reads_as_number(cell.translate(_SIGNS))


def doubtful_dates(texts: Sequence[str]) -> str | None:
    """Return why texts that `dates_of` does not read may be meant as dates; None without a reason.

    Example:
        >>> doubtful_dates(["3/4/2020"])
        "'3/4/2020' can be read as several dates: write dates as 2020-03-14"
    """
    if not texts:
        return None
    if all(map(_PERIOD.fullmatch, texts)):
        return (
            f"{texts[0]!r} is a month, a quarter or a week, but not a date: write the day with "
            "which it begins as 2020-03-14, or the month as 2020-03"
        )
    if all(map(_SHORT.fullmatch, texts)) or len(_readings(texts)) > 1:
        return f"{texts[0]!r} can be read as several dates: write dates as 2020-03-14"
    some = texts[:_MOST_TRIED]
    others = [text for text in some if not (_YEAR.search(text) and _readings([text]))]
    if others and len(others) < len(some) / 2:
        return (
            f"{len(some) - len(others):,} of its first {len(some):,} cells are dates, and "
            f"{others[0]!r} is not one in the same format: empty the cell if it is missing"
        )
    if not others:
        return f"its dates, such as {texts[0]!r}, differ in format: write dates as 2020-03-14"
    if all(map(_LIKE_DATES.fullmatch, some)):
        return f"{others[0]!r} looks like a date, but cannot be read as one: write 2020-03-14"
    return None


def compact_dates(cells: np.ndarray) -> bool:
    """Return whether all numbers could be dates without hyphens, such as 20200314 or 202003."""
    return len(cells) > 0 and all(
        number.is_integer() and _COMPACT.fullmatch(str(int(number))) for number in cells.tolist()
    )


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


def count_layers(annotated: Any) -> str:
    """Return what to do if `X` of an AnnData object has no counts: where there are some."""
    layers = {
        f"adata.layers[{name!r}]": ("adata", matrix) for name, matrix in annotated.layers.items()
    }
    if (raw := getattr(annotated, "raw", None)) is not None:
        layers["adata.raw.X"] = ("adata.raw", raw.X)
    if not layers:
        return "give the counts from before they were normalised; there are no layers and no raw"
    found = [place for place, (_, matrix) in layers.items() if _are_counts(in_memory(matrix))]
    if not found:
        listed = ", ".join(layers)
        return f"give the counts from before they were normalised; {listed} have none either"
    names = f"{layers[found[0]][0]}.var_names, adata.obs_names"
    more = f" (or {', '.join(found[1:])})" if len(found) > 1 else ""
    return f"give the counts: corpus.from_counts({found[0]}, {names}){more}"


def in_memory(matrix: Any) -> Any:
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
    sizes = {name: _size(name, column) for name, column in columns.items()}
    if len(set(sizes.values())) != 1 or 0 in sizes.values():
        raise ValueError(f"a table must have columns of one length, with rows; it has {sizes}")
    if isinstance(rows, Frame):
        return rows
    size = next(iter(sizes.values()))
    index = getattr(rows, "index", None)
    return Frame(columns, tuple(map(str, range(size) if index is None else index)))


def _size(name: str, column: Any) -> int:
    """Return the number of values of a column; those of a text are not its characters."""
    with suppress(TypeError):  # a number, or an array without an axis
        if not isinstance(column, str | bytes):
            return len(column)
    raise _single(name, column)


def _single(name: str, value: object) -> ValueError:
    kind = type(value).__name__
    return ValueError(f"column {name!r} is a single {kind}: give a list, with a value for each row")

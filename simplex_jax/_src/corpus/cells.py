"""Cells of columns of a user's table: which are missing, and what are numbers, dates and texts.

Tables (`dpm`) and covariates (`lda effects`) both read columns by these functions, and warn
of the same columns.
"""

import itertools
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from simplex_jax._src.arguments import as_number

MISSING = frozenset((
    "", "?", "NA", "na", "N/A", "n/a", "<NA>", "NaN", "nan", "NaT", "null", "NULL", "None",
))  # fmt: skip
"""Texts that count as missing."""

_SIGNS = str.maketrans("", "", ",% \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}'$€£¥")

_ISO = re.compile(
    r"(?P<year>\d{4})"
    r"|(?P<day>\d{4}-\d{2}(-\d{2})?)Z?"
    r"|(?P<time>\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)"
    r"(Z|[+-]\d{2}(:?\d{2}(:?\d{2})?)?)?"  # the offset of a clock from UTC
)
_DAYS = (
    *("%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d.%m.%Y", "%m-%d-%Y", "%d-%m-%Y", "%d-%b-%Y"),
    *("%d %B %Y", "%d %b %Y", "%B %d, %Y", "%b %d, %Y", "%B %d %Y", "%b %d %Y", "%B %Y", "%b %Y"),
)
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_SHORT = re.compile(r"\d{1,2}([/.-])\d{1,2}\1\d{2}")
_YEAR = re.compile(r"\d{4}")
_MOST_TRIED = 200  # texts, each of which is tried in all formats
_COMPACT = re.compile(r"(18|19|20)\d{2}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")


def cells_of(name: str, column: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return a column as an array [n], and which of its cells are missing.

    Missing values are NaN, NaT and others that differ from themselves, None, texts in
    `MISSING`, and those that a masked array hides.

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
    if hasattr(column, "dtype"):
        array = np.asarray(column)
    else:  # NumPy would convert a list to one type, and a NaN among texts to a text
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


def unusable(name: str, kind: object) -> ValueError:
    """Return the error for a column of another kind, such as complex numbers."""
    return ValueError(
        f"column {name!r} has {kind}: give numbers, such as days from a date on, or text"
    )


def _is_missing(cell: Any) -> bool:
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):  # pandas
        return True
    if isinstance(cell, str):
        return cell.strip() in MISSING
    if isinstance(cell, bytes):
        return not cell.strip()
    return bool(cell != cell)


def texts_of(name: str, cells: Iterable[Any]) -> list[str]:
    """Return cells of a column as stripped texts; 1 and 1.0 are one text.

    pandas converts integers to floats if a cell of the column is missing.

    Raises:
        ValueError: A cell has bytes that are not UTF-8.
    """
    try:
        return list(map(_text, cells))
    except UnicodeDecodeError:
        raise ValueError(f"column {name!r} has bytes that are not UTF-8: give text") from None


def _text(cell: Any) -> str:
    if is_number(cell) and float(cell).is_integer():
        return str(int(cell))
    return (cell.decode("utf-8") if isinstance(cell, bytes) else str(cell)).strip()


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
        "'1,000' is not a number: write numbers without commas, blanks or signs"
        >>> doubtful_numbers(["red", "blue"]) is None
        True
    """
    texts = [cell for cell in cells if not reads_as_number(cell)]
    if texts and len(texts) < len(cells) / 2:
        return (
            f"{len(cells) - len(texts):,} of its {len(cells):,} cells are numbers, and "
            f"{texts[0]!r} is not: empty the cell if it is missing"
        )
    if texts and all(map(_reads_without_signs, texts)):
        return f"{texts[0]!r} is not a number: write numbers without commas, blanks or signs"
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
    return None


def compact_dates(cells: np.ndarray) -> bool:
    """Return whether all numbers could be dates without hyphens, such as 20200314."""
    return len(cells) > 0 and all(
        number.is_integer() and _COMPACT.fullmatch(str(int(number))) for number in cells.tolist()
    )

"""Kinds of the columns of a table, and their cells as numbers, counts or categories."""

import datetime
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from simplex_jax._src.arguments import as_number
from simplex_jax._src.corpus import cells as table_cells
from simplex_jax._src.models.dpm.families.diagonal_gaussian import moments_of
from simplex_jax._src.models.dpm.families.poisson import MOST, check_total

KINDS = ("number", "category", "count")
"""What a column can be."""

MAX_VALUES = 1_000
"""Most values a category may have; a column with more holds numbers, names or text."""

_SHOWN = 8
_TIMES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


class Column(NamedTuple):
    """The kind of a column, and the facts that its family needs."""

    kind: str  # one of `KINDS`
    values: tuple[str, ...]  # of a category, sorted
    centre: float  # mean of the cells of a number or a count
    scale: float  # standard deviation of those of a number


def of_texts(
    columns: Mapping[str, Sequence[str | None]], kinds: Mapping[str, str]
) -> dict[str, Any]:
    """Return the columns of a file, with numbers for texts in columns that hold only numbers.

    Columns with a given kind are left unchanged.
    """
    return {
        name: column if name in kinds else _numbers_or_texts(column)
        for name, column in columns.items()
    }


def _numbers_or_texts(column: Sequence[str | None]) -> Any:
    try:
        return np.array([np.nan if cell is None else as_number(cell) for cell in column])
    except ValueError:
        return column


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")


def kinds_of(columns: Mapping[str, Any], kinds: Mapping[str, str]) -> dict[str, str]:
    """Return the kind of each column, as given or inferred from its cells.

    Text and booleans are categories, and numbers are numbers. Columns of nonnegative integers may
    be any of the three kinds: without a given kind they raise a ValueError.
    """
    if not isinstance(kinds, Mapping):
        raise ValueError(f"kinds must be a dict of column names and kinds; it is {kinds!r}")
    kinds = {str(name): kind for name, kind in kinds.items()}  # as `as_frame` names columns
    for name, kind in kinds.items():
        if name not in columns:
            raise ValueError(f"kinds names {name!r}, and the table has {_listed(columns)}")
        if kind not in KINDS:
            raise ValueError(f"kinds[{name!r}] must be one of {', '.join(KINDS)}; it is {kind!r}")
    inferred = {name: kinds.get(name) or _kind(name, column) for name, column in columns.items()}
    if ambiguous := [name for name, kind in inferred.items() if not kind]:
        example = ", ".join(f"{name!r}: 'count'" for name in ambiguous[:_SHOWN])
        raise ValueError(
            f"{'columns' if len(ambiguous) > 1 else 'column'} {_listed(map(repr, ambiguous))}: "
            "whole numbers from 0 on may be counts, numbers such as years, or codes of categories. "
            f"Say which: kinds={{{example}}}, or 'number', or 'category' (--count-column, "
            "--number-column, --category-column)"
        )
    return inferred


def _kind(name: str, column: Any) -> str:
    """Return the kind of a column inferred from its cells, "" if it is ambiguous."""
    if str(getattr(column, "dtype", "")).startswith("category"):
        return "category"
    array, missing = _cells(name, column)
    observed = array[~missing]
    if not len(observed) or array.dtype.kind == "b":
        return "category"
    if array.dtype.kind == "O" and not all(map(table_cells.is_number, observed)):
        _warn_of_numbers(name, observed)
        return "category"
    numbers = observed.astype(np.float64)
    return "" if ((numbers >= 0) & (numbers == np.floor(numbers))).all() else "number"


def _warn_of_numbers(name: str, observed: np.ndarray) -> None:
    """Warn of a category whose cells may be meant as numbers or dates."""
    texts = list(filter(lambda cell: not table_cells.is_number(cell), observed))
    if all(map(table_cells.reads_as_number, observed)):
        if all(map(_is_whole, observed)):  # whole numbers in quotes are codes
            return
        quoted = sorted(texts, key=_is_whole)
        reason: str | None = f"its numbers are texts, such as {quoted[0]!r}: convert them"
    else:
        reason = table_cells.doubtful_numbers(observed)
    if reason is None and _are_dates(table_cells.texts_of(name, observed)):
        reason = (
            f"its cells are dates, such as {texts[0]!r}: give numbers, such as days from a date on"
        )
    if reason is not None:
        warnings.warn(
            f"column {name!r} is taken for a category: {reason}, or say what the column is: "
            f"kinds={{{name!r}: 'number'}}, or 'category' (--number-column, --category-column)",
            stacklevel=2,
        )


def _is_whole(cell: Any) -> bool:
    return as_number(cell).is_integer()


def _are_dates(texts: Sequence[str]) -> bool:
    return table_cells.dates_of(texts) is not None or table_cells.doubtful_dates(texts) is not None


def _cells(name: str, column: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return a column as numbers, booleans or objects, [n], and which cells are missing."""
    array, missing = table_cells.cells_of(name, column)
    kinds = [array.dtype.type] if array.dtype.kind == "M" else map(type, array[~missing])
    for kind in dict.fromkeys(kinds):
        if issubclass(kind, _TIMES):  # as text, each would be a category of its own
            raise table_cells.unusable(name, kind.__name__)
    return array, missing


def numbers_of(name: str, column: Any, kind: str) -> np.ndarray:
    """Return the cells of a column of numbers or counts, float64 [n], NaN where missing.

    Raises:
        ValueError: A cell is not a finite number, or a count is not an integer from 0 to 2^24.
    """
    array, missing = _cells(name, column)
    numbers = np.full(len(array), np.nan)
    if array.dtype.kind == "O":
        for place in np.flatnonzero(~missing).tolist():
            try:
                numbers[place] = as_number(array[place])
            except (TypeError, ValueError):
                raise ValueError(
                    f"column {name!r}, row {place}: {array[place]!r} is not a number; leave a "
                    "missing cell empty, or call the column a category"
                ) from None
    else:
        numbers[~missing] = array[~missing]
    bad = np.isinf(numbers)
    if kind == "count":
        observed = ~np.isnan(numbers)
        bad = observed & ~((numbers >= 0) & (numbers <= MOST) & (numbers == np.floor(numbers)))
    if bad.any():
        row = int(np.argmax(bad))
        sound = "counts are whole numbers from 0 to 2^24" if kind == "count" else "it is infinite"
        raise ValueError(f"column {name!r}, row {row}: {numbers[row]:g} cannot be used: {sound}")
    return numbers


def texts_of(name: str, column: Any) -> list[str | None]:
    """Return the cells of a category as stripped texts, None where missing."""
    array, missing = _cells(name, column)
    texts = np.full(len(array), None)
    texts[~missing] = table_cells.texts_of(name, array[~missing])
    return texts.tolist()


def codes_of(texts: Iterable[str | None], values: Iterable[str]) -> np.ndarray:
    """Return the indices of texts in values, float64 [n]; NaN for unknown and missing ones."""
    number_of: dict[str | None, float] = {value: i for i, value in enumerate(values)}
    return np.array([number_of.get(text, np.nan) for text in texts])


def codes_within(name: str, codes: np.ndarray, count: int) -> np.ndarray:
    """Return the codes of a category, float64 [n], with NaN for -1.

    Raises:
        ValueError: A code is not an integer from 0 to `count` - 1, nor -1 or NaN.
    """
    codes = np.where(codes == -1, np.nan, codes)
    observed = ~np.isnan(codes)
    bad = observed & ~((codes >= 0) & (codes < count) & (codes == np.floor(codes)))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"column {name!r}, row {row}: {codes[row]:g} is not the number of one of its {count} "
            "values, from 0 on; a missing one is NaN or -1"
        )
    return codes


def learned(name: str, column: Any, kind: str) -> tuple[Column, np.ndarray]:
    """Return the facts of a column that a family needs, and its cells, float64 [n], with NaN.

    Raises:
        ValueError: The column has no cells, does not vary, or has too many values for a category.
    """
    if kind == "category":
        texts = texts_of(name, column)
        values = tuple(sorted({text for text in texts if text is not None}))
        if not 0 < len(values) <= MAX_VALUES:
            size = f"{len(values):,} values, and is not a category" if values else "no value"
            remedy = "leave it out (--drop-column)"
            if values and all(map(table_cells.reads_as_number, values)):
                remedy = (
                    f"call it numbers (kinds={{{name!r}: 'number'}}, --number-column), or {remedy}"
                )
            raise ValueError(f"column {name!r} has {size}: {remedy}")
        return Column(kind, values, 0.0, 1.0), codes_of(texts, values)
    cells = numbers_of(name, column, kind)
    if kind == "number":
        return Column(kind, (), *moments_of(cells, f"column {name!r}")), cells
    observed = cells[~np.isnan(cells)]
    if not observed.any():
        raise ValueError(f"column {name!r} has no count above 0: leave it out")
    check_total(observed.sum(), f"column {name!r}")
    return Column(kind, (), float(observed.mean()), 1.0), cells

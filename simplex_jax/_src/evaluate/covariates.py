"""Covariates of documents: columns read as groups, numbers or dates, and their design matrix.

Columns may have missing values. Terms are contrasts: rows that turn coefficients into a mean share
in a group or at a number, a difference or a slope.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.corpus.frames import (
    cells_of,
    compact_dates,
    dates_of,
    doubtful_dates,
    doubtful_numbers,
    texts_of,
)
from simplex_jax._src.warn import warn_caller

POINTS = 41
"""Number of points at which the curve of a numeric column is evaluated."""

_ROUNDING = 4  # units in the last place within which a number is at the edge of a group
_COLLINEAR = 1e-7  # residual norm of a unit column, given the previous ones


class Column(NamedTuple):
    """A covariate of D documents."""

    name: str
    kind: str  # "number", "date" (in years) or "group"
    values: np.ndarray  # float64 [D], NaN if missing; for groups int64 [D], -1 if missing
    groups: tuple[str, ...]  # names of the groups, in order; empty for numbers
    ordered: bool = False  # whether the groups are ranges of numbers

    def taken(self, rows: np.ndarray) -> "Column":
        """Return the covariate restricted to some documents."""
        return self._replace(values=self.values[rows])


class Term(NamedTuple):
    """A quantity of interest: a linear function of the coefficients."""

    column: str
    label: str
    kind: str  # "mean" in a group or at a number, "difference" of two of them, or "slope"
    place: float  # the number, or the index of the group; NaN for differences and slopes
    row: np.ndarray  # coefficients of the linear function, float64 [P]
    size: int = 0  # documents in the group; 0 for other terms
    grouped: bool = False  # whether the column has groups
    ordered: bool = True  # whether these are ranges of numbers, if it has any


class Design(NamedTuple):
    """A regression on covariates."""

    rows: np.ndarray  # documents that have all covariates, int64 [n]
    matrix: np.ndarray  # orthonormal columns, float64 [n, P]
    terms: tuple[Term, ...]  # quantities of interest


def column(name: str, values: Sequence[Any] | ArrayLike) -> Column:
    """Return a covariate of numbers, dates or groups, depending on all its values.

    Numbers are finite, or texts that all parse as such. Dates are `datetime64`, or texts such as
    2020-03, 2020-03-01, 3/14/2020 or 14 March 2020, all in one format (`corpus.frames.dates_of`);
    they become years with a fraction, in their own time zone. (A bare 2020 is a date among dates
    and otherwise a number, with the same value.) Any other values, and bools, make groups by their
    text, sorted, with a warning if they may be meant as numbers or dates, such as 1,000. A pandas
    categorical makes groups in the order of its categories.

    Args:
        name: Its name.
        values: One a document; None, NaN, masked or in `corpus.frames.MISSING` if unknown.

    Raises:
        ValueError: There is more than one value per document.

    Example:
        >>> column("year", ["1914", "", "2009"]).values.tolist()
        [1914.0, nan, 2009.0]
        >>> column("when", ["2020-01-01", "2020-07-02"]).values.round(2).tolist()
        [2020.0, 2020.5]
        >>> column("party", ["D", "R", None]).groups
        ('D', 'R')
    """
    if str(getattr(values, "dtype", "")) == "category":
        return _categorical(name, values)
    array, missing = cells_of(name, values)
    present = ~missing
    observed = array[present]
    if array.dtype.kind in "iuf":
        return _numeric_column(name, np.where(np.isfinite(observed), observed, np.nan), present)
    if array.dtype.kind == "M":
        return _placed(Column(name, "date", _years(observed), ()), present)
    texts = texts_of(name, observed)
    if not any(isinstance(cell, bool | np.bool_) for cell in observed):
        if (numbers := _numbers(texts)) is not None:
            return _numeric_column(name, numbers, present)
        if (dates := dates_of(texts)) is not None:
            return _placed(Column(name, "date", _years(dates), ()), present)
        if reason := doubtful_numbers(observed) or doubtful_dates(texts):
            warn_caller(f"column {name!r} is taken for groups: {reason}")
    groups = tuple(sorted(set(texts)))
    return _placed(_grouped(name, texts, groups), present)


def _numeric_column(name: str, numbers: np.ndarray, present: np.ndarray) -> Column:
    finite = numbers[np.isfinite(numbers)]
    if compact_dates(finite):
        warn_caller(
            f"column {name!r} is taken for numbers: if {finite[0]:.0f} is a date, write it with "
            "hyphens, as 2020-03-14 or 2020-03",
        )
    return _placed(Column(name, "number", numbers * 1.0, ()), present)


def _placed(observed: Column, present: np.ndarray) -> Column:
    """Return a column of all documents from that of those that have a value."""
    missing = -1 if observed.kind == "group" else np.nan
    whole = np.full(len(present), missing, observed.values.dtype)
    whole[present] = observed.values
    return observed._replace(values=whole)


def _categorical(name: str, values: Any) -> Column:
    """Return groups for categories of any type: they may be numeric codes."""
    categories = texts_of(name, values.dtype.categories)
    codes = np.asarray(getattr(values, "cat", values).codes)
    texts = ["" if code < 0 else categories[code] for code in codes]
    occurring = set(texts) - {""}
    return _grouped(name, texts, tuple(dict.fromkeys(c for c in categories if c in occurring)))


def _grouped(name: str, texts: Sequence[str], groups: tuple[str, ...]) -> Column:
    places = {group: place for place, group in enumerate(groups)}
    return Column(
        name, "group", np.array([places.get(text, -1) for text in texts], np.int64), groups
    )


def _numbers(texts: Sequence[str]) -> np.ndarray | None:
    try:
        numbers = np.array([arguments.as_number(text) for text in texts])
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


def _years(dates: np.ndarray) -> np.ndarray:
    """Return dates as years with the elapsed fraction, NaN for no date."""
    valid = ~np.isnat(dates)
    seconds = dates[valid].astype("datetime64[s]")
    years = seconds.astype("datetime64[Y]")
    ends = years, years + np.timedelta64(1, "Y")
    first, last = (year.astype("datetime64[s]").astype(np.int64) for year in ends)
    numbers = np.full(dates.shape, np.nan)
    numbers[valid] = 1970 + years.astype(np.int64)
    numbers[valid] += (seconds.astype(np.int64) - first) / (last - first)
    return numbers


def cut(covariate: Column, every: float) -> Column:
    """Bin numbers, or years of dates, into groups of a given width: 10 makes decades of years.

    Groups are in order and begin at multiples of the width. A number within rounding of a multiple
    belongs to the group that begins there.

    Raises:
        ValueError: The width is not positive, or the column has groups already.

    Example:
        >>> cut(column("year", [1914, 1919, 1920]), 10).groups
        ('1910-1919', '1920-1929')
        >>> cut(column("share", [0.1, 0.3]), 0.1).groups
        ('[0.1, 0.2)', '[0.3, 0.4)')
    """
    if not (np.isfinite(every) and every > 0):
        raise ValueError(f"every must be finite and positive; it is {every}")
    if covariate.kind == "group":
        raise ValueError(
            f"every applies only to numeric and date columns; {covariate.name!r} has groups"
        )
    finite = np.isfinite(covariate.values)
    values = covariate.values[finite]
    whole = every == int(every) and (covariate.kind == "date" or (values % 1 == 0).all())
    bins, places = np.unique(
        values // every if whole else _bins(values, every), return_inverse=True
    )
    codes = np.full(len(finite), -1)
    codes[finite] = places
    labels = _whole_labels if whole else _labels
    ranges = tuple(labels(bins.astype(float), every))
    return Column(covariate.name, "group", codes, ranges, ordered=True)


def _bins(values: np.ndarray, every: float) -> np.ndarray:
    """Return values / every rounded down, or to the nearest integer if within rounding of it."""
    ratio = values / every  # 0.3 / 0.1 is 2.9999999999999996
    nearest = np.rint(ratio)
    close = np.abs(ratio - nearest) <= _ROUNDING * np.finfo(ratio.dtype).eps * np.abs(nearest)
    return np.where(close, nearest, np.floor(ratio))


def _whole_labels(bins: np.ndarray, every: float) -> Iterator[str]:
    for low in bins * every:
        yield f"{low:.0f}" if every == 1 else f"{low:.0f}-{low + every - 1:.0f}"


def _labels(bins: np.ndarray, every: float) -> Iterator[str]:
    """Yield groups as intervals, with at least six digits and enough to distinguish their ends."""
    ends = np.union1d(bins, bins + 1) * every
    digits = 6
    while digits < 17 and len({f"{end:.{digits}g}" for end in ends}) < len(ends):
        digits += 1
    for n in bins:
        yield f"[{n * every:.{digits}g}, {(n + 1) * every:.{digits}g})"


def design(
    columns: Mapping[str, Column | Sequence[Any] | ArrayLike],
    by: Sequence[str] | None = None,
    *,
    every: float | None = None,
    smooth: int = 1,
    available: Sequence[str] | None = None,
) -> Design:
    """Return the regression on some columns, and its terms.

    For a column of groups the terms are the mean of each and its difference from the first. For
    numbers they are the means at `POINTS` values from the smallest to the largest, and the slope
    of a line, per unit or year, or the difference between the ends of a curve. With several
    columns, means and differences adjust for the others, which are set to their means.

    Args:
        columns: Values of D documents by name: a mapping or a data frame.
        by: Names of the columns to use; by default all.
        every: Width of the groups into which numbers and dates are cut, see `cut`.
        smooth: Degrees of freedom of numbers: 1 for a line, otherwise a natural cubic spline with
            one knot more, at evenly spaced quantiles.
        available: Names for the error message about an unknown column, if there are more.

    Returns:
        The design over the documents that have all these columns.

    Raises:
        ValueError: A column is unknown, constant, or of another length; there are too few documents
            for the coefficients; or columns are collinear.

    Example:
        >>> made = design({"party": ["D", "R", "D", "R", "R"]})
        >>> [term.label for term in made.terms]
        ['D', 'R', 'R - D']
    """
    smooth = arguments.at_least("smooth", smooth, 1)
    covariates = _chosen(columns, by, available)
    for option, given in (("every", every is not None), ("smooth", smooth > 1)):
        if given and all(covariate.kind == "group" for covariate in covariates):
            raise ValueError(f"{option} applies only to numeric and date columns; omit it")
    if every is not None:
        covariates = [c if c.kind == "group" else cut(c, every) for c in covariates]
    observed = [c.values >= 0 if c.kind == "group" else np.isfinite(c.values) for c in covariates]
    rows = np.flatnonzero(np.logical_and.reduce(observed))
    blocks = [_block(covariate, rows, smooth) for covariate in covariates]
    matrix = np.concatenate([np.ones((len(rows), 1)), *(block.matrix for block in blocks)], axis=1)
    basis, triangle = _orthonormal(matrix, [covariate.name for covariate in covariates])
    return Design(rows, basis, tuple(_terms(blocks, matrix.mean(axis=0), triangle)))


def _chosen(
    columns: Mapping[str, Column | Sequence[Any] | ArrayLike],
    by: Sequence[str] | None,
    available: Sequence[str] | None,
) -> list[Column]:
    """Return the covariates to regress on, or raise a ValueError if their lengths differ."""
    column_names = [str(name) for name in columns]
    names = column_names if by is None else list(dict.fromkeys(by))
    if not names:
        raise ValueError("by must name at least one column")
    for name in names:
        if name not in column_names:
            raise ValueError(
                f"no column {name!r}: give one of {', '.join(available or column_names) or 'none'}"
            )
    covariates = [
        values if isinstance(values := columns[name], Column) else column(name, values)
        for name in names
    ]
    lengths = {len(covariate.values) for covariate in covariates}
    if len(lengths) != 1:
        raise ValueError(f"the columns must be of one length; they are of {sorted(lengths)}")
    return covariates


def _orthonormal(matrix: np.ndarray, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return orthonormal columns, which make the regression accurate for numbers of any size.

    Also return the triangular factor. Too few rows or collinear columns raise a ValueError with
    the names of the covariates.
    """
    if len(matrix) < matrix.shape[1] + 3:
        raise ValueError(
            f"{len(matrix)} documents are too few for {matrix.shape[1]} coefficients of "
            f"{', '.join(names)}: join groups, or cut numbers and dates, as in 2020-03-01, with "
            "a larger every"
        )
    basis, triangle = np.linalg.qr(matrix)
    residual = np.abs(np.diag(triangle)) / np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
    if (residual < _COLLINEAR).any():
        raise ValueError(f"{', '.join(names)} are collinear: drop one")
    return basis, triangle


class _Block(NamedTuple):
    """Columns of one covariate in a design, and terms with rows over these alone."""

    matrix: np.ndarray
    terms: list[Term]


def _terms(blocks: Sequence[_Block], mean: np.ndarray, triangle: np.ndarray) -> Iterator[Term]:
    """Yield all blocks' terms, over the orthonormal columns; other covariates are at their mean."""
    first = 1
    for block in blocks:
        last = first + block.matrix.shape[1]
        for term in block.terms:
            row = mean.copy() if term.kind == "mean" else np.zeros(len(mean))
            row[first:last] = term.row
            yield term._replace(row=np.linalg.solve(triangle.T, row))
        first = last


def _block(covariate: Column, rows: np.ndarray, smooth: int) -> _Block:
    values = covariate.values[rows]
    distinct = np.unique(values)
    if len(distinct) < 2:
        problem = f"the one value {_shown(covariate, distinct[0])}" if len(distinct) else "no value"
        raise ValueError(f"column {covariate.name!r} has {problem}: there is nothing to compare")
    return (_groups if covariate.kind == "group" else _numeric)(covariate, values, distinct, smooth)


def _shown(covariate: Column, value: float) -> str:
    return repr(covariate.groups[int(value)]) if covariate.kind == "group" else f"{value:g}"


def _groups(covariate: Column, values: np.ndarray, distinct: np.ndarray, _: int) -> _Block:
    """Return indicators of all groups but the first."""
    name, labels = covariate.name, [covariate.groups[code] for code in distinct]
    units = np.eye(len(distinct))[:, 1:]
    sizes = [int((values == code).sum()) for code in distinct]
    means = [
        Term(name, labels[i], "mean", i, units[i], sizes[i], True, covariate.ordered)
        for i in range(len(labels))
    ]
    differences = [
        Term(
            name,
            f"{labels[i]} - {labels[0]}",
            "difference",
            np.nan,
            units[i],
            ordered=covariate.ordered,
        )
        for i in range(1, len(labels))
    ]
    return _Block(units[np.searchsorted(distinct, values)], means + differences)


def _numeric(covariate: Column, values: np.ndarray, distinct: np.ndarray, smooth: int) -> _Block:
    """Return a line or a spline in the number, scaled to [-1, 1]."""
    name, values = covariate.name, values.astype(np.float64)
    low, high = float(distinct[0]), float(distinct[-1])  # the sum may overflow half precision
    middle, half = (low + high) / 2, (high - low) / 2
    if smooth == 1:

        def curve(x: np.ndarray) -> np.ndarray:
            return x[:, None]

    else:
        knots = np.unique(np.quantile((values - middle) / half, np.linspace(0, 1, smooth + 1)))
        if len(knots) < smooth + 1:
            problem = f"{len(distinct)} values, too few for smooth={smooth}"
            if len(distinct) > smooth:
                problem = f"so many equal values that knots of smooth={smooth} coincide"
            raise ValueError(f"column {name!r} has {problem}: give a smaller one")
        from scipy.interpolate import CubicSpline  # here, since it is slow to import

        # Splines that are 1 at one knot and 0 at the others; not the first, as there is a constant.
        cardinal = CubicSpline(knots, np.eye(len(knots))[:, 1:], bc_type="natural")

        def curve(x: np.ndarray) -> np.ndarray:
            return cardinal(x)

    places = np.linspace(low, high, POINTS)
    curve_rows = curve((places - middle) / half)
    terms = [
        Term(name, f"{place:.10g}", "mean", float(place), row)
        for place, row in zip(places, curve_rows, strict=True)
    ]
    if smooth == 1:
        terms.append(Term(name, "slope", "slope", np.nan, np.array([1 / half])))
    else:
        label = f"{high:.10g} - {low:.10g}"
        terms.append(Term(name, label, "difference", np.nan, curve_rows[-1] - curve_rows[0]))
    return _Block(curve((values - middle) / half), terms)

"""Variables of the rows of a mixture: counts of words, or the columns of a table.

They determine the component distribution. Columns of numbers are standardised in float64. In these
units the mean of a component has the prior N(0, s^2), and its variance s^2 an inverse-gamma prior
of mean 1. The rate of a column of counts has the prior Gamma(1, 1 / mean of the column). Densities
of numbers refer to the standardised values, and likelihoods of counts are relative to the Poisson
distribution with the column's mean (`families.poisson`): neither depends on units.
"""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
import scipy.sparse as sp

from simplex_jax._src.arguments import as_number
from simplex_jax._src.base import PyTree
from simplex_jax._src.corpus import Corpus, frames, from_counts
from simplex_jax._src.corpus import digest as digest_of_corpus
from simplex_jax._src.corpus import frames as table_cells
from simplex_jax._src.corpus.corpus import digest_parts
from simplex_jax._src.corpus.vocabulary import even_empty
from simplex_jax._src.models.dpm import families
from simplex_jax._src.models.dpm.families import Family
from simplex_jax._src.models.dpm.families.categorical import variables as by_variable
from simplex_jax._src.models.dpm.families.diagonal_gaussian import DiagonalNormals, moments_of
from simplex_jax._src.models.dpm.families.family import (
    SparseRows,
    counts_of,
    reach,
    refuse_masked,
)
from simplex_jax._src.models.dpm.families.poisson import MOST, check_total
from simplex_jax._src.warn import warn_caller

# Kinds of the columns of a table, and their cells as numbers, counts or categories.

KINDS = ("number", "category", "count")
"""What a column can be."""

MAX_VALUES = 1_000
"""Most values a category may have; a column with more holds numbers, names or text."""

_SHOWN = 8
_UNUSABLE = (
    *(datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64),
    *(list, tuple, dict, set),
)


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
        warn_of_numbers(name, observed)
        return "category"
    numbers = observed.astype(np.float64)
    return "" if ((numbers >= 0) & (numbers == np.floor(numbers))).all() else "number"


def warn_of_numbers(name: str, observed: np.ndarray | Sequence[Any]) -> None:
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
            f"its cells may be dates, such as {texts[0]!r}: give numbers, such as days since a date"
        )
    if reason is not None:
        warn_caller(
            f"column {name!r} is taken for a category: {reason}, or say what the column is: "
            f"kinds={{{name!r}: 'number'}}, or 'category' (--number-column, --category-column)",
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
        # As text, each would be a category of its own.
        if issubclass(kind, _UNUSABLE) or kind.__name__ in ("Period", "Interval"):  # of pandas
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
                    "missing cell empty, or fit with the column as a category"
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


_LOGICAL = ("False", "True")


def _logical(text: str | None) -> str | None:
    """Return a text of another spelling, such as 1 or TRUE, as that of a boolean."""
    spelt = {"0": "False", "1": "True", "false": "False", "true": "True"}
    return text and spelt.get(text.lower(), text)


def _warn_of_unknown(name: str, texts: Sequence[str | None], codes: np.ndarray) -> None:
    """Warn that a model knows not one of a column's values; some new values are normal."""
    observed = [text for text in texts if text is not None]
    if observed and np.isnan(codes).all():
        warn_caller(
            f"column {name!r}: the model has none of its values, such as {observed[0]!r}, and "
            "takes them for missing",
        )


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


def learn_column(
    name: str, column: Any, kind: str, weights: np.ndarray | None = None
) -> tuple[Column, np.ndarray]:
    """Return the facts of a column that a family needs, and its cells, float64 [n], with NaN.

    Weights are how many equal rows each row stands for.

    Raises:
        ValueError: The column has no cells, does not vary, or has too many values for a category.
    """
    if kind == "category":
        texts = texts_of(name, column)
        values = tuple(sorted({text for text in texts if text is not None}))
        if not 0 < len(values) <= MAX_VALUES:
            none = "no value (texts such as NA count as missing)"
            size = f"{len(values):,} values, and is not a category" if values else none
            remedy = "leave it out (--drop-column)"
            if values and all(map(table_cells.reads_as_number, values)):
                remedy = (
                    f"call it numbers (kinds={{{name!r}: 'number'}}, --number-column), or {remedy}"
                )
            raise ValueError(f"column {name!r} has {size}: {remedy}")
        return Column(kind, values, 0.0, 1.0), codes_of(texts, values)
    cells = numbers_of(name, column, kind)
    every = cells if weights is None else np.repeat(cells, weights)
    if kind == "number":
        return Column(kind, (), *moments_of(every, f"column {name!r}")), cells
    observed = every[~np.isnan(every)]
    if not observed.any():
        raise ValueError(f"column {name!r} has no count above 0: leave it out")
    check_total(observed.sum(), f"column {name!r}")
    return Column(kind, (), float(observed.mean()), 1.0), cells


CONCENTRATION = 0.5
"""Default concentration of the Dirichlet prior of a component's probabilities."""


class Words(NamedTuple):
    """The words that are counted in each row; the components are multinomial."""

    vocabulary: tuple[str, ...]  # V words
    concentration: float = CONCENTRATION  # of the Dirichlet prior of a component, of each word
    kind: str = "counts"

    @property
    def measures(self) -> list[str]:
        """The type of each of the V component parameters: "probability"."""
        return ["probability"] * len(self.vocabulary)

    @property
    def items(self) -> tuple[str, ...]:
        """The names of the V component parameters."""
        return self.vocabulary

    def family(self) -> Family:
        """Return the component distribution."""
        return families.multinomial(len(self.vocabulary), self.concentration)

    def table(self, data: Any) -> sp.csr_array:
        """Return an array as counts [N, V], or raise a ValueError."""
        return even_empty(self.vocabulary, lambda: from_counts(data, self.vocabulary)).counts

    def rows(self, data: sp.csr_array) -> PyTree:
        """Return rows for `family` from counts [N, V]."""
        return families.multinomial_rows(data)

    def from_rows(self, rows: SparseRows) -> Corpus:
        """Return rows of the family as a corpus, whose documents have numbers."""
        return Corpus(counts_of(rows, len(self.vocabulary)), self.vocabulary, ())

    def observations(self, data: sp.csr_array) -> np.ndarray:
        """Return the sum of the counts of each row."""
        return np.asarray(data.sum(axis=1))

    def of_row(self, data: sp.csr_array, row: int) -> list[str]:
        """Return the words of a row, the most frequent first."""
        start, end = data.indptr[row : row + 2]
        order = np.argsort(-data.data[start:end], kind="stable")
        return [self.vocabulary[value] for value in data.indices[start:end][order]]

    def flat(self, tree: PyTree) -> np.ndarray:
        """Return a tree of values, such as atoms, as an array in the order of `items`, [..., V]."""
        return np.asarray(tree)

    def tree(self, flat: np.ndarray) -> PyTree:
        """Return the inverse of `flat`."""
        return flat

    def in_units(self, flat: np.ndarray, *, deviations: bool = False) -> np.ndarray:
        """Return profiles [..., V], or their standard deviations, in float64."""
        return np.asarray(flat, np.float64)

    def digest(self, data: sp.csr_array) -> str:
        """Return the SHA-256 of the counts and the words, hexadecimal."""
        return digest_of_corpus(Corpus(data, self.vocabulary, ()))


class Columns(NamedTuple):
    """The columns of a table; `from_frame` infers them."""

    columns: tuple[str, ...]  # P distinct names
    kinds: tuple[str, ...]  # of each: "number", "category" or "count"
    values: tuple[tuple[str, ...], ...]  # the values of each category; empty for other columns
    centres: tuple[float, ...]  # mean of each column of numbers or counts
    scales: tuple[float, ...]  # standard deviation of each column of numbers
    concentration: float = CONCENTRATION  # of the Dirichlet prior of a component, of each value
    kind: str = "table"

    def places(self, kind: str) -> list[int]:
        """Return the indices of the columns of a kind."""
        return [place for place, own in enumerate(self.kinds) if own == kind]

    @property
    def measures(self) -> list[str]:
        """The type of each of V component parameters: "probability", "rate", "mean" or "sd"."""
        names = {"number": ["mean", "sd"], "count": ["rate"]}
        return [
            measure
            for kind, values in zip(self.kinds, self.values, strict=True)
            for measure in names.get(kind, ["probability"] * len(values))
        ]

    @property
    def items(self) -> tuple[str, ...]:
        """The names of the V component parameters."""
        return tuple(
            item
            for name, kind, values in zip(self.columns, self.kinds, self.values, strict=True)
            for item in (
                (f"{name}={value}" for value in values)
                if kind == "category"
                else ((name, f"{name} (sd)") if kind == "number" else (name,))
            )
        )

    @property
    def _sizes(self) -> list[int]:
        """Number of values of each category."""
        return [len(self.values[place]) for place in self.places("category")]

    def family(self) -> Family:
        """Return the component distribution: a product of "number", "category" and "count"."""
        groups: dict[str, Family] = {}
        if places := self.places("number"):
            groups["number"] = families.diagonal_gaussian(np.zeros(len(places), np.float32), 1.0)
        if self.places("category"):
            groups["category"] = families.categorical(self._sizes, self.concentration)
        if places := self.places("count"):
            means = np.array([self.centres[place] for place in places])
            groups["count"] = families.poisson(1.0, (1 / means).astype(np.float32))
        return families.product(groups)

    def table(self, data: Any) -> np.ndarray:
        """Return the cells of a table, or of an array [N, P] of numbers and codes, float64 [N, P].

        Missing cells, codes of -1 and unknown values of a category become NaN. Other columns are
        ignored.

        Raises:
            ValueError: A column is missing, or a cell is not of its kind.
        """
        if not frames.is_frame(data):
            refuse_masked(data)
            table = self._as_numbers(data)
            if table.ndim != 2 or table.shape[1] != len(self.columns) or not len(table):
                raise ValueError(
                    f"rows must be a table with the columns of the model or have shape [n, "
                    f"{len(self.columns)}]; it is {table.shape}"
                )
            each = zip(self.columns, self.kinds, self.values, table.T, strict=True)
            parts = [
                codes_within(name, part, len(values))
                if kind == "category"
                else numbers_of(name, part, kind)
                for name, kind, values, part in each
            ]
            return np.stack(parts, axis=1)
        frame = frames.as_frame(data).columns
        if absent := [name for name in self.columns if name not in frame]:
            raise ValueError(f"the table has no column {absent[0]!r}, which the model has")
        parts = []
        for name, kind, values in zip(self.columns, self.kinds, self.values, strict=True):
            if kind == "category":
                texts = texts_of(name, frame[name])
                if set(values) <= set(_LOGICAL):
                    texts = list(map(_logical, texts))
                parts.append(codes_of(texts, values))
                _warn_of_unknown(name, texts, parts[-1])
            else:
                parts.append(numbers_of(name, frame[name], kind))
        return np.stack(parts, axis=1)

    def _as_numbers(self, data: Any) -> np.ndarray:
        """Return an array of numbers and codes as float64, or raise a ValueError."""
        try:
            return np.array(data, np.float64)
        except (TypeError, ValueError):
            cells = np.array(data, object)
        where = "rows"
        for name, column in zip(self.columns, cells.T if cells.ndim == 2 else (), strict=False):
            try:
                column.astype(np.float64)
            except (TypeError, ValueError):
                where = f"column {name!r} of rows"
                break
        raise ValueError(
            f"{where} must be numbers, or codes of categories from 0 on: give texts in a data "
            "frame or a mapping of columns"
        )

    def rows(self, data: np.ndarray) -> PyTree:
        """Return rows for `family`, from cells, float64 [N, P].

        Raises:
            ValueError: A number is so far from its column's mean that its square overflows float32.
        """
        groups: dict[str, np.ndarray] = {}
        if places := self.places("number"):
            centres, scales = (np.array(x)[places] for x in (self.centres, self.scales))
            with np.errstate(over="ignore"):
                standard = (data[:, places] - centres) / scales
            far = np.abs(standard) > reach(np.float32)[1]
            if far.any():
                row, column = (int(i) for i in np.argwhere(far)[0])
                name, cell = self.columns[places[column]], data[row, places[column]]
                raise ValueError(
                    f"column {name!r}, row {row}: {cell:g} is too far from the column's mean, "
                    f"{centres[column]:g}, for float32: leave the row out"
                )
            groups["number"] = standard.astype(np.float32)
        for kind in ("category", "count"):
            if places := self.places(kind):
                part = np.where(np.isnan(data[:, places]), -1, data[:, places])
                whole = (part == np.floor(part)).all() and (np.abs(part) < 2**31).all()
                # Other values are left unchanged: the family rejects them.
                groups[kind] = part.astype(np.int32) if whole else part
        return groups

    def from_rows(self, rows: PyTree) -> dict[str, np.ndarray]:
        """Return complete rows of the family as columns by name, in their order and units."""
        found: dict[str, np.ndarray] = {}
        for kind in rows:
            for place, part in zip(self.places(kind), np.asarray(rows[kind]).T, strict=True):
                name = self.columns[place]
                if kind == "number":
                    found[name] = part.astype(np.float64) * self.scales[place] + self.centres[place]
                elif kind == "category":
                    found[name] = np.array(self.values[place], object)[part]
                else:
                    found[name] = part.astype(np.int64)
        return {name: found[name] for name in self.columns}

    def observations(self, data: np.ndarray) -> np.ndarray:
        """Return the number of observed cells of each row."""
        return (~np.isnan(data)).sum(axis=1)

    def of_row(self, data: np.ndarray, row: int) -> list[str]:
        """Return the observed cells of a row, with the names of their columns."""
        each = zip(self.columns, self.kinds, self.values, data[row], strict=True)
        return [
            f"{name}={values[int(cell)] if kind == 'category' else f'{cell:.6g}'}"
            for name, kind, values, cell in each
            if not np.isnan(cell)
        ]

    def flat(self, tree: PyTree) -> np.ndarray:
        """Return a tree of values, such as atoms, as an array in the order of `items`, [..., V]."""
        blocks: dict[int, np.ndarray] = {}
        for i, place in enumerate(self.places("number")):
            pair = [np.asarray(leaf)[..., i] for leaf in tree["number"]]
            blocks[place] = np.stack(pair, axis=-1)
        for i, place in enumerate(self.places("count")):
            blocks[place] = np.asarray(tree["count"])[..., i : i + 1]
        if places := self.places("category"):
            parts = by_variable(self._sizes, tree["category"])
            blocks |= {place: np.asarray(x) for place, x in zip(places, parts, strict=True)}
        return np.concatenate([blocks[place] for place in range(len(self.columns))], axis=-1)

    def tree(self, flat: np.ndarray) -> PyTree:
        """Return the inverse of `flat`."""
        measures = np.array(self.measures)
        groups: dict[str, Any] = {}
        if self.places("number"):
            leaves: Any = (flat[..., measures == name] for name in ("mean", "sd"))
            groups["number"] = DiagonalNormals(*leaves)
        if self.places("category"):
            ends = np.cumsum(self._sizes)[:-1]
            parts = np.split(flat[..., measures == "probability"], ends, axis=-1)
            groups["category"] = tuple(
                np.stack([part for part in parts if part.shape[-1] == size], axis=-2)
                for size in sorted(set(self._sizes))
            )
        if self.places("count"):
            groups["count"] = flat[..., measures == "rate"]
        return groups

    def from_leaves(self, leaves: Sequence[np.ndarray]) -> PyTree:
        """Return a tree like atoms from its leaves."""
        empty = self.tree(np.zeros((1, len(self.measures))))
        return jax.tree.unflatten(jax.tree.structure(empty), leaves)

    def described(self, atoms: PyTree) -> PyTree:
        """Return atoms with probabilities and rates instead of their logarithms."""
        return {
            kind: part if kind == "number" else jax.tree.map(np.exp, part)
            for kind, part in atoms.items()
        }

    def in_units(self, flat: np.ndarray, *, deviations: bool = False) -> np.ndarray:
        """Return profiles [..., V], or their standard deviations, in the units of the columns."""
        centre, scale = np.zeros(len(self.measures)), np.ones(len(self.measures))
        numbers = np.isin(self.measures, ("mean", "sd"))
        scale[numbers] = np.repeat([self.scales[place] for place in self.places("number")], 2)
        means = np.array(self.measures) == "mean"
        centre[means] = [self.centres[place] for place in self.places("number")]
        return np.asarray(flat, np.float64) * scale + (0 if deviations else centre)

    def digest(self, data: np.ndarray) -> str:
        """Return the SHA-256 of the cells and the metadata of the columns, hexadecimal."""
        plain = np.where(np.isnan(data), np.nan, data)  # one bit pattern for all NaNs
        texts = [*self.columns, *self.kinds]
        for own in self.values:
            texts += [str(len(own)), *own]
        arrays = [plain, np.array([self.centres, self.scales])]
        return digest_parts(
            data.shape, [np.ascontiguousarray(array, "<f8") for array in arrays], texts
        )


Variables: TypeAlias = Words | Columns


def from_frame(
    rows: Any, kinds: Mapping[str, str] | None = None, weights: np.ndarray | None = None
) -> tuple[Columns, np.ndarray, tuple[str, ...]]:
    """Return the columns of a table, its cells, float64 [N, P], and the names of its rows.

    Args:
        rows: A data frame of pandas or polars, a pyarrow table, a mapping from names to columns, or
            a structured array.
            Missing values are NaN, None and "".
        kinds: Kinds of columns by name: "number", "category" or "count". By default, text and
            booleans are categories and numbers are numbers; columns of nonnegative integers must
            be named.
        weights: How many equal rows each stands for, int [N].

    Raises:
        ValueError: The message names the column and the remedy.

    Example:
        >>> from simplex_jax._src.models.dpm import variables
        >>> table = {"age": [30.5, None, 50.5], "sex": ["f", "m", ""], "visits": [0, 3, 1]}
        >>> parsed, cells, names = variables.from_frame(table, {"visits": "count"})
        >>> parsed.kinds, cells.tolist()[:2]
        (('number', 'category', 'count'), [[30.5, 0.0, 0.0], [nan, 1.0, 3.0]])
    """
    frame = frames.as_frame(rows)
    kinds = kinds_of(frame.columns, {} if kinds is None else kinds)
    both = [
        learn_column(name, column, kinds[name], weights) for name, column in frame.columns.items()
    ]
    learned = [column for column, _ in both]
    table_columns = Columns(
        columns=tuple(frame.columns),
        kinds=tuple(column.kind for column in learned),
        values=tuple(column.values for column in learned),
        centres=tuple(column.centre for column in learned),
        scales=tuple(column.scale for column in learned),
    )
    return table_columns, np.stack([part for _, part in both], axis=1), frame.names


def check_concentration(table: Columns, concentration: float, name: str) -> None:
    """Raise a ValueError if a concentration is given to a table that has no categories."""
    if "category" not in table.kinds and concentration != CONCENTRATION:
        raise ValueError(
            f"{name} is the prior of the categories of a table, and this one has none: leave it "
            "out, or name columns that are categories (kinds, --category-column)"
        )


def from_json(fields: dict[str, Any]) -> Variables:
    """Return variables from fields read from JSON.

    Raises:
        ValueError: They are not the fields of variables.
    """
    try:
        concentration = float(fields["concentration"])
        found: Variables
        if fields["kind"] == "counts":
            found = Words(tuple(map(str, fields["vocabulary"])), concentration)
        else:
            names, kinds = (tuple(map(str, fields[name])) for name in ("columns", "kinds"))
            values = tuple(tuple(map(str, own)) for own in fields["values"])
            centres, scales = (tuple(map(float, fields[name])) for name in ("centres", "scales"))
            found = Columns(names, kinds, values, centres, scales, concentration)
    except (KeyError, TypeError):
        raise ValueError("these are not the variables of a mixture") from None
    sound = bool(found.vocabulary) if isinstance(found, Words) else _fit_together(found)
    if not sound or not 0 < concentration < np.inf:
        raise ValueError("the variables of a mixture do not go together")
    return found


def _fit_together(found: Columns) -> bool:
    names, kinds, values, centres, scales, *_ = found
    return (
        len(set(names)) == len(names) > 0
        and {len(x) for x in (kinds, values, centres, scales)} == {len(names)}
        and set(kinds) <= set(KINDS)
        and bool(np.isfinite([*centres, *scales]).all())
        and min(scales) > 0
        and all(
            bool(own) == (kind == "category") and (kind != "count" or centre > 0)
            for own, kind, centre in zip(values, kinds, centres, strict=True)
        )
    )

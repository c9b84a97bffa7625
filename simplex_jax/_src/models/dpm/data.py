"""Rows of a mixture: a corpus, a table, or rows of a custom family."""

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from simplex_jax._src.base import PyTree, as_pytree
from simplex_jax._src.corpus import Corpus, frames, split, to_vocabulary
from simplex_jax._src.corpus.corpus import digest_parts
from simplex_jax._src.corpus.text import count_texts
from simplex_jax._src.models import pipeline
from simplex_jax._src.models.dpm.families import Family
from simplex_jax._src.models.dpm.families import family as family_rows
from simplex_jax._src.models.dpm.families.diagonal_gaussian import DiagonalNormals
from simplex_jax._src.models.dpm.families.gaussian import Normals
from simplex_jax._src.models.dpm.variables import Columns, Variables, Words, from_frame

_COPY = 2**28  # rows of this many bytes or more are not copied


class Given(NamedTuple):
    """Rows, and their family or variables; None if the rows determine it."""

    rows: Any
    family: Family | Variables | None
    kinds: Mapping[str, str] | None = None  # of the columns of a table
    weights: Any = None  # how many rows each stands for, positive whole numbers


@dataclasses.dataclass(frozen=True, eq=False)
class Data:
    """Rows with their family or variables."""

    # with variables: sparse counts [N, V], or cells [N, P]; else rows of the family
    table: Any
    names: tuple[str, ...]  # N names
    numbers: np.ndarray  # index of each row in all of the data, int [N]
    variables: Variables | None  # they determine the family; None with a custom family
    family: Family | None  # the custom family; None with variables
    # How many equal rows each stands for, int64 [N], each with a label of its own; None for one.
    weights: np.ndarray | None = None

    @functools.cached_property
    def rows(self) -> PyTree:
        """The rows on the device, in the form that the family expects, as often as they count."""
        rows = self.table if self.variables is None else self.variables.rows(self.table)
        rows = jax.tree.map(jnp.asarray, rows)
        if self.weights is None:
            return rows
        copies = jnp.asarray(np.repeat(np.arange(len(self.names), dtype=np.int32), self.weights))
        # Missing cells that the family draws are different in each.
        if family_rows.lack_cells(rows) or isinstance(rows, family_rows.Selected):
            return family_rows.take(rows, copies)
        return family_rows.Selected(rows, copies)

    @property
    def size(self) -> int:
        """The number of rows, as often as they count."""
        return len(self.names) if self.weights is None else int(self.weights.sum())

    def means(self, values: np.ndarray) -> np.ndarray:
        """Return for each row the mean of values [size, ...] of the rows that it stands for."""
        if self.weights is None:
            return values
        firsts = np.cumsum(self.weights) - self.weights
        sums = np.add.reduceat(values, firsts, axis=0, dtype=np.float64)
        return (sums / self.weights.reshape(-1, *[1] * (values.ndim - 1))).astype(values.dtype)

    def labels(self, values: np.ndarray) -> np.ndarray:
        """Return for each row the most frequent label of the rows that it stands for.

        The labels, int [size], are numbered by size; the result is numbered without gaps.
        """
        if self.weights is None:
            return values
        count = int(values.max()) + 1
        own = np.repeat(np.arange(len(self.weights)), self.weights)
        pairs, number = np.unique(own * count + values, return_counts=True)
        row, label = np.divmod(pairs, count)
        order = np.lexsort((label, -number, row))  # of each row the most frequent label first
        first = np.append(True, np.diff(row[order]) > 0)
        return np.unique(label[order][first], return_inverse=True)[1]

    def select(self, numbers: np.ndarray) -> "Data":
        """Return the rows with these numbers."""
        if self.variables is None:
            table = _some(self.table, jnp.asarray(numbers, jnp.int32))
        else:
            table = self.table[numbers]
        names = tuple(self.names[number] for number in numbers)
        weights = None if self.weights is None else self.weights[numbers]
        return dataclasses.replace(
            self, table=table, names=names, numbers=self.numbers[numbers], weights=weights
        )


def _some(rows: PyTree, numbers: jax.Array) -> PyTree:
    """Return the rows with these numbers, as a copy if it is small."""
    size = (
        sum(leaf.nbytes for leaf in jax.tree.leaves(rows)) / family_rows.size(rows) * numbers.size
    )
    if size < _COPY or family_rows.lack_cells(rows):
        return family_rows.take(rows, numbers)
    return family_rows.Selected(rows, numbers)


def as_data(data: Any) -> Data:
    """Check `Given`, a corpus, texts or a table, and return the rows with their family."""
    if isinstance(data, Data):
        return data
    rows, family, kinds, weights = data if isinstance(data, Given) else (data, *[None] * 3)
    if family is None and frames.is_frame(rows):
        if weights is not None:
            weights = whole_weights(weights, frames.as_frame(rows).names)
        inferred, table, names = from_frame(rows, kinds, weights)
        return Data(table, names, np.arange(len(names)), inferred, None, weights)
    found = _as_data(rows, family, kinds)
    if weights is None:
        return found
    weighted = dataclasses.replace(found, weights=whole_weights(weights, found.names))
    _check_totals(weighted)
    return weighted


def _as_data(rows: Any, family: Any, kinds: Any) -> Data:
    if kinds is not None:
        raise ValueError(
            "kinds are for the columns of a data frame or a mapping, without a family: omit them"
        )
    if isinstance(family, Family):
        if isinstance(rows, Corpus):
            raise ValueError("a corpus decides its family: leave family out")
        family = as_pytree(family)
        given = family_rows.as_arrays(rows)
        rows = family_rows.prepare(family, given)
        for table in _normal(family_rows.form_of_atom(family, rows), given):
            family_rows.check_rounding(table)
        size = family_rows.size(rows)
        return Data(rows, tuple(map(str, range(size))), np.arange(size), None, family)
    if family is None:
        rows = count_texts(rows)
        if not isinstance(rows, Corpus):
            raise ValueError(
                "rows other than a corpus, texts, a data frame or a mapping of columns need a "
                f"family (see dpm.families); they are {type(rows).__name__}"
            )
        family = Words(rows.vocabulary)
    elif not isinstance(family, Words | Columns):
        raise ValueError(f"family must be one of dpm.families; it is {family!r}")
    table, names = mapped(family, rows)
    return Data(table, names, np.arange(len(names)), family, None)


def _normal(atom: Any, rows: PyTree) -> Iterator[np.ndarray]:
    """Yield the tables of rows with normal components, in memory or a file."""
    if isinstance(atom, Normals | DiagonalNormals) and isinstance(rows, np.ndarray):
        yield rows
    elif isinstance(atom, dict) and isinstance(rows, dict):
        for name, part in rows.items():
            yield from _normal(atom.get(name), part)


def mapped(variables: Variables, rows: Any) -> tuple[Any, tuple[str, ...]]:
    """Return rows as a table of the given variables, and the names of the rows.

    For words the rows are a corpus or texts, whose other words are dropped, or an array of counts
    [N, V]. For columns they are a data frame or a mapping, whose other columns are ignored and
    whose unknown values become missing, or an array of numbers and codes [N, P].
    """
    frame = frames.is_frame(rows)
    if isinstance(variables, Columns):
        if isinstance(rows, Corpus):
            raise ValueError("the model is of a table: give a data frame or a mapping")
        table = variables.table(rows)
        return table, frames.as_frame(rows).names if frame else tuple(map(str, range(len(table))))
    if frame:
        raise ValueError("the rows are a table of columns, and the model is of counts")
    rows = count_texts(rows, variables.vocabulary)
    if isinstance(rows, Corpus):
        return to_vocabulary(rows, variables.vocabulary).corpus.counts, rows.names
    counts = variables.table(rows)
    return counts, tuple(map(str, range(counts.shape[0])))


def digest(data: Data) -> str:
    """Return the digest of the rows, their weights and their variables."""
    if data.variables is None:
        return pipeline.digest_of((data.table, data.family, data.weights))
    found = data.variables.digest(data.table)
    return found if data.weights is None else digest_parts((data.size, 1), [data.weights], [found])


_MOST_ROWS = 2**30


def whole_weights(weights: Any, names: Sequence[str]) -> np.ndarray:
    """Return the weights of rows as integers, int64 [n].

    Raises:
        ValueError: A weight is not a whole number from 1 on, or there are too many or too few.
    """
    values = np.asarray(weights)
    if values.shape != (len(names),):
        raise ValueError(
            f"weights must have shape [{len(names)}], one for each row; it is {values.shape}"
        )
    if not np.issubdtype(values.dtype, np.number) or np.iscomplexobj(values):
        raise ValueError(f"weights must be numbers, not {values.dtype}")
    bad = ~((values >= 1) & (values <= _MOST_ROWS) & (values == np.floor(values)))
    if bad.any():
        row = int(np.argmax(bad))
        remedy = ": leave the row out" if values[row] == 0 else ""
        raise ValueError(
            f"the weight of row {names[row]!r} (index {row}) is {values[row]:g}: weights are whole "
            f"numbers from 1 on, of rows that are equal{remedy}"
        )
    whole = values.astype(np.int64)
    if (total := int(whole.sum())) > _MOST_ROWS:
        raise ValueError(
            f"weights are {total:,} rows in all, and at most {_MOST_ROWS:,} have labels: take a "
            "sample of the rows"
        )
    return whole


_BLOCK = 2**22


def _check_totals(data: Data) -> None:
    """Raise a ValueError if integer statistics of weighted rows are beyond int32."""
    family = data.family if data.variables is None else data.variables.family()
    assert family is not None
    assert data.weights is not None
    rows = dataclasses.replace(data, weights=None).rows
    one = jnp.zeros(1, jnp.int32)
    few = jax.eval_shape(lambda: family_rows.fill_means(family_rows.take(rows, one)))
    form = jax.eval_shape(lambda some: family.statistics(some, one, 1), few)
    whole = [jnp.issubdtype(leaf.dtype, jnp.integer) for leaf in jax.tree.leaves(form)]
    # A sum of counts is at most the number of rows times the largest one.
    largest = max(float(jnp.nanmax(leaf)) for leaf in jax.tree.leaves(rows))
    if not any(whole) or data.size * max(largest, 1.0) < 2**31:
        return
    sizes = sum(leaf.size for leaf in jax.tree.leaves(form))
    step = max(1, _BLOCK // sizes)
    totals: Any = 0.0
    for first in range(0, len(data.names), step):
        ids = first + jnp.arange(step, dtype=jnp.int32)
        some = family_rows.fill_means(family_rows.take(rows, ids))
        own = np.append(data.weights[first : first + step], np.zeros(step))[:step]
        each = jax.tree.leaves(family.statistics(some, jnp.arange(step), step))
        totals = totals + np.array(
            [
                np.tensordot(own, np.asarray(leaf, np.float64), 1).max() if integer else 0.0
                for leaf, integer in zip(each, whole, strict=True)
            ]
        )
    if (most := float(np.max(totals))) >= 2**31:
        raise ValueError(
            f"the weighted rows have {most:.6g} counts in all; the sum must be below 2^31: give "
            "smaller weights, or count in larger units"
        )


def hold_out(data: Data, count: int, seed: int) -> tuple[Data, PyTree]:
    """Hold out random rows: return the other rows, and the held-out ones on the device."""
    out = split.held_out(len(data.names), count, seed)
    return data.select(np.flatnonzero(~out)), data.select(np.flatnonzero(out)).rows

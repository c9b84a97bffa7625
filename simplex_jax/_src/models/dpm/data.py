"""Rows of a mixture: a corpus, a table, or rows of a custom family."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from simplex_jax._src.base import PyTree, as_pytree
from simplex_jax._src.corpus import Corpus, frames, split, to_vocabulary
from simplex_jax._src.corpus.text import count_texts
from simplex_jax._src.models import pipeline
from simplex_jax._src.models.dpm.families import Family
from simplex_jax._src.models.dpm.families import family as family_rows
from simplex_jax._src.models.dpm.variables import Columns, Variables, Words, from_frame

_COPY = 2**28  # rows of this many bytes or more are not copied


class Given(NamedTuple):
    """Rows, and their family or variables; None if the rows determine it."""

    rows: Any
    family: Family | Variables | None
    kinds: Mapping[str, str] | None = None  # of the columns of a table


@dataclasses.dataclass(frozen=True, eq=False)
class Data:
    """Rows with their family or variables."""

    # with variables: sparse counts [N, V], or cells [N, P]; else rows of the family
    table: Any
    names: tuple[str, ...]  # N names
    numbers: np.ndarray  # index of each row in all of the data, int [N]
    variables: Variables | None  # they determine the family; None with a custom family
    family: Family | None  # the custom family; None with variables

    @functools.cached_property
    def rows(self) -> PyTree:
        """The rows on the device, in the form that the family expects."""
        rows = self.table if self.variables is None else self.variables.rows(self.table)
        return jax.tree.map(jnp.asarray, rows)

    def select(self, numbers: np.ndarray) -> "Data":
        """Return the rows with these numbers."""
        if self.variables is None:
            table = _some(self.table, jnp.asarray(numbers, jnp.int32))
        else:
            table = self.table[numbers]
        names = tuple(self.names[number] for number in numbers)
        return dataclasses.replace(self, table=table, names=names, numbers=self.numbers[numbers])


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
    rows, family, kinds = data if isinstance(data, Given) else (data, None, None)
    if family is None and frames.is_frame(rows):
        inferred, table, names = from_frame(rows, kinds)
        return Data(table, names, np.arange(len(names)), inferred, None)
    if kinds is not None:
        raise ValueError(
            "kinds are for the columns of a data frame or a mapping, without a family: omit them"
        )
    if isinstance(family, Family):
        if isinstance(rows, Corpus):
            raise ValueError("a corpus decides its family: leave family out")
        family = as_pytree(family)
        size, rows = family_rows.size(rows), family_rows.prepare(family, rows)
        return Data(rows, tuple(map(str, range(size))), np.arange(size), None, family)
    if family is None:
        rows = count_texts(rows)
        if not isinstance(rows, Corpus):
            raise ValueError(
                "rows other than a corpus, texts, a data frame or a mapping of columns need a "
                f"family (see dpm.families) or Variables; they are {type(rows).__name__}"
            )
        family = Words(rows.vocabulary)
    elif not isinstance(family, Words | Columns):
        raise ValueError(f"family must be one of dpm.families or Variables; it is {family!r}")
    table, names = mapped(family, rows)
    return Data(table, names, np.arange(len(names)), family, None)


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
    """Return the digest of the rows and their variables."""
    if data.variables is None:
        return pipeline.digest_of((data.table, data.family))
    return data.variables.digest(data.table)


def hold_out(data: Data, count: int, seed: int) -> tuple[Data, PyTree]:
    """Hold out random rows: return the other rows, and the held-out ones on the device."""
    out = split.held_out(len(data.names), count, seed)
    return data.select(np.flatnonzero(~out)), data.select(np.flatnonzero(out)).rows

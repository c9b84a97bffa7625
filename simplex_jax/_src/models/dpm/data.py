"""Rows of a mixture: a corpus, a table, or rows of a custom family."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from simplex_jax._src.base import PyTree, as_pytree
from simplex_jax._src.corpus import Corpus, categories, split, to_vocabulary
from simplex_jax._src.corpus import digest as digest_of_corpus
from simplex_jax._src.corpus.categories import Categories
from simplex_jax._src.corpus.text import count_texts
from simplex_jax._src.models import pipeline
from simplex_jax._src.models.dpm import cells, columns, families
from simplex_jax._src.models.dpm.columns import Columns
from simplex_jax._src.models.dpm.families import Family
from simplex_jax._src.models.dpm.families import rows as family_rows
from simplex_jax._src.models.dpm.variables import Variables

_COPY = 2**28  # rows of this many bytes or more are not copied


class Given(NamedTuple):
    """Rows, and their family or variables; None if the rows determine it."""

    rows: Any
    family: Family | Variables | Columns | None
    kinds: Mapping[str, str] | None = None  # of the columns of a mixed table


@dataclasses.dataclass(frozen=True, eq=False)
class Data:
    """Rows with their family or variables."""

    # with variables: sparse counts [N, V], codes or cells [N, P]; else rows of the family
    table: Any
    names: tuple[str, ...]  # N names
    numbers: np.ndarray  # index of each row in all of the data, int [N]
    variables: Variables | Columns | None  # they determine the family; None with a custom family
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
    return family_rows.take(rows, numbers) if size < _COPY else family_rows.Selected(rows, numbers)


def as_data(data: Any) -> Data:
    """Check `Given`, a corpus, texts or a table, and return the rows with their family."""
    rows, family, kinds = data if isinstance(data, Given) else (data, None, None)
    if family is None and cells.is_frame(rows) and not isinstance(rows, Corpus | Categories):
        inferred, table, names = columns.of(rows, kinds)
        return Data(table, names, np.arange(len(names)), inferred, None)
    if kinds is not None:
        raise ValueError(
            "kinds are for the columns of a data frame or a mapping, without a family: omit them"
        )
    if family is None:
        rows = count_texts(rows)
    if isinstance(family, Family):
        if isinstance(rows, Corpus | Categories):
            raise ValueError(
                "a corpus or a table of categories decides its family: leave family out"
            )
        family = as_pytree(family)
        family.check(rows)
        size, rows = family_rows.size(rows), families.on_device(rows)
        return Data(rows, tuple(map(str, range(size))), np.arange(size), None, family)
    if family is None and isinstance(rows, Corpus):
        variables: Variables | Columns = Variables("counts", ("",), (rows.vocabulary,))
    elif family is None and isinstance(rows, Categories):
        variables = Variables("categories", rows.columns, rows.values)
    elif family is None:
        raise ValueError(
            "rows other than a corpus, texts, a data frame, a mapping of columns or a table of "
            f"categories need a family (see dpm.families) or Variables; they are "
            f"{type(rows).__name__}"
        )
    elif isinstance(family, Variables | Columns):
        variables = family
    else:
        raise ValueError(f"family must be one of dpm.families or Variables; it is {family!r}")
    table, names = mapped(variables, rows)
    return Data(table, names, np.arange(len(names)), variables, None)


def mapped(variables: Variables | Columns, rows: Any) -> tuple[Any, tuple[str, ...]]:
    """Return rows as a table of the given variables, and the names of the rows.

    The rows are a corpus or texts, whose other words are dropped; a table of categories, or for
    mixed tables a data frame or a mapping, whose other columns are ignored and whose unknown values
    become missing; or an array: counts [N, V], or codes [N, P] with -1 where missing.
    """
    frame = cells.is_frame(rows) and not isinstance(rows, Corpus | Categories)
    if isinstance(variables, Columns):
        if isinstance(rows, Corpus | Categories):
            raise ValueError("the model is of a mixed table: give a data frame or a mapping")
        table = variables.table(rows)
        return table, cells.as_frame(rows).names if frame else tuple(map(str, range(len(table))))
    if frame:
        raise ValueError(f"the rows are a table of columns, and the model is of {variables.kind}")
    rows = count_texts(rows, variables.values[0] if variables.kind == "counts" else None)
    kind = {Corpus: "counts", Categories: "categories"}.get(type(rows), variables.kind)
    if kind != variables.kind:
        raise ValueError(f"the rows are {kind}, and the model is of {variables.kind}")
    if isinstance(rows, Corpus):
        return to_vocabulary(rows, variables.values[0]).corpus.counts, rows.names
    if isinstance(rows, Categories):
        return _codes(variables, rows), rows.names
    table = variables.table(rows)
    return table, tuple(map(str, range(table.shape[0])))


def _codes(variables: Variables, table: Categories) -> np.ndarray:
    codes = np.empty((len(table.names), len(variables.columns)), np.int32)
    for column, (name, values) in enumerate(zip(variables.columns, variables.values, strict=True)):
        if name not in table.columns:
            raise ValueError(f"the table has no column {name!r}, which the model has")
        place = table.columns.index(name)
        number_of: dict[str | None, int] = {value: number for number, value in enumerate(values)}
        # The last is for -1, a missing value.
        numbers = np.array([number_of.get(value, -1) for value in (*table.values[place], None)])
        codes[:, column] = numbers[table.codes[:, place]]
    return codes


def digest(data: Data) -> str:
    """Return the digest of the rows and their variables."""
    variables = data.variables
    if variables is None:
        return pipeline.digest_of((data.table, data.family))
    if isinstance(variables, Columns):
        return variables.digest(data.table)
    if variables.kind == "counts":
        return digest_of_corpus(Corpus(data.table, variables.values[0], data.names))
    table = Categories(data.table, variables.columns, variables.values, data.names, 0)
    return categories.digest(table)


def hold_out(data: Data, count: int, seed: int) -> tuple[Data, PyTree]:
    """Hold out random rows: return the other rows, and the held-out ones on the device."""
    out = split.held_out(len(data.names), count, seed)
    return data.select(np.flatnonzero(~out)), data.select(np.flatnonzero(out)).rows

"""Variables of the rows of a mixture: counts of words, or values of categorical columns."""

from typing import Any, NamedTuple

import numpy as np

from simplex_jax.base import PyTree
from simplex_jax.corpus import from_counts
from simplex_jax.models.dpm import families
from simplex_jax.models.dpm.families import Family

CONCENTRATION = 0.5
"""Default concentration of the Dirichlet prior of a component's probabilities."""


class Variables(NamedTuple):
    """The variables of the rows, and the component law that goes with them."""

    # "counts" of the values of one variable, whose components are multinomial; or "categories", one
    # value of each variable, whose components are products of categoricals.
    kind: str
    columns: tuple[str, ...]  # names of the variables; that of counts has the name ""
    values: tuple[tuple[str, ...], ...]  # the values of each variable
    concentration: float = CONCENTRATION  # of the Dirichlet prior of a component, of each value

    @property
    def sizes(self) -> list[int]:
        """Number of values of each variable."""
        return [len(values) for values in self.values]

    @property
    def items(self) -> tuple[str, ...]:
        """The values of all variables, V, with the name of their variable where it has one."""
        return tuple(
            f"{column}={value}" if column else value
            for column, values in zip(self.columns, self.values, strict=True)
            for value in values
        )

    @property
    def measures(self) -> list[str]:
        """What each of the V numbers of a component is: a probability."""
        return ["probability"] * sum(self.sizes)

    def family(self) -> Family:
        """Return the component law."""
        if self.kind == "counts":
            return families.multinomial(self.sizes[0], self.concentration)
        return families.categorical(self.sizes, self.concentration)

    def table(self, data: Any) -> Any:
        """Return counts [N, V], sparse, or codes [N, P], int32, of an array, checked.

        Raises:
            ValueError: It holds something else.
        """
        if self.kind == "counts":
            return from_counts(data, self.values[0]).counts
        codes = np.asarray(data)
        self.family().check(codes)
        return np.where(np.isnan(codes), -1, codes).astype(np.int32)

    def rows(self, data: Any) -> PyTree:
        """Return rows for that law: of counts [N, V], or of codes [N, P] with -1 where missing."""
        if self.kind == "counts":
            return families.multinomial_rows(data)
        return np.asarray(data, np.int32)

    def observations(self, data: Any) -> np.ndarray:
        """Return the number of observations in each row: counts, or values not missing."""
        if self.kind == "counts":
            return np.asarray(data.sum(axis=1))
        return (data >= 0).sum(axis=1)

    def of_row(self, data: Any, row: int) -> list[str]:
        """Return the values of a row of such data, the most frequent first."""
        if self.kind == "counts":
            start, end = data.indptr[row : row + 2]
            order = np.argsort(-data.data[start:end], kind="stable")
            return [self.values[0][value] for value in data.indices[start:end][order]]
        return [
            f"{column}={values[code]}"
            for column, values, code in zip(self.columns, self.values, data[row], strict=True)
            if code >= 0
        ]

    def flat(self, tree: PyTree) -> np.ndarray:
        """Return numbers of each value, such as atoms, in the order of `items`: [..., V]."""
        if self.kind == "counts":
            return np.asarray(tree)
        parts = families.variables(self.sizes, tree)
        return np.concatenate([np.asarray(part) for part in parts], axis=-1)

    def tree(self, flat: np.ndarray) -> PyTree:
        """Return the inverse of `flat`."""
        if self.kind == "counts":
            return flat
        parts = np.split(flat, np.cumsum(self.sizes)[:-1], axis=-1)
        return tuple(
            np.stack([part for part in parts if part.shape[-1] == size], axis=-2)
            for size in sorted(set(self.sizes))
        )


def from_json(fields: dict[str, Any]) -> Variables:
    """Take back the fields of variables that have gone through JSON.

    Raises:
        ValueError: They are not those of variables.
    """
    try:
        kind, concentration = fields["kind"], float(fields["concentration"])
        columns = tuple(map(str, fields["columns"]))
        values = tuple(tuple(map(str, names)) for names in fields["values"])
    except (KeyError, TypeError):
        raise ValueError("these are not the variables of a mixture") from None
    sound = kind in ("counts", "categories") and 0 < concentration < np.inf and columns
    if not sound or len(values) != len(columns) or not all(values):
        raise ValueError("the variables of a mixture do not go together")
    return Variables(kind, columns, values, concentration)

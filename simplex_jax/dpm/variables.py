"""What the rows of a mixture consist of: counts of words, or values of categorical columns."""

from typing import Any, NamedTuple

import numpy as np

from simplex_jax.base import PyTree
from simplex_jax.models import dp_families
from simplex_jax.models.dp_families import Family


class Variables(NamedTuple):
    """The variables of the rows, and the component law that goes with them.

    Attributes:
        kind: "counts" of the values of one variable, whose components are multinomial; or
            "categories", one value of each variable, whose components are products of categoricals.
        columns: Names of the variables; that of counts has the name "".
        values: The values of each variable.
        concentration: Of the Dirichlet prior of a component, of each value.
    """

    kind: str
    columns: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    concentration: float

    @property
    def sizes(self) -> list[int]:
        """Number of values of each variable."""
        return [len(those) for those in self.values]

    @property
    def items(self) -> tuple[str, ...]:
        """The values of all variables, V, with the name of their variable where it has one."""
        return tuple(
            f"{column}={value}" if column else value
            for column, those in zip(self.columns, self.values, strict=True)
            for value in those
        )

    def family(self) -> Family:
        """Return the component law."""
        if self.kind == "counts":
            return dp_families.multinomial(self.sizes[0], self.concentration)
        return dp_families.categorical(self.sizes, self.concentration)

    def rows(self, data: Any) -> PyTree:
        """Return rows for that law: of counts [N, V], or of codes [N, P] with -1 where missing."""
        if self.kind == "counts":
            return dp_families.multinomial_rows(data)
        return np.asarray(data, np.int32)

    def of_row(self, data: Any, row: int) -> list[str]:
        """Return what a row of such data consists of, the most frequent values first."""
        if self.kind == "counts":
            start, end = data.indptr[row : row + 2]
            order = np.argsort(-data.data[start:end], kind="stable")
            return [self.values[0][value] for value in data.indices[start:end][order]]
        return [
            f"{column}={those[code]}"
            for column, those, code in zip(self.columns, self.values, data[row], strict=True)
            if code >= 0
        ]

    def flat(self, tree: PyTree) -> np.ndarray:
        """Return what a family has of each value, such as atoms, in the order of `items`: [..., V].

        Example:
            >>> import numpy as np
            >>> both = Variables("categories", ("a", "b"), (("x", "y", "z"), ("u", "v")), 1.0)
            >>> family = both.family()
            >>> both.flat(family.statistics(both.rows([[2, 0]]), np.zeros(1, int), 1)).tolist()
            [[0, 0, 1, 1, 0]]
        """
        if self.kind == "counts":
            return np.asarray(tree)
        parts = dp_families.variables(self.sizes, tree)
        return np.concatenate([np.asarray(part) for part in parts], axis=-1)

    def tree(self, flat: np.ndarray) -> PyTree:
        """Return the tree that has become flat, the inverse of `flat`."""
        if self.kind == "counts":
            return flat
        parts = np.split(flat, np.cumsum(self.sizes)[:-1], axis=-1)
        return tuple(
            np.stack([part for part in parts if part.shape[-1] == size], axis=-2)
            for size in sorted(set(self.sizes))
        )


def of_counts(vocabulary: tuple[str, ...], concentration: float) -> Variables:
    """Return the variables of a corpus."""
    return Variables("counts", ("",), (vocabulary,), concentration)


def from_json(found: dict[str, Any]) -> Variables:
    """Take back the fields of variables that have gone through JSON.

    Raises:
        ValueError: It is no such thing.
    """
    try:
        kind, concentration = found["kind"], float(found["concentration"])
        columns = tuple(map(str, found["columns"]))
        values = tuple(tuple(map(str, those)) for those in found["values"])
    except (KeyError, TypeError):
        raise ValueError("no variables of a mixture") from None
    sound = kind in ("counts", "categories") and 0 < concentration < np.inf and columns
    if not sound or len(values) != len(columns) or not all(values):
        raise ValueError("variables of a mixture that do not go together")
    return Variables(kind, columns, values, concentration)

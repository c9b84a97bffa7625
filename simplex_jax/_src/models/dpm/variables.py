"""Variables of the rows of a mixture: counts of words, or values of categorical columns."""

from typing import Any, NamedTuple

import numpy as np

from simplex_jax._src.base import PyTree
from simplex_jax._src.corpus import from_counts
from simplex_jax._src.corpus.mapping import even_empty
from simplex_jax._src.models.dpm import families
from simplex_jax._src.models.dpm.families import Family
from simplex_jax._src.models.dpm.families.categorical import variables as by_variable

CONCENTRATION = 0.5
"""Default concentration of the Dirichlet prior of a component's probabilities."""


class Variables(NamedTuple):
    """The variables of the rows, which determine the component distribution."""

    # "counts" of the values of one variable, with multinomial components; or "categories", one
    # value of each variable, with products of categoricals as components.
    kind: str
    columns: tuple[str, ...]  # names of the variables; "" for counts
    values: tuple[tuple[str, ...], ...]  # the values of each variable
    concentration: float = CONCENTRATION  # of the Dirichlet prior of a component, of each value

    @property
    def sizes(self) -> list[int]:
        """Number of values of each variable."""
        return [len(values) for values in self.values]

    @property
    def items(self) -> tuple[str, ...]:
        """The values of all variables, V, prefixed with the name of their variable, if any."""
        return tuple(
            f"{column}={value}" if column else value
            for column, values in zip(self.columns, self.values, strict=True)
            for value in values
        )

    @property
    def measures(self) -> list[str]:
        """The type of each of the V component parameters: "probability"."""
        return ["probability"] * sum(self.sizes)

    def family(self) -> Family:
        """Return the component distribution."""
        if self.kind == "counts":
            return families.multinomial(self.sizes[0], self.concentration)
        return families.categorical(self.sizes, self.concentration)

    def table(self, data: Any) -> Any:
        """Check an array, and return it as sparse counts [N, V] or int32 codes [N, P].

        Raises:
            ValueError: The array does not fit.
        """
        if self.kind == "counts":
            words = self.values[0]
            return even_empty(words, lambda: from_counts(data, words)).counts
        codes = np.asanyarray(data)  # masked values are refused below
        self.family().check(codes)
        return np.where(np.isnan(codes), -1, codes).astype(np.int32)

    def rows(self, data: Any) -> PyTree:
        """Return rows for `family` from counts [N, V] or codes [N, P], -1 where missing."""
        if self.kind == "counts":
            return families.multinomial_rows(data)
        return np.asarray(data, np.int32)

    def observations(self, data: Any) -> np.ndarray:
        """Return the number of observations in each row: counts, or observed values."""
        if self.kind == "counts":
            return np.asarray(data.sum(axis=1))
        return (data >= 0).sum(axis=1)

    def of_row(self, data: Any, row: int) -> list[str]:
        """Return the values of a row, for counts the most frequent first."""
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
        """Return a tree of values, such as atoms, as an array in the order of `items`, [..., V]."""
        if self.kind == "counts":
            return np.asarray(tree)
        parts = by_variable(self.sizes, tree)
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
    """Return variables from fields read from JSON.

    Raises:
        ValueError: They are not the fields of variables.
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

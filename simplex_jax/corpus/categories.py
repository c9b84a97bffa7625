"""Rows of categorical variables, such as the answers of a survey."""

import itertools
from typing import NamedTuple

import numpy as np

from simplex_jax.corpus.corpus import digest_parts

MISSING = frozenset((
    "", "?", "NA", "na", "N/A", "n/a", "<NA>", "NaN", "nan", "NaT", "null", "NULL", "None",
))  # fmt: skip
"""Fields that are taken for a missing value."""

MAX_VALUES = 1_000
"""Most values of a column: one with more is a number, a name or a text, and not a category."""


class Categories(NamedTuple):
    """Rows of several categorical variables."""

    # Number of each value among those of its column, int32 [D, P]; -1 where missing
    codes: np.ndarray
    columns: tuple[str, ...]  # P distinct names
    values: tuple[tuple[str, ...], ...]  # the values of each column, sorted, P tuples
    names: tuple[str, ...]  # D row names
    unknown: int  # fields whose value a model does not have, taken for missing


def digest(table: Categories) -> str:
    """Return the SHA-256 of codes, columns and values, but not names, as 64 hex digits."""
    texts = itertools.chain(table.columns, *table.values)
    return digest_parts(table.codes.shape, [np.ascontiguousarray(table.codes, "<i4")], texts)

"""Rows of categorical variables, such as the answers of a survey."""

import itertools
from typing import NamedTuple

import numpy as np

from simplex_jax._src.corpus.corpus import digest_parts

MISSING = frozenset((
    "", "?", "NA", "na", "N/A", "n/a", "<NA>", "NaN", "nan", "NaT", "null", "NULL", "None",
))  # fmt: skip
"""Fields that count as missing."""

MAX_VALUES = 1_000
"""Most values a column may have; one with more holds numbers, names or text, not categories."""


class Categories(NamedTuple):
    """Rows of several categorical variables."""

    # Index of each value among those of its column, int32 [D, P]; -1 where missing
    codes: np.ndarray
    columns: tuple[str, ...]  # P distinct names
    values: tuple[tuple[str, ...], ...]  # the values of each column, sorted, P tuples
    names: tuple[str, ...]  # D row names
    unknown: int  # fields with values that a model lacks, treated as missing


def digest(table: Categories) -> str:
    """Return the SHA-256 of codes, columns and values, but not names, as 64 hex digits."""
    texts = itertools.chain(table.columns, *table.values)
    return digest_parts(table.codes.shape, [np.ascontiguousarray(table.codes, "<i4")], texts)

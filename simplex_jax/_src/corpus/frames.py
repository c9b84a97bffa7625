"""Columns of tables of other libraries: data frames of pandas and polars, and pyarrow tables."""

from collections.abc import Mapping
from typing import Any

import numpy as np


def names_of(table: Any) -> list[Any] | None:
    """Return the names of the columns of a table; None for what has no named columns.

    Example:
        >>> names_of(np.zeros((2, 3))) is None
        True
    """
    for attribute in ("column_names", "columns"):  # the `columns` of a pyarrow table are values
        if hasattr(table, attribute):
            return list(getattr(table, attribute))
    return None


def columns_of(table: Any) -> dict[str, Any]:
    """Return the columns of a table or a mapping by name.

    Columns of pyarrow are NumPy arrays, in which a null is NaN or None.

    Raises:
        ValueError: There are no named columns, or two of one name.

    Example:
        >>> columns_of({"year": [1914, 2009]})
        {'year': [1914, 2009]}
    """
    names = list(table) if isinstance(table, Mapping) else names_of(table)
    if names is None:
        raise ValueError(
            f"a {type(table).__name__} has no named columns: give a mapping or a table"
        )
    if len(set(map(str, names))) < len(names):
        raise ValueError("two columns of the table have one name: give them different names")
    columns = {str(name): table[name] for name in names}
    return {name: np.asarray(c) if _is_arrow(c) else c for name, c in columns.items()}


def _is_arrow(column: Any) -> bool:
    return hasattr(column, "__arrow_c_stream__") and not hasattr(column, "dtype")

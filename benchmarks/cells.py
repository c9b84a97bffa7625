"""Rows as tables in Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

Rows = list[dict[str, Any]]


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as a Markdown table, with three digits, or all before the point."""
    columns = list(rows[0])
    lines = [columns, ["---"] * len(columns)]
    lines += [[shown(row.get(column, "")) for column in columns] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def shown(value: Any) -> str:
    """Return a value as a cell; empty for NaN."""
    if value is None or value != value:
        return ""
    if isinstance(value, str | int):
        return str(value)
    return f"{value:.0f}" if 100 <= abs(value) < 1e6 else f"{value:.3g}"


def chosen(rows: Rows, **columns: str) -> Rows:
    """Return some columns under new names, with blanks for underscores."""
    return [{new.replace("_", " "): row[old] for new, old in columns.items()} for row in rows]

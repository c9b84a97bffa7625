"""Tables of categorical columns, `.csv` and `.tsv`."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from simplex_jax._src.corpus.categories import MAX_VALUES, MISSING, Categories
from simplex_jax._src.corpus.cells import reads_as_number
from simplex_jax._src.corpus.corpus import error_at, printable
from simplex_jax._src.corpus.formats import columns
from simplex_jax._src.corpus.formats.format import Format, source_of
from simplex_jax._src.corpus.formats.table import (
    TABS,
    check_length,
    first_record,
    long_fields,
    recognises,
    records,
    refuse_tab,
)
from simplex_jax._src.corpus.reading import Reading

Variables = tuple[Sequence[str], Sequence[Sequence[str]]]
"""A model's column names, and the values of each column."""


class Fields(NamedTuple):
    """The fields of a table, stripped of blanks."""

    table: dict[str, tuple[str, ...]]  # the columns by name, without those left out
    names: tuple[str, ...]  # row names
    line: int  # line of the column names

    @property
    def cells(self) -> dict[str, list[str | None]]:
        """The columns with None for the fields of `categories.MISSING`."""
        return {
            name: [None if field in MISSING else field for field in fields]
            for name, fields in self.table.items()
        }


def fields_of(path: Path, reading: Reading, variables: Collection[str] = ()) -> Fields:
    """Read the fields of a table whose first line names its columns.

    By default a column in `variables` does not name the rows, whatever it is called.
    """
    tabs = recognises(source_of(path), *TABS)
    with long_fields():
        lines = records(path, reading.coding, tabs=tabs)
        header = first_record(lines, path)
        if not tabs:
            refuse_tab(header, path, "name the file .tsv")
        titles = _titles(header.fields, path, header.line)
        rows = []
        for line, fields in lines:
            check_length(fields, len(titles), path, line, tabs=tabs)
            rows.append([field.strip() for field in fields])
    if not rows:
        raise error_at(path, "no row below the column names", "give a table with rows")
    table = dict(zip(titles, zip(*rows, strict=True), strict=True))
    for name in reading.drop:
        if name not in table:
            raise error_at(path, f"no column {printable(name)!r}", "drop others", line=header.line)
        del table[name]
    names = _names(table, reading.id_column, path, header.line, variables)
    if names is None:
        names = tuple(map(str, range(1, len(rows) + 1)))
    return Fields(table, names, header.line)


def read(path: Path, reading: Reading, variables: Variables | None = None) -> Categories:
    """Read a table whose first line names its columns; see `corpus.read_table`."""
    table, names, line = fields_of(path, reading, variables[0] if variables else ())
    titles, values = variables or _variables(table, path, line)
    if missing := [name for name in titles if name not in table]:
        problem = f"no column {printable(missing[0])!r}, which the model has"
        raise error_at(path, problem, "give all columns of the model", line=line)
    codes = np.full((len(names), len(titles)), -1, np.int32)
    unknown = 0
    for column, (name, levels) in enumerate(zip(titles, values, strict=True)):
        numbers = {value: number for number, value in enumerate(levels)}
        codes[:, column] = [numbers.get(field, -1) for field in table[name]]
        unknown += sum(field not in numbers and field not in MISSING for field in table[name])
    return Categories(codes, tuple(titles), tuple(map(tuple, values)), names, unknown)


_NOUN = "a table of categorical columns, .csv or .tsv"
FORMAT = Format("categories", "table", _NOUN, recognises, read, options=("id_column", "drop"))


def _titles(fields: list[str], path: Path, line: int) -> list[str]:
    titles = [field.strip() for field in fields]
    for place, title in enumerate(titles, start=1):
        if not title or title in titles[: place - 1]:
            problem = "has no name" if not title else f"is {printable(title)!r} again"
            remedy = "give every column a name of its own"
            raise error_at(path, f"column {place} {problem}", remedy, line=line)
    return titles


def _names(
    table: dict[str, tuple[str, ...]],
    id_column: str | None,
    path: Path,
    line: int,
    variables: Collection[str],
) -> tuple[str, ...] | None:
    """Remove the column of row names from a table and return it; None if there is none."""
    name = columns.id_column(list(table), id_column, path, line)
    if name is None:
        return None
    if id_column is None and (name in variables or len(set(table[name])) < len(table[name])):
        return None
    return table.pop(name)


def _variables(table: dict[str, tuple[str, ...]], path: Path, line: int) -> Variables:
    """Return the columns of a table and the values of each."""
    if not table:
        raise error_at(path, "no column is left", "give a table with a variable", line=line)
    values = [sorted(set(fields).difference(MISSING)) for fields in table.values()]
    for name, levels in zip(table, values, strict=True):
        if 0 < len(levels) <= MAX_VALUES:
            continue
        size = f"{len(levels):,} values, and is not a category" if levels else "no value"
        problem = f"column {printable(name)!r} has {size}"
        remedy = "leave it out with --drop-column (drop)"
        if levels and all(map(reads_as_number, levels)):
            remedy = f"read it as numbers (--kind mixed; in Python, a data frame), or {remedy}"
        raise error_at(path, problem, remedy, line=line)
    return list(table), values

"""Tables of categorical columns, `.csv` and `.tsv`: rows of fields that have few values each."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from simplex_jax.corpus import columns
from simplex_jax.corpus.corpus import error_at, printable
from simplex_jax.corpus.table import (
    check_length,
    long_fields,
    recognises_csv,
    recognises_tsv,
    records,
    separator_of,
)

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
"""Fields that are taken for a missing value."""

MAX_VALUES = 1_000
"""Most values of a column: one with more is a number, a name or a text, and no category."""


class Categories(NamedTuple):
    """Rows of several categorical variables.

    Attributes:
        codes: int32 [D, P], the number of each value among those of its column; -1 where missing.
        columns: P distinct names.
        values: The values of each column, sorted, P tuples.
        names: D row names.
        unknown: Fields that had a value that is not among the values given, taken for missing.
    """

    codes: np.ndarray
    columns: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    names: tuple[str, ...]
    unknown: int


def recognises(path: Path) -> bool:
    """Whether the name is that of a table: `.csv`, `.tsv` or `.tab`, or these with `.gz`."""
    return recognises_csv(path, b"") or recognises_tsv(path, b"")


def read(
    path: str | Path,
    *,
    id_column: str | None = None,
    drop: Sequence[str] = (),
    encoding: str = "utf-8",
    known: tuple[Sequence[str], Sequence[Sequence[str]]] | None = None,
) -> Categories:
    r"""Read a table whose first line names its columns; files may be gzip.

    A `.tsv` or `.tab` is separated by tabs, without quotes; all else is comma-separated, or by
    semicolons if its first line has more of them. Blanks around a field do not count, and a field
    of `MISSING` is missing; a row without any value is kept. Values are texts: 1 and 1.0 differ.

    Args:
        path: the file.
        id_column: the column of row names, which is no variable. Left out, a column called `id`
            (see `columns.IDENTITY`) is taken if no two of its fields are equal; else rows are
            numbered from 1.
        drop: columns to leave out.
        encoding: of the text.
        known: columns and their values, as a model has them. Other columns are then passed over,
            in any order, and other values taken for missing, and counted.

    Returns:
        The table.

    Raises:
        CorpusError: naming the file and the line: a record of another length, a column name that is
            empty or there twice, a column that is not there, has no value at all or more than
            1,000; no row, or no column.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     file = pathlib.Path(place, "fruit.csv")
        ...     _ = file.write_text("colour,size\nred,small\ngreen,?\n")
        ...     table = read(file)
        >>> table.codes.tolist(), table.values
        ([[1, 0], [0, -1]], (('green', 'red'), ('small',)))
    """
    path = Path(path)
    tabs = recognises_tsv(path, b"")
    separator = "\t" if tabs else separator_of(path, encoding)
    with long_fields():
        found = records(path, encoding, separator, quoted=not tabs)
        header = next(found, None)
        if header is None:
            raise error_at(path, "no record in the file", "give a line with column names")
        titles = _titles(header.fields, path, header.line)
        rows = []
        for line, fields in found:
            check_length(fields, len(titles), path, line)
            rows.append([field.strip() for field in fields])
    if not rows:
        raise error_at(path, "no row below the column names", "give a table with rows")
    table = dict(zip(titles, zip(*rows, strict=True), strict=True))
    names = _names(table, id_column, path, header.line, len(rows))
    for name in drop:
        if name not in table:
            raise error_at(path, f"no column {printable(name)!r}", "drop others", line=header.line)
        del table[name]
    if known is None:
        known = _known(table, path, header.line)
    wanted, values = tuple(known[0]), tuple(tuple(those) for those in known[1])
    if absent := [name for name in wanted if name not in table]:
        what = f"no column {printable(absent[0])!r}, which the model has"
        raise error_at(path, what, "give all columns of the model", line=header.line)
    codes = np.full((len(rows), len(wanted)), -1, np.int32)
    unknown = 0
    for place, (name, those) in enumerate(zip(wanted, values, strict=True)):
        numbers = {value: number for number, value in enumerate(those)}
        codes[:, place] = [numbers.get(field, -1) for field in table[name]]
        unknown += sum(field not in numbers and field not in MISSING for field in table[name])
    return Categories(codes, wanted, values, names, unknown)


def digest(table: Categories) -> str:
    """SHA-256 over codes, columns and values, to recognise a table; the names do not enter."""
    sha = hashlib.sha256(np.asarray(table.codes.shape, "<i8").tobytes())
    sha.update(np.ascontiguousarray(table.codes, "<i4").data)
    for text in [*table.columns, *(value for values in table.values for value in values)]:
        encoded = text.encode("utf-8", "surrogatepass")
        sha.update(len(encoded).to_bytes(8, "little") + encoded)
    return sha.hexdigest()


def select(table: Categories, which: np.ndarray) -> Categories:
    """Return some rows; `which` is bool [D]."""
    names = tuple(table.names[row] for row in np.flatnonzero(which))
    return table._replace(codes=table.codes[which], names=names)


def _titles(fields: list[str], path: Path, line: int) -> list[str]:
    titles = [field.strip() for field in fields]
    for place, title in enumerate(titles, start=1):
        if not title or title in titles[: place - 1]:
            what = "has no name" if not title else f"is {printable(title)!r} again"
            raise error_at(path, f"column {place} {what}", "name all columns apart", line=line)
    return titles


def _names(
    table: dict[str, tuple[str, ...]], given: str | None, path: Path, line: int, rows: int
) -> tuple[str, ...]:
    """Take the column of row names out of a table."""
    name = columns.id_column(list(table), given, path, line)
    if name is None or (given is None and len(set(table[name])) < rows):
        return tuple(map(str, range(1, rows + 1)))
    return table.pop(name)


def _known(
    table: dict[str, tuple[str, ...]], path: Path, line: int
) -> tuple[list[str], list[list[str]]]:
    """Columns and their values as a table has them."""
    if not table:
        raise error_at(path, "no column is left", "give a table with a variable", line=line)
    values = [sorted(set(fields).difference(MISSING)) for fields in table.values()]
    for name, those in zip(table, values, strict=True):
        if not those:
            what = f"column {printable(name)!r} has no value"
        elif len(those) > MAX_VALUES:
            what = f"column {printable(name)!r} has {len(those):,} values, and is no category"
        else:
            continue
        raise error_at(path, what, "leave it out with --drop-column (drop)", line=line)
    return list(table), values

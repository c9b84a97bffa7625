"""Entries of a sparse matrix in text, one a line: row, column and value, with ids from 1."""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from simplex_jax.corpus import files
from simplex_jax.corpus.corpus import MAX_COUNT, error_at, printable


class Layout(NamedTuple):
    """What the entries of a file look like.

    Attributes:
        names: of row, column and value in messages.
        shape: largest row and column.
        entries: how many the header declares.
        line: of the header that declares it.
        values: `integer`, `real` (whole numbers, however written) or `pattern` (none: all are 1).
    """

    names: tuple[str, str, str]
    shape: tuple[int, int]
    entries: int
    line: int
    values: str = "integer"


def entries(
    stream: io.BufferedReader, path: Path, layout: Layout, line: int
) -> Iterator[np.ndarray]:
    """Read all entries of a file, from its line `line` on.

    Yields:
        Rows and columns from 1, and values 0..2**24, int32 [n, 3], in the order of the file.

    Raises:
        CorpusError: a line is no entry, or out of range, or there are not as many as declared.
    """
    found = 0
    for number, chunk in files.line_blocks(stream, path, line, files.BLOCK):
        table = _quickly(chunk, layout)
        if table is None or found + len(table) > layout.entries:
            table = _slowly(chunk, path, layout, number, found)
        found += len(table)
        yield table
    if found < layout.entries:
        raise error_at(
            path,
            f"the header declares {layout.entries} entries, the file has {found}",
            "is the file complete?",
            line=layout.line,
        )


def _quickly(chunk: bytes, layout: Layout) -> np.ndarray | None:
    """Entries of lines that are all well formed and in range; None if one may not be."""
    lines = chunk.count(b"\n")
    fields = 2 if layout.values == "pattern" else 3
    if layout.values == "real":
        chunk = re.sub(rb"\.0*(?:[eE]\+?0+)?(?=\n)", b"", chunk)
    # With the digits taken out, well-formed lines all look the same. What looks different, has an
    # empty field, or a number out of range is read again slowly, to allow more blanks or to say
    # which line is wrong.
    if chunk.translate(None, b"0123456789") != (b" " * (fields - 1) + b"\n") * lines:
        return None
    numbers = np.fromstring(chunk, np.int64, sep=" ")
    if numbers.size != fields * lines:
        return None
    table = numbers.reshape(lines, fields)
    if fields == 2:
        table = np.column_stack([table, np.ones(lines, np.int64)])
    if (table < (1, 1, 0)).any() or (table > (*layout.shape, MAX_COUNT)).any():
        return None
    return table.astype(np.int32)


def _slowly(chunk: bytes, path: Path, layout: Layout, line: int, found: int) -> np.ndarray:
    table: list[list[int]] = []
    for number, text in enumerate(chunk.split(b"\n"), start=line):
        if not text.strip():
            continue
        table.append(_entry(text, path, layout, number))
        if found + len(table) > layout.entries:
            raise error_at(
                path,
                f"more entries than the {layout.entries} that the header declares",
                f"correct line {layout.line} of the file",
                line=number,
            )
    return np.array(table, np.int32).reshape(-1, 3)


def _entry(text: bytes, path: Path, layout: Layout, line: int) -> list[int]:
    """The entry on one line."""
    fields = text.split()
    real, pattern = layout.values == "real", layout.values == "pattern"
    names = layout.names[:2] if pattern else layout.names
    grammars = (files.WHOLE, files.WHOLE, files.REAL if real else files.WHOLE)[: len(names)]
    if len(fields) != len(names) or not all(map(re.fullmatch, grammars, fields)):
        shown = printable(repr(text[:60].strip())[1:])
        what = f"{'two' if pattern else 'three'} {'' if real else 'whole '}numbers"
        write = " ".join(name.removesuffix(" id") for name in names)
        raise error_at(path, f"{shown} is not {what}", f"write `{write}`", line=line)
    value = 1 if pattern else float(fields[2]) if real else int(fields[2])
    entry = (int(fields[0]), int(fields[1]), value)
    highs = (*layout.shape, MAX_COUNT)
    for name, number, low, high in zip(layout.names, entry, (1, 1, 0), highs, strict=True):
        if not low <= number <= high:
            problem, remedy = f"is not in {low}..{high}", "correct the line, or the header"
        elif number != int(number):
            problem, remedy = "is not a whole number", "give counts, not weights such as tf-idf"
        else:
            continue
        raise error_at(path, f"{name} {number} {problem}", remedy, line=line)
    return [int(number) for number in entry]

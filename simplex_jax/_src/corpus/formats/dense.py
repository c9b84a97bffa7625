"""Tables of counts, `.csv` and `.tsv`: one document a record, and one word a column.

Other tables have columns of numbers too, so the format is used only where it is named.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus.corpus import Corpus, error_at, printable
from simplex_jax._src.corpus.formats import columns
from simplex_jax._src.corpus.formats.format import Format, source_of
from simplex_jax._src.corpus.formats.matrix import corpus_of
from simplex_jax._src.corpus.formats.table import (
    TABS,
    first_record,
    of_width,
    recognises,
    records,
    refuse_tab,
)
from simplex_jax._src.corpus.reading import Reading

_NUMBERS = re.compile(r"(?:[ \t]*+\d++(?:\.\d*+)?(?:[eE]\+?\d++)?[ \t]*+\n)*+", re.ASCII)
"""Numbers, one a line; that they are whole is checked later. R writes 1e+05."""


def read(path: Path, reading: Reading) -> Corpus:
    """Read counts [D, V], or [V, D] with `reading.transpose`, below a line of column names.

    Documents are named by the column `reading.id_column`, or by the first one if it has no title,
    as pandas and R write it, or a usual title such as `doc_id`; else they are numbered from 1. As
    that title may be a word, names in such a column must be distinct.
    """
    tabs = recognises(source_of(path), *TABS)
    values, places, ends, names = [], [], [0], []
    table = records(path, reading.coding, tabs=tabs)
    header = first_record(table, path)
    if not tabs:
        refuse_tab(header, path, "name the file .tsv")
    words = list(header.fields)
    place = _place_of_names(words, reading, path, header.line)
    if place is not None:
        del words[place]
    for line, fields in of_width(table, len(header.fields), path, tabs=tabs):
        if place is not None:
            names.append(fields.pop(place))
        row = _numbers(fields, words, path, line)
        nonzero = np.flatnonzero(row)
        values.append(row[nonzero])
        places.append(nonzero)
        ends.append(ends[-1] + len(nonzero))
    if place == 0 and reading.id_column is None and len(set(names)) < len(names):
        title = printable(header.fields[0])
        raise error_at(
            path,
            f"the first column, {title!r}, names two documents alike",
            "if it has names, give --id-column (id_column); if it has counts, put it elsewhere",
        )
    if not values or not words:
        raise error_at(path, "no counts below the line of column names", "give documents and words")
    parts = np.concatenate(values), np.concatenate(places), np.array(ends)
    counts = sp.csr_array(parts, shape=(len(values), len(words)))
    return corpus_of(counts, path, reading, words, names or None, first=1)


FORMAT = Format(
    "dense",
    "counts",
    "CSV or TSV with a column of counts for each word, only if named",
    lambda source: False,
    read,
    options=("id_column", "names", "transpose"),
)


def _place_of_names(titles: Sequence[str], reading: Reading, path: Path, line: int) -> int | None:
    """Return the column of the document names, or None if there is none."""
    if reading.id_column is not None:
        return titles.index(columns.id_column(titles, reading.id_column, path, line) or "")
    first = titles[0].strip().lower()
    return 0 if not first or first in columns.IDENTITY else None


def _numbers(fields: Sequence[str], words: Sequence[str], path: Path, line: int) -> np.ndarray:
    """Return the numbers of a record, or raise a CorpusError for a field that is not one."""
    if _are_numbers(fields):
        return np.array(fields, np.float64)
    place = next(n for n, field in enumerate(fields) if not _are_numbers([field]))
    raise error_at(
        path,
        f"{printable(fields[place])!r} in column {printable(words[place])!r} is not a count",
        "correct it, or name the column of the documents' names with --id-column (id_column)",
        line=line,
    )


def _are_numbers(fields: Sequence[str]) -> bool:
    lines = "".join(f"{field}\n" for field in fields)
    return lines.count("\n") == len(fields) and _NUMBERS.fullmatch(lines) is not None

"""Plain text with one document a line."""

import re
from collections.abc import Iterator
from pathlib import Path

from simplex_jax._src.corpus.corpus import error_at
from simplex_jax._src.corpus.files import text_lines
from simplex_jax._src.corpus.frames import TEXT, triple_of
from simplex_jax._src.corpus.reading import Reading, Source, text_format

_TITLE = re.compile(r"[\w.-][\w .-]{0,30}")
"""A name of a column; what follows a comma of a sentence begins with a blank."""


def recognises(source: Source) -> bool:
    """Recognise any file; reading shows whether it is text."""
    return not source.folder


def texts(path: Path, reading: Reading) -> Iterator[tuple[str, str]]:
    """Yield the numbers and texts of lines.

    A blank line is an empty document, so document i is always line i. If the first line has names
    of columns, the file may be a table, and is refused unless the format is named.
    """
    for number, line in text_lines(path, reading.coding):
        if number == 1 and reading.format is None and (kind := _kind_of_table(line)):
            problem = "the first line seems to have column names"
            raise error_at(path, problem, f"give --format (format) {kind}, or lines", line=1)
        yield str(number), line


FORMAT = text_format("lines", "a file with one document a line", recognises, texts)


def _kind_of_table(line: str) -> str | None:
    """Return the format of which a line has the column names; None of other lines."""
    for separator in "\t,;|":
        titles = [title.strip('"') for title in line.lstrip("\ufeff").split(separator)]
        if len(titles) > 1 and all(map(_TITLE.fullmatch, titles)):
            if triple_of(titles) is not None:
                return "triples"
            if {title.strip().lower() for title in titles} & set(TEXT):
                return "tsv" if separator == "\t" else "csv"
    return None

"""Files in which a person names, merges and leaves out topics.

A line is for one topic of the result: its number, or the numbers of topics to merge joined by +,
then its name, if any; or `drop` and such numbers, of topics to leave out:

    3+7  Farms and weather
    12   Steam engines
    drop 5

Blank lines and those that begin with # have no effect. A file that ends in .csv is a table with the
columns `topic`, such as 3+7 or drop 5, and `name`; it may have others.
"""

import codecs
import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from simplex_jax._src.corpus.corpus import error_at

_DROP = "drop"


class Line(NamedTuple):
    """A line of a file."""

    number: int  # of the line, counted from 1
    topics: tuple[int, ...]  # a topic, or those to merge or to leave out
    name: str  # "" for none
    dropped: bool  # whether to leave the topics out


def read(path: Path, topics: int) -> list[Line]:
    """Return the lines of a file about topics 0 to `topics` - 1; each is in one line at most."""
    lines: list[Line] = []
    given: dict[int, int] = {}
    for number, text, numbers, name in _cells(path):
        word, _, rest = numbers.partition(" ")
        dropped = word == _DROP
        places = [part.strip() for part in (rest if dropped else numbers).split("+")]
        chosen = tuple(int(part) if part.isdecimal() else -1 for part in places)
        is_wrong = not all(0 <= topic < topics for topic in chosen) or (dropped and name)
        if is_wrong or re.match(r"\+\s*\d", name):  # a blank within numbers to merge
            raise error_at(
                path,
                f"{text!r} is not a number of a topic from 0 to {topics - 1} and a name",
                "write for example 3 Farms, or to merge topics 3+7 Farms, or drop 5 to leave one "
                "out, with a blank or a tab between them",
                line=number,
            )
        for topic in chosen:
            if topic in given:
                raise error_at(
                    path,
                    f"topic {topic} is in line {given[topic]} already",
                    "give each topic once",
                    line=number,
                )
            given[topic] = number
        lines.append(Line(number, chosen, name, dropped))
    return lines


def read_names(path: Path, topics: int) -> dict[int, str]:
    """Return the names of topics by number in a file that only names."""
    names: dict[int, str] = {}
    for line in read(path, topics):
        if line.dropped or len(line.topics) > 1:
            raise error_at(
                path,
                "this line merges topics or leaves them out, and --topic-names only names",
                "give the file to the command edit",
                line=line.number,
            )
        if line.name:
            names[line.topics[0]] = line.name
        elif path.suffix.lower() != ".csv":  # a table may list topics without names
            raise error_at(
                path,
                f"topic {line.topics[0]} has no name",
                "write for example 3 Farms, or leave the line out",
                line=line.number,
            )
    return names


def _text_of(path: Path) -> str:
    """Return the text of a file in UTF-8, or in UTF-16 with a byte-order mark."""
    data = path.read_bytes()
    marked = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "utf-16" if marked else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise error_at(
            path,
            f"this line is not {'UTF-16' if marked else 'UTF-8'}",
            "save the file as UTF-8, which Excel calls CSV UTF-8",
            line=error.object[: error.start].count(b"\n") + 1,
        ) from None


def _cells(path: Path) -> Iterator[tuple[int, str, str, str]]:
    """Yield the number of each line, its text, its topics, as "3+7" or "drop 5", and its name."""
    text = _text_of(path)
    if path.suffix.lower() == ".csv":
        yield from _cells_of_table(path, text)
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        first, *rest = line.split(maxsplit=1)
        if first == _DROP:
            yield number, line, f"{first} {' '.join(rest)}".strip(), ""
        else:
            yield number, line, first, rest[0].strip() if rest else ""


def _cells_of_table(path: Path, text: str) -> Iterator[tuple[int, str, str, str]]:
    delimiter = ";" if ";" in text.partition("\n")[0] else ","  # as Excel of many countries writes
    rows = csv.reader(text.splitlines(keepends=True), delimiter=delimiter)
    header = [cell.strip().lower() for cell in next(rows, [])]
    if "topic" not in header:
        raise error_at(path, "there is no column topic", "name it in the first line", line=1)
    columns = [header.index(name) if name in header else -1 for name in ("topic", "name")]
    for row in rows:
        topic, name = (row[c].strip() if 0 <= c < len(row) else "" for c in columns)
        if topic:
            yield rows.line_num, delimiter.join(row), topic, name

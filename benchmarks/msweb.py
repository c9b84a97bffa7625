"""The DST format of the Anonymous Microsoft Web Data: attributes, cases and their votes.

A line starts with its kind. `A,1287,1,"title","/url"` names an attribute and its id,
`C,"10001",10001` begins a case, and every `V,1287,1` below it is a vote of the case for an
attribute. `I`, `T` and `N` lines describe the file. Fields after a vote's id have no meaning.
"""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus import Corpus, CorpusError, from_counts
from simplex_jax._src.corpus.corpus import error_at, printable
from simplex_jax._src.corpus.files import UTF8
from simplex_jax._src.corpus.formats.tables import of_width, records

_DESCRIPTION = ("I", "T", "N")
_LENGTHS = {"A": 5, "C": 3, "V": 3}


class _Title(NamedTuple):
    title: str
    url: str


def read(path: Path) -> Corpus:
    """Read cases as documents and attributes as words, in the order of their ids.

    The word of an attribute is its title, with its URL in brackets if another one has the same. A
    vote counts one; a case without votes is an empty document. Documents are named after their
    cases.

    Raises:
        CorpusError: naming the file and the line.
    """
    attributes: dict[int, _Title] = {}
    names: list[str] = []
    votes: list[tuple[int, int, int]] = []  # case, id, line
    for record in records(path, UTF8, tabs=False):
        line, (kind, *fields) = record
        if kind in _LENGTHS:
            list(of_width([record], _LENGTHS[kind], path, tabs=False))  # raises if it is not
        if kind == "A":
            number = _id(fields[0], path, line)
            if number in attributes:
                raise _wrong(path, line, f"attribute {number} is there twice", "leave one out")
            attributes[number] = _Title(fields[2].strip(), fields[3].strip())
        elif kind == "C":
            names.append(fields[0])
        elif kind == "V":
            if not names:
                raise _wrong(path, line, "a vote before any case", "begin with a C line")
            votes.append((len(names) - 1, _id(fields[0], path, line), line))
        elif kind not in _DESCRIPTION:
            what = f"a line of the kind {printable(kind)!r}"
            raise _wrong(path, line, what, "lines start with A, C, V, I, T or N and a comma")
    if not attributes or not names:
        missing = "case (C line)" if attributes else "attribute (A line)"
        raise error_at(path, f"no {missing} in the file", "is the file complete?")
    columns = {number: column for column, number in enumerate(sorted(attributes))}
    for _, number, line in votes:
        if number not in columns:
            what = f"a vote for {number}, which is not an attribute of the file"
            raise _wrong(path, line, what, "give the attribute an A line")
    table = sp.coo_array(
        (
            np.ones(len(votes), np.int64),
            ([case for case, *_ in votes], [columns[number] for _, number, _ in votes]),
        ),
        shape=(len(names), len(attributes)),
    )
    words = _words([attributes[number] for number in columns])
    return from_counts(table, words, names, source=str(path))


def _words(titles: list[_Title]) -> list[str]:
    """One word each: the title, with the URL if the title is not unique."""
    times = Counter(title for title, _ in titles)
    return [title if times[title] == 1 else f"{title} ({url})".strip() for title, url in titles]


def _id(text: str, path: Path, line: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        what = f"the id {printable(text)!r} is not a whole number"
        raise _wrong(path, line, what, "attributes have numbers")
    return int(text)


def _wrong(path: Path, line: int, problem: str, remedy: str) -> CorpusError:
    return error_at(path, problem, remedy, line=line)

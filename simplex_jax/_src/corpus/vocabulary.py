"""Files with one word, or one document name, a line."""

import os
import re
import unicodedata
import warnings
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from simplex_jax._src.corpus.corpus import error_at, printable
from simplex_jax._src.corpus.files import text_lines
from simplex_jax._src.corpus.packed import SUFFIXES, content_name

FEATURES = ("features.tsv", "genes.tsv")
"""Ends of the names of files of features of a 10x matrix."""

_ENTRY = re.compile(r"(\d{1,9})\t(\S.*)\t\d+")
"""A line of gensim's dictionary."""

_SUSPICIOUS = 50
"""Tokens of which a model should know at least one."""


def read_vocabulary(path: str | Path) -> tuple[str, ...]:
    """Read a vocabulary: one word a line, UTF-8, packed or not; word ids are line numbers.

    Blank lines at the end and blanks around words are ignored. The words are distinct. Two kinds of
    tables are read too: the dictionary that gensim's `Dictionary.save_as_text` writes, by its ids,
    and the `features.tsv` or `genes.tsv` of 10x, by its names, made `distinct`.

    Raises:
        CorpusError: The file cannot be read, is not UTF-8 text, or has an empty or repeated word,
            or is another table.
    """
    path = Path(path)
    if content_name(path).endswith(FEATURES):
        return distinct(read_features(path).names)
    if is_dictionary(path):
        return _read_dictionary(path)
    line_of: dict[str, int] = {}
    blank = 0
    for number, line in text_lines(path):
        word = line.strip()
        if not word:
            blank = blank or number
        elif blank:
            raise error_at(path, "no word on this line", "give one word a line", line=blank)
        elif "\t" in word:
            problem = f"{word.count(chr(9)) + 1} fields that tabs separate, not a word"
            raise error_at(path, problem, "keep the words alone (cut -f)", line=number)
        elif word in line_of:
            raise error_at(
                path,
                f"{printable(word)!r} is already the word of line {line_of[word]}",
                "make the words distinct",
                line=number,
            )
        else:
            line_of[word] = number
    if not line_of:
        raise error_at(path, "no word in the file", "give one word a line")
    return tuple(line_of)


def is_dictionary(path: str | Path) -> bool:
    """Return whether a file is a dictionary of gensim: `id, word, documents`, separated by tabs."""
    head = [line for _, line in islice(text_lines(Path(path)), 2)]
    return _ENTRY.fullmatch(head[-1]) is not None


def _read_dictionary(path: Path) -> tuple[str, ...]:
    words: dict[int, str] = {}
    for number, line in text_lines(path):
        entry = _ENTRY.fullmatch(line)
        if entry is None:
            if number == 1 and line.strip().isdecimal():
                continue  # the number of documents
            problem = "not an entry of gensim's dictionary"
            remedy = "write `id, word, documents`, separated by tabs"
            raise error_at(path, problem, remedy, line=number)
        index = int(entry[1])
        if index in words:
            remedy = "save the dictionary again"
            raise error_at(path, f"id {index} occurs again", remedy, line=number)
        words[index] = entry[2]
    missing = next((index for index in range(len(words)) if index not in words), None)
    if missing is not None:
        remedy = "make ids consecutive with compactify(), and write the corpus again"
        raise error_at(path, f"no word has id {missing}", remedy)
    return tuple(words[index] for index in range(len(words)))


class Features(NamedTuple):
    """The features of a 10x matrix, such as genes."""

    ids: tuple[str, ...]
    names: tuple[str, ...]  # not necessarily distinct
    types: tuple[str, ...]  # such as "Gene Expression", or empty if not known


def read_features(path: Path) -> Features:
    """Read a `features.tsv` of id, name and type, or a `genes.tsv` without types.

    Further fields are ignored. A feature without a name has its id.
    """
    rows = []
    for number, line in text_lines(path):
        feature, name, kind, *_ = (*map(str.strip, line.split("\t")), "", "", "")
        if not feature and line.strip():
            raise error_at(path, "no id of the feature", "write `id, name, type`", line=number)
        rows.append((feature, name or feature, kind))
    while rows and not rows[-1][0]:
        rows.pop()
    if not rows:
        raise error_at(path, "no feature in the file", "give one a line")
    if blank := next((number for number, row in enumerate(rows, 1) if not row[0]), None):
        raise error_at(path, "the line is blank", "give one feature a line", line=blank)
    return Features(*zip(*rows, strict=True))


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Append `-1`, `-2` and so on to names that occur again, as AnnData does.

    Example:
        >>> distinct(["a", "b", "a", "a-1", "a"])
        ('a', 'b', 'a-2', 'a-1', 'a-3')
    """
    taken, seen, result = set(names), dict[str, int](), []
    for name in names:
        count = seen.get(name, 0)
        label = name
        while count and label in taken:
            label, count = f"{name}-{count}", count + 1
        seen[name] = max(count, 1)
        taken.add(label)
        result.append(label)
    return tuple(result)


def columns_of(vocabulary: Sequence[str]) -> Callable[[str], int | None]:
    r"""Return a function from words to columns, None for unknown words.

    Without an exact match, a word has the first column whose word is the same text in Unicode:
    accented letters may be one character or several.

    Example:
        >>> column = columns_of(["caf\u00e9", "cafe"])
        >>> column("cafe"), column("cafe\u0301"), column("tea")
        (1, 0, None)
    """
    exact = {word: column for column, word in enumerate(vocabulary)}
    same = {composed(word): column for word, column in reversed(exact.items())}
    return lambda word: exact.get(word, same.get(composed(word)))


def warn_of_foreign(tokens: int, source: str, remedy: str) -> None:
    """Warn that not one of many tokens is a word of a model; a few unknown words are normal."""
    if tokens >= _SUSPICIOUS:
        warnings.warn(
            f"{printable(source)}: none of its {tokens:,} tokens is a word of the model, and every "
            f"document is treated as empty; {remedy}",
            stacklevel=4,
        )


def composed(text: str) -> str:
    """Return a text in NFC, with accented letters as single characters where possible."""
    return unicodedata.normalize("NFC", text)


def vocabulary_beside(path: Path, names: Sequence[str]) -> Path | None:
    """Return the first of `names`, plain or packed, that exists in the folder of `path`."""
    files = (path.with_name(name + ending) for name in names for ending in ("", *SUFFIXES))
    return next((file for file in files if os.path.isfile(file)), None)


def read_names(path: str | Path) -> tuple[str, ...]:
    """Read document names: one a line, UTF-8, packed or not; blank lines at the end are ignored.

    Raises:
        CorpusError: The file cannot be read, or is not UTF-8 text.
    """
    names = [line.strip() for _, line in text_lines(Path(path))]
    while names and not names[-1]:
        names.pop()
    return tuple(names)


def numbered(documents: int, first: int = 1) -> tuple[str, ...]:
    """Return numbers from `first` as names of documents that have none."""
    return tuple(map(str, range(first, first + documents)))

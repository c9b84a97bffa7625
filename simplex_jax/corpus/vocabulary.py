"""Files with one word, or one document name, a line."""

import os
import unicodedata
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from simplex_jax.corpus.corpus import error_at, printable
from simplex_jax.corpus.files import text_lines
from simplex_jax.corpus.packed import SUFFIXES

_SUSPICIOUS = 50
"""Tokens of which a model should know at least one."""


def read_vocabulary(path: str | Path) -> tuple[str, ...]:
    """Read a vocabulary: one word a line, UTF-8, packed or not; word ids are line numbers.

    Blank lines at the end and blanks around words are ignored. The words are distinct.

    Raises:
        CorpusError: The file cannot be read, is not UTF-8 text, or has an empty or repeated word.
    """
    path = Path(path)
    line_of: dict[str, int] = {}
    blank = 0
    for number, line in text_lines(path):
        word = line.strip()
        if not word:
            blank = blank or number
        elif blank:
            raise error_at(path, "no word on this line", "give one word a line", line=blank)
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


def read_names(path: Path) -> tuple[str, ...]:
    """Read document names: one a line, UTF-8, packed or not; blank lines at the end are ignored.

    Raises:
        CorpusError: The file cannot be read, or is not UTF-8 text.
    """
    names = [line.strip() for _, line in text_lines(path)]
    while names and not names[-1]:
        names.pop()
    return tuple(names)


def numbered(documents: int, first: int = 1) -> tuple[str, ...]:
    """Return numbers from `first` as names of documents that have none."""
    return tuple(map(str, range(first, first + documents)))

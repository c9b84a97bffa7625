"""Vocabulary files: one word a line."""

from pathlib import Path

from simplex_jax.corpus.corpus import error_at, printable
from simplex_jax.corpus.files import text_lines


def read_vocabulary(path: str | Path) -> tuple[str, ...]:
    """Read a vocabulary: one word a line, UTF-8, gzip or not; word ids are line numbers.

    Args:
        path: the file. Blank lines at its end are left out; blanks around a word too.

    Returns:
        The words, all distinct.

    Raises:
        CorpusError: the file cannot be read, is not UTF-8 text, or has an empty or repeated word.
    """
    path = Path(path)
    numbered: dict[str, int] = {}
    blank = 0
    for number, line in text_lines(path):
        word = line.strip()
        if not word:
            blank = blank or number
        elif blank:
            raise error_at(path, "no word on this line", "give one word a line", line=blank)
        elif word in numbered:
            raise error_at(
                path,
                f"{printable(word)!r} is already the word of line {numbered[word]}",
                "make the words distinct",
                line=number,
            )
        else:
            numbered[word] = number
    if not numbered:
        raise error_at(path, "no word in the file", "give one word a line")
    return tuple(numbered)

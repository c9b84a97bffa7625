"""Plain text with one document a line."""

import os
from collections.abc import Iterator
from pathlib import Path

from simplex_jax.corpus.corpus import Corpus
from simplex_jax.corpus.files import text_lines
from simplex_jax.corpus.reading import Reading, corpus_of_texts


def recognises(path: Path, head: bytes) -> bool:
    """Whether `path` is a file; what is no text is told when it is read."""
    return not os.path.isdir(path)


def read(path: Path, how: Reading) -> Corpus:
    """Read one document a line, named by the number of the line.

    A blank line is an empty document, so that document i is always line i.

    Raises:
        CorpusError: the file cannot be read or is not text.
    """
    names: list[str] = []

    def documents() -> Iterator[str]:
        for number, line in text_lines(path, how.encoding):
            names.append(str(number))
            yield line

    return corpus_of_texts(documents(), names, path, how)

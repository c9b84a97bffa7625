"""Plain text with one document a line."""

from collections.abc import Iterator
from pathlib import Path

from simplex_jax._src.corpus.corpus import Corpus
from simplex_jax._src.corpus.files import text_lines
from simplex_jax._src.corpus.reading import Format, Reading, Source, corpus_of_texts


def recognises(source: Source) -> bool:
    """Recognise any file; reading shows whether it is text."""
    return not source.folder


def read(path: Path, reading: Reading) -> Corpus:
    """Read one document a line, named by its line number.

    A blank line is an empty document, so document i is always line i.
    """
    return corpus_of_texts(texts(path, reading), path, reading)


def texts(path: Path, reading: Reading) -> Iterator[tuple[str, str]]:
    """Yield the numbers and texts of lines."""
    for number, line in text_lines(path, reading.coding):
        yield str(number), line


FORMAT = Format("lines", "counts", "a file with one document a line", recognises, read, texts=texts)

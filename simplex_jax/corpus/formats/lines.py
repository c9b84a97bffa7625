"""Plain text with one document a line."""

from pathlib import Path

from simplex_jax.corpus.corpus import Corpus
from simplex_jax.corpus.files import text_lines
from simplex_jax.corpus.formats.format import Format, Source
from simplex_jax.corpus.reading import Reading, corpus_of_texts


def recognises(source: Source) -> bool:
    """Recognise any file: whether it is text shows when it is read."""
    return not source.folder


def read(path: Path, reading: Reading) -> Corpus:
    """Read one document a line, named by the number of the line.

    A blank line is an empty document, so that document i is always line i.
    """
    lines = text_lines(path, reading.encoding)
    return corpus_of_texts(((str(number), line) for number, line in lines), path, reading)


FORMAT = Format("lines", "counts", "a file with one document a line", recognises, read)

"""Plain text with one document a line."""

from collections.abc import Iterator
from pathlib import Path

from simplex_jax._src.corpus.files import text_lines
from simplex_jax._src.corpus.reading import Reading, Source, text_format


def recognises(source: Source) -> bool:
    """Recognise any file; reading shows whether it is text."""
    return not source.folder


def texts(path: Path, reading: Reading) -> Iterator[tuple[str, str]]:
    """Yield the numbers and texts of lines.

    A blank line is an empty document, so document i is always line i.
    """
    for number, line in text_lines(path, reading.coding):
        yield str(number), line


FORMAT = text_format("lines", "a file with one document a line", recognises, texts)

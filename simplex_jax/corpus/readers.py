"""Reading a corpus from disk, its format recognised or named."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from simplex_jax.corpus import folder, lines, npz, uci
from simplex_jax.corpus.corpus import Corpus
from simplex_jax.corpus.files import ascii_compatible, reading
from simplex_jax.corpus.text import TextOptions


class Format(NamedTuple):
    """A file format: two functions of one module.

    Attributes:
        recognises: `(path, head)`, whether the path, or the first 4 KiB of its unpacked content,
            tell that it is in this format.
        read: `(path, vocabulary, text, encoding)`, the corpus; formats that hold counts have no
            use for the last two.
    """

    recognises: Callable[[Path, bytes], bool]
    read: Callable[[Path, Path | None, TextOptions, str], Corpus]


FORMATS = {
    "folder": Format(folder.recognises, folder.read),
    "uci": Format(uci.recognises, uci.read),
    "npz": Format(npz.recognises, npz.read),
    "lines": Format(lines.recognises, lines.read),
}
"""All formats by name, in the order in which they are tried."""


def read(
    path: str | Path,
    format: str | None = None,
    vocabulary: str | Path | None = None,
    text: TextOptions | None = None,
    encoding: str = "utf-8",
) -> Corpus:
    r"""Read a corpus from a file or folder; files may be gzip, whatever their name.

    Args:
        path: where it is.
        format: `folder` (of text files), `lines` (one document a line), `uci` (bag of words:
            docword and vocab) or `npz` (SciPy sparse); recognised when left out.
        vocabulary: file with one word a line. For text, only these words are counted; for `uci`
            it replaces the vocab file next to `path`; for `npz` it names the columns.
        text: tokens and vocabulary limits for `folder` and `lines`; `TextOptions()` when left out.
        encoding: of the text in `folder` and `lines`; vocabularies are UTF-8.

    Returns:
        The corpus, empty documents included.

    Raises:
        CorpusError: something is wrong with the data; one line `FILE:LINE: what is wrong; what to
            do`.
        ValueError: `format` or `encoding` is unknown.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     file = pathlib.Path(place, "fruit.txt")
        ...     _ = file.write_text("apple pear\npear plum\n")
        ...     corpus = read(file, text=TextOptions(min_df=1, max_df=1.0))
        >>> corpus.vocabulary, corpus.names
        (('apple', 'pear', 'plum'), ('1', '2'))
    """
    if format is not None and format not in FORMATS:
        raise ValueError(f"format={format!r}: give one of {', '.join(FORMATS)}")
    ascii_compatible(encoding)  # raises for an unknown one, before any file is read
    path = Path(path)
    vocabulary = Path(vocabulary) if vocabulary is not None else None
    chosen = FORMATS[format or _recognised(path)]
    return chosen.read(path, vocabulary, text or TextOptions(), encoding)


def _recognised(path: Path) -> str:
    head = b""
    if not os.path.isdir(path):
        with reading(path) as (stream, _):
            head = stream.peek(4096)[:4096]
    return next(name for name, kind in FORMATS.items() if kind.recognises(path, head))

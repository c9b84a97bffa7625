"""A folder of text files, one document each."""

import os
from collections.abc import Iterator
from pathlib import Path

from simplex_jax.corpus.corpus import Corpus, error_at
from simplex_jax.corpus.files import MAX_DOCUMENT, decoded, reading, unreadable
from simplex_jax.corpus.reading import Reading, corpus_of_texts


def recognises(path: Path, head: bytes) -> bool:
    """Whether `path` is a folder."""
    return os.path.isdir(path)


def read(path: Path, how: Reading) -> Corpus:
    """Read all files below a folder, sorted by their path, which becomes the document's name.

    Hidden files and folders (a leading dot) and links to folders are left out; an empty file is
    an empty document; a file may be gzip.

    Raises:
        CorpusError: the folder holds no file, or a file cannot be read or is not text.
    """
    if not os.path.isdir(path):
        raise error_at(path, "not a folder", "give a folder of text files, or another format")
    files = sorted(_files(path))
    if not files:
        raise error_at(path, "no file in the folder", "give a folder of text files")
    names = [os.fsencode(name).decode("utf-8", "backslashreplace") for name, _ in files]
    return corpus_of_texts((_document(file, how.encoding) for _, file in files), names, path, how)


def _files(root: Path) -> Iterator[tuple[str, Path]]:
    def stop(error: OSError) -> None:
        raise unreadable(Path(error.filename or root), error)

    for folder, subfolders, files in os.walk(root, onerror=stop):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        for name in files:
            if not name.startswith("."):
                path = Path(folder, name)
                yield path.relative_to(root).as_posix(), path


def _document(path: Path, encoding: str) -> str:
    try:
        if path.stat().st_size == 0:
            return ""
    except OSError as error:
        raise unreadable(path, error) from None
    with reading(path) as (stream, _):
        data = stream.read(MAX_DOCUMENT + 1)
    if len(data) > MAX_DOCUMENT:
        raise error_at(path, "the file has more than 64 MiB", "cut it into documents")
    return decoded(data, path, encoding)

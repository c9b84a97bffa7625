"""A file format as a record of functions, and the source that these recognise."""

import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from simplex_jax._src.corpus import files, packed
from simplex_jax._src.corpus.encodings import Encoding
from simplex_jax._src.corpus.reading import Blocks, Metadata, Reading

Kind = Literal["counts", "vectors"]
"""Contents of a file: a `Corpus` or `UnitVectors`."""


class Source(NamedTuple):
    """A file or folder whose format is to be recognised."""

    path: Path  # the file or folder
    name: str  # of its content, in lower case, without a suffix of packed files
    head: bytes  # up to 4 KiB of its unpacked content; empty for a folder
    folder: bool  # true for a folder, and for a zip archive of several files

    def named(self, *endings: str) -> bool:
        """Return whether it is a file whose name ends in one of these."""
        return not self.folder and self.name.endswith(endings)


class Format(NamedTuple):
    """A file format."""

    name: str  # as users give it
    kind: Kind  # of its contents
    description: str  # noun phrase, for help texts and docs
    recognises: Callable[[Source], bool]  # tells whether a source is in this format
    read: Callable[[Path, Reading], Any]  # `(path, reading)`, the contents
    # Fields of `Reading` that it uses, besides those that all formats use
    options: tuple[str, ...] = ()
    # `(path, reading)`, the options with those filled in that the file determines
    resolve: Callable[[Path, Reading], Reading] = lambda path, reading: reading
    # `(path, reading)`, a corpus a few documents at a time; None if it is read as a whole
    blocks: Callable[[Path, Reading], AbstractContextManager[Blocks]] | None = None
    # `(path, reading, wanted)`, document names and metadata columns; None if it has no such columns
    columns: Callable[[Path, Reading, Sequence[str]], Metadata] | None = None
    # `(path, reading)`, names and texts of the documents; None if it has no texts
    texts: Callable[[Path, Reading], Iterator[tuple[str, str]]] | None = None
    # `(path, reading)`, what is read from which columns, for people; None if it has no columns
    taken: Callable[[Path, Reading], str] | None = None


def source_of(path: Path) -> Source:
    """Return the source at a path; raise a CorpusError if it is unreadable or empty."""
    if os.path.isdir(path):
        return Source(path, path.name.lower(), b"", folder=True)
    members = members_of(path)
    name = packed.content_name(path, members)
    if members is not None and len(members) != 1:
        return Source(path, name, b"", folder=True)
    with files.reading(path, Encoding(errors="replace")) as (stream, _):
        return Source(path, name, stream.peek(files.HEAD)[: files.HEAD], folder=False)


def members_of(path: Path) -> list[zipfile.ZipInfo] | None:
    """Return the files of a zip archive (see `packed.zip_members`); None for other files."""
    with files.open_regular(path) as file:
        magic = file.read(2)
        return packed.zip_members(file) if magic == packed.ZIP else None

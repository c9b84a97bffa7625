"""A folder or zip archive of text files, one document each."""

import os
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path

from simplex_jax._src.corpus import files
from simplex_jax._src.corpus.corpus import error_at, printable
from simplex_jax._src.corpus.files import Encoding, Stream, recoded
from simplex_jax._src.corpus.reading import Reading, Source, members_of, text_format

_TABLES = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".json")
"""Endings of files with a document in each line, or with fields that are no text."""

_ZARR = {".zgroup", ".zarray", ".zattrs", "zarr.json"}
"""Members of a folder that zarr writes."""


def recognises(source: Source) -> bool:
    """Recognise a folder, or an archive of several files."""
    return source.folder


def texts(path: Path, reading: Reading) -> Iterator[tuple[str, str]]:
    """Yield the paths and texts of all files below a folder, sorted by path, as their names.

    Hidden files and folders (with a leading dot) and links to folders are skipped. An empty file is
    an empty document. Files in a folder may be packed. Tables and JSON are refused unless the
    format is named: a document may then be a file, and otherwise a line of one.
    """
    documents = _folder_texts if os.path.isdir(path) else _archive_texts
    wrong, table = [], None
    for name, text, intact in documents(path, reading.coding):
        if reading.format is None and files.content_name(Path(name)).lower().endswith(_TABLES):
            table = table or name
            if name.lower().endswith(_TABLES):
                break
            # A packed one may be of a 10x matrix, of which another file tells more.
        if not intact:
            wrong.append(name)
        yield name, text
    if table is not None:
        remedy = (
            "put all into one table, or JSON lines, whose lines are documents, or give --format "
            "(format) folder if each file is a document"
        )
        raise error_at(path / table, "a table or JSON among texts", remedy)
    if wrong:
        where = f"{len(wrong):,} files, the first is {printable(wrong[0])}"
        files.warn_of_errors(path, reading.coding, where)


FORMAT = text_format("folder", "a folder, or a zip archive, of text files", recognises, texts)


def _folder_texts(root: Path, encoding: Encoding) -> Iterator[tuple[str, str, bool]]:
    """Yield the name and text of each file in a folder, and whether it is in the encoding."""

    def stop(error: OSError) -> None:
        raise files.unreadable(Path(error.filename or root), error)

    paths = []
    for folder, subfolders, file_names in os.walk(root, onerror=stop):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        paths += [Path(folder, name) for name in file_names if not name.startswith(".")]
    if root.suffix == ".zarr" or _ZARR.intersection(os.listdir(root)):
        remedy = "convert it with anndata: anndata.read_zarr(folder).write_h5ad('cells.h5ad')"
        raise error_at(root, "this is a zarr store", remedy)
    if not paths:
        raise error_at(root, "no file in the folder", "give a folder of text files")
    for name, path in sorted((path.relative_to(root).as_posix(), path) for path in paths):
        text, intact = "", True
        if not _is_empty(path):
            with files.reading(path, encoding) as (stream, _):
                text, intact = _text(stream, path)
        yield os.fsencode(name).decode("utf-8", "backslashreplace"), text, intact


def _is_empty(path: Path) -> bool:
    """Return whether this is an empty regular file; the size of a pipe means nothing."""
    try:
        status = path.stat()
    except OSError as error:
        raise files.unreadable(path, error) from None
    return stat.S_ISREG(status.st_mode) and status.st_size == 0


def _archive_texts(path: Path, encoding: Encoding) -> Iterator[tuple[str, str, bool]]:
    """Yield the same for a zip archive, within the limit for packed files."""
    members = members_of(path)
    if members is None:
        raise error_at(path, "not a folder", "give a folder of text files, or another format")
    if not members:
        raise error_at(path, "no file in the archive", "give an archive of text files")
    files.refuse_members([member.filename for member in members], path)
    with files.open_regular(path) as file, zipfile.ZipFile(file) as archive:
        limit = files.unpacked_limit(os.fstat(file.fileno()).st_size)
        if sum(member.file_size for member in members) > limit:
            raise files.bomb(path, limit)
        for member in members:
            place = path / member.filename
            source = files.open_member(archive, member, path)
            with Stream(files.Guarded(source, place, limit, "zip"), encoding) as stream:
                files.refuse(stream.peek(files.HEAD), place)
                text, intact = _text(recoded(stream, place), place)
            yield member.filename.encode("utf-8", "backslashreplace").decode(), text, intact


def _text(stream: Stream, path: Path) -> tuple[str, bool]:
    data = stream.read(files.MAX_DOCUMENT + 1)
    if data.startswith(b"%%MatrixMarket"):
        remedy = "give it by itself, or the folder of a 10x matrix, features and barcodes"
        raise error_at(path, "a matrix among texts", remedy)
    if len(data) > files.MAX_DOCUMENT:
        raise error_at(path, "the file has more than 64 MiB", "cut it into documents")
    return files.decoded(data, path, stream.encoding)

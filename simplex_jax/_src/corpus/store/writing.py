"""Writing a stored corpus beside its final path, a few documents in memory at a time."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus.corpus import Corpus, checked_counts, distinct_words, error_at
from simplex_jax._src.corpus.store.arrays import ArrayFile, checked, map_arrays
from simplex_jax._src.corpus.store.stored import KIND, MANIFEST, Stored
from simplex_jax._src.corpus.store.unfinished import unfinished

_ROWS = 2**14


def write(path: str | Path, corpus: Corpus) -> Stored:
    """Store a corpus.

    Args:
        path: The folder to make; it must not exist, or be empty.
        corpus: Any corpus.

    Raises:
        FileExistsError: The path exists and is not an empty folder.

    Example:
        >>> import pathlib, tempfile
        >>> from simplex_jax import corpus
        >>> from simplex_jax._src.corpus import store
        >>> fruit = corpus.from_counts([[2, 0, 1], [0, 1, 0]])
        >>> with tempfile.TemporaryDirectory() as place:
        ...     stored = store.write(pathlib.Path(place, "fruit"), fruit)
        ...     stored.documents, stored.tokens
        (2, 4)
    """
    counts = corpus.counts
    blocks = (counts[first : first + _ROWS] for first in range(0, counts.shape[0], _ROWS))
    return write_blocks(path, blocks, corpus.vocabulary, corpus.names)


def check_new(path: str | Path) -> None:
    """Raise an OSError if no corpus can be stored here: a check before long work begins."""
    path = Path(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise FileExistsError(f"{path}: already there; choose another place, or remove it")
    folder = next(folder for folder in path.absolute().parents if folder.exists())
    if not folder.is_dir():
        raise NotADirectoryError(f"{path}: {folder} is a file; choose another place")


def write_blocks(
    path: str | Path,
    blocks: Iterable[sp.csr_array],
    vocabulary: Sequence[str],
    names: Iterable[str] | None = None,
) -> Stored:
    """Store a corpus given in blocks of documents, with one block in memory at a time.

    Blocks are counts [n, V] of some documents each, checked as by `from_counts`; names are by
    default `1, 2, ...`. Invalid counts or a wrong number of names are a CorpusError; an existing
    path, unless it is an empty folder, is a FileExistsError.
    """
    words = distinct_words(vocabulary, "vocabulary")
    check_new(path)
    path = Path(path).resolve()  # follows links, and `.` has no name
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with unfinished(path) as temporary:
            documents, entries = _write_counts(temporary, blocks, len(words))
            if entries == 0:
                raise error_at(path, "every document is empty", "give documents with words in them")
            _write_strings(temporary / "vocabulary.json", words)
            labels = map(str, range(1, documents + 1)) if names is None else names
            written = _write_strings(temporary / "names.json", labels)
            if written != documents:
                raise error_at(path, f"{written} names for {documents} documents", "name every one")
            digest, starts = checked(temporary, words, *map_arrays(temporary, documents, entries))
            with (temporary / "names.json").open("rb") as file:
                names_digest = hashlib.file_digest(file, "sha256").hexdigest()
            manifest = {
                "kind": KIND,
                "documents": documents,
                "words": len(words),
                "entries": entries,
                "tokens": int(starts[-1]),
                "digest": digest,
                "names": names_digest,
            }
            _write_bytes(temporary / MANIFEST, [json.dumps(manifest, indent=2) + "\n"])
            temporary.rename(path)
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)  # the system does not name it when a disk is full
        raise
    return Stored(
        path, *map_arrays(path, documents, entries), starts=starts, vocabulary=words, digest=digest
    )


def _write_counts(temporary: Path, blocks: Iterable[sp.csr_array], words: int) -> tuple[int, int]:
    """Write the three arrays; return the numbers of documents and entries."""
    documents = entries = 0
    with (
        ArrayFile(temporary / "indptr.npy", "<i8") as indptr,
        ArrayFile(temporary / "indices.npy", "<i4") as indices,
        ArrayFile(temporary / "data.npy", "<i4") as data,
    ):
        indptr.append([0])
        for block in blocks:
            counts = checked_counts(block, f"documents from {documents}")
            if counts.shape[1] != words:
                raise error_at("blocks", f"{counts.shape[1]} words, not {words}", "keep to one V")
            indptr.append(counts.indptr[1:].astype(np.int64) + entries)
            indices.append(counts.indices)
            data.append(counts.data)
            documents += counts.shape[0]
            entries += counts.nnz
    return documents, entries


def _write_strings(path: Path, strings: Iterable[str]) -> int:
    """Write a JSON list, one string a line; return the number of strings."""
    written = 0

    def pieces() -> Iterator[str]:
        nonlocal written
        for written, string in enumerate(strings, start=1):
            yield ("[\n" if written == 1 else ",\n") + json.dumps(string)
        yield "\n]\n" if written else "[]\n"

    _write_bytes(path, pieces())
    return written


def _write_bytes(path: Path, pieces: Iterable[str]) -> None:
    with path.open("x", encoding="utf-8") as file:
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())

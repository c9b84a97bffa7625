"""A corpus on disk, as memory-mapped arrays that need not fit into memory.

A stored corpus is a folder: `indptr.npy`, `indices.npy` and `data.npy` hold the counts in
compressed rows, `vocabulary.json` and `names.json` the words and document names, and `corpus.json`
all sizes and digests. It is written beside its final path and renamed when complete.
"""

import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from simplex_jax._src import arguments
from simplex_jax._src.corpus.corpus import (
    MAX_COUNT,
    Corpus,
    CorpusError,
    checked_counts,
    describe,
    digest_parts,
    distinct_words,
    error_at,
    printable,
)
from simplex_jax._src.corpus.device import Documents, room_of_batch, runs
from simplex_jax._src.corpus.files import open_regular, unreadable

# The files of a stored corpus: arrays written in pieces, and their full check.
#
# An array is a one-dimensional `.npy` file with a header of fixed length. So the header can be
# written last, and is compared byte by byte instead of parsed when the file is opened.

_HEADER = 128
_BLOCK = 2**20
REMEDY = "copy the stored corpus again, or write it again"


class ArrayFile:
    """A new array on disk, written in pieces; a context manager."""

    def __init__(self, path: Path, dtype: str):
        self._dtype, self._length = dtype, 0
        self._file = path.open("xb")
        self._file.write(bytes(_HEADER))

    def __enter__(self) -> "ArrayFile":
        return self

    def __exit__(self, *_: object) -> None:
        with self._file as file:
            file.seek(0)
            file.write(_header(self._dtype, self._length))
            file.flush()
            os.fsync(file.fileno())

    def append(self, values: npt.ArrayLike) -> None:
        """Append `values` [n]."""
        array = np.ascontiguousarray(values, self._dtype)
        self._length += array.size
        self._file.write(array.data)


def _header(dtype: str, length: int) -> bytes:
    described = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({length},), }}"
    size = _HEADER - 10
    return b"\x93NUMPY\x01\x00" + size.to_bytes(2, "little") + f"{described:<{size - 1}}\n".encode()


def _map_array(path: Path, dtype: str, length: int) -> np.ndarray:
    """Memory-map an array [length] read-only, or raise a CorpusError if the file is not one."""
    with open_regular(path) as file:
        expected = _HEADER + length * np.dtype(dtype).itemsize
        size = os.fstat(file.fileno()).st_size
        if size != expected:
            raise error_at(path, f"the file has {size} bytes, not {expected}", REMEDY)
        if file.read(_HEADER) != _header(dtype, length):
            raise error_at(path, f"not {length} numbers of type {dtype}", REMEDY)
        return np.asarray(np.memmap(file, dtype, "r", _HEADER, (length,)))


def map_arrays(
    directory: Path, documents: int, entries: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Memory-map `indptr` [D + 1], `indices` and `data` [entries] of a stored corpus."""
    return (
        _map_array(directory / "indptr.npy", "<i8", documents + 1),
        _map_array(directory / "indices.npy", "<i4", entries),
        _map_array(directory / "data.npy", "<i4", entries),
    )


def load_json(path: Path) -> Any:
    """Return the value in a JSON file."""
    try:
        with open_regular(path) as file:
            return json.loads(file.read())
    except OSError as error:
        raise unreadable(path, error) from None
    except RecursionError:
        raise error_at(path, "nested too deeply", REMEDY) from None
    except CorpusError:
        raise
    except ValueError as error:
        raise error_at(path, f"not JSON ({printable(error)})", REMEDY) from None


def checked(
    directory: Path,
    vocabulary: tuple[str, ...],
    indptr: np.ndarray,
    indices: np.ndarray,
    data: np.ndarray,
) -> tuple[str, np.ndarray]:
    """Check the counts [D, V] in one pass; messages name the directory.

    Returns the digest of the corpus and the number of tokens before every document and at the end,
    int64 [D + 1]. The entries of a document must be sorted, and all numbers in range.
    """
    starts = np.zeros(len(indptr), np.int64)

    def blocks() -> Iterator[np.ndarray]:
        yield from _pointers(indptr, len(indices), directory)
        yield from _words(indptr, indices, len(vocabulary), directory)
        yield from _counts(indptr, data, starts, directory)

    return digest_parts((len(indptr) - 1, len(vocabulary)), blocks(), vocabulary), starts


def _pointers(indptr: np.ndarray, entries: int, directory: Path) -> Iterator[np.ndarray]:
    if indptr[0] != 0 or indptr[-1] != entries:
        raise error_at(directory / "indptr.npy", f"not from 0 to {entries}", REMEDY)
    for first in range(0, len(indptr), _BLOCK):
        if (np.diff(indptr[first : first + _BLOCK + 1]) < 0).any():
            raise error_at(directory / "indptr.npy", "the numbers decrease", REMEDY)
        yield indptr[first : first + _BLOCK]


def _words(
    indptr: np.ndarray, indices: np.ndarray, words: int, directory: Path
) -> Iterator[np.ndarray]:
    for first in range(0, len(indices), _BLOCK):
        block = indices[first : first + _BLOCK]
        if block.min() < 0 or block.max() >= words:
            raise error_at(directory / "indices.npy", f"a word is not below {words}", REMEDY)
        # Words increase, except from the last one of a document to the first of the next.
        after = indices[first : first + len(block) + 1]
        inside = np.ones(len(after), bool)
        low, high = np.searchsorted(indptr, (first, first + len(after)))
        inside[indptr[low:high] - first] = False
        if (inside[1:] & (np.diff(after) <= 0)).any():
            raise error_at(directory / "indices.npy", "words are not in order", REMEDY)
        yield block


def _counts(
    indptr: np.ndarray, data: np.ndarray, starts: np.ndarray, directory: Path
) -> Iterator[np.ndarray]:
    total = 0
    for first in range(0, len(data), _BLOCK):
        block = data[first : first + _BLOCK]
        if block.min() < 1 or block.max() > MAX_COUNT:
            raise error_at(directory / "data.npy", f"a count is not in 1..{MAX_COUNT}", REMEDY)
        ends = np.cumsum(block, dtype=np.int64)
        low, high = np.searchsorted(indptr, (first, first + len(block)))
        place = indptr[low:high] - first
        starts[low:high] = total + ends[place] - block[place]
        total += int(ends[-1])
        yield block
    starts[np.searchsorted(indptr, len(data)) :] = total


# A stored corpus: opening it with every check, and reading documents from it.

MANIFEST = "corpus.json"
KIND = "simplex_jax corpus 1"


@dataclass(frozen=True, eq=False)
class Stored:
    """A corpus on disk with memory-mapped, read-only arrays."""

    path: Path  # its folder
    indptr: np.ndarray  # first entry of every document, and the end, int64 [D + 1]
    indices: np.ndarray  # words of the entries, int32 [entries], sorted within a document
    data: np.ndarray  # their counts, int32 [entries]
    starts: np.ndarray  # tokens before every document, and in all, int64 [D + 1]
    vocabulary: tuple[str, ...]  # V distinct words
    digest: str  # the same as `corpus.digest` of the corpus in memory

    def __repr__(self) -> str:
        """Return its sizes and its folder."""
        return f"{self.path}: {describe(self.documents, len(self.vocabulary), self.tokens)}"

    @property
    def documents(self) -> int:
        """Number of documents, D."""
        return len(self.starts) - 1

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return int(self.starts[-1])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The D document names, read on first use."""
        return _strings(self.path / "names.json", self.documents)

    def rows(self, first: int = 0, last: int | None = None) -> sp.csr_array:
        """Return counts of documents `first` to `last` - 1 (None: to the end), int32 [n, V].

        The entries stay on disk until they are used.
        """
        ends = self.indptr[first : self.documents + 1 if last is None else last + 1]
        span = slice(ends[0], ends[-1])
        dtype = np.int32 if ends[-1] - ends[0] < 2**31 else np.int64
        counts = sp.csr_array((len(ends) - 1, len(self.vocabulary)), dtype=np.int32)
        # The constructor would copy all indices to the dtype of a wider indptr.
        counts.indptr = (ends - ends[0]).astype(dtype)
        counts.indices, counts.data = self.indices[span], self.data[span]
        return counts

    def select(self, ids: np.ndarray) -> sp.csr_array:
        """Return counts of some documents by their numbers, int32 [n, V], in memory."""
        places, sizes = self._entries(ids)
        return sp.csr_array(
            (self.data[places], self.indices[places], np.concatenate([[0], np.cumsum(sizes)])),
            shape=(len(ids), len(self.vocabulary)),
        )

    def tokens_of(self, ids: np.ndarray) -> np.ndarray:
        """Return the tokens of some documents, concatenated, int32, in memory."""
        places, _ = self._entries(ids)
        return np.repeat(self.indices[places], self.data[places])

    def batch(self, ids: np.ndarray, room: int) -> Documents:
        """Return the tokens of some documents side by side in an array [room], in memory."""
        flat = self.tokens_of(ids)
        tokens = np.zeros(room, np.int32)
        tokens[: flat.size] = flat
        lengths = self.starts[ids + 1] - self.starts[ids]
        starts = np.cumsum(lengths) - lengths
        numbers = (part.astype(np.int32) for part in (starts, lengths, ids))
        return Documents(tokens, *numbers)  # type: ignore[arg-type]

    def _entries(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of all entries of some documents, in order, and their numbers."""
        first = self.indptr[ids]
        sizes = self.indptr[ids + 1] - first
        return runs(first, sizes), sizes


def is_stored(path: str | Path) -> bool:
    """Return whether a path is that of a stored corpus, judged by file names only."""
    return (Path(path) / MANIFEST).is_file()


def open(path: str | Path) -> Stored:
    r"""Open a stored corpus; its arrays are read once, to check them.

    Args:
        path: The folder that `corpus.convert` or `simplex-jax lda store` made. Its files must not
            change while in use.

    Raises:
        CorpusError: A file is missing, differs in size or content from what was written, or has
            numbers that cannot be counts of a corpus.

    Example:
        >>> import pathlib, tempfile
        >>> from simplex_jax import corpus
        >>> with tempfile.TemporaryDirectory() as place:
        ...     texts = pathlib.Path(place, "texts.csv")
        ...     _ = texts.write_text("text\n" + 6 * "river water\n" + 6 * "money loan\n")
        ...     _ = corpus.convert(texts, pathlib.Path(place, "stored"))
        ...     stored = corpus.open_store(pathlib.Path(place, "stored"))
        >>> stored.documents, stored.tokens
        (12, 24)
    """
    path = Path(path)
    if path.exists() and not is_stored(path):
        remedy = "make one with simplex-jax lda store (corpus.convert), or do not --stream"
        raise error_at(path, "not a corpus made by `store`", remedy)
    manifest = _manifest(path)
    vocabulary = _strings(path / "vocabulary.json", manifest["words"])
    distinct_words(vocabulary, str(path / "vocabulary.json"))
    with open_regular(path / "names.json") as file:
        names = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    if names != manifest["names"]:
        raise error_at(path / "names.json", "not the names that were written", REMEDY)
    arrays = map_arrays(path, manifest["documents"], manifest["entries"])
    digest, starts = checked(path, vocabulary, *arrays)
    if (digest, int(starts[-1])) != (manifest["digest"], manifest["tokens"]):
        raise error_at(path, "not the counts that were written", REMEDY)
    return Stored(path, *arrays, starts, vocabulary, digest)


def _manifest(path: Path) -> dict:
    file = path / MANIFEST
    manifest = load_json(file)
    if not isinstance(manifest, dict) or manifest.get("kind") != KIND:
        raise error_at(file, "not a stored corpus of this version", REMEDY)
    for name in ("documents", "words", "entries", "tokens"):
        if type(manifest.get(name)) is not int or not 1 <= manifest[name] < 2**60:
            raise error_at(file, f"the number of {name} is not a whole number from 1", REMEDY)
    for name in ("digest", "names"):
        if not re.fullmatch("[0-9a-f]{64}", str(manifest.get(name))):
            raise error_at(file, f"{name} is not a SHA-256 digest", REMEDY)
    return manifest


def _strings(path: Path, length: int) -> tuple[str, ...]:
    strings = load_json(path)
    if not isinstance(strings, list) or len(strings) != length:
        raise error_at(path, f"not a list of {length} strings", REMEDY)
    if not all(isinstance(entry, str) for entry in strings):
        raise error_at(path, "an entry is not a string", REMEDY)
    return tuple(strings)


# The hidden folder in which a corpus is written, and removal of those that are left over.

try:
    import fcntl
except ImportError:  # on Windows, where nothing is locked and leftovers stay
    fcntl = None  # type: ignore[assignment]

_FILES = {"indptr.npy", "indices.npy", "data.npy", "vocabulary.json", "names.json", "corpus.json"}


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """Make a hidden folder beside `path`, to be renamed in the block; remove it on an error.

    The kernel locks it (`flock`) and frees it when the process ends, however it ends. So folders of
    killed processes can be recognised; they are removed first.
    """
    _remove_leftovers(path)
    with _new_folder(path) as folder:
        try:
            yield folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


@contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    """Make a folder and hold a lock on it for the duration of a block."""
    while True:
        folder = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        folder.mkdir()
        with _locked(folder) as locked:
            # Another process may have removed it as a leftover before it was locked.
            if locked is not False and folder.exists():
                yield folder
                return


@contextmanager
def _locked(folder: Path) -> Iterator[bool | None]:
    """Lock a folder for a block, and yield whether that worked; None if unknown."""
    if fcntl is None:
        yield None
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        yield False
        return
    try:
        yield _lock(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool | None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks, as some network file systems are
        return None
    return True


def _remove_leftovers(path: Path) -> None:
    """Remove folders that no process has locked, if they contain only files of a corpus."""
    name = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}\.tmp")
    for folder in path.parent.glob(".*.tmp"):
        if name.fullmatch(folder.name) and folder.is_dir() and not folder.is_symlink():
            with suppress(OSError), _locked(folder) as locked:
                if locked and set(os.listdir(folder)) <= _FILES:
                    shutil.rmtree(folder)


# Writing a stored corpus beside its final path, a few documents in memory at a time.

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
    # `write_blocks` makes a hidden folder beside the place to which links lead.
    folder = next(folder for folder in path.resolve().parents if folder.exists())
    if not folder.is_dir():
        raise NotADirectoryError(f"{path}: {folder} is a file; choose another place")
    try:
        with tempfile.TemporaryFile(dir=folder):  # the only reliable test
            pass
    except OSError as error:
        raise type(error)(
            f"{path}: {folder} cannot be written to ({error.strerror}); choose another place"
        ) from None


def write_blocks(
    path: str | Path,
    blocks: Iterable[sp.csr_array],
    vocabulary: Sequence[str],
    names: Iterable[str] | None = None,
    *,
    source: str = "blocks",
) -> Stored:
    """Store a corpus given in blocks of documents, with one block in memory at a time.

    Blocks are counts [n, V] of some documents each, checked as by `from_counts`; names are by
    default `1, 2, ...`. Invalid counts or a wrong number of names are a CorpusError, which names
    their source, such as a file; an existing path, unless it is an empty folder, is a
    FileExistsError.
    """
    words = distinct_words(vocabulary, source)
    check_new(path)
    path = Path(path).resolve()  # follows links, and `.` has no name
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with unfinished(path) as temporary:
            documents, entries = _write_counts(temporary, blocks, len(words), source)
            if entries == 0:
                remedy = "give documents with words in them"
                raise error_at(source, "every document is empty", remedy)
            _write_strings(temporary / "vocabulary.json", words)
            labels = map(str, range(1, documents + 1)) if names is None else names
            written = _write_strings(temporary / "names.json", labels)
            if written != documents:
                problem = f"{written} names for {documents} documents"
                raise error_at(source, problem, "name every one")
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


def _write_counts(
    temporary: Path, blocks: Iterable[sp.csr_array], words: int, source: str
) -> tuple[int, int]:
    """Write the three arrays; return the numbers of documents and entries."""
    documents = entries = 0
    with (
        ArrayFile(temporary / "indptr.npy", "<i8") as indptr,
        ArrayFile(temporary / "indices.npy", "<i4") as indices,
        ArrayFile(temporary / "data.npy", "<i4") as data,
    ):
        indptr.append([0])
        for block in blocks:
            counts = checked_counts(block, source, documents)
            if counts.shape[1] != words:
                raise error_at(source, f"{counts.shape[1]} words, not {words}", "keep to one V")
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


# Batches of a stored corpus, prepared on the host while the device works on earlier ones.

_AHEAD = 2


def batches(
    stored: Stored,
    batch_size: int,
    key: jax.Array,
    first_step: int = 0,
    *,
    among: np.ndarray | None = None,
) -> Iterator[Documents]:
    """Yield uniform subsets of distinct documents forever; a thread prepares the next ones.

    The batch of a step depends only on `key` and the step, so a resumed run has the same batches as
    an uninterrupted one. Documents of a batch are in the order of the store. The thread ends when
    the iterator is closed or garbage-collected.

    Args:
        stored: D documents.
        batch_size: Documents in a batch, 1..D.
        key: A typed PRNG key.
        first_step: The step of the first batch.
        among: Distinct numbers of the documents to draw from; by default all.

    Returns:
        An iterator of compact documents with NumPy leaves. `tokens` is int32 [room] in all of them,
        where room is the number of tokens in the `batch_size` longest documents, the smallest that
        never drops a token. Entries beyond the tokens of a batch are 0 and belong to no document.

    Raises:
        ValueError: `batch_size` is not in 1..D, `first_step` is negative, or the longest documents
            have more tokens than int32 can number.

    Example:
        >>> import pathlib, tempfile
        >>> import jax
        >>> from simplex_jax import corpus
        >>> from simplex_jax._src.corpus import store
        >>> with tempfile.TemporaryDirectory() as place:
        ...     fruit = corpus.from_counts([[2, 1], [0, 3], [1, 0]])
        ...     stored = store.write(pathlib.Path(place, "fruit"), fruit)
        ...     batch = next(store.batches(stored, 2, jax.random.key(0)))
        >>> batch.tokens.shape, batch.starts.shape
        ((6,), (2,))
    """
    ids = np.arange(stored.documents) if among is None else np.asarray(among)
    arguments.at_least("batch_size", batch_size, 1)
    arguments.at_least("first_step", first_step, 0)
    if batch_size > len(ids):
        raise ValueError(f"batch_size {batch_size} is larger than the data: at most {len(ids)}")
    lengths = stored.starts[ids + 1] - stored.starts[ids]
    longest = np.partition(lengths, len(ids) - batch_size)[-batch_size:].sum()
    room = room_of_batch(batch_size, longest)
    seed = np.asarray(jax.random.key_data(key)).ravel().tolist()

    def batch(step: int) -> Documents:
        rng = np.random.default_rng([*seed, step])
        chosen = rng.choice(len(ids), batch_size, replace=False, shuffle=False)
        return stored.batch(np.sort(ids[chosen]), room)

    def prepared() -> Iterator[Documents]:
        pool = ThreadPoolExecutor(1, "corpus-batches")
        try:
            waiting = deque(pool.submit(batch, first_step + i) for i in range(_AHEAD))
            for step in count(first_step + _AHEAD):
                ready = waiting.popleft().result()
                waiting.append(pool.submit(batch, step))
                yield ready
        finally:
            # Also reached when the generator is closed or lost. Do not wait for the thread: a lost
            # generator may be collected in that very thread.
            pool.shutdown(wait=False, cancel_futures=True)

    return prepared()

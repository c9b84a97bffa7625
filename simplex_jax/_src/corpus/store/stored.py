"""A stored corpus: opening it with every check, and reading documents from it."""

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus.corpus import distinct_words, error_at
from simplex_jax._src.corpus.device import Documents, runs
from simplex_jax._src.corpus.files import open_regular
from simplex_jax._src.corpus.store.arrays import REMEDY, checked, load_json, map_arrays

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
    """Open a stored corpus; its arrays are read once, to check them.

    Args:
        path: The folder that `write` or `convert` made. Its files must not change while in use.

    Raises:
        CorpusError: A file is missing, differs in size or content from what was written, or has
            numbers that cannot be counts of a corpus.
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

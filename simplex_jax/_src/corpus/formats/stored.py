"""A corpus stored by `corpus.convert` or `simplex-jax lda store`."""

import os
from pathlib import Path

from simplex_jax._src.corpus import store
from simplex_jax._src.corpus.corpus import Corpus, error_at
from simplex_jax._src.corpus.reading import Format, Reading, Source
from simplex_jax._src.corpus.store import MANIFEST


def recognises(source: Source) -> bool:
    """Recognise a folder with `corpus.json` and any array; `read` reports a missing one."""
    arrays = ("indptr.npy", "indices.npy", "data.npy")
    return os.path.isfile(source.path / MANIFEST) and any(
        os.path.isfile(source.path / name) for name in arrays
    )


def read(path: Path, reading: Reading) -> Corpus:
    """Open a stored corpus as a `Corpus` with memory-mapped counts."""
    if reading.vocabulary is not None:
        raise error_at(path, "a stored corpus has its own vocabulary", "give no other")
    stored = store.open(path)
    return Corpus(stored.rows(), stored.vocabulary, stored.names)


FORMAT = Format("store", "counts", "a corpus made by `store`", recognises, read)

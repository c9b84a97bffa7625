"""A corpus on disk, as arrays mapped into memory: one that need not fit into it.

A stored corpus is a folder: `indptr.npy`, `indices.npy` and `data.npy` hold the counts in
compressed rows, `vocabulary.json` and `names.json` the words and the document names, `corpus.json`
the sizes and digests of them all. It is written beside its final name and renamed when whole.
"""

from simplex_jax.corpus.store.batching import batches
from simplex_jax.corpus.store.stored import Stored, is_stored, open
from simplex_jax.corpus.store.writing import check_new, write, write_blocks

__all__ = ["Stored", "batches", "check_new", "is_stored", "open", "write", "write_blocks"]

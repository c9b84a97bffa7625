"""A corpus on disk, as memory-mapped arrays that need not fit into memory.

A stored corpus is a folder: `indptr.npy`, `indices.npy` and `data.npy` hold the counts in
compressed rows, `vocabulary.json` and `names.json` the words and document names, and `corpus.json`
all sizes and digests. It is written beside its final path and renamed when complete.
"""

from simplex_jax._src.corpus.store.batching import batches
from simplex_jax._src.corpus.store.stored import Stored, is_stored, open
from simplex_jax._src.corpus.store.writing import check_new, write, write_blocks

__all__ = ["Stored", "batches", "check_new", "is_stored", "open", "write", "write_blocks"]

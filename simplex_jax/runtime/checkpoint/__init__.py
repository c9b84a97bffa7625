"""Checkpoints: what a run needs to go on, on disk, whole and verified.

`Store` keeps the newest few checkpoints of one run in a directory; `Saver` is the hook that fills
it and brings a run back. Orbax writes and reads the arrays. It restores damaged bytes without a
word, so every file and every array has its SHA-256 beside it.
"""

from simplex_jax.runtime.checkpoint.errors import CheckpointError, CheckpointWarning
from simplex_jax.runtime.checkpoint.leaves import ANY
from simplex_jax.runtime.checkpoint.saver import Restored, Resumable, Saver
from simplex_jax.runtime.checkpoint.store import Saved, Store

__all__ = [
    "ANY",
    "CheckpointError",
    "CheckpointWarning",
    "Restored",
    "Resumable",
    "Saved",
    "Saver",
    "Store",
]

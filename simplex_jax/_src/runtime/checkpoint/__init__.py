"""Checkpoints: the state that a run needs to resume, on disk, complete and verified.

`Store` keeps the newest few checkpoints of one run in a directory; `Saver` is the hook that writes
them and restores a run.
"""

from simplex_jax._src.runtime.checkpoint.errors import CheckpointError, CheckpointWarning
from simplex_jax._src.runtime.checkpoint.leaves import ANY, MAPPED, Parts
from simplex_jax._src.runtime.checkpoint.saver import Restored, Resumable, Saver
from simplex_jax._src.runtime.checkpoint.store import Saved, Store

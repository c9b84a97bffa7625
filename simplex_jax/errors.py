"""Errors that users may want to catch; others are Python's own, most often `ValueError`."""

from simplex_jax._src.corpus.corpus import CorpusError
from simplex_jax._src.runtime.checkpoint import CheckpointError
from simplex_jax._src.runtime.saved import RunError

__all__ = ["CheckpointError", "CorpusError", "RunError"]


def __dir__() -> list[str]:
    return __all__

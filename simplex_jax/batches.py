"""Streams of minibatches: pure functions `(key, step) -> batch`."""

from simplex_jax._src.batches import full, indexed, none, shuffled, uniform, visits

__all__ = ["full", "indexed", "none", "shuffled", "uniform", "visits"]


def __dir__() -> list[str]:
    return __all__

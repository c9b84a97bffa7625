"""Hooks of `simplex_jax.run`, and several processes that share a run."""

from simplex_jax._src.runtime.hooks import EarlyStop, Equilibrium, MetricsLog, Progress
from simplex_jax._src.runtime.processes import is_first, join

__all__ = ["EarlyStop", "Equilibrium", "MetricsLog", "Progress", "is_first", "join"]


def __dir__() -> list[str]:
    return __all__

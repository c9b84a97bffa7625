"""The hierarchical Dirichlet process: topics of counts, with an unknown number of topics."""

from simplex_jax._src.models.hdp import Fit, fit, load

__all__ = ["Fit", "fit", "load"]


def __dir__() -> list[str]:
    return __all__

"""The hierarchical Dirichlet process: topics of counts, with an unknown number of topics."""

from simplex_jax._src.models.hdp import Fit, fit

__all__ = ["Fit", "fit"]


def __dir__() -> list[str]:
    return __all__

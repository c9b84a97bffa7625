"""Dirichlet-process mixtures: clustering with an unknown number of clusters."""

from simplex_jax._src.border import show
from simplex_jax._src.models.dpm import Fit, build, families, fit

__all__ = ["Fit", "build", "families", "fit"]

show(__name__, families)


def __dir__() -> list[str]:
    return __all__

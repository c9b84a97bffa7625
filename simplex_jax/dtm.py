"""Topics that change through time and between groups."""

from simplex_jax._src.models.dtm import Fit, build, fit, load

__all__ = ["Fit", "build", "fit", "load"]


def __dir__() -> list[str]:
    return __all__

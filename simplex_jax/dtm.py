"""Topics that change through time and between groups."""

from simplex_jax._src.models.dtm import Fit, fit

__all__ = ["Fit", "fit"]


def __dir__() -> list[str]:
    return __all__

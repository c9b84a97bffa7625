"""The spherical admixture model: topics of unit vectors."""

from simplex_jax._src.models.sam import Fit, fit

__all__ = ["Fit", "fit"]


def __dir__() -> list[str]:
    return __all__

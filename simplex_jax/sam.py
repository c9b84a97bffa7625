"""The spherical admixture model: topics of unit vectors."""

from simplex_jax._src.models.sam import Fit, fit, load

__all__ = ["Fit", "fit", "load"]


def __dir__() -> list[str]:
    return __all__

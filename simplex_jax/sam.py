"""The spherical admixture model: topics of unit vectors."""

from simplex_jax._src.models.sam import Fit, build, fit, load

__all__ = ["Fit", "build", "fit", "load"]


def __dir__() -> list[str]:
    return __all__

"""Geometry of the spaces that the kernels sample from."""

from simplex_jax._src.border import show
from simplex_jax._src.geometry import manifolds, mirror, von_mises_fisher
from simplex_jax._src.geometry.metrics import hessian_metric

__all__ = ["hessian_metric", "manifolds", "mirror", "von_mises_fisher"]

show(__name__, manifolds, mirror, von_mises_fisher)


def __dir__() -> list[str]:
    return __all__

"""Geometry of the spaces that the kernels sample from."""

from simplex_jax._src.geometry import bessel, manifolds, metrics, mirror, simplex, von_mises_fisher

__all__ = [
    "bessel",
    "manifolds",
    "metrics",
    "mirror",
    "simplex",
    "von_mises_fisher",
]

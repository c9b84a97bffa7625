"""Geometry of the spaces that the kernels sample from."""

from simplex_jax._src.geometry import (
    bessel,
    convex,
    manifolds,
    metrics,
    mirror,
    parameterisations,
    simplex,
    von_mises_fisher,
)

__all__ = [
    "bessel",
    "convex",
    "manifolds",
    "metrics",
    "mirror",
    "parameterisations",
    "simplex",
    "von_mises_fisher",
]

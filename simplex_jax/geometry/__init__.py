"""Geometry of the spaces that the kernels sample from."""

from simplex_jax.geometry import convex, mirror, parameterisations, simplex

__all__ = ["convex", "mirror", "parameterisations", "simplex"]

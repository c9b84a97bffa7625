"""Geometry of the spaces that the kernels sample from."""

from simplex_jax.geometry import convex, manifolds, mirror, parameterisations, simplex

__all__ = ["convex", "manifolds", "mirror", "parameterisations", "simplex"]

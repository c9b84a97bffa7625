"""Geometry of the spaces that the kernels sample from."""

from simplex_jax.geometry import simplex

__all__ = ["simplex"]

"""Geometry of the spaces that the kernels sample from."""

"""Manifolds in R^n with known geodesics: spheres, simplices, Stiefel, and products of them.

Kernels on them (`samplers.gmc`, `samplers.sggmc`, `samplers.gsgnht`) move points of the embedding
space R^n, without coordinates. Densities are with respect to the area (Hausdorff measure) of the
manifold.
"""

from simplex_jax._src.geometry.manifolds.euclidean import euclidean
from simplex_jax._src.geometry.manifolds.manifold import Manifold
from simplex_jax._src.geometry.manifolds.products import product
from simplex_jax._src.geometry.manifolds.simplices import simplex_flat, simplex_sphere
from simplex_jax._src.geometry.manifolds.sphere import sphere
from simplex_jax._src.geometry.manifolds.stiefel import stiefel

__all__ = [
    "Manifold",
    "euclidean",
    "product",
    "simplex_flat",
    "simplex_sphere",
    "sphere",
    "stiefel",
]

"""Manifolds as records of functions."""

from collections.abc import Callable
from typing import NamedTuple

import jax

from simplex_jax._src.base import PyTree


class Manifold(NamedTuple):
    """A manifold in R^n with known geodesics, as functions of points x and velocities v.

    Points and velocities are arrays in the embedding space, or trees of them for a product. Leading
    axes of an array index copies of the manifold. To add a manifold, define these seven functions.

    Attributes:
        project: `(x, v) -> v'`, the orthogonal projection of v onto the tangent space at x.
        flow: `(x, v, t) -> (x', v')`, the point and the velocity of the geodesic after time t,
            reflected at the manifold's boundary. Both are put back on the manifold, which removes
            rounding errors. The speed is constant, and the flow from (x', -v') leads back to (x,
            -v).
        point: `(key, like) -> x`, points with the shape and dtype of `like`, drawn from the uniform
            distribution on the manifold (a space without one documents its own).
        distance: `(x, y) -> d`, the geodesic distance of each copy; for a product the scalar whose
            square is the sum of all squares.
        retract: `(x) -> x'`, the nearest point of the manifold (on the simplex, the point of the
            same proportions, with no entry at 0).
        error: `(x) -> scalar`, the largest violation of the constraints of the manifold by x.
        dimension: `(x) -> int`, the dimension of the manifold for an array like x, with all copies.

    Example: angles, a flat torus.

        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax.geometry import manifolds
        >>> from simplex_jax.samplers import gmc
        >>> def wrap(x):
        ...     return (x + jnp.pi) % (2 * jnp.pi) - jnp.pi
        >>> torus = manifolds.Manifold(
        ...     project=lambda x, v: v,
        ...     flow=lambda x, v, t: (wrap(x + t * v), v),
        ...     point=lambda key, like: jax.random.uniform(
        ...         key, like.shape, like.dtype, -jnp.pi, jnp.pi),
        ...     distance=lambda x, y: jnp.linalg.norm(wrap(x - y), axis=-1),
        ...     retract=wrap,
        ...     error=lambda x: jnp.maximum(jnp.max(jnp.abs(x)) - jnp.pi, 0),
        ...     dimension=lambda x: x.size)
        >>> kernel = gmc.build(lambda x: 2 * jnp.cos(x).sum(), torus, 0.5)
        >>> state = kernel.init(jax.random.key(0), jnp.array([3.0, -3.0]))
        >>> state, info = kernel.update(jax.random.key(1), state, None)
        >>> bool(jnp.abs(state.position).max() < jnp.pi)
        True
    """

    project: Callable[[PyTree, PyTree], PyTree]
    flow: Callable[[PyTree, PyTree, jax.Array], tuple[PyTree, PyTree]]
    point: Callable[[jax.Array, PyTree], PyTree]
    distance: Callable[[PyTree, PyTree], jax.Array]
    retract: Callable[[PyTree], PyTree]
    error: Callable[[PyTree], jax.Array]
    dimension: Callable[[PyTree], int]

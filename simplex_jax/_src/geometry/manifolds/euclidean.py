"""Euclidean space, where geodesics are straight lines."""

import jax
import jax.numpy as jnp

from simplex_jax._src.geometry.manifolds.manifold import Manifold


def euclidean() -> Manifold:
    """Return R^n, for arrays [..., n]; a scalar is one coordinate.

    R^n has no uniform distribution: `point` draws standard normal numbers.

    Example:
        >>> import jax.numpy as jnp
        >>> from simplex_jax.geometry import manifolds
        >>> space = manifolds.euclidean()
        >>> x, v = space.flow(jnp.array([1.0, 2.0]), jnp.array([0.5, -1.0]), 2.0)
        >>> print(x, v, space.dimension(x))
        [2. 0.] [ 0.5 -1. ] 2
    """
    return Manifold(_project, _flow, _point, _distance, _retract, _error, _dimension)


def _project(x: jax.Array, v: jax.Array) -> jax.Array:
    return v


def _flow(x: jax.Array, v: jax.Array, t: jax.Array) -> tuple[jax.Array, jax.Array]:
    return x + jnp.asarray(t, x.dtype) * v, v


def _point(key: jax.Array, like: jax.Array) -> jax.Array:
    return jax.random.normal(key, like.shape, like.dtype)


def _distance(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.sum((x - y) ** 2, axis=-1)) if jnp.ndim(x) else jnp.abs(x - y)


def _retract(x: jax.Array) -> jax.Array:
    return x


def _error(x: jax.Array) -> jax.Array:
    return jnp.zeros((), x.dtype)


def _dimension(x: jax.Array) -> int:
    return x.size

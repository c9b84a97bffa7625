"""Euclidean space, where geodesics are straight lines."""

import jax
import jax.numpy as jnp

from simplex_jax.geometry.manifolds.manifold import Manifold

_EUCLIDEAN = Manifold(
    project=lambda x, v: v,
    flow=lambda x, v, t: (x + jnp.asarray(t, x.dtype) * v, v),
    point=lambda key, like: jax.random.normal(key, like.shape, like.dtype),
    distance=lambda x, y: (
        jnp.sqrt(jnp.sum((x - y) ** 2, axis=-1)) if jnp.ndim(x) else jnp.abs(x - y)
    ),
    retract=lambda x: x,
    error=lambda x: jnp.zeros((), x.dtype),
    dimension=lambda x: x.size,
)


def euclidean() -> Manifold:
    """Return R^n, for arrays [..., n]; a scalar is one coordinate.

    There is no uniform law of R^n: `point` draws standard normal numbers.

    Example:
        >>> import jax.numpy as jnp
        >>> from simplex_jax.geometry import manifolds
        >>> space = manifolds.euclidean()
        >>> x, v = space.flow(jnp.array([1.0, 2.0]), jnp.array([0.5, -1.0]), 2.0)
        >>> print(x, v, space.dimension(x))
        [2. 0.] [ 0.5 -1. ] 2
    """
    return _EUCLIDEAN

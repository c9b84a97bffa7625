"""Riemannian metrics of convex sets: the second derivatives of barriers."""

from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax._src.base import bind

Potential: TypeAlias = Callable[[jax.Array], jax.Array]
"""`(x [d]) -> scalar`, a convex function."""

Metric: TypeAlias = Callable[[jax.Array], jax.Array]
"""`(x [d]) -> G(x) [d, d]`, symmetric and positive definite inside a set."""


def hessian_metric(h: Potential) -> Metric:
    r"""Return the metric :math:`G(x) = \nabla^2 h(x)` of a convex function.

    If h is a barrier, infinite outside a set, the balls of the metric stay inside:
    :math:`h(x) = -\sum_i \log(b_i - a_i^T x)` gives the Dikin metric of a polytope. The matrix is
    computed column by column: jax 0.10 miscompiles `jax.hessian` on CPUs when it is mapped over
    thousands of points.

    Args:
        h: `(x [d]) -> scalar`, convex and twice differentiable.

    Raises:
        ValueError: When used: h does not return a scalar.

    Example: the Dikin metric of the interval from 0 to 1.

        >>> import jax.numpy as jnp
        >>> from simplex_jax import geometry
        >>> metric = geometry.hessian_metric(lambda x: -jnp.log(x).sum() - jnp.log(1 - x).sum())
        >>> print(metric(jnp.array([0.5])))
        [[8.]]
    """
    return bind(_hessian, h)


def _hessian(h: Potential, x: jax.Array) -> jax.Array:
    def column(e: jax.Array) -> jax.Array:
        return jax.jvp(lambda x: gradient(h, x), (x,), (e,))[1]

    return lax.map(column, jnp.eye(len(x), dtype=x.dtype))


def gradient(h: Potential, x: jax.Array) -> jax.Array:
    """Return the gradient of h at x [d].

    Raises:
        ValueError: h does not return a scalar.
    """
    shape = jax.eval_shape(h, x).shape
    if shape:
        raise ValueError(f"h must return a scalar for x of shape {x.shape}; it returned {shape}")
    return jax.grad(h)(x)

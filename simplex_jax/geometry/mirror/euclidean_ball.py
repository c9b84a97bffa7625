"""A mirror map of the Euclidean ball."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from simplex_jax.base import bind
from simplex_jax.geometry import convex
from simplex_jax.geometry.mirror.maps import MirrorMap


def ball(radius: ArrayLike = 1.0) -> MirrorMap:
    r"""Return a mirror map of the Euclidean ball about the origin, along the last axis [..., d].

    :math:`h(x) = R^2 h_1(x / R)` with :math:`h_1(u) = -\log(1 - |u|) - |u|` (appendix B.2): with
    :math:`s = |y| / R`, :math:`x = y / (1 + s)` and

    .. math::
        \nabla^2 h^{-1} v = \frac1{1 + s} \Big( v - \frac{(y \cdot v)\, x}{|y| R} \Big), \qquad
        \log \det \nabla^2 h = (d + 1) \log(1 + s), \qquad
        -\nabla^2 h^{-1} \nabla \log \det \nabla^2 h = -\frac{d + 1}{R (1 + s)} \frac{y}{|y|} .

    The correction jumps at the centre, where it is taken as 0.

    Args:
        radius: R, finite and positive; broadcasts to the leading axes.

    Raises:
        ValueError: `radius` is not positive.
    """
    r = convex.positive("radius", radius)
    return MirrorMap(
        dual=bind(_dual, r),
        primal=bind(_primal, r),
        inverse_hessian=bind(_inverse_hessian, r),
        log_det=bind(_log_det, r),
        correction=bind(_correction, r),
        inside=bind(_inside, r),
    )


def _dual(radius: jax.Array, x: jax.Array) -> jax.Array:
    return x / (1 - _norm(x) / radius.astype(x.dtype)[..., None])


def _primal(radius: jax.Array, y: jax.Array, near: jax.Array) -> jax.Array:
    del near
    s = _norm(y) / radius.astype(y.dtype)[..., None]
    return y * jnp.minimum(1 / (1 + s), _inner(y) / s)


def _inverse_hessian(radius: jax.Array, x: jax.Array, y: jax.Array, v: jax.Array) -> jax.Array:
    r, norm = radius.astype(y.dtype)[..., None], _norm(y)
    return (v - jnp.sum(y * v, axis=-1, keepdims=True) / norm * x / r) / (1 + norm / r)


def _log_det(radius: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    del x
    return (y.shape[-1] + 1) * jnp.log1p(_norm(y)[..., 0] / radius.astype(y.dtype))


def _correction(radius: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    del x
    norm = _norm(y)
    return -(y.shape[-1] + 1) / (radius.astype(y.dtype)[..., None] + norm) * y / norm


def _inside(radius: jax.Array, x: jax.Array) -> jax.Array:
    return _norm(x)[..., 0] <= _inner(x) * radius.astype(x.dtype)


def _norm(y: jax.Array) -> jax.Array:
    """Return the norms [..., 1], with a derivative of 0 at 0."""
    least = float(jnp.finfo(y.dtype).tiny) ** 0.5
    return jnp.sqrt(jnp.sum(y**2, axis=-1, keepdims=True) + least)


def _inner(x: jax.Array) -> float:
    """Return the largest share of the radius that is inside whatever the rounding."""
    return 1 - 4 * float(jnp.finfo(x.dtype).eps)

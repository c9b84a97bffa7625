"""A mirror map of the Euclidean ball."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.geometry.mirror.maps import MirrorMap, of_methods


def ball(radius: ArrayLike = 1.0) -> MirrorMap:
    r"""Return a mirror map of the Euclidean ball about the origin, along the last axis [..., d].

    :math:`h(x) = R^2 h_1(x / R)` with :math:`h_1(u) = -\log(1 - |u|) - |u|` (appendix B.2): with
    :math:`s = |y| / R`, :math:`x = y / (1 + s)` and

    .. math::
        \nabla^2 h^{-1} v = \frac1{1 + s} \Big( v - \frac{(y \cdot v)\, x}{|y| R} \Big), \qquad
        \log \det \nabla^2 h = (d + 1) \log(1 + s), \qquad
        -\nabla^2 h^{-1} \nabla \log \det \nabla^2 h = -\frac{d + 1}{R (1 + s)} \frac{y}{|y|} .

    The correction jumps at the centre, where it is set to 0.

    Args:
        radius: R, finite and positive; broadcasts to the leading axes.

    Raises:
        ValueError: `radius` is not positive.
    """
    return of_methods(_Ball(arguments.positives("radius", radius)))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Ball:
    radius: jax.Array

    def dual(self, x: jax.Array) -> jax.Array:
        return x / (1 - _norm(x) / self._radii(x))

    def primal(self, y: jax.Array, near: jax.Array) -> jax.Array:
        del near
        s = _norm(y) / self._radii(y)
        return y * jnp.minimum(1 / (1 + s), _inner(y) / s)

    def inverse_hessian(self, x: jax.Array, y: jax.Array, v: jax.Array) -> jax.Array:
        r, norm = self._radii(y), _norm(y)
        return (v - jnp.sum(y * v, axis=-1, keepdims=True) / norm * x / r) / (1 + norm / r)

    def log_det(self, x: jax.Array, y: jax.Array) -> jax.Array:
        del x
        return (y.shape[-1] + 1) * jnp.log1p(_norm(y) / self._radii(y))[..., 0]

    def correction(self, x: jax.Array, y: jax.Array) -> jax.Array:
        del x
        norm = _norm(y)
        return -(y.shape[-1] + 1) / (self._radii(y) + norm) * y / norm

    def inside(self, x: jax.Array) -> jax.Array:
        return (_norm(x) <= _inner(x) * self._radii(x))[..., 0]

    def hessian(self, x: jax.Array, y: jax.Array, u: jax.Array) -> jax.Array:
        del x
        s, along = self._split(y, u)
        return (1 + s) * (u + s * along)

    def noise(self, x: jax.Array, y: jax.Array, xi: jax.Array) -> jax.Array:
        del x
        s, along = self._split(y, xi)
        return (xi - along + along / jnp.sqrt(1 + s)) / jnp.sqrt(1 + s)

    def square(self, x: jax.Array, y: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.sum(self.noise(x, y, w) ** 2, axis=-1)

    def _split(self, y: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return s = |y| / R, and the component of v along y."""
        norm = _norm(y)
        return norm / self._radii(y), jnp.sum(y * v, axis=-1, keepdims=True) / norm * y / norm

    def _radii(self, x: jax.Array) -> jax.Array:
        return arguments.with_rank(self.radius.astype(x.dtype)[..., None], x.ndim)


def _norm(y: jax.Array) -> jax.Array:
    """Return the norms [..., 1], with a derivative of 0 at 0."""
    least = float(jnp.finfo(y.dtype).tiny) ** 0.5
    return jnp.sqrt(jnp.sum(y**2, axis=-1, keepdims=True) + least)


def _inner(x: jax.Array) -> float:
    """Return the largest fraction of the radius that is inside despite rounding."""
    return 1 - 4 * float(jnp.finfo(x.dtype).eps)

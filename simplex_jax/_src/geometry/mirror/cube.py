"""A mirror map of the hypercube."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.geometry.mirror.maps import MirrorMap, of_methods


def hypercube(lower: ArrayLike = -1.0, upper: ArrayLike = 1.0) -> MirrorMap:
    r"""Return the mirror map of the box of coordinates between `lower` and `upper` [..., d].

    With the middle m and half-width w, :math:`x_j = m + w \tanh(y_j / w)`, from :math:`h(x) = w^2
    \sum_j h_1((x_j - m) / w)`, with h_1 for (-1, 1) as in Hsieh et al. (2018, appendix B.1;
    1-strongly convex at any width):

    .. math::
        \nabla^2 h^{-1} = \mathrm{diag}\; \mathrm{sech}^2(y_j / w), \qquad
        \log \det \nabla^2 h = -\sum_j \log \mathrm{sech}^2(y_j / w), \qquad
        -\nabla^2 h^{-1} \nabla \log \det \nabla^2 h = -\tfrac2w \tanh(y_j / w) .

    (The sign inside the logarithm of their middle line for W is wrong; the last line is right.)
    Next to a bound other than 0, x is rounded to the nearest number inside, in float32 for |y|
    above 9 w: write a density with a pole at such a bound in terms of y. Next to a bound of 0, x is
    accurate down to 4e-29 in float32.

    Args:
        lower: Lower bounds, finite.
        upper: Upper bounds, finite and above the lower ones.

    Raises:
        ValueError: A bound is not finite, or a lower bound is not below its upper one.
    """
    low, high = arguments.bounds(lower, upper)
    for name, bound in {"lower": low, "upper": high}.items():
        arguments.require(name, bound, jnp.isfinite(bound), "finite")
    return of_methods(_Box(low, high))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Box:
    low: jax.Array
    high: jax.Array

    def dual(self, x: jax.Array) -> jax.Array:
        middle, width = self._shape(x)
        u = (x - middle) / width
        inner = jnp.abs(u) < 0.5
        # Close to a bound u rounds to 1, where arctanh(u) and its slope are infinite.
        low, high = self._bounds(x)
        ends = 0.5 * jnp.log((x - low) / (high - x))
        return width * jnp.where(inner, jnp.arctanh(jnp.where(inner, u, 0)), ends)

    def primal(self, y: jax.Array, near: jax.Array) -> jax.Array:
        del near
        (low, high), (_, width) = self._bounds(y), self._shape(y)
        # Measured from the nearer bound: numbers near a bound of 0 are small.
        from_low = low + 2 * width * jax.nn.sigmoid(2 * y / width)
        from_high = high - 2 * width * jax.nn.sigmoid(-2 * y / width)
        return jnp.clip(jnp.where(y < 0, from_low, from_high), *self._ends(y))

    def inverse_hessian(self, x: jax.Array, y: jax.Array, v: jax.Array) -> jax.Array:
        del x
        return jnp.exp(_log_sech_squared(y / self._shape(y)[1])) * v

    def log_det(self, x: jax.Array, y: jax.Array) -> jax.Array:
        del x
        return -_log_sech_squared(y / self._shape(y)[1]).sum(axis=-1)

    def correction(self, x: jax.Array, y: jax.Array) -> jax.Array:
        del x
        width = self._shape(y)[1]
        return -2 / width * jnp.tanh(y / width)

    def inside(self, x: jax.Array) -> jax.Array:
        first, last = self._ends(x)
        return ((x >= first) & (x <= last)).all(axis=-1)

    def hessian(self, x: jax.Array, y: jax.Array, u: jax.Array) -> jax.Array:
        del x
        return jnp.exp(-_log_sech_squared(y / self._shape(y)[1])) * u

    def noise(self, x: jax.Array, y: jax.Array, xi: jax.Array) -> jax.Array:
        del x
        return jnp.exp(_log_sech_squared(y / self._shape(y)[1]) / 2) * xi

    def square(self, x: jax.Array, y: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.sum(self.noise(x, y, w) ** 2, axis=-1)

    def _bounds(self, x: jax.Array) -> list[jax.Array]:
        return [arguments.with_rank(b.astype(x.dtype), x.ndim) for b in (self.low, self.high)]

    def _shape(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the middle and half the width."""
        low, high = self._bounds(x)
        return (low + high) / 2, (high - low) / 2

    def _ends(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the first and the last number inside."""
        low, high = self._bounds(x)
        # XLA treats subnormal numbers as 0. As in `entropic`, the floor leaves room for 1 / x.
        floor = float(jnp.finfo(x.dtype).tiny) ** 0.75
        first = jnp.where(low == 0, floor, jnp.nextafter(low, high))
        return first, jnp.where(high == 0, -floor, jnp.nextafter(high, low))


def _log_sech_squared(u: jax.Array) -> jax.Array:
    return 2 * (math.log(2) - jnp.abs(u) - jnp.log1p(jnp.exp(-2 * jnp.abs(u))))

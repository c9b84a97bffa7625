"""The unit sphere, where geodesics are great circles."""

import functools

import jax
import jax.numpy as jnp

from simplex_jax._src.geometry.manifolds.manifold import Manifold


def sphere() -> Manifold:
    r"""Return the unit sphere S^{n-1} of R^n, along the last axis of arrays [..., n], n > 1.

    With the speed :math:`a = |v|`,

    .. math::
        x(t) = x \cos(a t) + v\, \frac{\sin(a t)}{a}, \qquad
        v(t) = v \cos(a t) - a\, x \sin(a t)

    (Liu, Zhu and Song 2016, equation 7), and :math:`x(t) = x + v t` where a is 0. The flow then
    divides x by its norm, projects v and restores the speed a, so rounding errors do not build up.
    In float32 they amount to about 1e-7 per radian of the angle a t.

    Raises:
        ValueError: When used: an array has no last axis of at least 2 coordinates.

    Example: a quarter of a great circle.

        >>> import jax.numpy as jnp
        >>> from simplex_jax.geometry import manifolds
        >>> ball = manifolds.sphere()
        >>> x, v = ball.flow(jnp.array([1.0, 0.0, 0.0]), jnp.array([0.0, 0.0, 2.0]), jnp.pi / 4)
        >>> print(x.round(6) + 0, v.round(6) + 0, ball.dimension(x))
        [0. 0. 1.] [-2.  0.  0.] 2
    """
    return Manifold(project, flow, point, distance, retract, error, dimension)


def project(x: jax.Array, v: jax.Array) -> jax.Array:
    """Return v minus its component along the unit vectors x."""
    return v - x * jnp.sum(x * v, axis=-1, keepdims=True)


def flow(x: jax.Array, v: jax.Array, t: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Follow great circles for time t."""
    t = jnp.asarray(t, x.dtype)
    speed = norm(v)
    angle = speed * t
    end = retract(x * jnp.cos(angle) + v * (t * _sinc(angle)))
    velocity = v * jnp.cos(angle) - x * (speed * jnp.sin(angle))
    return end, with_speed(project(end, velocity), speed)


def _sinc(z: jax.Array) -> jax.Array:
    """Return sin(z) / z, which is 1 at 0; the quotient is precise for any normal number z."""
    safe = jnp.where(z == 0, 1, z)
    return jnp.where(z == 0, 1, jnp.sin(safe) / safe)


def norm(v: jax.Array) -> jax.Array:
    """Return the norms along the last axis, [..., 1], with a derivative of 0 at 0."""
    square = jnp.sum(v**2, axis=-1, keepdims=True)
    return jnp.where(square == 0, 0, jnp.sqrt(jnp.where(square == 0, 1, square)))


def with_speed(v: jax.Array, speed: jax.Array) -> jax.Array:
    """Return v scaled to the norm `speed` [..., 1], which undoes rounding errors; 0 stays 0."""
    length = norm(v)
    return v * jnp.where(length == 0, 1, speed / jnp.where(length == 0, 1, length))


def point(key: jax.Array, like: jax.Array) -> jax.Array:
    """Draw uniform unit vectors."""
    dimension(like)
    return retract(jax.random.normal(key, like.shape, like.dtype))


def distance(x: jax.Array, y: jax.Array) -> jax.Array:
    """Return the angles between unit vectors, precise for small and large angles."""
    return 2 * jnp.arctan2(norm(x - y), norm(x + y))[..., 0]


def retract(x: jax.Array) -> jax.Array:
    """Divide by the norms; 0 has no nearest point and becomes NaN."""
    return x / jnp.sqrt(jnp.sum(x**2, axis=-1, keepdims=True))


@functools.partial(jax.jit, inline=True)  # one program
def error(x: jax.Array) -> jax.Array:
    """Return how far the norms are from 1."""
    return jnp.max(jnp.abs(norm(x) - 1))


def dimension(x: jax.Array) -> int:
    """Return n - 1 for each vector."""
    if x.ndim == 0 or x.shape[-1] < 2:
        raise ValueError(f"a sphere needs vectors of at least 2 coordinates, not shape {x.shape}")
    return x.size // x.shape[-1] * (x.shape[-1] - 1)

"""The probability simplex: flat with reflection at its faces, and as part of the sphere."""

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax._src import arguments
from simplex_jax._src.base import bind, static
from simplex_jax._src.geometry.manifolds import sphere
from simplex_jax._src.geometry.manifolds.manifold import Manifold


def simplex_flat(max_reflections: int | None = None) -> Manifold:
    r"""Return the simplex of probability vectors [..., K], K > 1, with the metric of R^K.

    Densities are with respect to the volume of the simplex, as for a Dirichlet distribution.
    Geodesics are straight lines in the plane of sum 1, reflected at the faces like a billiard ball:
    when :math:`x_j` reaches 0,

    .. math::
        v_j' = -v_j, \qquad v_i' = v_i + \frac{2 v_j}{K - 1} \quad (i \ne j) .

    All reflections within one flow are followed exactly, up to `max_reflections`. A trajectory with
    more ends where it began, with its velocity reversed. The reverse trajectory has as many
    reflections, so volume and reversibility are preserved, and with them a sampler's target.
    Entries are kept at 4e-29 or more in float32, to leave room for the gradient of a Dirichlet
    density.

    Args:
        max_reflections: Bound on the reflections of any copy in one flow; None for 20 + 10 K. A
            flow makes as many passes over its array as the copy with the most reflections needs.

    Raises:
        ValueError: `max_reflections` is not a positive integer; when used, an array has no last
            axis of at least 2 categories.

    Example:
        >>> import jax.numpy as jnp
        >>> from simplex_jax.geometry import manifolds
        >>> table = manifolds.simplex_flat()
        >>> x, v = table.flow(jnp.array([0.25, 0.75]), jnp.array([-0.5, 0.5]), 1.0)
        >>> print(x, v)
        [0.25 0.75] [ 0.5 -0.5]
    """
    if max_reflections is not None:
        max_reflections = arguments.at_least("max_reflections", max_reflections, 1)
    flow = bind(static(_flow, max_reflections=max_reflections))
    return Manifold(_project, flow, _point, _distance, _retract, _error, _dimension)


def _project(x: jax.Array, v: jax.Array) -> jax.Array:
    return v - jnp.mean(v, axis=-1, keepdims=True)


def _flow(
    x: jax.Array, v: jax.Array, t: jax.Array, *, max_reflections: int | None
) -> tuple[jax.Array, jax.Array]:
    k = x.shape[-1]
    most = 20 + 10 * k if max_reflections is None else max_reflections
    time = jnp.broadcast_to(jnp.asarray(t, x.dtype), (*x.shape[:-1], 1))
    # A negative time is a positive one with reversed velocity.
    heading = jnp.where(time < 0, -v, v)
    categories = arguments.with_rank(jnp.arange(k), x.ndim)

    def unfinished(loop: tuple) -> jax.Array:
        return (loop[2] > 0).any() & (loop[3] <= most)

    def fly(loop: tuple) -> tuple:
        point, velocity, remaining, count = loop
        falling = velocity < 0
        times = jnp.where(falling, point / jnp.where(falling, -velocity, 1), jnp.inf)
        face = jnp.argmin(times, axis=-1, keepdims=True)
        first = jnp.take_along_axis(times, face, axis=-1)
        hits = first < remaining
        point = jnp.maximum(point + jnp.where(hits, first, remaining) * velocity, 0)
        is_face = hits & (categories == face)
        normal = jnp.sum(jnp.where(is_face, velocity, 0), axis=-1, keepdims=True)
        reflected = jnp.where(is_face, -velocity, velocity + 2 * normal / (k - 1))
        remaining = jnp.where(hits, remaining - first, 0)
        return jnp.where(is_face, 0, point), reflected, remaining, count + 1

    start = (x, heading, jnp.abs(time), jnp.zeros((), jnp.int32))
    end, velocity, remaining, _ = lax.while_loop(unfinished, fly, start)
    end_point = _retract(end)
    velocity = sphere.with_speed(_project(end_point, velocity), sphere.norm(heading))
    is_cut = remaining > 0
    velocity = jnp.where(is_cut, -heading, velocity)
    return jnp.where(is_cut, x, end_point), jnp.where(time < 0, -velocity, velocity)


def _point(key: jax.Array, like: jax.Array) -> jax.Array:
    _dimension(like)
    weights = jax.random.exponential(key, like.shape, like.dtype)
    return _retract(weights / jnp.sum(weights, axis=-1, keepdims=True))


def _distance(x: jax.Array, y: jax.Array) -> jax.Array:
    return sphere.norm(x - y)[..., 0]


def _retract(x: jax.Array) -> jax.Array:
    """Return points of sum 1 in proportion to x, with entries of at least a floor."""
    floor = float(jnp.finfo(x.dtype).tiny) ** 0.75
    x = jnp.maximum(x, floor)
    return jnp.maximum(x / jnp.sum(x, axis=-1, keepdims=True), floor)


def _error(x: jax.Array) -> jax.Array:
    total = jnp.max(jnp.abs(jnp.sum(x, axis=-1) - 1))
    return jnp.maximum(total, jnp.max(jnp.maximum(-x, 0)))


def _dimension(x: jax.Array) -> int:
    if x.ndim == 0 or x.shape[-1] < 2:
        raise ValueError(f"a simplex needs vectors of at least 2 categories, not shape {x.shape}")
    return x.size // x.shape[-1] * (x.shape[-1] - 1)


def simplex_sphere() -> Manifold:
    r"""Return the simplex as the part y >= 0 of the sphere: y is the root of probabilities.

    :math:`x_j = y_j^2` maps unit vectors y to probability vectors x, and the metric of the sphere
    is a quarter of Fisher's. Geodesics are great circles, reflected where a coordinate reaches 0;
    all reflections are exact. Densities are with respect to the area of the sphere: a density
    :math:`\pi(x)` of probabilities becomes

    .. math::
        \pi(y^2) \prod_j y_j

    (Byrne and Girolami 2013, section 5.2). `point` draws y uniformly, so that x ~ Dirichlet(1/2,
    ..., 1/2).

    Example:
        >>> import jax.numpy as jnp
        >>> from simplex_jax.geometry import manifolds
        >>> part = manifolds.simplex_sphere()
        >>> y, v = part.flow(jnp.array([0.6, 0.8]), jnp.array([0.8, -0.6]), jnp.pi / 2)
        >>> jnp.allclose(y, jnp.array([0.8, 0.6])), jnp.allclose(v, jnp.array([-0.6, 0.8]))
        (Array(True, dtype=bool), Array(True, dtype=bool))
    """
    # The faces are great spheres at right angles, so reflections are sign changes.
    return sphere.sphere()._replace(
        flow=_fold_flow, point=_fold_point, retract=_fold_retract, error=_fold_error
    )


def _fold_flow(y: jax.Array, v: jax.Array, t: jax.Array) -> tuple[jax.Array, jax.Array]:
    y, v = sphere.flow(y, v, t)
    return jnp.abs(y), jnp.where(y < 0, -v, v)


def _fold_point(key: jax.Array, like: jax.Array) -> jax.Array:
    return jnp.abs(sphere.point(key, like))


def _fold_retract(y: jax.Array) -> jax.Array:
    return sphere.retract(jnp.maximum(y, 0))


def _fold_error(y: jax.Array) -> jax.Array:
    return jnp.maximum(sphere.error(y), jnp.max(jnp.maximum(-y, 0)))

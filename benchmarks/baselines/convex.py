"""Closed convex sets, each represented by its projection: the nearest point of the set.

A set is a function `(position) -> position`, and you can write one for your own set. The functions
here treat every leaf of a tree alike; for a simplex in one leaf and a box in another, write a
function that projects each.
"""

from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.base import Position, bind

__all__ = ["ball", "box", "simplex"]

Projection: TypeAlias = Callable[[Position], Position]
"""`(position) -> the nearest position in the set`, of the same structure, shapes and dtypes."""


def simplex(total: ArrayLike = 1.0) -> Projection:
    """Project on the nonnegative vectors of the given sum, along the last axis of every leaf.

    The largest coordinates are reduced by a common amount so that they sum to `total`; the others
    become 0. This needs one sort (Held, Wolfe and Crowder 1974; Duchi et al. 2008, figure 1).

    Args:
        total: Finite and positive; broadcasts to the leading axes of a leaf.

    Raises:
        ValueError: `total` is not positive; when used, a leaf has no axis of coordinates.

    Example:
        >>> import jax.numpy as jnp
        >>> from baselines import convex
        >>> print(convex.simplex()(jnp.array([0.75, 0.5, -2.0])))
        [0.625 0.375 0.   ]
    """
    return bind(_on_leaves, _project_simplex, arguments.positives("total", total))


def box(lower: ArrayLike, upper: ArrayLike) -> Projection:
    """Project on the box of coordinates between `lower` and `upper`.

    Args:
        lower: Lower bounds, broadcast to a leaf; -inf for no bound.
        upper: Upper bounds, above the lower ones; inf for no bound.

    Raises:
        ValueError: A lower bound is not below its upper one.

    Example: the positive numbers.

        >>> import jax.numpy as jnp
        >>> from baselines import convex
        >>> convex.box(0.0, jnp.inf)(jnp.array([-1.0, 2.0])).tolist()
        [0.0, 2.0]
    """
    return bind(_on_leaves, _project_box, *arguments.bounds(lower, upper))


def ball(radius: ArrayLike = 1.0) -> Projection:
    """Project on the Euclidean ball about the origin, along the last axis of every leaf.

    Args:
        radius: Finite and positive; broadcasts to the leading axes of a leaf.

    Raises:
        ValueError: `radius` is not positive; when used, a leaf has no axis of coordinates.

    Example:
        >>> import jax.numpy as jnp
        >>> from baselines import convex
        >>> print(convex.ball(5.0)(jnp.array([[6.0, 8.0], [1.0, 2.0]])))
        [[3. 4.]
         [1. 2.]]
    """
    return bind(_on_leaves, _project_ball, arguments.positives("radius", radius))


def distance(projection: Projection, position: Position) -> jax.Array:
    """Return the Euclidean distance of the whole position from the set.

    Example:
        >>> import jax.numpy as jnp
        >>> from baselines import convex
        >>> float(convex.distance(convex.box(0.0, 1.0), jnp.array([4.0, 0.5, -4.0])))
        5.0
    """
    nearest = projection(position)
    squares = jax.tree.map(lambda x, p: jnp.sum((x - p) ** 2), position, nearest)
    return jnp.sqrt(sum(jax.tree.leaves(squares)))


def contains(projection: Projection, position: Position) -> jax.Array:
    """Return whether the position is in the set, up to the rounding of float32 coordinates.

    Example:
        >>> import jax.numpy as jnp
        >>> from baselines import convex
        >>> inside = convex.contains(convex.simplex(), jnp.array([0.3, 0.6]))
        >>> bool(inside)
        False
    """

    def near(x: jax.Array, p: jax.Array) -> jax.Array:
        scale = jnp.maximum(jnp.abs(x).max(), 1)
        return jnp.abs(x - p).max() <= 2e-6 * scale

    return jnp.stack(jax.tree.leaves(jax.tree.map(near, position, projection(position)))).all()


def _on_leaves(project: Callable[..., jax.Array], *arrays_and_position: Position) -> Position:
    *arrays, position = arrays_and_position
    return jax.tree.map(
        lambda x: project(x, *(array.astype(x.dtype) for array in arrays)), position
    )


def _project_simplex(x: jax.Array, total: jax.Array) -> jax.Array:
    _check_axis(x)
    total = arguments.with_rank(total[..., None], x.ndim)
    # Subtracting a constant does not change the projection, and keeps the sums of the order of the
    # total for coordinates of any size. A NaN spreads to its whole row.
    x = x - x.max(axis=-1, keepdims=True)
    decreasing = -jnp.sort(-x, axis=-1)
    sums = jnp.cumsum(decreasing, axis=-1)
    number = arguments.with_rank(jnp.arange(1, x.shape[-1] + 1, dtype=x.dtype), x.ndim)
    size = (decreasing * number > sums - total).sum(axis=-1, keepdims=True)
    excess = jnp.take_along_axis(sums, size - 1, axis=-1) - total
    return jnp.maximum(x - excess / size.astype(x.dtype), 0)


def _project_box(x: jax.Array, lower: jax.Array, upper: jax.Array) -> jax.Array:
    return jnp.clip(x, *(arguments.with_rank(bound, x.ndim) for bound in (lower, upper)))


def _project_ball(x: jax.Array, radius: jax.Array) -> jax.Array:
    _check_axis(x)
    # Scaled, because the square of the largest coordinate might overflow.
    scale = jnp.maximum(jnp.abs(x).max(axis=-1, keepdims=True), jnp.finfo(x.dtype).tiny)
    norm = jnp.linalg.norm(x / scale, axis=-1, keepdims=True)
    radius = arguments.with_rank(radius[..., None], x.ndim)
    return jnp.where(scale * norm <= radius, x, x / scale * (radius / norm))


def _check_axis(x: jax.Array) -> None:
    if x.ndim == 0 or x.shape[-1] == 0:
        raise ValueError(
            f"position must have a last axis of coordinates; the shape of a leaf is {x.shape}"
        )

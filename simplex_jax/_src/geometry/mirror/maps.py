"""Mirror maps as records of functions."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from simplex_jax._src import arguments
from simplex_jax._src.base import Position, PyTree, bind


class MirrorMap(NamedTuple):
    """A mirror map h, as functions of arrays whose last axis indexes coordinates.

    Attributes:
        dual: `(x [..., n]) -> y = grad h(x) [..., d]`, with d = n except for the simplex.
        primal: `(y, near) -> x = grad h*(y)`. Without a formula, the search starts at `near`, a
            point [..., n] inside the set.
        inverse_hessian: `(x, y, v [..., n]) -> hess h(x)^-1 v [..., d]`, which turns a gradient v
            with respect to x into one with respect to y.
        log_det: `(x, y) -> log det hess h(x) [...]`.
        correction: `(x, y) -> -hess h(x)^-1 grad log det hess h(x) [..., d]`, the gradient of
            -log_det with respect to y.
        inside: `(x) -> whether h is finite and strictly convex at x [...]`.
        hessian: `(x, y, u [..., d]) -> hess h(x) u [..., d]`.
        noise: `(x, y, xi [..., n]) -> u [..., d]`, normal with covariance hess h(x)^-1 for standard
            normal xi.
        square: `(x, y, w [..., d]) -> w^T hess h(x)^-1 w [...]`.
    """

    dual: Callable[[jax.Array], jax.Array]
    primal: Callable[[jax.Array, jax.Array], jax.Array]
    inverse_hessian: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
    log_det: Callable[[jax.Array, jax.Array], jax.Array]
    correction: Callable[[jax.Array, jax.Array], jax.Array]
    inside: Callable[[jax.Array], jax.Array]
    hessian: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
    noise: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
    square: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]


def of_methods(shape: Any) -> MirrorMap:
    """Return the mirror map of a pytree whose class defines the functions as methods."""
    return MirrorMap(*(bind(getattr(type(shape), name), shape) for name in MirrorMap._fields))


def start(mirror: MirrorMap, position: Position) -> tuple[Position, PyTree]:
    """Return a position as points inside the set, leaves [..., n], and their dual variables.

    Raises:
        ValueError: A leaf is a scalar, or h is not finite and strictly convex there.
    """
    leaves, structure = jax.tree.flatten_with_path(position)
    points, duals = [], []
    for path, leaf in leaves:
        name = "position" + jax.tree_util.keystr(path)
        x = arguments.as_float(name, leaf)
        if x.ndim == 0:
            raise ValueError(f"{name} must have a last axis of coordinates; it is a scalar")
        y = mirror.dual(x)
        needs = "inside, where the h of the mirror map is finite and strictly convex"
        arguments.require(name, x, mirror.inside(x), needs)
        duals.append(y)
        points.append(mirror.primal(y, x))
    return jax.tree.unflatten(structure, points), jax.tree.unflatten(structure, duals)

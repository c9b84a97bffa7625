"""Products of manifolds, as trees."""

from typing import Any

import jax
import jax.numpy as jnp

from simplex_jax._src.base import PyTree, bind
from simplex_jax._src.geometry.manifolds.manifold import Manifold


def product(manifolds: PyTree) -> Manifold:
    """Return the product of a tree of manifolds, whose points are trees of the same structure.

    Args:
        manifolds: Any nesting of tuples, lists and dicts of `Manifold`.

    Raises:
        ValueError: There is no manifold in the tree; when used, a tree of points has another
            structure.

    Example: a direction and a length.

        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax.geometry import manifolds
        >>> both = manifolds.product(
        ...     {"direction": manifolds.sphere(), "length": manifolds.euclidean()})
        >>> x = {"direction": jnp.array([1.0, 0.0, 0.0]), "length": jnp.array([2.0])}
        >>> both.dimension(x)
        3
    """
    parts, structure = jax.tree.flatten(manifolds, is_leaf=_is_manifold)
    if not parts or not all(map(_is_manifold, parts)):
        raise ValueError(f"manifolds must be a tree of manifolds; it is {structure}")
    functions = (_project, _flow, _point, _distance, _retract, _error, _dimension)
    return Manifold(*(bind(function, manifolds) for function in functions))


def _is_manifold(node: object) -> bool:
    return isinstance(node, Manifold)


def _parts(manifolds: PyTree, *trees: PyTree) -> tuple[Any, list[tuple]]:
    """Return the structure, and each manifold with its subtrees."""
    parts: list = jax.tree.leaves(manifolds, is_leaf=_is_manifold)
    structure: Any = jax.tree.structure(manifolds, is_leaf=_is_manifold)
    try:
        subtrees = [structure.flatten_up_to(tree) for tree in trees]
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"a point of this product must be a tree like its manifolds, {structure}: {error}"
        ) from None
    return structure, list(zip(parts, *subtrees, strict=True))


def _project(manifolds: PyTree, x: PyTree, v: PyTree) -> PyTree:
    structure, parts = _parts(manifolds, x, v)
    return jax.tree.unflatten(structure, [part.project(*pair) for part, *pair in parts])


def _flow(manifolds: PyTree, x: PyTree, v: PyTree, t: jax.Array) -> tuple[PyTree, PyTree]:
    structure, parts = _parts(manifolds, x, v)
    results = [part.flow(*pair, t) for part, *pair in parts]
    points, velocities = zip(*results, strict=True)
    return jax.tree.unflatten(structure, points), jax.tree.unflatten(structure, velocities)


def _point(manifolds: PyTree, key: jax.Array, like: PyTree) -> PyTree:
    structure, parts = _parts(manifolds, like)
    keys = jax.random.split(key, len(parts))
    points = [part.point(k, leaf) for k, (part, leaf) in zip(keys, parts, strict=True)]
    return jax.tree.unflatten(structure, points)


def _distance(manifolds: PyTree, x: PyTree, y: PyTree) -> jax.Array:
    _, parts = _parts(manifolds, x, y)
    squares = [jnp.sum(part.distance(*pair) ** 2) for part, *pair in parts]
    return jnp.sqrt(jnp.sum(jnp.stack(squares)))


def _retract(manifolds: PyTree, x: PyTree) -> PyTree:
    structure, parts = _parts(manifolds, x)
    return jax.tree.unflatten(structure, [part.retract(leaf) for part, leaf in parts])


def _error(manifolds: PyTree, x: PyTree) -> jax.Array:
    _, parts = _parts(manifolds, x)
    return jnp.max(jnp.stack([part.error(leaf) for part, leaf in parts]))


def _dimension(manifolds: PyTree, x: PyTree) -> int:
    _, parts = _parts(manifolds, x)
    return sum(part.dimension(leaf) for part, leaf in parts)

"""The probability simplex in log space.

Probabilities of a sparse Dirichlet underflow: in float32, two in five Gamma(0.01) draws are 0. The
library therefore keeps log-probabilities, normalised along the last axis; apply `exp` for
probabilities.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.base import Position, PyTree


def normalise(log_weights: jax.Array) -> jax.Array:
    """Return log-probabilities proportional to `exp(log_weights)` along the last axis.

    Example:
        >>> import jax.numpy as jnp
        >>> from simplex_jax._src.geometry import simplex
        >>> print(simplex.normalise(jnp.array([-1000.0, -1000.0])).round(2))
        [-0.69 -0.69]
    """
    # Not minus a logsumexp, which would be rounded to the precision of logs of the order of 10,000.
    return jax.nn.log_softmax(log_weights, axis=-1)


def log_probabilities(weights: ArrayLike, name: str = "position") -> jax.Array:
    """Return the log-probabilities of nonnegative weights, normalised along the last axis.

    Args:
        weights: Shape [..., K], finite and nonnegative, no row all zero. A zero becomes -inf.
        name: Name of the weights in errors.

    Raises:
        ValueError: A weight is negative or not finite, or a row is all zero.

    Example:
        >>> import jax.numpy as jnp
        >>> from simplex_jax._src.geometry import simplex
        >>> jnp.exp(simplex.log_probabilities([1, 3])).round(4).tolist()
        [0.25, 0.75]
    """
    weights = arguments.as_float(name, weights)
    if weights.ndim == 0 or weights.shape[-1] == 0:
        raise ValueError(
            f"{name} must have a last axis of categories; its shape is {weights.shape}"
        )
    arguments.require(name, weights, arguments.nonnegative(weights), "finite and nonnegative")
    total, is_positive = _total(weights)
    arguments.require(f"the sum of {name}", total, is_positive, "positive in every row")
    return _normalised_log(weights)


# One program each when called outside jitted code, not one per operation.
@functools.partial(jax.jit, inline=True)
def _total(weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    total = jnp.sum(weights, axis=-1)
    return total, total > 0


@functools.partial(jax.jit, inline=True)
def _normalised_log(weights: jax.Array) -> jax.Array:
    return normalise(jnp.log(weights))


def log_position(position: Position) -> Position:
    """Return the log-probabilities of every leaf of a position of nonnegative weights.

    Raises:
        ValueError: The position is empty or a leaf is invalid; the message names the leaf.
    """
    leaves, structure = jax.tree.flatten_with_path(position, is_leaf=arguments.is_numbers)
    if not leaves:
        raise ValueError("position must have at least one leaf")
    return jax.tree.unflatten(
        structure,
        [log_probabilities(leaf, "position" + jax.tree_util.keystr(path)) for path, leaf in leaves],
    )


def interior(log_p: Position) -> Position:
    """Return log-probabilities that must all be of positive ones, NaN where traced ones are not.

    Raises:
        ValueError: A probability is 0.
    """

    def inside(leaf: jax.Array) -> jax.Array:
        arguments.require("position", jnp.exp(leaf), leaf > -jnp.inf, "positive everywhere")
        return jnp.where(leaf > -jnp.inf, leaf, jnp.nan)

    return jax.tree.map(inside, log_p)


def like(name: str, tree: PyTree, position: Position) -> list[jax.Array]:
    """Return the leaves of `tree` that match those of `position`, in their dtypes.

    Args:
        name: Name of the tree in errors.
        tree: A tree with the structure of `position`, or one array for all its leaves.
        position: Log-probabilities, leaves [..., K].

    Raises:
        ValueError: The structures differ, or an array does not broadcast to its leaf.
    """
    arrays = leaves_like(name, tree, position)
    leaves = jax.tree.leaves(position)
    return [_fitted(name, a, leaf) for a, leaf in zip(arrays, leaves, strict=True)]


def broadcast(name: str, tree: PyTree, position: Position) -> list[jax.Array]:
    """Return the leaves as `like` does, broadcast to the shapes of those of `position`."""
    arrays = like(name, tree, position)
    leaves = jax.tree.leaves(position)
    return [jnp.broadcast_to(a, leaf.shape) for a, leaf in zip(arrays, leaves, strict=True)]


def counts_like(counts: PyTree, position: Position) -> list[jax.Array]:
    """Return the leaves of estimated counts in the shapes and dtypes of those of `position`.

    Raises:
        ValueError: The structures differ, or an array does not broadcast to its leaf or has no axis
            of categories, perhaps because it was summed over categories too.
    """
    name = "the estimated counts"
    structures: list[Any] = [jax.tree.structure(tree) for tree in (counts, position)]
    if structures[0] != structures[1]:
        raise ValueError(
            f"{name} must have the structure of the position, {structures[1]}; it is "
            f"{structures[0]}"
        )
    leaves = broadcast(name, counts, position)
    for array, leaf in zip(jax.tree.leaves(counts), leaves, strict=True):
        if jnp.shape(array)[-1:] != leaf.shape[-1:]:
            raise ValueError(
                f"{name} must be one for each category, {leaf.shape}; the shape is "
                f"{jnp.shape(array)}: sum over data only"
            )
    return leaves


def leaves_like(name: str, tree: PyTree, position: Position) -> list[ArrayLike]:
    """Return the leaves of `tree`, or its only array once for each leaf of `position`."""
    structure: Any = jax.tree.structure(position)
    arrays, own = jax.tree.flatten(tree)
    if jax.tree_util.treedef_is_leaf(own) and len(arrays) == 1:
        return arrays * structure.num_leaves
    if own != structure:
        raise ValueError(
            f"{name} must be one array or have the structure of the position, {structure}; "
            f"its structure is {own}"
        )
    return arrays


def _fitted(name: str, array: ArrayLike, leaf: jax.Array) -> jax.Array:
    array = jnp.asarray(array, leaf.dtype)
    try:
        fits = jnp.broadcast_shapes(array.shape, leaf.shape) == leaf.shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"{name} of shape {array.shape} does not broadcast to the position's {leaf.shape}"
        )
    return arguments.with_rank(array, leaf.ndim)

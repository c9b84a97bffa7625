"""Euler steps of Langevin dynamics on R^d, shared by `sgld` and `mld`."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src import gradients
from simplex_jax._src.base import Batch, Position, PyTree
from simplex_jax._src.draws.keys import to_jax_key
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.geometry import simplex


class State(NamedTuple):
    """State of a Langevin kernel.

    Attributes:
        position: Any tree of real arrays.
        step: Number of updates done, int32.
        memory: The memory of the estimator.
    """

    position: Position
    step: jax.Array
    memory: PyTree


def init(key: jax.Array, position: Position, *, estimator: Estimator) -> State:
    """Start from a tree of finite real numbers.

    Raises:
        ValueError: The position is not finite, or the log density of a `gradients.density` or its
            gradient is not finite there.
    """
    position = gradients.start(estimator, position)
    return State(position=position, step=jnp.zeros((), jnp.int32), memory=estimator.init(key))


def gradient(
    key: jax.Array, estimator: Estimator, memory: PyTree, position: Position, batch: Batch
) -> tuple[Position, PyTree]:
    """Return the estimated gradient, shaped like the position, and the new memory."""
    estimate, memory = estimator.estimate(to_jax_key(key), memory, position, batch)
    return gradients.like("the estimated gradient", estimate, position), memory


def step(
    key: jax.Array, x: Position, drift: Position, h: jax.Array, preconditioner: PyTree = 1.0
) -> tuple[Position, jax.Array]:
    """Return x + h M drift + sqrt(2 h M) xi, and the RMS ratio of drift to noise.

    The preconditioner M is an array or a tree that broadcasts to x.
    """
    scales = jax.tree.unflatten(
        jax.tree.structure(x), simplex.like("preconditioner", preconditioner, x)
    )
    times = jax.tree.map(lambda leaf, m: h.astype(leaf.dtype) * m, x, scales)
    end = jax.tree.map(
        lambda leaf, t, g, xi: leaf + t * g + jnp.sqrt(2 * t) * xi,
        x,
        times,
        drift,
        normal_like(key, x),
    )
    squares = jax.tree.map(lambda t, g: jnp.ravel(t / 2 * g**2), times, drift)
    return end, jnp.sqrt(jnp.concatenate(jax.tree.leaves(squares)).mean())


def normal_like(key: jax.Array, tree: PyTree) -> PyTree:
    """Draw independent standard normal numbers in the shapes and dtypes of a tree."""
    leaves, structure = jax.tree.flatten(tree)
    keys = jax.random.split(key, len(leaves))
    normals = [
        jax.random.normal(k, leaf.shape, leaf.dtype) for k, leaf in zip(keys, leaves, strict=True)
    ]
    return jax.tree.unflatten(structure, normals)


def norm(tree: PyTree) -> jax.Array:
    """Return the Euclidean norm of all entries of a tree."""
    return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree)))

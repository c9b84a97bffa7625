"""Replicated arrays of a run, read from one device."""

import jax

from simplex_jax.base import PyTree


def first(tree: PyTree) -> PyTree:
    """Return the copy, or the part, of every array that the first device has; nothing is copied.

    Computations on the result are done once, on that device, and not by all of them.
    """

    def part(leaf: jax.Array) -> jax.Array:
        # JAX keeps the data of another array object for longer than that object is in use.
        return leaf if len(leaf.sharding.device_set) == 1 else leaf.addressable_data(0)

    return jax.tree.map(part, tree)

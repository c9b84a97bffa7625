"""Replicated arrays of a run, read from one device."""

import jax

from simplex_jax.base import PyTree


def first(tree: PyTree) -> PyTree:
    """Return the copy, or the part, of every array that the first device has; nothing is copied.

    Computations on the result are done once, on that device, and not by all of them.
    """
    return jax.tree.map(lambda leaf: leaf.addressable_data(0), tree)

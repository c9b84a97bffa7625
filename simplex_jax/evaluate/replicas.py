"""What every device of a run holds alike, as one of them has it."""

import jax

from simplex_jax.base import PyTree


def first(tree: PyTree) -> PyTree:
    """Return what the first device holds of every array; nothing is copied.

    What is computed from the result is computed once, on that device, and not by all of them. Of an
    array that is split over devices this is a part.

    Example:
        >>> import jax.numpy as jnp
        >>> from simplex_jax.evaluate import replicas
        >>> replicas.first({"alpha": jnp.ones(2)})
        {'alpha': Array([1., 1.], dtype=float32)}
    """
    return jax.tree.map(lambda leaf: leaf.addressable_data(0), tree)

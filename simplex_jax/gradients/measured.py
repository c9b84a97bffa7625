"""The variance of an estimate, measured."""

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax.base import Position, PyTree, as_pytree
from simplex_jax.batches import Stream
from simplex_jax.draws import arguments
from simplex_jax.estimators import Estimator


def variance(
    estimator: Estimator,
    key: jax.Array,
    position: Position,
    stream: Stream,
    repeats: int,
    memory: PyTree = (),
) -> PyTree:
    """Measure the variance of an estimate at one position over batches, entry by entry.

    Args:
        estimator: Of gradients or of counts.
        key: A PRNG key.
        position: What the estimator takes: log-probabilities for counts.
        stream: Its batches of steps 0, ..., repeats - 1 are used. One of `batches.Visit` must have
            none due: use `batches.visits(stream, 1, first=repeats)`.
        repeats: Number of estimates, at least 2. The relative standard error of a variance is
            about sqrt(2 / repeats) or more.
        memory: What the estimator remembers; each estimate starts from it.

    Returns:
        A tree like the estimate.

    Raises:
        ValueError: `repeats` is not an integer of at least 2.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches, estimators, gradients
        >>> stream = batches.uniform(jnp.array([0, 1, 1, 2, 2]), 1)
        >>> found = gradients.variance(
        ...     estimators.categorical(size=5), jax.random.key(0), jnp.zeros(3), stream, 20_000)
        >>> print((found / 25).round(1))  # p (1 - p)
        [0.2 0.2 0.2]
    """
    repeats = arguments.at_least("repeats", repeats, 2)
    return _variance(as_pytree(estimator), key, position, as_pytree(stream), repeats, memory)


@jax.jit
def _variance(
    estimator: Estimator,
    key: jax.Array,
    position: Position,
    stream: Stream,
    repeats: jax.Array,
    memory: PyTree,
) -> PyTree:
    key_stream, key_estimate = jax.random.split(key)

    def estimate(i: jax.Array) -> PyTree:
        batch = stream(key_stream, i)
        return estimator.estimate(jax.random.fold_in(key_estimate, i), memory, position, batch)[0]

    def add(i: jax.Array, moments: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
        # Welford's recursion, as sums of squares would cancel.
        mean, squares = moments
        change = jax.tree.map(jnp.subtract, estimate(i), mean)
        share = 1 / (i + 1)
        return (
            jax.tree.map(lambda m, d: m + (d * share).astype(m.dtype), mean, change),
            jax.tree.map(lambda s, d: s + (d**2 * (1 - share)).astype(s.dtype), squares, change),
        )

    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(estimate, 0))
    _, squares = lax.fori_loop(0, repeats, add, (zeros, zeros))
    return jax.tree.map(lambda s: s / (repeats - 1), squares)

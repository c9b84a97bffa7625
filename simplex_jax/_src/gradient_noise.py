"""The variance of an estimate, from the data of one batch or from many batches."""

from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax._src import arguments
from simplex_jax._src.base import Batch, Position, PyTree, as_pytree, bind, static
from simplex_jax._src.batches import Stream, length
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.gradients import LogLikelihood, gradient_of

Variance: TypeAlias = Callable[[Position, Batch], PyTree]
"""`(position, batch) -> variance` of the gradient, a tree like the position: entry by entry, or in
matrices along the last axis."""


def fisher(
    log_likelihood: LogLikelihood,
    size: float,
    project: Callable[[Position, Position], Position] | None = None,
    *,
    matrix: bool = False,
) -> Variance:
    r"""Estimate the variance of the gradient of `gradients.posterior` from one batch.

    With the log-likelihood gradients g_i of the n data of a batch, drawn from N with replacement,
    and their mean,

    .. math::
        V(x) = \frac{N^2}{n}\, \frac{1}{n - 1} \sum_{i \in \text{batch}} (g_i - \bar g)^2 ,

    entry by entry: the diagonal of the empirical Fisher information, centred, times N^2 / n (Ahn,
    Korattikara and Welling 2012, section 3). With replacement it is unbiased; without, the true
    variance is smaller by the factor 1 - n / N. It costs n gradients, all in memory at once. With
    `matrix` it uses the full matrix :math:`\sum_i (g_i - \bar g)(g_i - \bar g)^T` of each leaf,
    without blocks between leaves. Pass either as `noise_estimate` to `samplers.sggmc` or
    `samplers.gsgnht`.

    Args:
        log_likelihood: `(position, batch) -> scalar`, summed over the batch; called with batches of
            one datum.
        size: N. The length of the batch's leading axis is n, at least 2.
        project: `(position, gradient) -> gradient` on the tangent space, as
            `manifolds.sphere().project`, or None. On a manifold, kernels use only the tangent part;
            the rest, which may be far larger, must not count as noise.
        matrix: Return a covariance matrix [d, d] for each leaf, which must be a vector [d]. It has
            rank n - 1 at most.

    Raises:
        ValueError: `size` is not positive; when used, the batch has a single datum, the function
            does not return a scalar, or `matrix` is set and a leaf is not a vector.

    Example: the mean of unit normals, from two data whose variance is 2.

        >>> import jax.numpy as jnp
        >>> from simplex_jax import gradients
        >>> variance = gradients.fisher(lambda mu, x: -((x - mu) ** 2).sum() / 2, size=100)
        >>> float(variance(jnp.array(0.0), jnp.array([1.0, 3.0])))  # 100^2 / 2 times 2
        10000.0
    """
    size = arguments.size(size)
    return bind(static(_fisher, matrix=matrix), log_likelihood, size, project)


def _fisher(
    log_likelihood: LogLikelihood,
    size: float,
    project: Callable[[Position, Position], Position] | None,
    position: Position,
    batch: Batch,
    *,
    matrix: bool,
) -> PyTree:
    n = length(batch, "batch")
    if n < 2:
        raise ValueError("batch must have at least 2 data to estimate a variance from")
    singles = jax.tree.map(lambda leaf: jnp.asarray(leaf)[:, None], batch)
    gradient = gradient_of("log_likelihood", log_likelihood)
    gradients = jax.vmap(gradient, in_axes=(None, 0))(position, singles)
    if project is not None:
        gradients = jax.vmap(project, in_axes=(None, 0))(position, gradients)
    spread = _covariance if matrix else lambda g: jnp.var(g, axis=0, ddof=1)
    return jax.tree.map(lambda g: size * size / n * spread(g), gradients)


def _covariance(gradients: jax.Array) -> jax.Array:
    """Return the covariance matrix [d, d] of vectors [n, d]."""
    if gradients.ndim != 2:
        raise ValueError(
            f"matrix=True needs vectors; a leaf of the position has shape {gradients.shape[1:]}"
        )
    centred = gradients - gradients.mean(axis=0, keepdims=True)
    return jnp.matmul(centred.T, centred, precision=lax.Precision.HIGHEST) / (len(gradients) - 1)


def variance(
    estimator: Estimator,
    key: jax.Array,
    position: Position,
    stream: Stream,
    repeats: int,
    memory: PyTree = None,
) -> PyTree:
    """Measure the variance of an estimate over batches, at one position, entry by entry.

    Args:
        estimator: Of gradients or of counts.
        key: A PRNG key.
        position: Position for the estimator; log-probabilities for counts.
        stream: Supplies the batches of steps 0, ..., repeats - 1. If it makes visits, none may
            be due: use `batches.visits(stream, 1, first=repeats)`.
        repeats: Number of estimates, at least 2. The relative standard error of a variance is at
            least about sqrt(2 / repeats).
        memory: The estimator's memory, from which each estimate starts; by default its first.

    Returns:
        A tree like the estimate.

    Raises:
        ValueError: `repeats` is not an integer of at least 2.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches, estimators, gradients
        >>> stream = batches.uniform(jnp.array([0, 1, 1, 2, 2]), 1)
        >>> variance = gradients.variance(
        ...     estimators.categorical(size=5), jax.random.key(0), jnp.zeros(3), stream, 20_000)
        >>> print((variance / 25).round(1))  # p (1 - p)
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
    key_stream, key_estimate, key_memory = jax.random.split(key, 3)
    if memory is None:
        memory = estimator.init(key_memory)

    def estimate(i: jax.Array) -> PyTree:
        batch = stream(key_stream, i)
        return estimator.estimate(jax.random.fold_in(key_estimate, i), memory, position, batch)[0]

    def add(i: jax.Array, moments: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
        # Welford's recursion: sums of squares would cancel.
        mean, squares = moments
        change = jax.tree.map(lambda x, m: x.astype(m.dtype) - m, estimate(i), mean)
        share = 1 / (i + 1.0)
        return (
            jax.tree.map(lambda m, d: m + (d * share).astype(m.dtype), mean, change),
            jax.tree.map(lambda s, d: s + (d**2 * (1 - share)).astype(s.dtype), squares, change),
        )

    # Means and squares of integers are floats.
    zeros = jax.tree.map(
        lambda x: jnp.zeros(x.shape, x.dtype if jnp.issubdtype(x.dtype, jnp.floating) else float),
        jax.eval_shape(estimate, 0),
    )
    _, squares = lax.fori_loop(0, repeats, add, (zeros, zeros))
    return jax.tree.map(lambda s: s / (repeats - 1), squares)

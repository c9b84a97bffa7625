"""The variance of a minibatch gradient, estimated from the gradients of its data."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from simplex_jax.base import Batch, Position, PyTree, bind
from simplex_jax.batches import length
from simplex_jax.gradients.densities import LogLikelihood, check_size, gradient_of

Variance = Callable[[Position, Batch], PyTree]
"""`(position, batch) -> variance` of the gradient, entry by entry, a tree like the position."""


def fisher(
    log_likelihood: LogLikelihood,
    size: float,
    project: Callable[[Position, Position], Position] | None = None,
) -> Variance:
    r"""Estimate the variance of the gradient of `gradients.posterior` from the batch at hand.

    With the gradients g_i of the log likelihood of the n data of a batch, drawn out of N with
    replacement, and their mean,

    .. math::
        V(x) = \frac{N^2}{n}\, \frac{1}{n - 1} \sum_{i \in \text{batch}} (g_i - \bar g)^2 ,

    entry by entry: the diagonal of the empirical Fisher information, centred, times N^2 / n (Ahn,
    Korattikara and Welling 2012, section 3). It is unbiased with replacement; without it the
    variance is smaller by the factor 1 - n / N. Pass it as `noise_estimate` to `samplers.sggmc`
    or `samplers.gsgnht`. It costs n gradients, and the memory for all of them at once.

    Args:
        log_likelihood: `(position, batch) -> scalar`, summed over the batch; here it sees batches
            of one datum.
        size: N. n is the length of the batch's leading axis, at least 2.
        project: `(position, gradient) -> gradient` on the tangent space, as
            `manifolds.sphere().project`. Where points are on a manifold the kernels see only that
            part, and the rest, which may be far larger, must not count as noise. None for none.

    Raises:
        ValueError: `size` is not positive; when used, the batch has a single datum, or the function
            does not return a scalar.

    Example: the mean of unit normals; the variance of two data at a distance of 2 is 2.

        >>> import jax.numpy as jnp
        >>> from simplex_jax import gradients
        >>> variance = gradients.fisher(lambda mu, x: -((x - mu) ** 2).sum() / 2, size=100)
        >>> float(variance(jnp.array(0.0), jnp.array([1.0, 3.0])))  # 100^2 / 2 times 2
        10000.0
    """
    check_size(size)
    return bind(_fisher, log_likelihood, size, project)


def _fisher(
    log_likelihood: LogLikelihood,
    size: float,
    project: Callable[[Position, Position], Position] | None,
    position: Position,
    batch: Batch,
) -> PyTree:
    n = length(batch, "batch")
    if n < 2:
        raise ValueError("batch must have at least 2 data, as a variance is estimated from them")
    single = jax.tree.map(lambda leaf: jnp.asarray(leaf)[:, None], batch)
    gradient = gradient_of("log_likelihood", log_likelihood)
    each = jax.vmap(gradient, in_axes=(None, 0))(position, single)
    if project is not None:
        each = jax.vmap(project, in_axes=(None, 0))(position, each)
    return jax.tree.map(lambda g: size * size / n * jnp.var(g, axis=0, ddof=1), each)

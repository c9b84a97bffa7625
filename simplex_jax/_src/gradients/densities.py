"""Gradients of a log posterior from batches, and exact gradients of a log density."""

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from simplex_jax._src import arguments
from simplex_jax._src.base import Batch, Position, PyTree, bind
from simplex_jax._src.batches import length
from simplex_jax._src.estimators import Estimator, no_memory

LogDensity: TypeAlias = Callable[..., jax.Array]
"""`(position) -> scalar`, or `(position, batch) -> scalar`; need not be normalised."""

LogLikelihood: TypeAlias = Callable[[Position, Batch], jax.Array]
"""`(position, batch) -> scalar`: the SUM over the data of the batch, not scaled."""


def posterior(log_prior: LogDensity, log_likelihood: LogLikelihood, size: float) -> Estimator:
    r"""Gradient of the log posterior from a batch of n of N data, unbiased.

    .. math::
        \nabla \log p(x) + \frac{N}{n} \sum_{i \in \text{batch}} \nabla \log p(d_i \mid x)

    (Welling and Teh 2011, equation 4.)

    Args:
        log_prior: `(position) -> scalar`.
        log_likelihood: `(position, batch) -> scalar`, summed over the batch.
        size: N. The length of the batch's leading axis is n.

    Raises:
        ValueError: `size` is not positive; when used, a function does not return a scalar.

    Example: the mean of unit normals under a standard normal prior.

        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import gradients
        >>> estimator = gradients.posterior(
        ...     lambda mu: -(mu**2) / 2, lambda mu, x: -((x - mu) ** 2).sum() / 2, size=100)
        >>> gradient, _ = estimator.estimate(
        ...     jax.random.key(0), (), jnp.array(1.0), jnp.array([2.0, 3.0]))
        >>> float(gradient)  # -1 + 100 / 2 (1 + 2)
        149.0
    """
    size = arguments.size(size)
    return Estimator(init=no_memory, estimate=bind(_posterior, log_prior, log_likelihood, size))


def _posterior(
    log_prior: LogDensity,
    log_likelihood: LogLikelihood,
    size: float,
    key: jax.Array,
    memory: PyTree,
    position: Position,
    batch: Batch,
) -> tuple[Position, PyTree]:
    del key
    scale = size / length(batch, "batch")
    prior = gradient_of("log_prior", log_prior)(position)
    likelihood = gradient_of("log_likelihood", log_likelihood)(position, batch)
    return jax.tree.map(lambda p, g: p + scale * g, prior, likelihood), memory


def density(log_density: LogDensity, *, needs_batch: bool = False) -> Estimator:
    """Exact gradient of a log density.

    Args:
        log_density: `(position) -> scalar`; the batch is ignored.
        needs_batch: Whether it is `(position, batch) -> scalar`, with the full data as batch.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import gradients
        >>> estimator = gradients.density(lambda x: -(x**2).sum() / 2)
        >>> gradient, _ = estimator.estimate(jax.random.key(0), (), jnp.array([1.0, -2.0]), None)
        >>> gradient.tolist()
        [-1.0, 2.0]
    """
    exact = _density_of_batch if needs_batch else _density
    return Estimator(init=no_memory, estimate=bind(exact, log_density))


def _density(
    log_density: LogDensity, key: jax.Array, memory: PyTree, position: Position, batch: Batch
) -> tuple[Position, PyTree]:
    del key, batch
    return gradient_of("log_density", log_density)(position), memory


def _density_of_batch(
    log_density: LogDensity, key: jax.Array, memory: PyTree, position: Position, batch: Batch
) -> tuple[Position, PyTree]:
    del key
    return gradient_of("log_density", log_density)(position, batch), memory


def start(estimator: Estimator, position: PyTree) -> Position:
    """Return a copy of a position as floating point arrays, checked to be able to start a chain.

    An exact `density` that needs no batch is evaluated there.

    Raises:
        ValueError: The position is empty or not finite, or the density or its gradient is not
            finite there. Traced values are not checked.
    """
    position = arguments.tree("position", position, "finite")
    if not jax.tree.leaves(position):
        raise ValueError("position must have at least one leaf")
    estimate = estimator.estimate
    if isinstance(estimate, Partial) and estimate.func is _density:
        value, gradient = jax.value_and_grad(_scalar("log_density", estimate.args[0]))(position)
        needs = "finite where the chain starts"
        arguments.require("the log density", value, jnp.isfinite(value), needs)
        for path, leaf in jax.tree.leaves_with_path(gradient):
            name = f"the gradient of the log density at position{jax.tree_util.keystr(path)}"
            arguments.require(name, leaf, jnp.isfinite(leaf), needs)
    # Donating the state to an update deletes its arrays; the caller's position must survive that.
    return jax.tree.map(jnp.copy, position)


def gradient_of(name: str, function: Callable[..., jax.Array]) -> Callable[..., PyTree]:
    """Return the gradient in the first argument of a function, which must return a real scalar."""
    return jax.grad(_scalar(name, function))


def value_and_gradient_of(
    name: str, function: Callable[..., jax.Array]
) -> Callable[..., tuple[jax.Array, PyTree]]:
    """Return a function's value and gradient; it must return a real scalar, as `precise` says."""
    return jax.value_and_grad(precise(name, function))


def precise(name: str, function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """Return a log density for Metropolis tests: a real scalar in single precision or better.

    In bfloat16 values near -1,000 are rounded to 4 nats, and tests accept wrongly.
    """
    scalar = _scalar(name, function)

    def checked(*inputs: PyTree) -> jax.Array:
        value = scalar(*inputs)
        if value.dtype.itemsize < 4:
            raise ValueError(
                f"{name} returned {value.dtype}, too coarse for a Metropolis test: cast its terms "
                "to float32 before they are summed"
            )
        return value

    return checked


def _scalar(name: str, function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    def checked(*inputs: PyTree) -> jax.Array:
        value = jnp.asarray(function(*inputs))
        if value.shape or not jnp.issubdtype(value.dtype, jnp.floating):
            raise ValueError(
                f"{name} must return a real scalar, summed over its whole input; "
                f"it returned {value.dtype} of shape {value.shape}"
            )
        return value

    return checked


def like(name: str, tree: PyTree, position: Position) -> Position:
    """Return a tree in the dtypes of the position; raise a ValueError unless they match."""
    structures: list[Any] = [jax.tree.structure(position), jax.tree.structure(tree)]
    shapes = [[jnp.shape(leaf) for leaf in jax.tree.leaves(arrays)] for arrays in (position, tree)]
    if structures[0] != structures[1] or shapes[0] != shapes[1]:
        raise ValueError(
            f"{name} must have the structure and shapes of the position, {structures[0]} with "
            f"{shapes[0]}; it is {structures[1]} with {shapes[1]}"
        )
    return jax.tree.map(lambda x, leaf: jnp.asarray(x, leaf.dtype), tree, position)

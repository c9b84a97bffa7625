"""The Metropolis-Hastings step, shared by `gmc`, `mamla`, `mapla` and `barker`."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src import gradients
from simplex_jax._src.base import Batch, Position, PyTree
from simplex_jax._src.gradients import LogDensity


class State(NamedTuple):
    """State of a kernel with a Metropolis test.

    Attributes:
        position: Any tree of real arrays that the kernel moves.
        step: Number of updates done, int32.
    """

    position: Position
    step: jax.Array


class Info(NamedTuple):
    """Diagnostics of one update with a Metropolis test, all scalars.

    Attributes:
        step_size: The step size used.
        acceptance: The probability that the proposal is accepted.
        log_density: The log density of the position, after the test.
    """

    step_size: jax.Array
    acceptance: jax.Array
    log_density: jax.Array


def init(
    key: jax.Array, position: Position, *, log_density: LogDensity, needs_batch: bool = False
) -> State:
    """Start from a tree of finite real numbers.

    Raises:
        ValueError: The position, or the log density or its gradient there, is not finite.
    """
    estimator = gradients.density(log_density, needs_batch=needs_batch)
    return State(gradients.start(estimator, position), jnp.zeros((), jnp.int32))


def value_and_slope_of(
    log_density: LogDensity, batch: Batch, needs_batch: bool
) -> Callable[[Position], tuple[jax.Array, Position]]:
    """Return the log density and its gradient as a function of the position alone."""
    inputs = (batch,) if needs_batch else ()
    value_and_slope = gradients.value_and_gradient_of("log_density", log_density)
    return lambda position: value_and_slope(position, *inputs)


def decide(
    key: jax.Array, log_ratio: jax.Array, value: jax.Array, h: jax.Array
) -> tuple[jax.Array, Callable[[PyTree, PyTree], PyTree]]:
    """Accept a proposal with probability min(1, exp(log_ratio)), or 0 if that is NaN.

    Returns:
        The probability, and `(proposed, current) -> next`, for trees alike. The result is NaN
        unless the log density `value` at the start and the step size `h` are valid: a broken chain
        must not look like one that rejects.
    """
    valid = jnp.isfinite(value) & jnp.isfinite(h) & (h > 0)
    log_ratio = jnp.where(jnp.isnan(log_ratio), -jnp.inf, log_ratio)
    accept = -jax.random.exponential(key, log_ratio.shape, log_ratio.dtype) <= log_ratio

    def choose(new: jax.Array, old: jax.Array) -> jax.Array:
        chosen = jnp.where(accept, new, old)
        return jnp.where(valid, chosen, jnp.nan).astype(old.dtype)

    return jnp.exp(jnp.minimum(log_ratio, 0)), lambda new, old: jax.tree.map(choose, new, old)

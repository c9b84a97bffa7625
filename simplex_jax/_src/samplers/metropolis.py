"""The Metropolis-Hastings step, shared by `gmc`, `mamla`, `mapla` and `barker`."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from simplex_jax._src.base import PyTree


def decide(
    key: jax.Array, log_ratio: jax.Array, valid: jax.Array
) -> tuple[jax.Array, Callable[[PyTree, PyTree], PyTree]]:
    """Accept a proposal with probability min(1, exp(log_ratio)), or 0 if that is NaN.

    Returns:
        The probability, and `(proposed, current) -> next`, for trees alike. The result is NaN
        unless `valid`: a broken chain must not look like one that rejects.
    """
    log_ratio = jnp.where(jnp.isnan(log_ratio), -jnp.inf, log_ratio)
    accept = -jax.random.exponential(key, log_ratio.shape, log_ratio.dtype) <= log_ratio

    def choose(new: jax.Array, old: jax.Array) -> jax.Array:
        chosen = jnp.where(accept, new, old)
        return jnp.where(valid, chosen, jnp.nan).astype(old.dtype)

    return jnp.exp(jnp.minimum(log_ratio, 0)), lambda new, old: jax.tree.map(choose, new, old)

"""The total of the gammas behind a point of the simplex: carried from step to step, or refreshed.

SCIR and SGRLD move theta, whose normalisation omega = theta / sum(theta) is the position. The
likelihood sees omega alone. Where the counts depend on omega through latent variables, a total
carried along is tied to the counts of the past and biases the chain; drawn anew from its
conditional, Gamma(sum of the concentrations, 1), before every step, it leaves the chain exact at
the cost of one gamma a row. With fully observed data both are exact.
"""

import jax
import jax.numpy as jnp

from simplex_jax import draws
from simplex_jax.base import Position, PyTree

_NOT_DRAWN = jnp.inf


def initial(position: Position, total: str) -> PyTree:
    """Return the `log_total` of a first state: None if refreshed, else to be drawn by one update.

    Raises:
        ValueError: `total` is neither "carried" nor "refreshed".
    """
    check(total)
    if total == "refreshed":
        return None
    return jax.tree.map(lambda leaf: jnp.full_like(leaf[..., :1], _NOT_DRAWN), position)


def check(total: str) -> None:
    """Raise a ValueError unless `total` is "carried" or "refreshed"."""
    if total not in ("carried", "refreshed"):
        raise ValueError(f'total must be "carried" or "refreshed"; it is {total!r}')


def current(key: jax.Array, log_total: jax.Array | None, concentration: jax.Array) -> jax.Array:
    """Return the log totals [..., 1] to step from, drawn where none is carried.

    Args:
        key: A PRNG key.
        log_total: Carried log totals, shape [..., 1], +inf where none was drawn yet; or None.
        concentration: Concentrations of the gammas, shape [..., K].
    """
    fresh = draws.loggamma(key, concentration.sum(axis=-1, keepdims=True))
    return fresh if log_total is None else jnp.where(log_total == _NOT_DRAWN, fresh, log_total)

"""Dirichlet variates in log space."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.draws import native
from simplex_jax._src.draws.gamma import loggamma


def log_dirichlet(
    key: jax.Array, concentration: ArrayLike, shape: Sequence[int] | None = None
) -> jax.Array:
    """Draw the logarithm of a Dirichlet variate.

    Args:
        key: A PRNG key, threefry or rbg.
        concentration: Concentrations, shape [..., K], finite and positive.
        shape: Batch shape; by default the shape of ``concentration`` without its last axis.

    Returns:
        Log probabilities, shape [*shape, K], whose exponentials sum to one. They are finite down to
        concentration 1e-6, where the probabilities themselves are 0 in float32. NaN in rows where a
        concentration is invalid and values cannot be checked (under ``jit``).

    Raises:
        ValueError: A concentration is not finite and positive, or has no last axis.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import draws
        >>> log_p = draws.log_dirichlet(jax.random.key(0), jnp.full(1000, 1e-4))
        >>> bool(jnp.isfinite(log_p).all()), round(float(jnp.exp(log_p).sum()), 5)
        (True, 1.0)
    """
    (concentration,) = arguments.promote(concentration=concentration)
    if concentration.ndim == 0 or concentration.shape[-1] == 0:
        raise ValueError(
            f"concentration must have a last axis of length K > 0; got {concentration.shape}"
        )
    arguments.require(
        "concentration", concentration, arguments.positive(concentration), "finite and positive"
    )
    if shape is not None:
        shape = (*arguments.as_shape(shape), concentration.shape[-1])
    shape = arguments.common_shape(shape, concentration=concentration)
    return normalise(loggamma(key, concentration, shape))[0]


@jax.custom_jvp
def normalise(log_weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the log probabilities, [..., K], and the log totals, [..., 1], of log weights.

    In native code (float32 on CPUs), a row does not depend on the others, to the last bit. The
    total of a row with an infinite weight may be NaN.
    """

    def by_xla(log_weights: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.nn.log_softmax(log_weights, axis=-1), jax.nn.logsumexp(
            log_weights, axis=-1, keepdims=True
        )

    if log_weights.dtype != jnp.float32:
        return by_xla(log_weights)
    return native.LIBRARY.lowered("normalise", native.normalise, by_xla, log_weights)


@normalise.defjvp
def _normalise_jvp(primals: tuple, tangents: tuple) -> tuple:
    (log_weights,), (tangent,) = primals, tangents
    log_p, log_total = normalise(log_weights)
    total_change = jnp.sum(jnp.exp(log_p) * tangent, axis=-1, keepdims=True)
    return (log_p, log_total), (tangent - total_change, total_change)

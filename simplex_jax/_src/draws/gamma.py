"""Gamma variates by rejection, and Dirichlet variates in log space.

The method is that of Ahrens and Dieter for small shapes, and else that of Marsaglia and Tsang.
"""

import math
from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.draws import native, rejection, uniform
from simplex_jax._src.draws.bits import offset_of, random_words, refused, use_up

# log1p(y) - y + y^2/2 - y^3/3 over y^4 for |y| <= 1/4, in y / (1/4), highest degree first;
# relative error 4e-7. In float32 the direct difference would lose all its digits there.
_REMAINDER_LIMIT = 0.25
_REMAINDER = (
    8.177448762580752e-06, -2.559679160185624e-05, 0.00010389083763584495, -0.0004887076793238521,
    0.0022348545026034117, -0.010416309349238873, 0.04999957233667374, -0.2500000298023224,
)  # fmt: skip

# Up to this shape `small` is tried first. Its acceptance rate is Gamma(a + 1) exp(-a / e): 0.96 at
# 0.05 and 0.83 at 0.25. It makes native code faster up to 0.3 with vectors of 16 lanes, up to 0.4
# with 8, and beyond with 4; at 0.05 it takes 0.5 to 0.65 of the time.
_MOST_SMALL = 0.25
_INVERSE_E = math.exp(-1)


def log_remainder(y: jax.Array) -> jax.Array:
    """Return log1p(y) - y + y^2/2 - y^3/3, which is never positive."""
    rest = y * (1 - y * (0.5 - y / 3))
    if y.dtype == jnp.float64:
        return jnp.log1p(y) - rest
    y2 = y * y
    near = y2 * y2 * uniform.polynomial(_REMAINDER, y / _REMAINDER_LIMIT)
    return jnp.where(jnp.abs(y) < _REMAINDER_LIMIT, near, jnp.log(1 + y) - rest)


def _propose(
    offset: jax.Array,
    key: jax.Array,
    row: jax.Array | int,
    columns: jax.Array,
    shape_parameter: jax.Array,
) -> jax.Array:
    """Return Marsaglia and Tsang's (2000) proposal, or -1 where it is rejected.

    With y = x / (3 sqrt(d)) the log acceptance probability is 3 d (log1p(y) - y + y^2/2 - y^3/3),
    which avoids the cancellation in the usual form x^2/2 + d - d v + d log v. It is at most 0 for
    every d > 0, so the method is exact down to shape 1/3, only with a lower acceptance rate.
    """
    dtype = shape_parameter.dtype
    word_x, word_u = random_words(key, shape_parameter.shape[0], dtype, row, columns, offset)
    d = shape_parameter - 1 / 3
    y = uniform.normal(word_x, dtype) * lax.rsqrt(d) / 3
    inside = y > -1
    log_acceptance = d * (3 * log_remainder(jnp.where(inside, y, 0)))
    accepted = inside & (uniform.uniform(word_u, dtype) < jnp.exp(log_acceptance))
    return jnp.where(accepted, d * (1 + y) ** 3, -1)


def standard_gamma(
    key: jax.Array, shape_parameter: jax.Array, offset: jax.Array, needed: jax.Array | None = None
) -> jax.Array:
    """Return Gamma(shape_parameter, 1) draws for shape parameters [n] of at least 1/2.

    Rows 0 and 1 of the key's random words are left to the caller. Columns start at the offset.
    Where `needed` is false, the result is arbitrary.
    """
    return rejection.sample(key, shape_parameter, partial(_propose, offset), needed)


def small(
    key: jax.Array, a: jax.Array, exponential: jax.Array, word: jax.Array, offset: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return log Gamma(a, 1) draws, whether each is accepted, and ratios for the others.

    This is GS of Ahrens and Dieter (1974) in log space, from standard exponentials E and words of a
    uniform U. With r = E / a and y = 1/e - r, the proposal is log x = y if y <= 0; otherwise
    x = -log r, which is above 1. The density of log x is a exp(-a/e) times x^a below 1 and
    x exp(a y - x) above. The target density is x^a exp(-x) / Gamma(a), so the proposal is accepted
    if U < exp(-x) below 1 and if U < x^(a - 1) exp(-a y) above. (GS has log(1 + a/e) in place of
    a/e: one more logarithm, for an acceptance rate that is higher by a fraction a^2/15.)

    The distribution is right in float32 at every a. x > 1 means E < a/e, and E is exact to 2^-33
    near 0: at a = 1e-6 these are 1,600 values of E, with total probability 4e-7. The only
    difference of numbers of similar size is y, with a rounding error of 3e-8 where log x is near 0.

    A rejected draw must be replaced by a fresh one from the target, with other words; then the
    whole has the target distribution. So its ratio, E / a in Gamma(a) = Gamma(a + 1) exp(-E / a),
    uses an exponential of row 1, which nothing else uses: given rejection, the E above is no longer
    exponential. If `a` is too large for this proposal, the ratio is r.
    """
    ratio, eligible = exponential / a, a <= _MOST_SMALL

    def propose() -> tuple[jax.Array, jax.Array, jax.Array]:
        y = _INVERSE_E - ratio
        below = y <= 0
        x = jnp.where(below, jnp.exp(y), -jnp.log(ratio))
        log_x = jnp.where(below, y, jnp.log(x))
        log_acceptance = jnp.where(below, -x, (a - 1) * log_x - a * y)
        accepted = eligible & (uniform.uniform(word, a.dtype) < jnp.exp(log_acceptance))
        word_fresh, _ = random_words(key, a.shape[0], a.dtype, row=1, offset=offset)
        fresh = uniform.exponential(word_fresh, a.dtype) / a
        return log_x, accepted, jnp.where(eligible, fresh, ratio)

    # In XLA it costs nearly as much time as it saves in native code.
    return lax.cond(eligible.any(), propose, lambda: (ratio, jnp.zeros_like(ratio, bool), ratio))


@partial(jax.jit, static_argnames="shape")
def _loggamma(key: jax.Array, a: jax.Array, offset: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    a = refused(a)
    by_xla = partial(loggamma_by_xla, shape=shape)
    if a.dtype != jnp.float32:
        return by_xla(key, a, offset)
    by_native = partial(native.loggamma, shape=shape)
    return native.LIBRARY.lowered("loggamma", by_native, by_xla, key, a, offset)


def loggamma_by_xla(
    key: jax.Array, a: jax.Array, offset: jax.Array, shape: tuple[int, ...]
) -> jax.Array:
    """Do what `loggamma` does, in XLA."""
    valid = arguments.positive(a)
    (a,) = arguments.flatten(shape, jnp.where(valid, a, 1))
    use_up(key)
    word, word_u = random_words(key, a.shape[0], a.dtype, offset=offset)
    log_x, accepted, ratio = small(key, a, uniform.exponential(word, a.dtype), word_u, offset)
    boosted = a < 1
    g = standard_gamma(key, jnp.where(boosted, a + 1, a), offset, ~accepted)
    value = jnp.where(accepted, log_x, jnp.log(g) - jnp.where(boosted, ratio, 0))
    return jnp.where(valid, arguments.unflatten(shape, value), jnp.nan)


def loggamma(
    key: jax.Array,
    shape_parameter: ArrayLike,
    shape: Sequence[int] | None = None,
    *,
    offset: ArrayLike = 0,
) -> jax.Array:
    """Draw the logarithm of Gamma(shape_parameter, 1) variates.

    Variates of small shape are far below the smallest float32 (the median of Gamma(0.001) is
    e^-694), so only the logarithm is returned. The method is Marsaglia and Tsang (2000), for a < 1
    with the boost Gamma(a) = Gamma(a + 1) U^(1/a) in logs. Up to a = 1/4 it is used only if the
    proposal of Ahrens and Dieter (1974) is rejected.

    Args:
        key: A PRNG key, threefry or rbg.
        shape_parameter: Shapes a, finite and positive (accurate in float32 for 1e-6 to 1e8).
        shape: Shape of the result; by default that of ``shape_parameter``.
        offset: Number of variates before these, an integer from 0 to 2^32 - 1, to draw a larger
            array in parts: the parts have the values of the whole.

    Returns:
        Log variates in the dtype of ``shape_parameter``, float32 by default. NaN if the shape
        parameter is invalid and values cannot be checked (under ``jit``).

    Raises:
        ValueError: A shape parameter is not finite and positive, or does not fit ``shape``.

    Example:
        >>> import jax
        >>> from simplex_jax import draws
        >>> log_g = draws.loggamma(jax.random.key(0), 0.001, shape=(10_000,))
        >>> bool(abs(log_g.mean() + 1000.6) < 40)  # E log Gamma(0.001) is -1000.6
        True
    """
    (a,) = arguments.promote(shape_parameter=shape_parameter)
    shape = arguments.common_shape(shape, shape_parameter=a)
    arguments.require("shape_parameter", a, arguments.positive(a), "finite and positive")
    return _loggamma(key, a, offset_of(offset), shape)


# Dirichlet variates in log space.


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

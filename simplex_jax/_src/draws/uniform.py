"""Uniform, exponential and normal variates, each made from one random word.

JAX's own uniforms keep 23 bits and its normals stop at 5.4 standard deviations. Here one word of
32 bits (64 in double precision) is a sign or side bit and a magnitude v in (0, 1/2] that is exact
to the last bit near zero, so both tails of a variate reach probability 2^-33 (2^-65).
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtri

# Polynomials in (w - middle) / half width for normal quantile / (1 - 2 v), highest degree first,
# fitted to a relative error of 2e-7 (centre, in w = -log(4 v (1 - v))) and 5e-7 (tail, in sqrt(w)).
_CENTRE_LIMIT = 5.5
_CENTRE = (
    6.0259564634179696e-05, 0.0005945637822151184, -0.0016793514369055629, -0.001954047940671444,
    0.016960585489869118, -0.030587483197450638, -0.05386839061975479, 0.9502246379852295,
    2.210118532180786,
)  # fmt: skip
_TAIL_MIDDLE, _TAIL_HALF = 3.6220936827390355, 1.2768858028273204
_TAIL = (
    -0.001267039799131453, 0.0026107376907020807, -0.0020698418375104666, 0.0023633299861103296,
    -0.004753379616886377, 0.006100969389081001, 1.8203877210617065, 4.891089916229248,
)  # fmt: skip

# -log(1 - v) / v for 0 <= v <= 1/2, in (v - 1/4) / (1/4); relative error 3e-8.
_LOG_COMPLEMENT = (
    2.1989608285366558e-05, 7.241233834065497e-05, 0.00019822688773274422, 0.0007013495778664947,
    0.002581680892035365, 0.00976857915520668, 0.03961698338389397, 0.1826048046350479,
    1.1507283449172974,
)  # fmt: skip


def polynomial(coefficients: Sequence[float], x: jax.Array) -> jax.Array:
    """Return the polynomial with these coefficients, highest degree first, by Horner's rule."""
    value = jnp.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value


def side_and_magnitude(bits: jax.Array, dtype: jnp.dtype) -> tuple[jax.Array, jax.Array]:
    """Return a random side and a magnitude in (0, 1/2], exact to the last bit near zero."""
    width = 8 * bits.dtype.itemsize
    magnitude = ((bits >> 1).astype(dtype) + 0.5) * 2.0**-width
    return (bits & 1).astype(bool), magnitude


def uniform(bits: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """Return uniforms in (0, 1), never 0 or 1."""
    precision = 53 if dtype == jnp.float64 else 24
    width = 8 * bits.dtype.itemsize
    return ((bits >> (width - precision + 1)).astype(dtype) + 0.5) * 2.0 ** (1 - precision)


def exponential(bits: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """Return standard exponentials, positive and finite, exact to 2^-33 in both tails."""
    upper, v = side_and_magnitude(bits, dtype)
    if dtype == jnp.float64:
        lower = -jnp.log1p(-v)
    else:
        lower = v * polynomial(_LOG_COMPLEMENT, 4 * v - 1)
    return jnp.where(upper, -jnp.log(v), lower)


def normal(bits: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """Return standard normals by their quantile function, out to 6.3 standard deviations."""
    negative, v = side_and_magnitude(bits, dtype)
    if dtype == jnp.float64:
        z = -ndtri(v)
    else:
        w = -jnp.log(4 * v * (1 - v))
        half = _CENTRE_LIMIT / 2
        centre = polynomial(_CENTRE, (w - half) / half)
        tail = polynomial(_TAIL, (jnp.sqrt(jnp.maximum(w, 0)) - _TAIL_MIDDLE) / _TAIL_HALF)
        z = (1 - 2 * v) * jnp.where(w < _CENTRE_LIMIT, centre, tail)
    return jnp.where(negative, -z, z)

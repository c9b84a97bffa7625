"""Ratios of gamma functions, the building blocks of the evidence of counts."""

import jax
import jax.numpy as jnp

# From here on, Stirling's series below is exact to 1e-11.
_LARGE = 8


def log_rising(a: jax.Array, n: jax.Array) -> jax.Array:
    """Return log(Gamma(a + n) / Gamma(a)) for a > 0 and n >= 0, to relative rounding error.

    A difference of log-gamma functions would have their rounding error: 0.5 in float32 at a = 1e6.
    """
    return (n * jnp.log(a + n) - n) + excess(a, n)


def log_dirichlet_evidence(weights: jax.Array, counts: jax.Array) -> jax.Array:
    """Return log of prod_w (weights_w)_(counts_w) / (sum of weights)_(sum of counts), [...].

    It is the log probability of draws of categories [..., V] under a Dirichlet prior. Rising
    factorials grow as n log n but their ratio need not, so large terms are combined.
    """
    weight, count = jnp.sum(weights, axis=-1), jnp.sum(counts, axis=-1)
    share = (weights + counts) / (weight + count)[..., None]
    terms = counts * jnp.log(share) + excess(weights, counts)
    return jnp.sum(terms, axis=-1) - excess(weight, count)


def excess(a: jax.Array, n: jax.Array) -> jax.Array:
    """Return log(Gamma(a + n) / Gamma(a)) - n log(a + n) + n, of the size of a log n.

    Stirling's series are subtracted term by term, at a + 8 if a is small.
    """
    shift = jnp.where(a < _LARGE, _LARGE, 0).astype(a.dtype)
    b = a + shift
    large = (b - 0.5) * jnp.log1p(n / b) + _remainder(b + n) - _remainder(b)
    small = sum(_log_product(n, a, group) for group in ((0,), (1, 2, 3), (4, 5, 6, 7)))
    return large + jnp.where(shift > 0, n * jnp.log1p(shift / (a + n)) - small, 0)


def _log_product(n: jax.Array, a: jax.Array, group: tuple[int, ...]) -> jax.Array:
    """Return log of the product of 1 + n / (a + i) over a group, to relative rounding error.

    Logarithms cost most. With the groups above, no product overflows in float32 up to n = 1e10.
    """
    beyond_one = jnp.zeros((), a.dtype)
    for i in group:
        beyond_one += (1 + beyond_one) * (n / (a + i))
    return jnp.log1p(beyond_one)


def stirling_rest(a: jax.Array, n: jax.Array) -> jax.Array:
    """Return excess(a, n) - a log(1 + n / a), which is of the size of log(1 + n / a) for large a.

    It is what Stirling's formula without its root leaves of log(Gamma(a + n) / Gamma(a)).
    """
    large = _remainder(a + n) - _remainder(a) - 0.5 * jnp.log1p(n / a)
    return jnp.where(a < _LARGE, excess(a, n) - a * jnp.log1p(n / a), large)


def _remainder(x: jax.Array) -> jax.Array:
    """Return log Gamma(x) - (x - 1/2) log x + x - log(2 pi) / 2 for large x."""
    y = 1 / (x * x)
    return (1 / 12 - y * (1 / 360 - y * (1 / 1260 - y / 1680))) / x

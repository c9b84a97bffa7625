"""Debye's expansion of I_nu(x) for every order, used by `bessel`.

With N = nu, r = sqrt(N^2 + x^2), w = 1 / r and s = (N / r)^2 (DLMF 10.41.3, its series in logs),

    log I_N(x) ~ r + N log(x / (N + r)) - log(2 pi r) / 2 + Q,    Q = sum_k w^k P_k(s).

Written in w instead of 1 / N, this is also Hankel's expansion at N = 0, so it is accurate for every
large r. If r is small, it is evaluated at the order N = nu + SHIFT, and recurrences with positive
terms, which lose no digits, lead down to nu. So no branch needs a loop, and all agree where they
meet.
"""

from fractions import Fraction
from typing import NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src import arguments


class Settings(NamedTuple):
    """Least order or argument for Debye's expansion, its terms, and least order for Stirling's."""

    shift: int
    terms: int
    stirling: int


# Largest error of log I anywhere: 4e-8 and 3e-13 at r = shift, against mpmath.
SINGLE = Settings(shift=16, terms=5, stirling=4)
DOUBLE = Settings(shift=20, terms=12, stirling=10)


class Expansion(NamedTuple):
    """The terms at the base order N, which `bessel` combines."""

    small: jax.Array  # where N = nu + shift; elsewhere N = nu
    base: jax.Array  # N
    radius: jax.Array  # r
    series: jax.Array  # Q
    ratio: jax.Array  # rho = I_{nu+1}(x) / I_nu(x)
    complement: jax.Array  # 1 - rho, accurate where it is small
    slope: jax.Array  # d rho / dx
    growth: jax.Array  # log of 0F1(nu + 1; x^2 / 4) / 0F1(N + 1; x^2 / 4), 0 where N = nu


def _coefficients(terms: int) -> list[list[Fraction]]:
    """Return the coefficients of P_1, P_2, ..., lowest power of s first.

    They come from log(1 + u_1 + u_2 + ...), with the polynomials u_k of DLMF 10.41.9.
    """
    u = [[Fraction(1)]]
    for k in range(terms):
        following = [Fraction(0)] * (k + 2)
        for i, a in enumerate(u[k]):
            m = k + 2 * i
            following[i] += a * (Fraction(m, 2) + Fraction(1, 8 * (m + 1)))
            following[i + 1] -= a * (Fraction(m, 2) + Fraction(5, 8 * (m + 3)))
        u.append(following)
    logs: list[list[Fraction]] = []
    for k in range(1, terms + 1):
        scaled = [k * a for a in u[k]]
        for j, earlier in enumerate(logs, 1):
            for i, left in enumerate(earlier):
                for m, right in enumerate(u[k - j]):
                    scaled[i + m] -= j * left * right
        logs.append([a / k for a in scaled])
    return logs


_TABLE = _coefficients(max(SINGLE.terms, DOUBLE.terms))


def settings(dtype: jnp.dtype) -> Settings:
    """Return the settings for a precision."""
    return DOUBLE if dtype == jnp.float64 else SINGLE


def series(w: jax.Array, s: jax.Array, derivative: int = 0) -> jax.Array:
    """Return Q, or w^(d - 1) d^d Q / dw^d for d = 1, 2 at a fixed order N, where s = (N w)^2.

    The terms are w^m N^(2 i) with m = k + 2 i, so a derivative multiplies them by m and then m - 1.
    """
    total = jnp.zeros_like(w)
    for k in range(settings(w.dtype).terms, 0, -1):
        inner = jnp.zeros_like(w)
        for i in range(k, -1, -1):
            m = k + 2 * i
            inner = inner * s + float((1, m, m * (m - 1))[derivative] * _TABLE[k - 1][i])
        total = total * w + inner
    return total if derivative else total * w


def expand(order: jax.Array, x: jax.Array) -> Expansion:
    """Return the expansion for orders and arguments >= 0 of one dtype; XLA drops unused terms."""
    order, x = arguments.same_rank(order, x)
    shift = settings(x.dtype).shift
    # Comparisons only: XLA may compute this twice, and round arithmetic differently each time.
    small = (order < shift) & (x < shift)
    base = jnp.where(small, order + shift, order)
    radius = jnp.sqrt(base * base + x * x)
    w = 1 / radius
    s, t = (base * w) ** 2, x * w
    first, second = series(w, s, 1), series(w, s, 2)
    ratio = x / (base + radius) - w * t * (0.5 + w * first)
    complement = (base + base * base / (radius + x)) / (base + radius) + w * t * (0.5 + w * first)
    slope = base * w / (base + radius) + w * w * (
        0.5 * (t * t - s) - w * first * (1 - 3 * t * t) + w * t * t * second
    )
    # Elsewhere any small x will do: an overflow there would make gradients NaN.
    step_x = jnp.where(small, x, 1)
    rho, rho_slope, growth = ratio, slope, jnp.zeros_like(radius)
    for j in reversed(range(shift)):
        n = order + (j + 1)
        half = 0.5 / n
        a = step_x * rho * half
        g = half / (1 + a)
        growth = growth + a + growth * a
        rho_slope = g * g * (2 * n - step_x * step_x * rho_slope)
        rho = step_x * g
    return Expansion(
        small=small,
        base=base,
        radius=radius,
        series=series(w, s),
        ratio=jnp.where(small, rho, ratio),
        complement=jnp.where(small, 1 - rho, complement),
        slope=jnp.where(small, rho_slope, slope),
        growth=jnp.where(small, jnp.log1p(growth), 0),
    )

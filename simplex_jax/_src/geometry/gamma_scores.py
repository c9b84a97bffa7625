r"""Normal scores of gamma distributions: the number at the same quantile as a normal one.

A normal number z represents the x of Gamma(s, 1) with P(s, x) = Phi(z). For small s, x underflows,
and for large s it has few digits relative to its spread, so it is written :math:`x = s\, e^r`. With

.. math::
    E(r) = e^r - 1 - r, \qquad \kappa(s) = \log \Gamma(s) - s \log s + s

r has the log density :math:`-s E(r) - \kappa(s)`, in which nothing large cancels.

For s of at least 8, r comes from the uniform asymptotic inversion of Temme, *Asymptotic inversion
of incomplete gamma functions*, Math. Comp. 58 (1992): with :math:`\eta^2 / 2 = E(r)`, and the sign
of r, :math:`\eta = z / \sqrt s + \epsilon_1 / s + \epsilon_2 / s^2 + \epsilon_3 / s^3`, whose
:math:`\epsilon_i` are smooth functions of :math:`z / \sqrt s`. For smaller s, and far in the tails,
a Halley step solves log P = log Phi(z), or log Q = log Phi(-z) if that is smaller. For shapes below
1/2 it starts from the guesses of DiDonato and Morris, *Computation of the incomplete gamma function
ratios and their inverse*, ACM TOMS 12 (1986).
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, log_ndtr

from simplex_jax._src.draws.uniform import polynomial

# Temme's functions of z / sqrt(s) in [-3, 3], as polynomials in a third of it, highest degree
# first; from Chebyshev interpolation, to 3e-7, 2e-5 and 1e-4.
_REACH = 3.0
_FIRST = (
    -0.00114521750692, -5.51419380891e-06, 0.00545845695485, -0.00304745460571, -0.00793109783283,
    0.0110656190109, -0.00394178368351, -0.0077930761556, 0.0222404012798, -0.0290675081708,
    0.00556000245389, 0.0833298621467, -0.333333373951,
)  # fmt: skip
_SECOND = (
    0.00697669361616, -0.00466550983675, -0.0177109149215, 0.0196302270236, 0.00497889059665,
    -0.0226456360444, 0.0235695174413, -0.00794577052575, -0.0172860698174,
)  # fmt: skip
_THIRD = (
    0.00739656983737, -0.00136227838134, -0.0171246698293, 0.00934883627226, 0.00789670825285,
    -0.00990639582792, 0.00438405994289,
)  # fmt: skip
# log Gamma(1 + s) / s for s in [0, 1], in 2 s - 1, to 2e-11.
_LOG_GAMMA = (
    -1.99371855392e-07, 6.28464832439e-07, -1.39699356092e-06, 4.66025750027e-06,
    -1.63647025304e-05, 5.52418562321e-05, -0.000189803691087, 0.000672141762507,
    -0.00248169353938, 0.00982071104066, -0.0443538988765, 0.278054449052, -0.24156447527,
)  # fmt: skip
_LARGE = 8.0  # least shape for Temme's expansion
_MIDDLE = 0.5  # and for it as the start of a step
TABLE_REACH = 13.0  # a normal number is farther out with probability 1e-38
_CELL = 0.25
# Terms of the series for log P, and of the continued fraction for log Q.
_TERMS = {jnp.dtype("float32"): (30, 16), jnp.dtype("float64"): (44, 40)}


@jax.custom_jvp
def log_ratio(z: jax.Array, shape: jax.Array) -> jax.Array:
    """Return r = log(x / s), where x has the normal score z in Gamma(s, 1).

    For abs(z) up to 13, the score of the result is z to 1e-5 of the larger of 1 and abs(z). The
    derivative in z is that of the exact function; the shape is treated as a constant. The result is
    finite and increasing for every finite z. Arrays of one shape, float32 or float64.

    Args:
        z: Normal scores.
        shape: s, from 1e-6 to 1e6.
    """
    leading = z / jnp.sqrt(shape)
    log_p, log_q = log_ndtr(z), log_ndtr(-z)
    expanded = _temme(z, jnp.maximum(shape, _MIDDLE))
    tail, is_tail = _tail_guess(log_p, log_q, shape)
    guess = jnp.where(is_tail | (shape < _MIDDLE), tail, expanded)
    is_exact = (shape >= _LARGE) & (jnp.abs(leading) < _REACH)
    return jnp.where(is_exact, expanded, _halley_step(guess, z, log_p, log_q, shape))


@log_ratio.defjvp
def _log_ratio_jvp(
    primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    z, shape = primals
    r = log_ratio(z, shape)
    return r, jnp.exp(log_slope(z, r, shape)) * tangents[0]


def log_slope(z: jax.Array, r: jax.Array, shape: jax.Array) -> jax.Array:
    """Return log dr/dz of `log_ratio` at z, where its value is r."""
    return shape * excess(r) + constant(shape) - z * z / 2 - 0.5 * math.log(2 * math.pi)


def excess(r: jax.Array) -> jax.Array:
    """Return E(r) = exp(r) - 1 - r, to relative rounding error."""
    is_close = jnp.abs(r) < 0.5
    near = jnp.where(is_close, r, 0)
    series = jnp.zeros_like(r)
    for n in range(13, 1, -1):
        series = (series * near) + 1 / math.factorial(n)
    return jnp.where(is_close, near * near * series, jnp.expm1(r) - r)


def constant(shape: jax.Array) -> jax.Array:
    """Return kappa(s) = log Gamma(s) - s log s + s, to rounding of the larger of 1 and kappa."""
    is_large = shape >= _LARGE
    big, small = jnp.where(is_large, shape, _LARGE), jnp.where(is_large, 1, shape)
    y = 1 / (big * big)
    stirling = (1 / 12 - y * (1 / 360 - y / 1260)) / big + 0.5 * jnp.log(2 * math.pi / big)
    return jnp.where(is_large, stirling, gammaln(small) - small * jnp.log(small) + small)


def table(shape: np.ndarray) -> np.ndarray:
    """Return coefficients of `log_ratio` in cells of z, [cells, n, 6], for shapes [n].

    In a cell they define the fifth-degree polynomial that matches the value and two derivatives of
    `log_ratio` at both ends; see `interpolated`. They take 2.5 kB per shape.
    """
    width = 128
    padded = np.ones(-(-len(shape) // width) * width)
    padded[: len(shape)] = shape
    chunks = []
    # Concrete numbers, even while a model is traced. In float32 the derivatives at the ends would
    # disagree with the values by more than the interpolation error.
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        for chunk in padded.reshape(-1, width):
            chunks.append(np.asarray(_cells(jnp.asarray(chunk))))
    return np.concatenate(chunks, axis=1)[:, : len(shape)]


@jax.jit
def _cells(shape: jax.Array) -> jax.Array:
    number = round(TABLE_REACH / _CELL)
    z, s = jnp.meshgrid(jnp.arange(-number, number + 1) * _CELL, shape, indexing="ij")
    r = log_ratio(z, s)
    slope = jnp.exp(log_slope(z, r, s))
    bend = slope * (s * jnp.expm1(r) * slope - z)
    slope, bend = slope * _CELL, bend * (_CELL * _CELL)
    first, second = slope[:-1], bend[:-1] / 2
    rise = r[1:] - r[:-1] - first - second
    turn = slope[1:] - first - 2 * second
    twist = (bend[1:] - 2 * second) / 2
    last = (
        10 * rise - 4 * turn + twist,
        -15 * rise + 7 * turn - 2 * twist,
        6 * rise - 3 * turn + twist,
    )
    return jnp.stack((r[:-1], first, second, *last), axis=-1)


def interpolated(z: jax.Array, cells: jax.Array, column: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return r and log dr/dz from columns of a `table`, for scores up to `TABLE_REACH` in size.

    The score of r is z to 2e-5. r has two continuous derivatives, and the slope is that of this r.
    Scores beyond the table are clipped to its ends.
    """
    place = (jnp.clip(z, -TABLE_REACH, TABLE_REACH) + TABLE_REACH) / _CELL
    cell = jnp.clip(jnp.floor(jax.lax.stop_gradient(place)), 0, cells.shape[0] - 1)
    t = place - cell
    c = cells[cell.astype(jnp.int32), column]
    r = jnp.zeros_like(z)
    slope = jnp.zeros_like(z)
    for k in range(5, -1, -1):
        slope = slope * t + r
        r = r * t + c[..., k]
    return r, jnp.log(slope / _CELL)


def _temme(z: jax.Array, s: jax.Array) -> jax.Array:
    leading = z / jnp.sqrt(s)
    place = jnp.clip(leading / _REACH, -1, 1)
    first, second, third = (polynomial(c, place) for c in (_FIRST, _SECOND, _THIRD))
    eta = leading + (first + (second + third / s) / s) / s
    # E(r) = eta^2 / 2, whose solution is close to exp(r) = (1 + eta / 3)^3.
    half = eta * eta / 2
    far = -1 - half + jnp.exp(-1 - half)
    r = jnp.where(eta > -1.5, 3 * jnp.log1p(jnp.maximum(eta, -1.5) / 3), far)
    for _ in range(3):
        slope = jnp.expm1(r)
        flat = jnp.abs(slope) < 1e-6  # the first guess is exact to rounding
        r = r - jnp.where(flat, 0, (excess(r) - half) / jnp.where(flat, 1, slope))
    return r


def _tail_guess(log_p: jax.Array, log_q: jax.Array, s: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return a guess of r for small shapes, and whether it is far in the lower tail of others."""
    log_s, log_gamma = jnp.log(s), _log_gamma_of_next(s)
    # The first terms of the series of P.
    low = (log_p + log_gamma) / s
    u = jnp.exp(jnp.minimum(low, 0))
    low = low - jnp.log1p(-u / (s + 1) * (1 + u / (2 * (s + 2))))
    # The first terms of the expansion of Q at infinity, if log(1 / (Gamma(s) Q)) allows it.
    start = log_s - log_gamma - log_q
    t = jnp.maximum(start, 1.2)
    u = jnp.maximum(t - (1 - s) * jnp.log(t), 0.5)
    x = t - (1 - s) * jnp.log(u) - jnp.log1p(jnp.maximum(1 - s, 0) / (1 + u))
    high = jnp.log(jnp.maximum(x, 0.3))
    is_high = (start > 1.2) & (low > jnp.log(0.3 * (s + 1)))
    return jnp.where(is_high, high, low) - log_s, low < math.log(0.01)


def _halley_step(
    r: jax.Array, z: jax.Array, log_p: jax.Array, log_q: jax.Array, s: jax.Array
) -> jax.Array:
    """Improve a guess by a Halley step.

    The step is for the log of a tail probability. Its derivative in r is the hazard h up to sign,
    and the second one is h (s (1 - e^r) - h), or the same with h negated.
    """
    lower = z < 0
    value, hazard = _log_tail(r, s, lower)
    newton = jnp.where(lower, value - log_p, log_q - value) / hazard
    bend = jnp.where(lower, -hazard, hazard) - s * jnp.expm1(r)
    return r - newton / jnp.clip(1 - newton * bend / 2, 0.5, 2)


def _log_tail(r: jax.Array, s: jax.Array, lower: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return log P or log Q at r, and the size of its derivative in r."""
    terms, fractions = _TERMS[r.dtype]
    small = s < 1
    bound = jnp.where(small, 1.2, s + 1)
    x = s * jnp.exp(r)
    near, far = jnp.minimum(x, bound), jnp.maximum(x, bound)
    log_density = -s * excess(r) - constant(s)
    # Small shapes: P = x^s / Gamma(s + 1) (1 + s A), A = sum (-x)^n / (n! (n + s)), which makes 1 -
    # P as exact as s. Others: P = density / s sum x^n / (s + 1)_n.
    term, total = jnp.ones_like(x), jnp.where(small, jnp.zeros_like(x), 1)
    for n in range(1, terms):
        weight = 1 / (s + n)
        term = term * near * jnp.where(small, -1 / n, weight)
        total = total + term * jnp.where(small, weight, 1)
    leading = s * (r + jnp.log(s)) - _log_gamma_of_next(s)
    log_p = jnp.where(
        small,
        leading + jnp.log1p(jnp.where(small, s * total, 0)),
        log_density - jnp.log(s) + jnp.log(jnp.where(small, 1, total)),
    )
    log_q = jnp.log(-jnp.expm1(jnp.minimum(log_p, -jnp.finfo(x.dtype).tiny)))
    # Legendre's continued fraction for the density over Q.
    fraction = far + 2 * fractions + 1 - s
    for n in range(fractions, 0, -1):
        fraction = far + 2 * n - 1 - s - n * (n - s) / fraction
    log_q = jnp.where(x > bound, log_density - jnp.log(fraction), log_q)
    log_tail = jnp.where(lower, log_p, log_q)
    return log_tail, jnp.exp(log_density - log_tail)


def _log_gamma_of_next(s: jax.Array) -> jax.Array:
    """Return log Gamma(1 + s), to relative rounding error for small s."""
    small = jnp.minimum(s, 1)
    return jnp.where(s < 1, small * polynomial(_LOG_GAMMA, 2 * small - 1), gammaln(1 + s))

"""Normal scores of gamma laws, against 40 digits."""

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

from simplex_jax._src.geometry import gamma_scores

SHAPES = (1e-6, 1e-3, 0.1, 0.49, 0.51, 0.99, 1.01, 3.0, 7.99, 8.01, 30.0, 1e3, 1e6)
SCORES = (-13.0, -9.0, -5.0, -2.0, -0.7, -0.01, 0.0, 0.3, 1.2, 3.0, 6.0, 9.0, 13.0)


def log_tails(r: float, shape: float) -> tuple[mp.mpf, mp.mpf]:
    """log P and log Q of Gamma(shape, 1) at shape * exp(r), by the series of P or a fraction."""
    s = mp.mpf(shape)
    x = s * mp.exp(mp.mpf(r))
    log_density = s * mp.log(x) - x - mp.loggamma(s)
    if x < s + 1:
        term = total = 1 / s
        n = 0
        while term > total * mp.mpf(10) ** -60:
            n += 1
            term *= x / (s + n)
            total += term
        log_p = log_density + mp.log(total)
        return log_p, mp.log(-mp.expm1(log_p))
    fraction = mp.mpf(1)
    for n in range(int(400 + 20 * mp.sqrt(s)), 0, -1):
        fraction = x + 2 * n - 1 - s - n * (n - s) / fraction
    log_q = log_density - mp.log(fraction)
    return mp.log(-mp.expm1(log_q)), log_q


def score(r: float, shape: float) -> mp.mpf:
    """The normal score of shape * exp(r), to 30 digits, by Newton steps in logs."""
    log_p, log_q = log_tails(r, shape)
    sign, log_tail = (1, log_q) if log_q < log_p else (-1, log_p)
    z = mp.sqrt(-2 * log_tail) - 0.5
    for _ in range(60):
        log_t = mp.log(mp.erfc(z / mp.sqrt(2)) / 2)
        step = (log_t - log_tail) / mp.exp(-z * z / 2 - log_t) * mp.sqrt(2 * mp.pi)
        z += max(min(step, 1), -1)
        if abs(step) < mp.mpf(10) ** -30:
            return sign * z
    raise ArithmeticError("no convergence")


@pytest.fixture(autouse=True)
def forty_digits():
    # Next to 1 a tail of 1e-38 of the other side takes as many digits more.
    with mp.workdps(100):
        yield


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scores_against_forty_digits(dtype):
    with jax.enable_x64(dtype == "float64"):
        z, s = (jnp.asarray(x.ravel(), dtype) for x in np.meshgrid(SCORES[::2], SHAPES))
        r = gamma_scores.log_ratio(z, s)
        slope = jax.vmap(jax.grad(gamma_scores.log_ratio))(z, s)
    for z_i, s_i, r_i, slope_i in zip(z, s, r, slope, strict=True):
        z_i, s_i, r_i = float(z_i), float(s_i), float(r_i)
        result = score(r_i, s_i)
        assert abs(result - z_i) < 1e-5 * max(1, abs(z_i)), (z_i, s_i)
        # dr/dz = phi(z) / (x f(x)) at the score that r has.
        x = mp.mpf(s_i) * mp.exp(r_i)
        log_f = s_i * mp.log(x) - x - mp.loggamma(s_i)
        exact = -result * result / 2 - mp.log(2 * mp.pi) / 2 - log_f
        assert abs(mp.log(mp.mpf(float(slope_i))) - exact) < 2e-5 * max(1, z_i * z_i), (z_i, s_i)


@pytest.mark.slow
def test_scores_increase_and_are_finite_far_out():
    z = jnp.linspace(-60.0, 60.0, 6001)
    for shape in SHAPES:
        r = gamma_scores.log_ratio(z, jnp.full_like(z, shape))
        assert jnp.isfinite(r).all(), shape
        assert (jnp.diff(r) > 0).all(), shape


@pytest.mark.parametrize("shape", [1e-6, 0.3, 7.9, 8.0, 1e3, 1e6])
def test_parts_of_the_log_density(shape):
    """E to a few roundings of itself, and kappa of the larger of 1 and itself."""
    for r in (-30.0, -0.6, -0.4, -1e-3, 1e-6, 0.2, 0.51, 3.0):
        r32 = mp.mpf(float(np.float32(r)))
        exact = mp.expm1(r32) - r32
        assert abs(float(gamma_scores.excess(jnp.float32(r))) / exact - 1) < 1e-6, r
    s = mp.mpf(float(np.float32(shape)))
    exact = mp.loggamma(s) - s * mp.log(s) + s
    result = float(gamma_scores.constant(jnp.float32(shape)))
    assert abs(result - exact) < 3e-6 * max(1, abs(exact))


@pytest.mark.slow
def test_a_shape_is_a_constant():
    gradient = jax.grad(gamma_scores.log_ratio, argnums=1)(jnp.float32(0.3), jnp.float32(2.0))
    assert gradient == 0


@pytest.mark.slow
def test_a_table_is_close_and_has_its_own_slope():
    shape = np.concatenate([SHAPES, np.geomspace(0.05, 20.0, 140)])
    cells = gamma_scores.table(shape)
    assert cells.shape[1:] == (len(shape), 6)
    with jax.enable_x64(True):
        key = jax.random.key(0)
        z = jax.random.uniform(key, (200, len(shape)), minval=-13.0, maxval=13.0)
        column = jnp.broadcast_to(jnp.arange(len(shape)), z.shape)

        def by_table(z):
            return gamma_scores.interpolated(z, jnp.asarray(cells), column)

        (r, log_slope), (derivative, _) = jax.jvp(by_table, (z,), (jnp.ones_like(z),))
        s = jnp.broadcast_to(jnp.asarray(shape), z.shape)
        exact = gamma_scores.log_ratio(z, s)
        exact_slope = gamma_scores.log_slope(z, exact, s)
        assert (jnp.abs(r - exact) < 2e-5 * jnp.exp(exact_slope)).all()
        assert (jnp.abs(log_slope - exact_slope) < 1e-3).all()
        np.testing.assert_allclose(jnp.exp(log_slope), derivative, rtol=1e-12)
    with jax.enable_x64(False):
        z32, cells32 = z.astype(jnp.float32), jnp.asarray(cells, jnp.float32)
        r32, slope32 = gamma_scores.interpolated(z32, cells32, column.astype(jnp.int32))
        np.testing.assert_allclose(slope32, log_slope, atol=1e-3)
        assert jnp.isfinite(r32).all()

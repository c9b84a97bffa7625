"""`geometry.bessel` and log I against 40-digit values, and what must hold where formulas meet."""

import chex
import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from log_bessel import log_iv
from support.paths import TABLES

from simplex_jax._src.geometry import bessel, debye

LINES = (TABLES / "bessel.csv").read_text().splitlines()[1:]
with mp.workdps(40):
    TABLE = [
        [mp.mpf(float(text)) if column < 2 else mp.mpf(text) for column, text in enumerate(texts)]
        for texts in (line.split(",") for line in LINES)
    ]
ORDER, X, LOG_IV, LOG_SERIES, RATIO = (np.array([float(row[i]) for row in TABLE]) for i in range(5))
COMPLEMENT = np.array([float(1 - row[4]) for row in TABLE])
SCALED = np.array([float(row[1] - row[3]) for row in TABLE])
# Riccati's equation, which loses up to 20 digits and has 40.
with mp.workdps(40):
    SLOPE = np.array([float(1 - r * r - (2 * n + 1) * r / x) for n, x, _, _, r in TABLE])

both = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def evaluate(function, dtype: type, *values: np.ndarray) -> np.ndarray:
    with jax.enable_x64(dtype is np.float64):
        result = function(*(np.asarray(value, dtype) for value in values))
        assert result.dtype == dtype
        return np.asarray(result, np.float64)


def test_table_is_what_mpmath_says() -> None:
    assert len(TABLE) >= 320
    assert (ORDER.min(), ORDER.max(), X.min(), X.max()) == (0, 1e5, np.float32(1e-3), 1e7)
    with mp.workdps(45):
        for order, x, log_i, log_series, ratio in TABLE[5:200:17]:
            value = mp.besseli(order, x, maxterms=10**6)
            assert abs(mp.log(value) - log_i) < mp.mpf(10) ** -36 * max(1, abs(log_i))
            assert abs(mp.besseli(order + 1, x, maxterms=10**6) / value - ratio) < mp.mpf(10) ** -36
            series = log_i + mp.loggamma(order + 1) - order * mp.log(x / 2)
            assert abs(series - log_series) < mp.mpf(10) ** -30


def test_log_iv_in_double_precision() -> None:
    """Within 1e-10, or three units in the last place where that is more (from 1e5 on)."""
    error = np.abs(evaluate(log_iv, np.float64, ORDER, X) - LOG_IV)
    assert (error <= np.maximum(1e-10, 3 * np.spacing(np.abs(LOG_IV)))).all()
    assert (error <= 2e-12 + 4e-16 * np.maximum(np.abs(LOG_IV), 2 * ORDER)).all()


def test_log_iv_in_single_precision() -> None:
    """Within 5e-7 of |log I|, but for its zero, where terms as large as the order cancel."""
    error = np.abs(evaluate(log_iv, np.float32, ORDER, X) - LOG_IV)
    scale = np.maximum(1, np.abs(LOG_IV))
    assert np.mean(error <= 5e-7 * scale) > 0.9
    assert (error <= 5e-7 * np.maximum(scale, ORDER)).all()


@pytest.mark.slow
@both
def test_other_functions_match_the_table(dtype: type) -> None:
    eps = np.finfo(dtype).eps
    single = dtype is np.float32

    def relative(function, exact: np.ndarray) -> float:
        error = np.abs(evaluate(function, dtype, ORDER, X) - exact)
        return float(np.max(error / np.maximum(np.abs(exact), 1e-2 * eps)))

    assert relative(bessel.ratio, RATIO) < (4 * eps if single else 1e-12)
    assert relative(bessel.ratio_complement, COMPLEMENT) < (50 * eps if single else 3e-11)
    assert relative(bessel.ratio_slope, SLOPE) < (150 * eps if single else 5e-10)
    assert relative(bessel.scaled_log_series, SCALED) < (20 * eps if single else 2e-12)
    error = np.abs(evaluate(bessel.log_series, dtype, ORDER, X) - LOG_SERIES)
    allowed = 2e-2 * eps + 4e-13 * (not single) + 5 * eps * LOG_SERIES
    assert np.max(error / allowed) < 1


@pytest.mark.slow
@both
def test_joins_are_continuous(dtype: type) -> None:
    """At the argument, or the order, where formulas meet, they do so to 1e-6 and to rounding."""
    shift = debye.settings(jnp.dtype(dtype)).shift
    order = (np.linspace(0, 0.975, 40) * shift).astype(dtype)
    x = np.full(40, shift)
    low, high = ((x * (1 + step * np.finfo(dtype).eps)).astype(dtype) for step in (-20, 20))
    for function, slope in ((log_iv, None), (bessel.ratio, bessel.ratio_slope)):
        below = evaluate(function, dtype, order, low)
        above = evaluate(function, dtype, order, high)
        if slope is None:
            rate = evaluate(bessel.ratio, dtype, order, x) + order / x
        else:
            rate = evaluate(slope, dtype, order, x)
        jump = np.abs(above - below - (high.astype(float) - low) * rate)
        assert jump.max() < (5e-6 if dtype is np.float32 else 1e-12)
        assert (jump <= 1e-6 * np.maximum(1, np.abs(above))).all()
        ends = [np.nextafter(dtype(shift), dtype(0)), dtype(shift)]
        actual, exact = (
            np.diff([evaluate(function, kind, end, order[1:]) for end in ends], axis=0)[0]
            for kind in (dtype, np.float64)
        )
        # In float32 terms of the size of the order cancel where log I is near 0.
        scale = 1 if dtype is np.float64 or slope is not None else shift
        assert (np.abs(actual - exact) <= 1e-6 * scale).all()


@both
def test_values_are_monotone(dtype: type) -> None:
    """In x both grow, in the order both fall: by steps of a percent, but for rounding."""
    order = np.concatenate([[0, 0.1], np.geomspace(0.5, 1e5, 120)]).astype(dtype)[:, None]
    x = np.geomspace(1e-3, 1e7, 2000).astype(dtype)
    log_i = evaluate(log_iv, dtype, order, x)
    ratio = evaluate(bessel.ratio, dtype, order, x)
    assert np.isfinite(log_i).all()
    assert ((ratio > 0) & (ratio <= 1)).all()
    eps = np.finfo(dtype).eps
    allowed = 4 * eps * np.maximum(np.abs(log_i), 2 * order)
    if dtype is np.float64:
        allowed = allowed + 1e-12
    assert (np.diff(log_i, axis=1) > -allowed[:, 1:]).all()
    assert (np.diff(log_i, axis=0) < allowed[1:]).all()
    rough = 4 * eps if dtype is np.float32 else 1e-13
    assert (np.diff(ratio, axis=1) > -rough).all()
    assert (np.diff(ratio, axis=0) < rough).all()


def test_zero_argument() -> None:
    assert log_iv(np.array([0.0, 0.5, 1e5]), 0.0).tolist() == [0, -np.inf, -np.inf]
    assert bessel.ratio(np.array([0.0, 0.5, 1e5]), 0.0).tolist() == [0, 0, 0]
    assert np.abs(bessel.log_series(np.array([0.0, 0.5, 1e5]), 0.0)).max() < 1e-10
    slope = jax.vmap(jax.grad(log_iv, 1), (0, None))(jnp.array([0.0, 0.5]), 0.0)
    assert slope.tolist() == [0, np.inf]


@pytest.mark.slow
@both
def test_derivatives_in_the_argument(dtype: type) -> None:
    """First derivatives are ratios to the last bit, second ones the slope of the ratio."""
    keep = slice(0, None, 7)
    order, x = ORDER[keep], X[keep]

    def both_derivatives(function, *values):
        first = jax.vmap(jax.grad(function, 1))
        second = jax.vmap(jax.grad(jax.grad(function, 1), 1))
        return jnp.stack([first(*values), second(*values)])

    actual = evaluate(lambda n, x: both_derivatives(bessel.log_series, n, x), dtype, order, x)
    assert (actual[0] == evaluate(bessel.ratio, dtype, order, x)).all()
    np.testing.assert_allclose(actual[1], SLOPE[keep], rtol=150 * np.finfo(dtype).eps + 1e-10)
    slope = evaluate(jax.vmap(jax.grad(log_iv, 1)), dtype, order, x)
    np.testing.assert_allclose(slope, RATIO[keep] + order / x, rtol=1e-6)


def test_no_derivative_in_the_order() -> None:
    for function in (log_iv, bessel.ratio):
        with pytest.raises(ValueError, match=r"order; .*stop_gradient"):
            jax.grad(function)(2.0, 3.0)
    with pytest.raises(ValueError, match=r"order; .*stop_gradient"):
        jax.grad(bessel.log_series_difference)(2.0, 3.0, 4.0)


@pytest.mark.slow
@pytest.mark.parametrize("order", [0.0, 4.0, 49.0, 2499.0, 5e4])
def test_differences_keep_their_digits(order: float) -> None:
    """Between arguments 1e-5 to twice apart, against a Gauss-Legendre rule over their slope."""
    nodes, weights = np.polynomial.legendre.leggauss(30)
    x = np.repeat(np.array([30, 1e3, 2.1e5, 1e7], np.float32), 4)
    y = (x * np.tile([1 + 1e-5, 1.01, 0.8, 1.7], 4)).astype(np.float32)
    between = (y + x)[:, None] / 2.0 + (y.astype(float) - x)[:, None] / 2.0 * nodes
    half = (y.astype(float) - x) / 2
    cases = (
        (bessel.log_series_difference, bessel.ratio),
        (bessel.scaled_log_series_difference, bessel.ratio_complement),
    )
    for difference, slope in cases:
        exact = half * (evaluate(slope, np.float64, order, between) @ weights)
        actual = evaluate(difference, np.float32, order, y, x)
        np.testing.assert_allclose(actual, exact, rtol=3e-6, atol=2e-9)
        actual = evaluate(difference, np.float64, order, y, x)
        np.testing.assert_allclose(actual, exact, rtol=1e-9, atol=1e-11)
    # Where an argument is small, and so the difference too.
    actual = evaluate(bessel.log_series_difference, np.float32, order, 0.0, np.array([1.0, 90.0]))
    exact = -evaluate(bessel.log_series, np.float64, order, np.array([1.0, 90.0]))
    np.testing.assert_allclose(actual, exact, rtol=1e-6, atol=3e-9)
    slopes = jax.grad(bessel.log_series_difference, (1, 2))(order, 70.0, 60.0)
    assert slopes == (bessel.ratio(order, 70.0), -bessel.ratio(order, 60.0))


def test_differences_of_small_arguments_keep_their_digits() -> None:
    """They lost up to all of them where order and argument are below 16."""
    x, order = np.meshgrid(np.float32([1e-3, 0.1, 2, 12, 15.9, 300]), np.float32([0, 0.5, 4, 17]))
    nodes, weights = np.polynomial.legendre.leggauss(10)
    cases = (
        (bessel.log_series_difference, bessel.ratio),
        (bessel.scaled_log_series_difference, bessel.ratio_complement),
    )
    for gap in np.float32([1e-4, 0.01, 0.9]):
        y = x + gap
        half = (y.astype(float) - x) / 2
        between = (y.astype(float) + x)[..., None] / 2 + half[..., None] * nodes
        for difference, slope in cases:
            exact = half * (evaluate(slope, np.float64, order[..., None], between) @ weights)
            actual = evaluate(difference, np.float32, order, y, x)
            np.testing.assert_allclose(actual, exact, rtol=3e-6)


def test_bad_arguments() -> None:
    for order, x, name in ((-1.0, 1.0, "order"), (1.0, -1.0, "x"), (1.0, np.nan, "x")):
        with pytest.raises(ValueError, match=f"^{name} .* 0; "):
            log_iv(order, x)
        assert np.isnan(jax.jit(log_iv)(order, x))
        assert np.isnan(jax.jit(bessel.ratio)(order, x))
    with pytest.raises(ValueError, match="do not broadcast"):
        bessel.ratio(np.ones(2), np.ones(3))
    assert log_iv(1, 2).dtype == np.float32


@pytest.mark.slow
def test_works_under_transformations() -> None:
    """One trace for all values, and the same numbers under vmap and in a scan."""
    order, x = jnp.array([0.5, 30.0]), jnp.array([2.0, 40.0])

    @jax.jit
    @chex.assert_max_traces(n=1)
    def traced(order, x):
        return jax.value_and_grad(lambda x: log_iv(order, x).sum())(x)

    values = traced(order, x)
    traced(order + 1, x + 1)
    mapped = jax.vmap(jax.value_and_grad(log_iv, 1))(order, x)
    np.testing.assert_allclose(values[0], mapped[0].sum(), rtol=1e-6)
    _, scanned = jax.lax.scan(lambda _, x: (None, jax.grad(bessel.ratio, 1)(0.5, x)), None, x)
    np.testing.assert_allclose(scanned, bessel.ratio_slope(0.5, x), rtol=1e-6)

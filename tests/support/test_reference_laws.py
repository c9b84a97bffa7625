"""The references against 40-digit values, against SciPy, and against each other."""

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

from support import reference_laws as laws
from support.paths import TABLES

TABLE = np.loadtxt(TABLES / "cir.csv", delimiter=",", skiprows=1)


@pytest.mark.parametrize("by_sum", [False, True])
def test_cir_law_matches_40_digit_table(by_sum: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to the distribution function, SciPy's ncx2 and the Poisson sum."""
    if by_sum:
        monkeypatch.setattr(laws, "MAX_NCX2_RATE", -1.0)
    assert len(TABLE) >= 200
    assert TABLE[:, 2].min() == -1e6
    for shape, rate, log_y, log_cdf, log_sf in TABLE:
        x = np.array([log_y])
        assert laws.cir_log_cdf(x, shape, rate)[0] == pytest.approx(log_cdf, rel=1e-9, abs=1e-12)
        cdf, sf = laws.cir_cdf_and_sf(x, shape, rate)
        assert cdf[0] == pytest.approx(np.exp(log_cdf), rel=1e-8, abs=1e-300)
        assert sf[0] == pytest.approx(np.exp(log_sf), rel=1e-8, abs=1e-16)


@pytest.mark.parametrize(("shape", "rate"), [(0.01, 5e3), (3.0, 5e4), (700.0, 5e5)])
def test_poisson_sum_matches_ncx2(shape: float, rate: float) -> None:
    y = shape + rate + np.linspace(-5, 5, 11) * np.sqrt(shape + 2 * rate)
    cdf, sf = laws.cir_cdf_and_sf(np.log(y), shape, rate)
    np.testing.assert_allclose(cdf, stats.ncx2.cdf(2 * y, 2 * shape, 2 * rate), rtol=1e-8)
    np.testing.assert_allclose(sf, stats.ncx2.sf(2 * y, 2 * shape, 2 * rate), rtol=1e-8)


@pytest.mark.parametrize("rate", [5e8, 5e11])
def test_poisson_sum_has_a_normal_limit(rate: float) -> None:
    """Beyond the table: the Edgeworth series of y, whose next term is of order 1 / rate."""
    shape = 2.0
    z = np.linspace(-4, 4, 9)
    sd = np.sqrt(shape + 2 * rate)
    skewness = 2 * (shape + 3 * rate) / sd**3
    expected = stats.norm.cdf(z) - stats.norm.pdf(z) * skewness * (z**2 - 1) / 6
    cdf, _ = laws.cir_cdf_and_sf(np.log(shape + rate + z * sd), shape, rate)
    np.testing.assert_allclose(cdf, expected, atol=3e-8)


@pytest.mark.parametrize(("shape", "rate"), [(1e-4, 0.7), (0.3, 4.0), (2.0, 30.0), (50.0, 3e4)])
def test_moments_of_log_y_match_integration(shape: float, rate: float) -> None:
    """Exact sums against integrals of the distribution function, which share no code."""
    law = laws.cir_law(shape, rate)
    low, high = law.nodes[0], law.nodes[-1]
    grid = np.unique(np.concatenate([np.linspace(low, high, 20_001), law.nodes]))
    cdf, sf = laws.cir_cdf_and_sf(grid, shape, rate)
    mean = high - integrate.trapezoid(cdf, grid)
    moments = laws.cir_log_moments(shape, rate)
    assert mean == pytest.approx(moments.mean, rel=1e-4, abs=1e-4 * np.sqrt(moments.variance))
    below, above = grid < mean, grid >= mean
    second = 2 * integrate.trapezoid((mean - grid[below]) * cdf[below], grid[below])
    second += 2 * integrate.trapezoid((grid[above] - mean) * sf[above], grid[above])
    assert second == pytest.approx(moments.variance, rel=2e-3)


@pytest.mark.parametrize("rate", [1e-3, 2.0, 40.0, 1e6, 1e12])
def test_poisson_log_pmf(rate: float) -> None:
    mpmath.mp.dps = 40
    counts = np.unique(np.maximum(np.round(rate + np.linspace(-6, 9, 31) * np.sqrt(rate)), 0))
    for count, value in zip(counts, laws.poisson_log_pmf(counts, rate), strict=True):
        n, r = mpmath.mpf(float(count)), mpmath.mpf(rate)
        exact = n * mpmath.log(r) - r - mpmath.loggamma(n + 1)
        assert value == pytest.approx(float(exact), rel=1e-12, abs=1e-11)


@pytest.mark.parametrize(
    ("a", "b"), [(1e-6, 0.1), (1e-2, 5.0), (0.5, 1e-4), (3.0, 1e6), (1e6, 1e6)]
)
def test_log_beta_law(a: float, b: float) -> None:
    law = laws.log_beta_law(a, b)
    assert np.all(np.diff(law.nodes) > 0)
    # A few nodes in the body, against 40 digits.
    mpmath.mp.dps = 40
    for index in np.searchsorted(law.scores, [-3.0, -1.0, 0.0, 1.0, 3.0]):
        if index == len(law.nodes):  # more mass lies above log x = -1e-300 than this score leaves
            continue
        x = mpmath.exp(mpmath.mpf(float(law.nodes[index])))
        if a > 1e3 or x < mpmath.mpf(10) ** -200:
            continue
        exact = mpmath.betainc(a, b, 0, x, regularized=True)
        assert law.cdf(law.nodes[index]) == pytest.approx(float(exact), rel=1e-7)

"""`draws.poisson` against the exact law, from rate 0 to 1e9."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from support import statistics_checks as checks

from simplex_jax._src import draws

RATES = tuple(
    float(np.float32(rate))
    for rate in (
        *(1e-3, 0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 9.0, 9.99, 10.0, 10.01, 12.0, 15.0, 25.0, 40.0),
        *(100.0, 500.0, 1e3, 1e4, 3e4, 1e5, 1e6, 3e6, 1e7, 1.7e7, 1e8, 1e9),
    )
)
SIZE = 400_000
BINS = 300


def bin_edges(rate: float, dtype: type) -> np.ndarray:
    """Upper edges of the bins of whole numbers: each number alone, or about BINS equal masses."""
    sd = np.sqrt(rate)
    if sd < 15:
        return np.arange(np.ceil(rate + 10 * sd + 20)) + 0.5
    edges = np.floor(stats.poisson.ppf(np.arange(1, BINS) / BINS, rate)) + 0.5
    # Above 2^24 a count is rounded to a float, and halfway to the one with the even significand: an
    # edge belongs halfway above such a one, so that everything up to the edge lies below it.
    spacing = np.spacing(edges.astype(dtype)).astype(np.float64)
    rounded = 2 * spacing * np.round(edges / (2 * spacing)) + spacing / 2
    return np.unique(np.where(spacing > 1, rounded, edges))


def check_rate(x: np.ndarray, rate: float, dtype: type) -> dict[str, float]:
    """Whole numbers; DKWM, z of mean and of variance (exact moments), chi-square.

    At small rates the sum of the draws is tested by its own exact Poisson law in place of z, and
    the variance is left out below a rate of 0.1, where the chi-square sees all there is.
    """
    if not (np.isfinite(x).all() and (x >= 0).all() and (x == np.floor(x)).all()):
        return {"whole numbers": 0.0}
    law = stats.poisson(rate)
    off = np.where(x >= 2**24, np.spacing(x.astype(dtype)).astype(np.float64), 0.0)
    p_values = {
        "dkwm": checks.dkwm(x, law.cdf, left_cdf=lambda k: law.cdf(np.ceil(k) - 1), resolution=off),
        "mean": checks.mean_z(x, rate, rate, resolution=float(off.mean()) / 2),
    }
    if rate < 100:
        total = stats.poisson(rate * x.size)
        p_values["mean"] = min(1.0, 2 * min(total.cdf(x.sum()), total.sf(x.sum() - 1)))
    if rate >= 0.1:
        p_values["variance"] = checks.variance_z(x, rate, rate, rate + 3 * rate**2)
    edges = bin_edges(rate, dtype)
    probabilities = np.diff(np.concatenate([[0.0], law.cdf(np.floor(edges)), [1.0]]))
    observed = np.bincount(np.searchsorted(edges, x), minlength=edges.size + 1)
    p_values["chi_square"] = checks.chi_square(observed, np.maximum(probabilities, 0.0))
    return p_values


def rejections(
    draw, key: jax.Array, rates=RATES, size: int = SIZE, dtype: type = np.float32
) -> dict[object, float]:
    """The family over RATES; a part of them is tested at the level it has in the whole."""
    column = jnp.asarray(np.array(rates, dtype)[:, None])
    samples = np.asarray(draw(key, column, (len(rates), size)))
    assert samples.dtype == dtype
    p_values: dict[object, float] = {}
    for rate, row in zip(rates, samples.astype(np.float64), strict=True):
        p_values |= checks.prefixed(rate, check_rate(row, rate, dtype))
    return checks.family(p_values, level=1e-3 * len(rates) / len(RATES))


@pytest.mark.parametrize("impl", ["threefry2x32", pytest.param("rbg", marks=pytest.mark.slow)])
def test_poisson_law(impl: str, seed: int) -> None:
    """27 rates, 4e5 draws each; false-alarm rate 1e-3."""
    assert rejections(draws.poisson, jax.random.key(seed, impl=impl)) == {}


@pytest.mark.slow
def test_poisson_law_with_four_million_draws(getkey: Callable[[], jax.Array]) -> None:
    """False-alarm rate 1e-3."""
    assert rejections(draws.poisson, getkey(), size=4_000_000) == {}


@pytest.mark.slow
def test_poisson_law_in_double_precision(getkey: Callable[[], jax.Array]) -> None:
    """Every third rate; false-alarm rate 1e-3."""
    with jax.enable_x64(True):
        assert rejections(draws.poisson, getkey(), RATES[::3], 200_000, np.float64) == {}


@pytest.mark.slow
def test_mixed_rates_do_not_disturb_each_other(getkey: Callable[[], jax.Array]) -> None:
    """The rates alternate within one array, as they do in use; false-alarm rate 1e-3."""

    def interleaved(key, rates, shape):
        return draws.poisson(key, jnp.broadcast_to(rates, shape).T).T

    assert rejections(interleaved, getkey(), size=100_000) == {}


def test_rate_zero_and_smallest_rates(getkey: Callable[[], jax.Array]) -> None:
    rates = jnp.array([0.0, -0.0, 1e-30, 1e-12])[:, None]
    np.testing.assert_array_equal(draws.poisson(getkey(), rates, (4, 100_000)), 0.0)


def test_counts_are_whole_numbers_up_to_2_24(getkey: Callable[[], jax.Array]) -> None:
    """Odd and even counts come equally often just below 2^24: nothing is rounded to even there."""
    counts = np.asarray(draws.poisson(getkey(), 1.6e7, (400_000,)), np.float64)
    below = counts[counts < 2**24]
    odd = int((below % 2 == 1).sum())
    assert stats.binomtest(odd, below.size).pvalue > 1e-6  # its false-alarm rate


MUTANTS = {
    "location +1%": lambda key, rate, shape: draws.poisson(key, 1.01 * rate, shape),
    "variance +2%": lambda key, rate, shape: jnp.round(
        rate + 1.01 * (draws.poisson(key, rate, shape) - rate)
    ),
    "one too many": lambda key, rate, shape: draws.poisson(key, rate, shape) + 1,
    "normal": lambda key, rate, shape: jnp.round(
        jnp.maximum(rate + jnp.sqrt(rate) * jax.random.normal(key, shape), 0)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_mutants_are_rejected(mutant, getkey: Callable[[], jax.Array]) -> None:
    assert rejections(mutant, getkey(), rates=RATES[14::2]) != {}


def test_jax_poisson_is_rejected_at_1e6(getkey: Callable[[], jax.Array]) -> None:
    """The very sampler that this one replaces."""

    def jax_poisson(key, rate, shape):
        return jax.random.poisson(key, rate, shape).astype(jnp.float32)

    result = rejections(jax_poisson, getkey(), rates=(1e6,))
    assert "chi_square" in {check for _, check in result}

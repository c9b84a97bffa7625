"""`draws.loggamma` and `draws.log_dirichlet` against their exact laws, in log space."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats
from support import reference_laws as laws
from support import statistics_checks as checks

from simplex_jax._src import draws

SHAPES = tuple(
    float(np.float32(a))
    for a in (
        *(1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.05, 0.1, 0.2, 0.25, 0.26, 0.3, 0.5, 0.7, 0.99, 1.0, 1.01),
        *(1.5, 2.0, 3.0, 7.0, 20.0, 100.0, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8),
    )
)


@functools.lru_cache(maxsize=64)
def gamma_law(shape_parameter: float) -> checks.Law:
    return laws.cir_law(shape_parameter, 0.0)


def gamma_rejections(draw, key: jax.Array, size: int, dtype: type = np.float32) -> dict:
    """One family over SHAPES: DKWM, scores, chi-square, E log G = digamma, var log G = trigamma."""
    a = jnp.asarray(np.array(SHAPES, dtype)[:, None])
    samples = np.asarray(draw(key, a, shape=(len(SHAPES), size)))
    assert samples.dtype == dtype
    p_values: dict[object, float] = {}
    for shape_parameter, row in zip(SHAPES, samples.astype(np.float64), strict=True):
        result = checks.check_law(row, gamma_law(shape_parameter), dtype=dtype)
        k2, k4 = (float(special.polygamma(order, shape_parameter)) for order in (1, 3))
        mean = float(special.digamma(shape_parameter))
        off = float(np.mean(checks.float_resolution(row, dtype)))
        result["digamma"] = checks.mean_z(row, mean, k2, resolution=off)
        result["trigamma"] = checks.variance_z(row, mean, k2, k4 + 3 * k2**2, resolution=off)
        p_values |= checks.prefixed(shape_parameter, result)
    return checks.family(p_values)


@pytest.mark.parametrize("impl", ["threefry2x32", pytest.param("rbg", marks=pytest.mark.slow)])
def test_loggamma_law(impl: str, seed: int) -> None:
    """28 shapes from 1e-6 to 1e8, 2e5 draws each; false-alarm rate 1e-3."""
    assert gamma_rejections(draws.loggamma, jax.random.key(seed, impl=impl), 200_000) == {}


def test_loggamma_law_in_mixed_blocks(getkey: Callable[[], jax.Array]) -> None:
    """Neighbours of all shapes, so that each block has all proposals; false-alarm rate 1e-3."""

    def mixed(key, a, shape):
        return draws.loggamma(key, a.T, shape[::-1]).T

    assert gamma_rejections(mixed, getkey(), 100_000) == {}


def test_both_tails_of_small_shapes(getkey: Callable[[], jax.Array]) -> None:
    """Above 1, the other branch of the proposal, and the lowest 1e-3; false-alarm rate 1e-3.

    Down there P(log x < t) is exp(a t) / Gamma(a + 1), so that a log x is an exponential.
    """
    p_values: dict[object, float] = {}
    size = 4_000_000
    for a in np.array([1e-3, 0.05, 0.25], np.float32):
        x = np.asarray(draws.loggamma(getkey(), a, (size,)), np.float64)
        a = float(a)
        share, highest = special.gammaincc(a, 1), x[x > 0]
        least = (np.log(1e-3) + special.gammaln(a + 1)) / a
        lowest = a * (least - x[x < least])
        p_values |= checks.prefixed(
            a,
            {
                "above 1": stats.binomtest(highest.size, size, share).pvalue,
                "law above 1": checks.dkwm(
                    highest,
                    lambda t, a=a, share=share: 1 - special.gammaincc(a, np.exp(t)) / share,
                    resolution=checks.float_resolution(highest),
                ),
                "lowest": stats.binomtest(lowest.size, size, 1e-3).pvalue,
                "law of the lowest": checks.dkwm(
                    lowest, lambda t: -np.expm1(-t), resolution=1e-6 * (lowest + 10)
                ),
            },
        )
    assert checks.family(p_values) == {}


@pytest.mark.slow
def test_loggamma_law_with_two_million_draws(getkey: Callable[[], jax.Array]) -> None:
    """False-alarm rate 1e-3."""
    assert gamma_rejections(draws.loggamma, getkey(), 2_000_000) == {}


@pytest.mark.slow
def test_loggamma_law_in_double_precision(getkey: Callable[[], jax.Array]) -> None:
    """False-alarm rate 1e-3."""
    with jax.enable_x64(True):
        assert gamma_rejections(draws.loggamma, getkey(), 100_000, np.float64) == {}


@pytest.mark.slow
def test_loggamma_mutants_are_rejected(getkey: Callable[[], jax.Array]) -> None:
    def without_boost(key, a, shape):
        return draws.loggamma(key, jnp.where(a < 1, a + 1, a), shape)

    def too_spread(key, a, shape):
        x = draws.loggamma(key, a, shape)
        mean = jax.scipy.special.digamma(a)
        return mean + 1.02 * (x - mean)

    mutants = {
        "shape": lambda key, a, shape: draws.loggamma(key, 1.02 * a, shape),
        "offset": lambda key, a, shape: draws.loggamma(key, a, shape) + 1e-3,
        "boost": without_boost,
        "spread": too_spread,
        "float32 underflow": lambda key, a, shape: jnp.log(jax.random.gamma(key, a, shape)),
    }
    passed = [n for n, m in mutants.items() if not gamma_rejections(m, getkey(), 100_000)]
    assert passed == []


def beta_mixture_law(concentration: np.ndarray, index: int) -> checks.Law:
    a = float(concentration[index])
    return laws.log_beta_law(a, float(concentration.sum() - a))


DIRICHLETS = {
    **{
        f"{a:g} x {k}": np.full(k, a) for a in (1e-6, 1e-4, 0.01, 1.0, 1e3, 1e6) for k in (2, 3, 50)
    },
    "increasing": np.geomspace(1e-6, 1e6, 13),
    "sparse and dense": np.array([1e-4, 20.0, 0.3, 1.0, 1e-2]),
}


@pytest.mark.slow
def test_log_dirichlet_marginals(getkey: Callable[[], jax.Array]) -> None:
    """Each log p_k is log Beta(a_k, A - a_k), and so is the log of a sum over half of them.

    20 concentrations, 1e5 rows each, one family at a false-alarm rate of 1e-3.
    """
    p_values: dict[object, float] = {}
    for name, concentration in DIRICHLETS.items():
        a = concentration.astype(np.float32)
        log_p = np.asarray(draws.log_dirichlet(getkey(), a, (100_000,)), np.float64)
        assert log_p.shape == (100_000, a.size)
        exact = a.astype(np.float64)
        for index in {0, a.size // 2, a.size - 1}:
            law = beta_mixture_law(exact, index)
            result = check_log_beta(log_p[:, index], law)
            p_values |= checks.prefixed((name, index), result)
        half = a.size // 2
        if half > 1:
            total = np.logaddexp.reduce(log_p[:, :half], axis=1)
            law = laws.log_beta_law(float(exact[:half].sum()), float(exact[half:].sum()))
            p_values |= checks.prefixed((name, "half"), check_log_beta(total, law))
    assert checks.family(p_values) == {}


def check_log_beta(log_p: np.ndarray, law: checks.Law) -> dict[str, float]:
    """DKWM on log p, values within float32 rounding of 0 counting as 0.

    float32 cannot tell 1 - p below 6e-8 from 0, and a log-sum-exp may leave log p above 0 by that
    rounding, so the law has an atom at 0 there: only DKWM below it is meaningful.
    """
    if not np.isfinite(log_p).all() or log_p.max() > 1e-6:
        return {"finite and at most 0": 0.0}
    resolution = checks.float_resolution(log_p, ulps=2.0)
    return {"dkwm": checks.dkwm(np.minimum(log_p, 0.0), law_with_end(law), resolution=resolution)}


def law_with_end(law: checks.Law) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: np.where(x >= 0, 1.0, law.cdf(np.minimum(x, law.nodes[-1])))


def own_log_density(log_p: jax.Array, concentration: jax.Array) -> jax.Array:
    total = jnp.sum((concentration - 1) * log_p, axis=-1)
    normaliser = jax.scipy.special.gammaln(concentration)
    return total - normaliser.sum(-1) + jax.scipy.special.gammaln(concentration.sum(-1))


@pytest.mark.parametrize("concentration", [1e-6, 1e-4, 1e-2, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("k", [2, 100, 100_000])
def test_log_dirichlet_rows(concentration: float, k: int, getkey: Callable[[], jax.Array]) -> None:
    """No NaN, sums of one within float32 rounding, own log density finite in every row."""
    rows = 2_000 if k < 1000 else 10
    a = jnp.full(k, concentration)
    log_p = draws.log_dirichlet(getkey(), a, (rows,))
    assert log_p.dtype == jnp.float32
    assert np.isfinite(np.asarray(log_p)).all()
    sums = np.exp(np.asarray(log_p, np.float64)).sum(-1)
    np.testing.assert_allclose(sums, 1.0, atol=2e-6)
    assert np.isfinite(np.asarray(own_log_density(log_p, a))).all()


def test_log_dirichlet_of_one_category(getkey: Callable[[], jax.Array]) -> None:
    np.testing.assert_array_equal(draws.log_dirichlet(getkey(), jnp.array([0.3]), (5,)), 0.0)


@pytest.mark.slow
def test_log_dirichlet_mutants_are_rejected(getkey: Callable[[], jax.Array]) -> None:
    """A 2 % concentration error, and the simplex-space draw whose small values are exactly 0."""
    exact = np.full(3, 0.01)
    law = laws.log_beta_law(0.01, 0.02)
    wrong = np.asarray(draws.log_dirichlet(getkey(), 1.02 * exact, (400_000,)), np.float64)
    assert checks.family(check_log_beta(wrong[:, 0], law)) != {}
    underflowed = jnp.log(jax.random.dirichlet(getkey(), jnp.asarray(exact), (100_000,)))
    assert checks.family(check_log_beta(np.asarray(underflowed[:, 0], np.float64), law)) != {}

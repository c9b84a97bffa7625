"""The checks themselves: nominal size on correct samples, and power against wrong ones."""

import numpy as np
import pytest
from scipy import special, stats

from support import statistics_checks as checks

REPEATS = 400
SIZE = 2_000


def normal_law() -> checks.Law:
    nodes = np.linspace(-6.5, 6.5, 2001)
    return checks.Law(nodes, nodes)


def test_p_values_are_not_too_small_for_a_correct_sampler(seed: int) -> None:
    """At level 0.05 each check rejects at most 5% of 400 runs; 6 sd are allowed (1e-8)."""
    rng = np.random.default_rng(seed)
    counts: dict[str, int] = {}
    for _ in range(REPEATS):
        x = rng.standard_normal(SIZE)
        p_values = checks.check_law(x, normal_law(), bins=50, dtype=np.float64)
        p_values["mean_z"] = checks.mean_z(x, 0.0, 1.0)
        p_values["variance_z"] = checks.variance_z(x, 0.0, 1.0, 3.0)
        p_values["variance_z, sample"] = checks.variance_z(x, 0.0, 1.0)
        for name, p in p_values.items():
            counts[name] = counts.get(name, 0) + (p < 0.05)
    assert set(counts) >= {"dkwm", "mean", "variance", "chi_square"}
    limit = 0.05 + 6 * np.sqrt(0.05 * 0.95 / REPEATS)
    assert {name: n for name, n in counts.items() if n / REPEATS > limit} == {}
    # All but DKWM's bound are exact or nearly so, so their rates are not much too low either.
    exact = {name: n for name, n in counts.items() if name != "dkwm"}
    assert min(exact.values()) > 3


def test_family_keeps_its_level() -> None:
    """Holm on 100 uniform p-values at level 0.1 rejects in about 10% of the families."""
    rng = np.random.default_rng(1)
    families = [dict(enumerate(rng.random(100))) for _ in range(1000)]
    rejections = sum(bool(checks.family(f, level=0.1)) for f in families)
    assert 60 < rejections < 150


def test_family_steps_down_and_counts_nan() -> None:
    assert checks.family({"a": 0.5, "b": 1e-5, "c": 6e-4}, level=1e-3) == {"b": 1e-5}
    assert set(checks.family({"a": 0.5, "b": 1e-5, "c": 4e-4}, level=1e-3)) == {"b", "c"}
    assert checks.family({"a": float("nan"), "b": 0.3}) == {"a": 0.0}


@pytest.mark.parametrize(
    ("wrong", "seen_by"),
    [
        (lambda x: x + 0.03, "mean"),
        (lambda x: x * 1.02, "variance"),
        (lambda x: np.sign(x) * np.abs(x) ** 1.05, "variance"),
        (lambda x: np.where(np.abs(x) < 0.02, 0.02, x), "chi_square"),
        (lambda x: np.where(x > 1.0, -x, x), "dkwm"),
        (lambda x: np.append(x[1:], np.nan), "no NaN"),
    ],
)
def test_wrong_samplers_are_rejected(wrong, seen_by: str, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal(100_000)
    assert checks.family(checks.check_law(x, normal_law())) == {}
    assert seen_by in checks.family(checks.check_law(wrong(x), normal_law()))


def test_resolution_forgives_rounding_and_nothing_more(seed: int) -> None:
    """A distribution with an sd of 4 units in the last place: rounded draws pass, shifted fail."""
    rng = np.random.default_rng(seed)
    sd = 4 * 2.0**-20  # float32 has spacing 2^-20 between 8 and 16
    exact = 10 + sd * rng.standard_normal(100_000)
    law = checks.Law(10 + sd * normal_law().nodes, normal_law().scores)
    rounded = exact.astype(np.float32).astype(np.float64)
    assert checks.family(checks.check_law(rounded, law)) == {}
    assert checks.family(checks.check_law(rounded, law, ulps=0.0)) != {}
    assert checks.family(checks.check_law(rounded + 2 * 2.0**-20, law)) != {}


def test_dkwm_with_atoms(seed: int) -> None:
    x = np.random.default_rng(seed).poisson(2.0, 100_000)

    def p_value(rate: float) -> float:
        law = stats.poisson(rate)
        return checks.dkwm(x, law.cdf, left_cdf=lambda k: law.cdf(np.ceil(k) - 1))

    assert p_value(2.0) > 1e-3
    assert p_value(2.03) < 1e-3
    # Without the left-continuous function the atoms themselves would be rejected.
    assert checks.dkwm(x, stats.poisson(2.0).cdf) < 1e-100


def test_chi_square_merges_small_bins_and_forbids_the_impossible() -> None:
    probabilities = stats.poisson.pmf(np.arange(40), 3.0)
    observed = np.random.default_rng(0).multinomial(10_000, probabilities / probabilities.sum())
    assert checks.chi_square(observed, probabilities) > 1e-3
    assert checks.chi_square(np.array([5, 5, 1]), np.array([0.5, 0.5, 0.0])) == 0.0
    assert checks.chi_square(np.array([3]), np.array([1.0])) == 1.0


def test_tabulate_resolves_a_law_with_two_scales() -> None:
    """Half of the mass near 0 with sd 1e-3, half exponential with mean 1e6, below it."""

    def cdf_and_sf(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        deep = np.exp(np.minimum(x, 0.0) / 1e6)
        cdf = 0.5 * deep + 0.5 * special.ndtr(x / 1e-3)
        return cdf, 0.5 * (1 - deep) + 0.5 * special.ndtr(-x / 1e-3)

    law = checks.tabulate(cdf_and_sf, np.array([-1e9, -1.0, 0.0, 1.0]))
    x = np.concatenate([-np.geomspace(1e-4, 1e7, 500), np.linspace(-0.01, 0.01, 500)])
    np.testing.assert_allclose(law.cdf(x), cdf_and_sf(x)[0], atol=2e-5)

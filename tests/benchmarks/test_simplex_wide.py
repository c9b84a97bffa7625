"""Wide simplices: exact moments, which samplers run, and figures of chains."""

import numpy as np
import pytest
import simplex_wide
from scipy import special
from simplex_wide import Target


@pytest.mark.parametrize("kind", ["uniform", "sparse"])
def test_moments_of_dirichlet_distributions(kind):
    target = simplex_wide.targets(100)[kind]
    watched = simplex_wide.statistics(target)
    mean, sd = simplex_wide.moments(target, watched)
    a, total = target.shape, target.shape.sum()
    share = a / total
    linear = watched.linear @ share
    logs = watched.logs @ special.digamma(a) - watched.logs.sum(axis=1) * special.digamma(total)
    np.testing.assert_allclose(mean, [*linear, *logs], rtol=1e-9, atol=1e-12)
    variance = watched.logs**2 @ special.polygamma(1, a)
    variance -= watched.logs.sum(axis=1) ** 2 * special.polygamma(1, total)
    spread = (watched.linear**2 @ share - linear**2) / (total + 1)
    np.testing.assert_allclose(sd**2, [*spread, *variance], rtol=1e-7)


def test_moments_with_a_slope():
    """By 400,000 weighted draws from the prior; errors above 4 standard errors, some 0.01."""
    rng = np.random.default_rng(0)
    target = Target(np.full(12, 1.5), np.arange(12) / 4, np.linspace(0, 30, 12))
    watched = simplex_wide.statistics(target)
    p = rng.dirichlet(target.shape, 400_000)
    weights = np.exp(-p @ target.slope)
    weights /= weights.sum()
    found = np.concatenate([p @ watched.linear.T, np.log(p) @ watched.logs.T], axis=1)
    mean, sd = simplex_wide.moments(target, watched)
    np.testing.assert_allclose(weights @ found, mean, atol=0.03 * sd.max())
    np.testing.assert_allclose(np.sqrt(weights @ (found - mean) ** 2), sd, rtol=0.03)


def test_a_chain_that_stands_apart_is_not_called_converged():
    rng = np.random.default_rng(1)
    exact = np.zeros(6), np.ones(6)
    trace = rng.normal(size=(2000, 6))
    row = {"size": 9, "target": "linear", "sampler": "GMC"}
    good = row | simplex_wide.judged(trace, exact, 2.0, 4000)
    assert good["bulk"] == pytest.approx(1000, rel=0.2)
    assert good["per_1000_gradients"] == pytest.approx(500, rel=0.2)
    assert good["z"] < 4.5
    trace[:, 3] += 0.3
    biased = row | simplex_wide.judged(trace, exact, 2.0, 4000)
    trace[:, 3] += np.linspace(0, 3, 2000)
    apart = row | simplex_wide.judged(trace, exact, 2.0, 4000)
    trace[:, 3] = 0
    stuck = row | simplex_wide.judged(trace, exact, 2.0, 4000)
    cells = [list(simplex_wide.table([r]))[2] for r in (row, good, biased, apart, stuck)]
    assert "still warming up" in cells[0]
    assert "off" not in cells[1]
    assert "off 0.3" in cells[2]
    assert "not converged" in cells[3]
    assert "stuck" in cells[4]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["uniform", "linear", "sparse"])
def test_samplers_are_right_on_a_small_simplex(kind):
    """Errors of six means below 5 standard errors, as estimated: a false alarm in 1e5."""
    for name in ("SCIR", "Barker", "SCIR, numpyro"):
        if simplex_wide.applies(name, simplex_wide.targets(20)[kind]):
            row = simplex_wide.measure(name, kind, 20, 1.0, 60.0)
            assert row["z"] < 5, name
            assert row["bulk"] > 50, name

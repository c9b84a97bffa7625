"""Every block of Python in docs/numpyro.md runs, and does what its text says."""

import re
from functools import partial

import numpy as np
import pytest
from scipy import stats
from support import pages

PAGE = "numpyro.md"
executed = partial(pages.executed, PAGE)

pytestmark = pytest.mark.slow


def test_alone():
    scope = executed("Alone")
    expected = (np.array([0, 30, 0, 10, 0]) + 0.1) / 40.5
    np.testing.assert_allclose(scope["weights"], expected, atol=0.04)
    assert re.fullmatch(r"weights h=[\d.]+, accepted 0\.\d\d, clamped [\d.]+%", scope["shown"])


def test_rows_in_plates():
    """Means near the counts, two groups of rows, and steps of their own."""
    scope = executed("Rows in plates")
    assert np.abs(scope["mean"] - scope["x"]).max() < 2
    assert scope["mcmc"].last_state.tuning["theta"].log_step.shape == (4, 1, 1)
    assert re.match(r"theta h=[\d.]+ to [\d.]+ by row, accepted 0\.\d\d, clamped", scope["shown"])


def test_which_kernel_by_a_pilot():
    result = executed("Which kernel, by a pilot")["found"]
    assert result.choice != "NUTS"
    assert len(result.candidates) == 3


def test_combined_with_nuts():
    pytest.importorskip("numpyro.infer.gibbs", reason="the Gibbs kernel came with numpyro 0.22")
    samples = executed("Combined with NUTS")["mcmc"].get_samples()
    np.testing.assert_allclose(samples["weights"].mean(axis=0), [0.747, 0.003, 0.25], atol=0.02)
    np.testing.assert_allclose(samples["centres"].mean(axis=0), [-3, 0, 3], atol=0.15)


def test_several_chains_within_gibbs():
    pytest.importorskip("numpyro.infer.gibbs", reason="the Gibbs kernel came with numpyro 0.22")
    scope = executed("Several chains within Gibbs")
    assert len(scope["shown"]) == 2
    assert all(re.match(r"weights .* \| \d+ steps", text) for text in scope["shown"])
    np.testing.assert_allclose(scope["largest"].mean(axis=1), 31 / 42, atol=0.03)


def test_unit_vectors():
    mean = executed("Unit vectors")["mean"]
    assert mean[0] > 0.95


def test_separate_modes():
    """The share of the sparse part is known: 0.153, with a standard error of 0.01."""
    scope = executed("Separate modes")
    assert abs(float(scope["share"][..., 0].mean()) - 0.1534) < 0.05
    assert scope["rhat"] < 1.02


def test_topics_in_a_larger_model():
    """Slopes of 1 and -1, known to 0.3 or so, and topics that share no words."""
    pytest.importorskip("numpyro.infer.gibbs", reason="the Gibbs kernel came with numpyro 0.22")
    scope = executed("Topics in a larger model")
    samples = {name: np.asarray(x, np.float64) for name, x in scope["samples"].items()}
    of_words = np.exp(samples["log_phi"]).mean(axis=0)[:, :6].sum(axis=1)
    late = of_words.argmax()
    assert of_words.max() > 0.97
    assert of_words.min() < 0.03
    slope = samples["slope"].mean(axis=0)
    assert abs(slope[late] - slope[1 - late] - 2) < 1
    np.testing.assert_array_equal(samples["in_documents"].sum(axis=2), 40)
    assert re.match(r"labels moved [\d.]+% \| log_phi exact", scope["shown"])


def test_nuts_in_normal_scores():
    """Two groups, each of which shares a block: nodes are with their own, and not with others."""
    pi = executed("NUTS in normal scores")["pi"]
    together = (pi @ pi.transpose(0, 2, 1)).mean(axis=0)
    assert together[0, 1:4].min() > 0.6
    assert together[0, 4:].max() < 0.4


def test_minibatches():
    """The mean, and the deviation with the noise of the minibatches that is told."""
    scope = executed("Minibatches")
    p, inflation = np.asarray(scope["p"], np.float64), float(scope["inflation"])
    assert 1.06 < inflation < 1.1
    share = np.array([0.7, 0.2, 0.1, 0.0])
    deviation = inflation * np.sqrt(share * (1 - share) / 1e5)
    # The steps are worth 175 independent samples: four standard errors.
    np.testing.assert_allclose(p.mean(axis=0), share, atol=0.3 * deviation.max())
    np.testing.assert_allclose(p.std(axis=0)[:3], deviation[:3], rtol=0.22)


def inflations(shown):
    """The inflations that diagnostics show, without a warning, which is an error here."""
    return [float(number) for number in re.findall(r"inflation ([\d.]+)", shown)]


def test_gradients():
    scope = executed("Gradients: SGLD and its relatives")
    samples = scope["samples"]
    np.testing.assert_allclose(samples["weights"].mean(axis=0), [0.7, 0.3], atol=0.03)
    np.testing.assert_allclose(samples["centres"].mean(axis=0), [-2, 2], atol=0.1)
    assert len(inflations(scope["shown"])) == 2
    assert min(inflations(scope["shown"])) > 1.02


def test_sg_mcmc_for_a_model_as_it_is():
    """Means and deviations of linear regression, of 20,000 rows and a scale of 1/2."""
    scope = executed("SG-MCMC for a model as it is")
    w = np.asarray(scope["samples"]["w"], np.float64)
    features, y = (np.asarray(scope[name], np.float64) for name in ("features", "y"))
    exact = np.linalg.lstsq(features, y)[0]
    deviation = 0.5 / 20_000**0.5
    assert (np.abs(w.mean(axis=0) - exact) < 2 * deviation).all()
    shown = inflations(scope["shown"])
    assert len(shown) == 2
    assert 0.7 < (w.std(axis=0) / deviation).mean() < 1.4
    assert abs(scope["samples"]["scale"].mean() - 0.5) < 0.02


def test_a_likelihood_that_is_random_itself():
    scope = executed("A likelihood that is random itself")
    w = np.asarray(scope["samples"]["w"], np.float64)
    matrix, y = (np.asarray(scope[name], np.float64) for name in ("matrix", "y"))
    covariance = np.linalg.inv(matrix.T @ matrix + np.eye(2))
    deviation = np.sqrt(np.diag(covariance))
    assert (np.abs(w.mean(axis=0) - covariance @ matrix.T @ y) < deviation).all()
    (shown,) = inflations(scope["shown"])
    assert 1.02 < shown < 1.1


def test_langevin_moves_with_all_the_data():
    """By quadrature of the exact posterior; the noise of a chain is a tenth of a deviation."""
    scope = executed("Langevin moves with all the data")
    y = np.asarray(scope["y"], np.float64)
    mu, scale = np.meshgrid(np.linspace(-3, 6, 400), np.linspace(0.2, 5, 400), indexing="ij")
    logs = stats.norm.logpdf(mu, 0, 10) + stats.halfnorm.logpdf(scale, 0, 5)
    logs += stats.norm.logpdf(y[:, None, None], mu, scale).sum(axis=0)
    mass = np.exp(logs - logs.max())
    for name, value in {"mu": mu, "scale": scale}.items():
        mean = (mass * value).sum() / mass.sum()
        deviation = np.sqrt((mass * (value - mean) ** 2).sum() / mass.sum())
        result = np.asarray(scope["samples"][name], np.float64)
        assert abs(result.mean() - mean) < 0.3 * deviation
        assert abs(result.std() / deviation - 1) < 0.25
    assert "acceptance" in scope["shown"]


def test_every_block_is_run():
    assert pages.all_run(PAGE, __file__)

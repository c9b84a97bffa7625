"""Every block of Python in docs/numpyro.md runs, and does what its text says."""

import re
from functools import partial

import numpy as np
import pytest
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
    found = executed("Which kernel, by a pilot")["found"]
    assert found.choice != "NUTS"
    assert len(found.candidates) == 3


def test_combined_with_nuts():
    pytest.importorskip("numpyro.infer.gibbs", reason="the Gibbs kernel came with numpyro 0.22")
    samples = executed("Combined with NUTS")["mcmc"].get_samples()
    np.testing.assert_allclose(samples["weights"].mean(axis=0), [0.747, 0.003, 0.25], atol=0.02)
    np.testing.assert_allclose(samples["centres"].mean(axis=0), [-3, 0, 3], atol=0.15)


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


def test_gradients():
    samples = executed("Gradients: SGLD and its relatives")["samples"]
    np.testing.assert_allclose(samples["weights"].mean(axis=0), [0.7, 0.3], atol=0.03)
    np.testing.assert_allclose(samples["centres"].mean(axis=0), [-2, 2], atol=0.1)


def test_every_block_is_run():
    assert pages.all_run(PAGE, __file__)

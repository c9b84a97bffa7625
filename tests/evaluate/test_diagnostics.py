"""R-hat and effective sample size: chains whose mixing is known, and chains that stand still."""

import numpy as np
import pytest

from simplex_jax._src.evaluate.diagnostics import effective_size, of_topics, rough, summary


def autoregressive(rng, chains, samples, rho):
    x = np.empty((chains, samples))
    x[:, 0] = rng.normal(size=chains)
    for i in range(1, samples):
        x[:, i] = rho * x[:, i - 1] + np.sqrt(1 - rho**2) * rng.normal(size=chains)
    return x


def test_effective_size_of_an_autoregression():
    """It is n (1 - rho) / (1 + rho); the estimate is good to some 5 % here."""
    trace = autoregressive(np.random.default_rng(0), 4, 5000, 0.8)
    result = summary({"x": trace})["x"]
    assert result["ess"] == pytest.approx(20_000 / 9, rel=0.15)
    assert result["rhat"] < 1.01


def test_both_have_the_bits_of_arviz():
    """Of chains with ties, walks, little variation, and constant ones beside others."""
    from arviz_stats.base import array_stats

    rng = np.random.default_rng(0)
    for case in range(200):
        trace = rng.normal(size=(rng.integers(1, 10), rng.integers(10, 300)))
        if case % 3 == 0:
            trace = np.cumsum(trace, axis=1)
        if case % 3 == 1:
            trace = np.round(trace)
        if case % 7 == 0:
            trace = 1e-8 * trace + 5
        if case % 11 == 0 and len(trace) > 1:
            trace[0] = 1.0
        ours = summary({"x": trace})["x"]
        with np.errstate(divide="ignore", invalid="ignore"):
            assert ours["ess"] == array_stats.ess(trace, chain_axis=0, draw_axis=1)
            if len(trace) > 1:
                assert ours["rhat"] == array_stats.rhat(trace, chain_axis=0, draw_axis=1)


def test_chains_apart_show_in_location_and_in_scale():
    rng = np.random.default_rng(1)
    same = rng.normal(size=(4, 500))
    result = summary(
        {
            "location": same + np.array([[0], [0], [0], [1]]),
            "scale": same * np.array([[1], [1], [1], [4]]),
            "drift": same + np.linspace(0, 3, 500),
        }
    )
    assert all(values["rhat"] > 1.05 for values in result.values())


def test_one_chain_has_an_effective_size_only():
    result = summary({"x": np.random.default_rng(2).normal(size=(1, 400))})["x"]
    assert np.isnan(result["rhat"])
    assert 200 < result["ess"] < 800


@pytest.mark.parametrize(
    "trace", [np.zeros((2, 3)), np.zeros((4, 100)), np.zeros((0, 9)), np.full((2, 9), np.inf)]
)
def test_nothing_to_tell(trace):
    assert all(np.isnan(value) for value in summary({"x": trace})["x"].values())


@pytest.mark.parametrize("samples", [4, 9])
def test_few_samples_do_not_show_an_effective_size(samples):
    """It was N log10(N) for all traces, 48 here, even of chains that stand still."""
    trace = np.arange(4)[:, None] + 1e-3 * np.random.default_rng(3).normal(size=(4, samples))
    result = summary({"x": trace})["x"]
    assert np.isnan(result["ess"])
    assert result["rhat"] > 2
    assert effective_size(trace[0]) == 0
    longer = np.tile(trace, 3)
    assert summary({"x": longer})["x"]["ess"] < 20


def test_chains_that_stand_still_apart():
    assert summary({"x": np.repeat([[0.0], [1.0]], 20, axis=1)})["x"]["rhat"] == np.inf


def test_bad_shape():
    with pytest.raises(ValueError, match=r"'x' must be \[chains, samples\]"):
        summary({"x": np.zeros(5)})


def test_one_reported_topic_has_an_interval_if_it_has_all_tokens_or_mixes():
    both = [[True], [True]]
    rng = np.random.default_rng(0)
    apart = np.array([[0.6], [0.99]]) + 1e-3 * rng.normal(size=(2, 20))
    assert rough(of_topics({0: apart}), both).tolist() == [True]
    mixing = 0.8 + 1e-3 * rng.normal(size=(2, 100))
    for trace in (np.ones((2, 20)), mixing):
        assert rough(of_topics({0: trace}), both).tolist() == [False]

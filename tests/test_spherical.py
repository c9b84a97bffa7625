"""Fitting directions: the summary, chains, interruption and resumption, bad input."""

import os
import signal

import chex
import numpy as np
import pytest
import scipy.sparse as sp

from simplex_jax import spherical
from simplex_jax.corpus import vectors
from simplex_jax.evaluate import gathering, matching, spherical_checks
from simplex_jax.runtime import driver
from simplex_jax.runtime.checkpoint import CheckpointError

# Three groups of documents, each with two words of its own and without those of the others.
RNG = np.random.default_rng(0)
GROUPS = np.repeat(np.arange(3), 14)
TABLE = np.kron(np.eye(3), [1.0, 1.0])[GROUPS] + 0.1 * RNG.random((42, 6))
DATA = vectors.from_array(TABLE, list("abcdef"), normalise=True)
HELDOUT = vectors.select(DATA, np.arange(0, 42, 7))
STEPS = 24
OPTIONS = {
    **{"alpha": 0.5, "sigma": 5.0, "kappa0": 5.0, "kappa1": 60.0, "learn": ("kappa1",)},
    **{"steps": STEPS, "eval_every": 3, "batch_size": 14, "seed": 7, "keep_samples": 2},
}


def fit(**options):
    return spherical.fit(DATA, 3, heldout=HELDOUT, **(OPTIONS | options))


def numbers(fitted):
    """A fit without the clock and what arrays cannot hold."""
    clock = ("seconds", "documents_per_second")
    metrics = [{k: v for k, v in one.items() if k not in clock} for one in fitted.metrics]
    return fitted._replace(metrics=metrics, settings=None, interrupted=None)


@pytest.fixture(scope="module")
def whole():
    return fit()


class Cut:
    """A hook that ends the run, or sends a signal, at a step."""

    def __init__(self, step, number=None):
        self._step, self._number = step, number

    def __call__(self, event):
        pass

    def pulse(self, event):
        if event.step < self._step:
            return False
        if self._number is None:
            return True
        os.kill(os.getpid(), self._number)
        return False


def test_the_summary(whole):
    np.testing.assert_allclose(np.linalg.norm(whole.mean, axis=1), 1, rtol=1e-5)
    assert ((whole.length > 0) & (whole.length <= 1)).all()
    assert (whole.sd > 0).all()
    assert whole.samples == 5
    np.testing.assert_allclose(whole.proportions.sum(axis=1), 1, rtol=1e-5)
    assert whole.proportions.shape == (42, 3)
    assert whole.prevalence.sum() == pytest.approx(1, abs=1e-5)
    assert (whole.kappa1_sd > 0, whole.alpha_sd, whole.alpha) == (True, 0.0, 0.5)
    assert {"log_perplexity", "kappa1", "prevalence 0"} <= set(whole.diagnostics)
    assert "alpha" not in whole.diagnostics
    last = whole.metrics[-1]
    assert (last["step"], last["documents"], last["passes"]) == (STEPS, STEPS * 14, 8.0)
    assert {"kinetic", "thermostat", "local_acceptance", "fit"} <= set(last)
    assert np.isfinite(last["log_perplexity_average"])
    assert 1 <= last["heldout_ess"] <= 256
    assert whole.kept["topics"].shape == (2, 1, 3, 6)
    assert whole.settings.num_steps == STEPS


def test_an_exact_sampler_finds_the_groups():
    fitted = fit(sampler="gmc-bgibbs", batch_size=None, steps=150, learn=())
    best = fitted.proportions.argmax(axis=1)
    assert len({tuple(sorted(set(best[group == GROUPS]))) for group in range(3)}) == 3
    own = [set(np.argsort(-topic)[:2]) for topic in fitted.mean]
    assert sorted(map(sorted, own)) == [[0, 1], [2, 3], [4, 5]]
    assert 0 < fitted.metrics[-1]["acceptance"] <= 1
    again = spherical.transform(fitted.mean, DATA, alpha=0.5, kappa1=60.0, seed=7)
    np.testing.assert_array_equal(again, fitted.proportions)


@pytest.mark.parametrize("step", [1, 11, 17])
def test_an_interrupted_run_ends_as_the_whole_one(step, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "_PULSE", 0.0)  # look after every step
    cut = fit(checkpoint=tmp_path, hooks=[Cut(step)])
    assert cut.state.step == step
    resumed = fit(checkpoint=tmp_path, resume=True)
    chex.assert_trees_all_equal(numbers(resumed), numbers(whole))


def test_a_run_that_forgot_its_samples_would_be_noticed(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "_PULSE", 0.0)
    monkeypatch.setattr(gathering.Posterior, "load", lambda self, saved: None)
    fit(checkpoint=tmp_path, hooks=[Cut(20)])
    resumed = fit(checkpoint=tmp_path, resume=True)
    with pytest.raises(AssertionError):
        chex.assert_trees_all_equal(resumed.mean, whole.mean)


def test_a_signal_ends_a_run_with_a_summary(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(driver, "_PULSE", 0.0)
    cut = fit(checkpoint=tmp_path / "run", hooks=[Cut(5, signal.SIGINT)])
    assert cut.interrupted is signal.SIGINT
    assert cut.samples == 1
    assert np.isnan(cut.sd).all()
    np.testing.assert_allclose(cut.length, 1, rtol=1e-5)
    with pytest.raises(CheckpointError, match="seed is 7 in the checkpoint and 8"):
        fit(checkpoint=tmp_path / "run", resume=True, seed=8)
    other = vectors.from_array(DATA.values[::-1], list("abcdef"))
    with pytest.raises(CheckpointError, match="corpus"):
        spherical.fit(
            other, 3, heldout=HELDOUT, checkpoint=tmp_path / "run", resume=True, **OPTIONS
        )


def test_chains_are_matched():
    fitted = fit(chains=2, steps=12)
    assert fitted.order.shape == (2, 3)
    assert (np.abs(fitted.stability) <= 1).all()
    assert fitted.samples == 2 * 3
    assert {"log_perplexity_chain_0", "log_perplexity_chain_1"} <= set(fitted.metrics[-1])
    one, two = (np.eye(3, 6) + 0.01, -np.eye(3, 6)[[2, 0, 1]])
    order, stability = matching.align([one, -two], matching.cosine)
    assert order.tolist() == [[0, 1, 2], [1, 2, 0]]
    assert (stability > 0.9).all()
    with pytest.raises(ValueError, match="no direction"):
        matching.cosine(one, 0 * two)


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (DATA, {"num_topics": 7}, "num_topics must be at most 6"),
        (DATA, {"num_topics": 1}, "num_topics"),
        (DATA, {"kappa1": -1.0}, "kappa1"),
        (DATA, {"alpha": 0.0}, "alpha"),
        (DATA, {"sigma": float("nan")}, "sigma"),
        (DATA, {"learn": ("kappa0",)}, "learn"),
        (DATA, {"sampler": "hmc"}, "sampler must be one of"),
        (DATA, {"local": "gibbs"}, "method must be one of"),
        (DATA, {"batch_size": 99}, "batch_size"),
        (DATA, {"sampler": "gmc-bgibbs", "batch_size": 5}, "leave batch_size out"),
        (DATA, {"sampler": "gmc-bgibbs", "friction": 1.0}, "friction is for"),
        (DATA, {"passes": 1, "steps": 2}, "at most one of"),
        (DATA, {"seed": -1}, "seed"),
        (DATA, {"heldout": sp.csr_array(np.eye(2))}, "heldout has 2 words"),
        (sp.csr_array(np.eye(2) * 0), {}, "zero vector"),
        (sp.csr_array([[1.0, 1.0]]), {}, "length 1.41421, not 1"),
    ],
)
def test_bad_input_is_one_clear_error(given, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        spherical.fit(given, **({"num_topics": 2} | options))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("topics", "options", "message"),
    [
        (np.eye(2, 5), {}, "the documents have 6 words and the topics 5"),
        (np.zeros((2, 6)), {}, "finite and not zero"),
        (np.eye(2, 6), {"alpha": -1.0}, "alpha must be finite and positive"),
        (np.eye(2, 6), {"samples": 0}, "samples"),
    ],
)
def test_bad_transforms(topics, options, message):
    with pytest.raises(ValueError, match=message):
        spherical.transform(topics, DATA, **({"alpha": 1.0, "kappa1": 9.0} | options))


def test_shards_change_only_the_draws():
    near = np.kron(np.eye(3), [1.0, 1.0])
    one = spherical.transform(near, DATA, alpha=0.5, kappa1=200.0)
    two = spherical.transform(near, DATA, alpha=0.5, kappa1=200.0, shard=16)
    assert np.abs(one - two).max() < 0.2
    assert (one.argmax(axis=1) == GROUPS).all()


def test_warnings():
    hot = [{"kinetic": 40.0, "log_perplexity": 5.0}, {"kinetic": 30.0, "log_perplexity": 6.0}]
    assert "not at equilibrium" in spherical_checks.energy_warnings(hot)[0]
    still = [{"kinetic": 1.0, "acceptance": 0.01}]
    assert "1.0 % of the moves" in spherical_checks.energy_warnings(still)[0]
    found = spherical_checks.topic_warnings(hot, [[1.0, 0.0], [1.0, 0.01]], [0.9, 0.9])
    assert ["did not fall" in found[0], "nearly the same" in found[1]] == [True, True]

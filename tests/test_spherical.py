"""Fitting directions: the summary, chains, interruption and resumption, bad input."""

import inspect
import os
import signal

import chex
import jax
import numpy as np
import pytest
import scipy.sparse as sp

from simplex_jax import spherical
from simplex_jax.corpus import vectors
from simplex_jax.evaluate import gathering, matching, spherical_checks, spherical_report
from simplex_jax.models import sam, sam_documents
from simplex_jax.runtime import driver
from simplex_jax.runtime.checkpoint import CheckpointError
from simplex_jax.runtime.equilibrium import energy_warnings
from simplex_jax.spherical import files, starts

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
    "start": "prior",  # It compiles nothing.
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


def test_one_topic_is_the_direction_of_the_documents():
    """Their sum, times kappa1, beside which the prior is nothing: within its own spread of it."""
    changed = {"kappa1": 1e4, "learn": (), "batch_size": None, "start": "variational"}
    fitted = spherical.fit(DATA, 1, **OPTIONS | changed)
    total = DATA.values.sum(axis=0)
    assert fitted.mean[0] @ total > (1 - 1e-3) * np.linalg.norm(total)
    np.testing.assert_array_equal(fitted.proportions, np.ones((42, 1)))


def test_a_variational_start_has_the_groups():
    hyper = sam.hyperparameters(
        DATA.values.mean(axis=0) / np.linalg.norm(DATA.values.mean(axis=0)),
        **{name: OPTIONS[name] for name in ("alpha", "sigma", "kappa0", "kappa1")},
    )
    given = sam_documents.to_device(DATA.values), hyper, 3
    topics = starts.topics(jax.random.key(1), *given, "variational")
    np.testing.assert_allclose(np.linalg.norm(topics, axis=1), 1, rtol=1e-5)
    own = [set(np.argsort(-topic)[:2].tolist()) for topic in np.asarray(topics)]
    assert sorted(map(sorted, own)) == [[0, 1], [2, 3], [4, 5]]
    prior = starts.topics(jax.random.key(1), *given, "prior")
    assert (np.ptp(np.asarray(prior), axis=0) > 0).all()
    assert spherical.resolve(DATA, 3).start == "variational"


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


@pytest.mark.slow
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
        (DATA, {"num_topics": 0}, "num_topics"),
        (DATA, {"kappa1": -1.0}, "kappa1"),
        (DATA, {"alpha": 0.0}, "alpha"),
        (DATA, {"sigma": float("nan")}, "sigma"),
        (DATA, {"learn": ("kappa0",)}, "learn"),
        (DATA, {"sampler": "hmc"}, "sampler must be one of"),
        (DATA, {"local": "gibbs"}, "method must be one of"),
        (DATA, {"start": "zero"}, "start must be one of variational, prior"),
        (DATA, {"batch_size": 99}, "batch_size"),
        (DATA, {"step_size": lambda step: 0.1}, "step_size .* is a schedule"),
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
    found = spherical_checks.topic_warnings(hot, [[1.0, 0.0], [1.0, 0.01]], [0.9, 0.9])
    assert ["did not fall" in found[0], "nearly the same" in found[1]] == [True, True]
    few = [{"heldout_ess": 300.0}] * 2 + [{"heldout_ess": size} for size in (2.0, 3.0)]
    found = spherical_checks.topic_warnings(few, np.eye(2), [0.9, 0.9])
    assert len(found) == 1
    assert "worth 2.5 effective draws" in found[0]
    assert not spherical_checks.topic_warnings(few[::-1], np.eye(2), [0.9, 0.9])


def coverage(fitted, samples):
    """Share of the samples in the intervals of the largest loadings: topics.csv, the report."""
    rows = files._rows_of_words(fitted, "abcdef")
    written = [(k, word, low, high) for k, rank, word, _, low, high in rows if rank == 1]
    unknown = np.full(3, np.nan)
    shown = spherical_report._rows(
        spherical_report.Topics(
            *(fitted.mean, fitted.sd, fitted.length, tuple("abcdef")),
            *(np.full(3, 1 / 3), unknown, unknown, unknown),
        ),
        6,
    )
    first = [(row["number"], row["words"][0]) for row in shown]
    drawn = [(k, one["word"], *one["interval"]) for k, one in first]
    shares = []
    for found in (written, drawn):
        for k, word, low, high in found:
            x = samples[:, k, "abcdef".index(word)]
            shares.append(np.mean((x >= float(low)) & (x <= float(high))))
    return shares


def test_intervals_of_loadings_cover_the_samples(whole):
    """Of topics that vary much; about the mean direction, of length 1, they are off centre."""
    rng = np.random.default_rng(3)
    samples = 1.5 * np.eye(3, 6) + 0.5 + rng.normal(size=(4000, 3, 6))
    samples /= np.linalg.norm(samples, axis=-1, keepdims=True)
    mean, sd = samples.mean(axis=0), samples.std(axis=0)
    length = np.linalg.norm(mean, axis=1)
    assert (length < 0.8).all()
    fitted = whole._replace(mean=mean / length[:, None], sd=sd, length=length)
    assert min(coverage(fitted, samples)) > 0.93
    assert max(coverage(fitted._replace(length=np.ones(3)), samples)) < 0.9


@pytest.mark.parametrize(
    ("records", "damping", "said"),
    [
        ([1.0, 30.0, 1.02, 0.98], None, ()),  # the first half is another matter
        ([0.0, 0.0, 1.19, 1.21], None, ("too hot",)),
        ([0.0, 0.0, 0.79, 0.81], None, ("too cold",)),
        ([0.0, 0.0, 1.0, 1.4], None, ()),  # within three standard errors
        ([0.85] * 8, 1.0, ()),  # x / sinh(x)
        ([1.0] * 8, 1.0, ("should be 0.851",)),
        ([3.0], None, ()),
    ],
)
def test_the_rule_of_equilibrium(records, damping, said):
    found = energy_warnings([{"kinetic": value} for value in records], damping)
    assert len(found) == len(said)
    assert all(word in one for word, one in zip(said, found, strict=True))


def test_what_else_the_rule_looks_at():
    thermostat = {"kinetic": 1.0, "step_size": 0.1, "thermostat": 7.0}
    assert not energy_warnings([thermostat] * 4, 0.5), "its energy is 1, and 7 is below 1.5 C"
    assert "1.6 of what was set" in energy_warnings([thermostat | {"thermostat": 8.0}] * 4, 0.5)[0]
    assert "is 0.6 of" in energy_warnings([{"kinetic": 1.0, "gradient_noise": 0.6}] * 4)[0]
    metropolis = {"kinetic": 40.0, "gradient_noise": 0.9}
    assert not energy_warnings([metropolis | {"acceptance": 0.8}] * 4)
    still = energy_warnings([metropolis | {"acceptance": 0.01}] * 4)
    assert ["1.0 % of the moves" in one for one in still] == [True]


def test_a_fit_says_that_it_is_too_hot(whole):
    assert {"gradient_noise", "step_size"} <= set(whole.metrics[-1])
    hot = fit(sampler="sggmc", step_size=0.3, friction=0.05, eval_every=1)
    assert any("too hot" in one for one in hot.warnings), hot.metrics


def test_defaults_are_the_same_everywhere():
    built, resolved = (
        inspect.signature(function).parameters for function in (sam.build, spherical.resolve)
    )
    assert built["sampler"].default == resolved["sampler"].default == "gsgnht"
    assert spherical.resolve(DATA, 3).batch_size == sam.check_batch_size(None, 42, "gsgnht") == 42

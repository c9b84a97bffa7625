"""Fitting topics: settings filled in, results of the right shape, the same seed the same fit."""

import chex
import numpy as np
import pytest
import scipy.sparse as sp

from simplex_jax import topics
from simplex_jax.corpus import from_counts

COUNTS = sp.csr_array(
    np.array([[9, 8, 0, 0], [7, 9, 0, 0], [0, 0, 9, 8], [0, 0, 8, 9], [0, 0, 0, 0]] * 4)
)


def test_a_fit_tells_two_themes_apart():
    heldout = sp.csr_array([[2, 2, 0, 0]]), sp.csr_array([[1, 1, 0, 0]])
    fitted = topics.fit(from_counts(COUNTS), 2, passes=60, seed=3, heldout=heldout)
    chex.assert_shape([fitted.mean, fitted.sd], (2, 4))
    np.testing.assert_allclose(fitted.mean.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(fitted.proportions.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(fitted.proportions[4::5], 0.5, rtol=1e-5)
    assert fitted.proportions.shape == (20, 2)
    assert fitted.prevalence.sum() == pytest.approx(1)
    assert np.sort(fitted.mean[:, :2].sum(axis=1)).round(1).tolist() == [0.0, 1.0]
    assert (fitted.sd > 0).all()
    assert fitted.samples >= 20
    last = fitted.metrics[-1]
    assert last["perplexity_average"] == pytest.approx(2, rel=0.2)
    assert last["passes"] == 60
    assert last["documents"] == 1200
    assert last["step"] == fitted.settings.num_steps


def test_the_same_seed_gives_the_same_numbers_however_it_is_evaluated():
    first, second, other = (
        topics.fit(COUNTS, 2, steps=10, seed=seed, eval_every=every)
        for seed, every in [(1, 5), (1, 1), (2, 5)]
    )
    np.testing.assert_array_equal(first.state.position, second.state.position)
    np.testing.assert_array_equal(first.state.memory.labels, second.state.memory.labels)
    assert not np.array_equal(first.state.position, other.state.position)


def test_time_ends_a_run():
    fitted = topics.fit(COUNTS, 2, seconds=0.05)
    assert fitted.samples >= 1
    assert fitted.metrics[-1]["seconds"] >= 0.05


def test_defaults_depend_on_the_counts():
    memoised = topics.resolve(COUNTS, 2)
    assert (memoised.local, memoised.sweeps, memoised.burn_in) == ("collapsed", 1, 0)
    assert memoised.tau == 0
    subsampled = topics.resolve(COUNTS, 2, counts_estimate="subsampled")
    assert (subsampled.local, subsampled.sweeps, subsampled.burn_in) == ("collapsed", 10, 5)
    assert (subsampled.step_size, subsampled.tau, subsampled.kappa) == (0.5, 10, 0.33)
    assert topics.resolve(COUNTS, 2, passes=3, batch_size=6).num_steps == 12
    assert topics.resolve(COUNTS, 2, step_size=0.2).tau == 0


def test_prevalence_is_the_share_of_tokens_not_of_the_prior():
    """Four documents of theme a with 17 tokens for one of theme b, whatever alpha adds."""
    counts = sp.csr_array(np.array([[9, 8, 0, 0]] * 4 + [[0, 0, 9, 8]]))
    fitted = topics.fit(counts, 2, passes=80, alpha=2.0, beta=0.01, seed=1)
    assert np.sort(fitted.prevalence) == pytest.approx([0.2, 0.8], abs=0.08)
    assert fitted.prevalence.sum() == pytest.approx(1, abs=1e-3)


def test_a_hook_may_end_a_run_in_its_first_half():
    fitted = topics.fit(COUNTS, 2, steps=10, eval_every=1, hooks=[lambda event: True])
    assert (fitted.samples, fitted.state.step) == (1, 1)
    assert np.isnan(fitted.sd).all()
    np.testing.assert_allclose(fitted.mean.sum(axis=1), 1, rtol=1e-5)


def test_documents_and_passes_are_counted_as_visited():
    memoised = topics.fit(COUNTS, 2, steps=6, batch_size=9).metrics[-1]
    assert (memoised["documents"], memoised["passes"]) == (40, 2)
    estimated = topics.fit(COUNTS, 2, steps=6, batch_size=9, counts_estimate="subsampled")
    assert (estimated.metrics[-1]["documents"], estimated.metrics[-1]["passes"]) == (54, 2.7)


def test_proportions_of_other_documents_on_request():
    fitted = topics.fit(COUNTS, 2, passes=40, documents=sp.csr_array([[0, 0, 9, 9], [9, 9, 0, 0]]))
    assert fitted.proportions.shape == (2, 2)
    assert fitted.proportions[0].argmax() != fitted.proportions[1].argmax()


@pytest.mark.parametrize(
    ("corpus", "options", "words"),
    [
        (COUNTS, {"heldout": (sp.csr_array([[1, 1]]), sp.csr_array([[1, 1]]))}, "heldout has 2"),
        (COUNTS, {"documents": sp.csr_array([[1, 1]])}, "documents has 2"),
        ([[0.5, 1.0]], {}, "whole|fraction"),
        ([[-1, 1]], {}, "is -1, which is out of range"),
        ([[0, 0]], {}, "empty"),
    ],
)
def test_bad_counts_are_refused(corpus, options, words):
    with pytest.raises(ValueError, match=words):
        topics.fit(corpus, 2, steps=1, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_topics": 0}, "num_topics"),
        ({"num_topics": 2, "alpha": -1.0}, "alpha"),
        ({"num_topics": 2, "alpha": float("nan")}, "alpha"),
        ({"num_topics": 2, "beta": 0.0}, "^beta"),
        ({"num_topics": 2, "sampler": "hmc"}, "sampler"),
        ({"num_topics": 2, "counts_estimate": "none"}, "counts_estimate"),
        ({"num_topics": 2, "local": "none"}, "^method"),
        ({"num_topics": 2, "passes": 1, "steps": 2}, "at most one"),
        ({"num_topics": 2, "seconds": -1.0}, "seconds"),
        ({"num_topics": 2, "batch_size": 21}, "batch_size"),
        ({"num_topics": 2, "eval_every": 0}, "eval_every"),
        ({"num_topics": 2, "sweeps": 3, "burn_in": 3}, "burn_in"),
        ({"num_topics": 2, "step_size": 0.0}, "step_size"),
        ({"num_topics": 2, "passes": 1e30}, "more than a run can number"),
        ({"num_topics": 2, "steps": 2.7}, "steps"),
        ({"num_topics": 2, "seed": 2**70}, "seed"),
    ],
)
def test_bad_options_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        topics.fit(COUNTS, **options)

"""Fitting topics: results of the right shape, the same seed the same fit, bad input refused."""

import chex
import jax
import numpy as np
import pytest
import scipy.sparse as sp
from support.fits import proportions_of

from simplex_jax._src.corpus import from_counts
from simplex_jax._src.models import lda as topics
from simplex_jax._src.models.lda import posterior
from simplex_jax._src.models.lda.kernel import Info
from simplex_jax._src.models.topics.data import size_of
from simplex_jax._src.runtime.hooks import Event

COUNTS = sp.csr_array(
    np.array([[9, 8, 0, 0], [7, 9, 0, 0], [0, 0, 9, 8], [0, 0, 8, 9], [0, 0, 0, 0]] * 4)
)
HELDOUT = sp.csr_array([[2, 2, 0, 0]]), sp.csr_array([[1, 1, 0, 0]])
OTHER = sp.csr_array([[0, 0, 9, 9], [9, 9, 0, 0]])
# One batch size and one chunk for most tests: one program.
SAME = {"batch_size": 9, "eval_every": 6}


def test_a_fit_tells_two_themes_apart():
    fitted = topics.fit(from_counts(COUNTS), 2, passes=90, seed=3, heldout=HELDOUT, **SAME)
    chex.assert_shape([fitted.topics, fitted.topics_sd], (2, 4))
    assert fitted.topics.dtype == fitted.topics_sd.dtype == np.float32
    np.testing.assert_allclose(fitted.topics.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(fitted.proportions.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(fitted.proportions[4::5], 0.5, rtol=1e-5)
    assert fitted.proportions.shape == (20, 2)
    assert fitted.prevalence.sum() == pytest.approx(1)
    assert np.sort(fitted.topics[:, :2].sum(axis=1)).round(1).tolist() == [0.0, 1.0]
    assert (fitted.topics_sd > 0).all()
    assert fitted.num_samples >= 20
    assert np.isnan(fitted.stability).all()
    assert fitted.order.tolist() == [[0, 1]]
    assert fitted.interrupted is None
    last = fitted.metrics[-1]
    assert last["perplexity_average"] == pytest.approx(2, rel=0.2)
    assert last["passes"] == 90
    assert last["documents"] == 1800
    assert last["step"] == fitted.settings.steps
    assert fitted.diagnostics["log_predictive"]["ess"] > 5


def test_the_same_seed_gives_the_same_numbers():
    first, second, other = (topics.fit(COUNTS, 2, steps=12, seed=i, **SAME) for i in (1, 1, 2))
    chex.assert_trees_all_equal(first.state, second.state)
    chex.assert_trees_all_equal(first.topics, second.topics)
    assert not np.array_equal(first.state.position, other.state.position)


def test_a_run_lets_go_of_its_first_state(tmp_path):
    alive, earlier = [], jax.live_arrays()  # of other tests

    def labels(event):
        own = event.state.sampler.memory.labels
        new = [x for x in jax.live_arrays() if not any(x is other for other in earlier)]
        alive.append(sum((x.shape, x.dtype) == (own.shape, own.dtype) for x in new))

    options = {"checkpoint": tmp_path, "checkpoint_every": 0.0, "hooks": [labels]} | SAME
    topics.fit(COUNTS, 2, steps=12, **options)
    topics.fit(COUNTS, 2, steps=24, resume=True, **options)
    assert alive == [1, 1, 1, 1]


def test_time_ends_a_run():
    fitted = topics.fit(COUNTS, 2, seconds=0.05, **SAME)
    assert fitted.num_samples >= 1
    assert fitted.metrics[-1]["seconds"] >= 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "warned"),
    [
        ({"counts": "subsampled", "local": "blocked", "alpha": 0.01}, True),
        ({"counts": "subsampled", "local": "blocked", "alpha": 0.1}, False),
        ({"counts": "subsampled", "local": "collapsed", "alpha": 0.01}, False),
        ({"counts": "memoised", "local": "blocked", "alpha": 0.01}, False),
    ],
)
def test_blocked_sweeps_that_do_not_arrive_are_warned_of(options, warned):
    fitted = topics.fit(COUNTS, 2, steps=2, batch_size=9, **options)
    assert any("blocked sweeps" in text for text in fitted.warnings) == warned


def test_prevalence_is_the_share_of_tokens():
    """Three documents of theme a for one of theme b, and empty ones."""
    rows = [[9, 8, 0, 0], [7, 9, 0, 0], [8, 9, 0, 0], [0, 0, 8, 9], [0, 0, 0, 0]]
    fitted = topics.fit(sp.csr_array(np.array(rows * 4)), 2, passes=80, seed=1, **SAME)
    assert np.sort(fitted.prevalence) == pytest.approx([17 / 67, 50 / 67], abs=0.02)
    assert fitted.prevalence.sum() == pytest.approx(1)


def test_prevalence_by_batches_is_the_share_of_tokens_not_of_documents():
    """One topic has 50 documents of 200 words, the other 450 of 5, and 20 have none.

    The mean of 450 batches of 10 has a standard error of 0.013; false alarm below 1e-6. The mean of
    the shares in the batches, which was given once, is 0.55.
    """
    table = np.zeros((520, 4), int)
    table[:50, :2], table[50:500, 2:] = 100, [2, 3]
    fitted = topics.fit(
        sp.csr_array(table),
        2,
        alpha=0.05,
        counts="subsampled",
        batch_size=10,
        seed_words=["w0 w1", "w2 w3"],
        seed_weight=3_000,
        steps=900,
        sample_every=1,
        eval_every=900,
    )
    assert fitted.prevalence[0] == pytest.approx(10_000 / 12_250, abs=0.08)
    assert fitted.prevalence.sum() == pytest.approx(1)


def test_a_hook_may_end_a_run_in_its_first_half():
    fitted = topics.fit(COUNTS, 2, steps=100, hooks=[lambda event: True], **SAME)
    assert (fitted.num_samples, fitted.state.step) == (1, 6)
    assert np.isnan(fitted.topics_sd).all()
    np.testing.assert_allclose(fitted.topics.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize(("counts", "expected"), [("memoised", (40, 2)), ("subsampled", (54, 2.7))])
def test_documents_and_passes_are_counted_as_visited(counts, expected):
    """Blocks of memoised counts are short at the end of a pass, random subsets never."""
    settings = topics.resolve(COUNTS, 2, counts=counts, batch_size=9)
    records = posterior.records(settings, size_of(COUNTS))
    records(Event(6, 0, 9, 2.0, 0.0, None, Info(None, None), {}))
    (record,) = records.records
    assert (record["documents"], record["passes"]) == expected
    assert record["tokens_per_second"] == round(expected[1] * COUNTS.sum() / 2)


def test_proportions_of_other_documents_on_request():
    shares = topics.fit(COUNTS, 2, passes=40, **SAME).transform(OTHER)
    assert shares.shape == (2, 2)
    assert shares[0].argmax() != shares[1].argmax()


@pytest.mark.slow
def test_an_unstable_sampler_is_told(tmp_path):
    options = {"sampler": "smld", "counts": "subsampled", "sweeps": 2, "step_size": 10.0}
    fitted = topics.fit(COUNTS, 2, steps=12, **options, **SAME)
    assert np.isfinite(fitted.topics).all()
    assert fitted.stiffness > 2
    assert any("of SMLD was unstable" in sentence for sentence in fitted.warnings)
    assert "of SMLD was unstable" in fitted.report(tmp_path / "report.html").read_text()


def test_concentrations_may_differ():
    alpha, beta = np.array([0.2, 0.6]), np.linspace(0.1, 0.4, 4)
    fitted = topics.fit(COUNTS, 2, steps=12, alpha=alpha, beta=beta, **SAME)
    np.testing.assert_allclose(fitted.alpha, alpha)
    np.testing.assert_allclose(fitted.beta, beta)
    np.testing.assert_allclose(fitted.state.alpha, alpha, rtol=1e-6)
    assert not fitted.alpha_sd.any()
    assert not fitted.beta_sd.any()
    assert not {"alpha", "beta"} & set(fitted.diagnostics)


def test_proportions_are_those_of_transform():
    fitted = topics.fit(COUNTS, 2, steps=12, seed=4, **SAME)
    again = proportions_of(fitted.topics, fitted.alpha, COUNTS, seed=4)
    np.testing.assert_array_equal(fitted.proportions, again)


@pytest.mark.parametrize(
    ("corpus", "options", "words"),
    [
        (COUNTS, {"heldout": (sp.csr_array([[1, 1]]), sp.csr_array([[1, 1]]))}, "heldout has 2"),
        (COUNTS, {"resume": True}, "checkpoint must name"),
        (COUNTS, {"holdout": 20}, r"holdout 20 .* 20"),
        (COUNTS, {"holdout": 2, "heldout": HELDOUT}, "holdout or heldout"),
        ([[0.5, 1.0]], {}, "whole|fraction"),
        ([[-1, 1]], {}, r"row 0, column 0 .* is -1"),
        ([[0, 0]], {}, "empty"),
    ],
)
def test_bad_counts_are_refused(corpus, options, words):
    with pytest.raises(ValueError, match=words):
        topics.fit(corpus, 2, steps=1, **options)


@pytest.mark.slow
def test_deviations_of_probabilities_near_one():
    """With one topic it is Dirichlet(beta + n); 1 - m in float32 would be 1.3% off."""
    table = np.array([[3_000_000, 3, 0, 1], [5, 1, 0, 2]])
    fitted = topics.fit(sp.csr_array(table), 1, beta=0.05, passes=4, holdout=0)
    shapes = table.sum(axis=0) + 0.05
    mean = shapes / shapes.sum()
    exact = np.sqrt(mean * (1 - mean) / (shapes.sum() + 1))
    np.testing.assert_allclose(fitted.topics_sd[0], exact, rtol=1e-5)

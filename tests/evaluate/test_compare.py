"""Models of several K, compared."""

import signal

import numpy as np
import pytest
import scipy.sparse as sp

from simplex_jax._src.evaluate import compare, fits
from simplex_jax._src.models import hdp, lda

COUNTS = sp.csr_array([[9, 8, 0, 0], [7, 9, 0, 0], [0, 0, 9, 8], [0, 0, 8, 9]])


def fake(k, seed):
    mean = np.tile([0.4, 0.3, 0.2, 0.1], (k, 1))
    return fits.Topics(mean, [{}, {"perplexity_average": 100.0 * k + seed}])


def test_every_k_is_fitted_with_every_seed():
    seen = []

    def fit(k, seed):
        seen.append((k, seed))
        return fake(k, seed)

    entries = compare.compare(fit, [3, 2], COUNTS, repeats=2, top=2)
    assert seen == [(3, 0), (3, 1), (2, 0), (2, 1)]
    assert [entry.num_topics for entry in entries] == [3, 2]
    np.testing.assert_array_equal(entries[1].heldout, [200.0, 201.0])
    np.testing.assert_allclose(entries[1].coherence, [1.0, 1.0])  # words 0 and 1 always meet


class Estimator(fits.Fitted):
    """Has what an estimator of topics has, and is no fit of `lda.fit`."""

    def __init__(self, *fit):
        self._fit = fits.Topics(*fit)

    def to_record(self):
        return self._fit

    def perplexity(self, X):
        return 2.0 * X.sum()


def test_estimators_are_measured_by_what_is_given():
    def fit(k, seed):
        return Estimator(fake(k, seed).topics, [{"seconds": 1.5 + seed}])

    def measure(model):
        return model.perplexity(COUNTS)

    (entry,) = compare.compare(fit, [3], COUNTS, repeats=2, top=2, heldout=measure)
    np.testing.assert_array_equal(entry.heldout, [2.0 * COUNTS.sum()] * 2)
    np.testing.assert_allclose(entry.coherence, [1.0, 1.0])
    (entry,) = compare.compare(fit, [3], COUNTS, repeats=2, top=2, heldout="seconds")
    np.testing.assert_array_equal(entry.heldout, [1.5, 2.5])
    # It holds nothing out by itself.
    (entry,) = compare.compare(fit, [3], COUNTS, repeats=2, top=2)
    assert np.isnan(entry.heldout).all()


def test_spherical_topics_count_by_their_largest_loadings():
    def fit(k, seed):
        return fits.Topics(np.array([[-0.5, -0.4, -0.1, 0.7]]))

    (entry,) = compare.compare(fit, [1], COUNTS, repeats=1, top=2)
    np.testing.assert_allclose(entry.coherence, [1.0])


def test_what_has_no_topics_is_told():
    with pytest.raises(ValueError, match=r"^fit .*`lda\.fit`.* a list$"):
        compare.compare(lambda k, seed: [], [2], COUNTS)
    with pytest.raises(ValueError, match=r"^fit .* a Mixture$"):
        compare.compare(lambda k, seed: fits.Mixture({}, {}), [2], COUNTS)


@pytest.mark.slow
def test_fits_of_hdp_are_compared():
    def fit(k, seed):
        return hdp.fit(COUNTS, initial_topics=k, passes=4, seed=seed, heldout=(COUNTS, COUNTS))

    (entry,) = compare.compare(fit, [2], COUNTS, repeats=1, top=2)
    assert np.isfinite(entry.heldout).all()
    assert np.isfinite(entry.coherence).all()


def test_an_interrupted_fit_ends_the_comparison():
    seen = []

    def fit(k, seed):
        seen.append((k, seed))
        return fake(k, seed)._replace(interrupted=signal.SIGINT if len(seen) == 3 else None)

    with pytest.raises(KeyboardInterrupt, match=r"SIGINT .* 3 topics"):
        compare.compare(fit, [2, 3, 4], COUNTS, repeats=2, top=2)
    assert seen == [(2, 0), (2, 1), (3, 0)]


def test_estimate_is_mean_and_standard_error(seed):
    values = np.random.default_rng(seed).normal(size=12)
    result = compare.estimate(values)
    assert result.mean == pytest.approx(values.mean())
    assert result.error == pytest.approx(values.std(ddof=1) / np.sqrt(12))
    assert np.isnan(compare.estimate(values[:1]).error)


def test_estimators_of_a_stream_or_a_file_have_no_metrics():
    (entry,) = compare.compare(
        lambda k, seed: Estimator(np.eye(4)[:k]), [2], COUNTS, repeats=1, top=2
    )
    assert np.isnan(entry.heldout).all()


def test_without_held_out_documents_and_of_topics_without_coherence():
    def fit(k, seed):
        return fits.Topics(np.eye(5)[:k] + 1e-9, [{"step": 1}])

    counts = sp.csr_array((3, 5), dtype=np.int64)  # no word occurs
    (entry,) = compare.compare(fit, [2], counts, repeats=1, top=2)
    assert np.isnan(entry.heldout).all()
    assert np.isnan(entry.coherence).all()


def test_a_measure_that_fits_do_not_have_is_told():
    def fit(k, seed):
        return fits.Topics(np.eye(4)[:k], [{"step": 1, "log_perplexity_average": 2.0}])

    with pytest.raises(
        ValueError, match=r"^heldout .*'log_perplexity_average'.*'perplexity_average'"
    ):
        compare.compare(fit, [2], COUNTS, repeats=1, top=2)


@pytest.mark.parametrize(
    ("num_topics", "options", "message"),
    [
        ([], {}, "num_topics"),
        ([0], {}, "num_topics"),
        ([2], {"repeats": 0}, "repeats"),
        ([2], {"measure": "best"}, "measure"),
    ],
)
def test_bad_input(num_topics, options, message):
    with pytest.raises(ValueError, match=message):
        compare.compare(fake, num_topics, COUNTS, **options)


@pytest.mark.slow
def test_two_themes_want_two_topics():
    """Held-out perplexity of two disjoint themes: two topics halve that of one."""
    rng = np.random.default_rng(0)
    themes = np.repeat(np.eye(2), 5, axis=1) / 5
    table = np.array([rng.multinomial(40, themes[i % 2]) for i in range(60)])
    train, held = sp.csr_array(table[:40]), sp.csr_array(table[40:])

    def fit(k, seed):
        return lda.fit(train, k, heldout=(held, held), passes=60, seed=seed)

    one, two = compare.compare(fit, [1, 2], held, repeats=2, top=5)
    assert compare.estimate(two.heldout).mean < 0.6 * compare.estimate(one.heldout).mean
    assert compare.estimate(two.coherence).mean > 0.9 > compare.estimate(one.coherence).mean

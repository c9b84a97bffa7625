"""Fits of topics in slices: slices of times and groups, files, other documents, the commands."""

import dataclasses
import json
import re
import unicodedata
import warnings

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from scipy import signal
from support.fits import assert_same

from simplex_jax._src.cli import main
from simplex_jax._src.corpus import frames, from_counts, split_tokens
from simplex_jax._src.evaluate import matching
from simplex_jax._src.models import dtm
from simplex_jax._src.models.dtm import fitting, intervals, report, slices
from simplex_jax._src.models.dtm.options import Options, resolve_options
from simplex_jax._src.models.topics import report as topics
from simplex_jax._src.models.topics.concentrations import LEAST
from simplex_jax._src.models.topics.native import library
from simplex_jax._src.runtime import devices
from simplex_jax.sklearn import DynamicTopicModel

# One topic whose words change from a, b to c, d between the years, and one of e, f, g throughout.
YEARS = np.repeat([1914, 1944, 1974], 8)
SHIFT = np.array([[9, 6, 1, 0, 0, 0, 0], [4, 5, 5, 4, 0, 0, 0], [0, 1, 6, 9, 0, 0, 0]])
STEADY = np.array([0, 0, 0, 0, 6, 5, 4])
COUNTS = np.stack(
    [SHIFT[i // 8] if i % 2 else STEADY + (np.arange(7) == i % 7) for i in range(24)]
).astype(np.int32)
CORPUS = from_counts(COUNTS, tuple("abcdefg"))
OPTIONS = {"num_topics": 2, "static_passes": 20, "eval_every": 30, "seed": 1}


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def placed(times=None, groups=None, **options):
    count = len(times if times is not None else groups)
    return slices.sliced(np.ones((count, 2), int), times, groups, **options)


def resolved(counts, **options):
    return resolve_options(slices.sliced(counts), None, Options(**options))


def test_slices_of_years_decades_and_dates():
    data = placed([1919, 1914, 1931, 1920], slices="decade")
    assert data.slices.names == ("1910-1919", "1920-1929", "1930-1939")
    assert data.place.tolist() == [0, 0, 2, 1]
    assert data.slices.gaps.tolist() == [1, 10, 10]
    assert data.slices.parents.tolist() == [-1, 0, 1]
    assert data.slices.documents.tolist() == [2, 1, 1]
    dated = placed(["2001-12-31", "2002-01-01", "2004-06-01"])
    assert dated.slices.names == ("2001", "2002", "2004")
    assert dated.slices.gaps.tolist() == [1, 1, 2]
    # The middle of a year of dates is in July, half a year before the next one.
    assert dated.slices.times.tolist() == [2001.5, 2002.5, 2004.5]
    ahead = placed(["2001-12-31", "2002-01-01"], predict=["2003-01-01", "2003-01-02"]).slices
    assert ahead.gaps.tolist()[1:3] == [1, 0.5]
    assert ahead.names[2:] == ("2003 (predicted)", "2003.003 (predicted)")
    found = placed(["1914-05-01", "1919-05-01"]).slices.find("a", ["1916-07-15"])
    assert found.tolist() == [0]
    # A hundred years are decades unless told otherwise.
    assert len(placed(np.arange(1900, 2000)).slices.names) == 10
    assert len(placed(np.arange(1900, 2000), slices="year").slices.names) == 100


def test_slices_of_equal_numbers_keep_equal_times_together():
    times = np.array([3, 1, 2, 2, 2, 2, 9, 9, 7, 8])
    data = placed(times, slices=3)
    assert data.slices.names == ("1-2", "3-7", "8-9")
    for time in times:
        assert len(set(data.place[times == time])) == 1
    assert data.slices.documents.tolist() == [5, 2, 3]
    assert np.isclose(data.slices.times, [1.8, 5, 26 / 3]).all()
    assert len(placed([1, 1, 2], slices=50).slices.names) == 2
    days = placed([f"2020-01-{day:02}" for day in range(1, 8)], slices=7).slices.names
    assert days == (
        "2020",
        *(f"2020.{part}" for part in ("003", "005", "008", "011", "014", "016")),
    )


def test_a_prediction_may_be_one_time():
    for predict in ("2030", 2030, [2030]):
        assert placed([1914, 1919], predict=predict).slices.names[-1] == "2030 (predicted)"
    assert placed([1914, 1919], predict=None).slices.names == ("1914", "1919")


def test_groups_and_groups_in_time():
    grouped = placed(groups=["R", "D", "R"])
    assert grouped.slices.names == ("D", "R")
    assert grouped.place.tolist() == [1, 0, 1]
    assert grouped.slices.parents.tolist() == [-1, -1]
    assert not grouped.slices.timed
    both = placed([1, 2, 1, 3], ["R", "R", "D", "D"], predict=[9])
    assert both.slices.names == (
        *("D, 1", "D, 3", "D, 9 (predicted)"),
        *("R, 1", "R, 2", "R, 9 (predicted)"),
    )
    assert both.slices.parents.tolist() == [-1, 0, 1, -1, 3, 4]
    assert both.slices.gaps.tolist() == [1, 2, 6, 1, 1, 7]
    assert both.place.tolist() == [3, 4, 0, 1]
    # A group is not predicted before its own first slice.
    later = placed([1, 2, 5, 6], ["R", "R", "D", "D"], predict=[3]).slices
    assert later.names == ("D, 5", "D, 6", "R, 1", "R, 2", "R, 3 (predicted)")
    # At a time of which others have documents, only the groups that have none are.
    other = placed([1, 2, 1, 6], ["R", "R", "D", "D"], predict=[6]).slices
    assert other.names == ("D, 1", "D, 6", "R, 1", "R, 2", "R, 6 (predicted)")
    assert other.documents.tolist() == [1, 1, 1, 1, 0]
    assert other.parents.tolist() == [-1, 0, -1, 2, 3]
    decades = {"groups": ["R", "R", "D", "D"], "slices": "decade"}
    within = placed([1915, 1925, 1915, 1945], **decades, predict=[1943]).slices
    assert within.names[-1] == "R, 1940-1949 (predicted)"
    assert placed(groups=[1990, 2000, 1990]).slices.names == ("1990", "2000")
    assert placed(groups=["10", 2, "1.0", 10]).slices.names == ("1.0", "2", "10")
    days = ["14.3.2020", "2.12.2019", "13.1.2020"]
    assert placed(groups=days).slices.names == (days[1], days[2], days[0])
    spellings = [
        unicodedata.normalize(form, "caf\N{LATIN SMALL LETTER E WITH ACUTE}")
        for form in ("NFC", "NFD")
    ]
    assert placed(groups=spellings).slices.names == (spellings[0],)
    assert placed(groups=[True, False]).slices.names == ("False", "True")


def test_other_documents_find_their_slices():
    one = placed([1914, 1931, 1925], slices="decade", predict=[1950]).slices
    assert one.find("abcde", [1919, 1920, 1890, 1943, 2000]).tolist() == [0, 1, 0, 3, 3]
    both = placed([1, 2, 1, 3], ["R", "R", "D", "D"]).slices
    assert both.find("abc", [2, 2, 7], ["R", "D", "D"]).tolist() == [3, 0, 1]
    with pytest.raises(ValueError, match=r"give groups"):
        both.find("a", [2])
    with pytest.raises(ValueError, match=r"^groups: .* X: .*D, R$"):
        both.find("a", [2], ["X"])
    with pytest.raises(ValueError, match="leave out groups"):
        one.find("a", [2], ["X"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"times": [1990, None, 2000]}, r"^times: 1 of 3 .*, 'doc1'"),
        ({"times": ["1990", "soon", "2000"]}, r"times: 1 of 3 .*'soon' of 'doc1'"),
        ({"times": ["1/2/1990", "x", "2000-01-01"]}, r"^times: 2 of 3 .* '1/2/1990' of 'doc0'"),
        ({"times": ["3/4/2020"] * 3}, r"^times: 3 of 3 .*several dates: write .* 2020-03-14$"),
        ({"times": [20200131, 20200201, 20210101]}, r"^times: 20200131 .* hyphens"),
        ({"times": [202011, 202012, 202101]}, r"^times: 202011 .* hyphens"),
        ({"times": ["20200131", "20200201", "20210101"]}, r"^times: 20200131 "),
        ({"times": [1990, 1991, 1992], "predict": [20300101]}, r"^predict: 20300101 "),
        ({"times": [1990, 1991, 1992], "slices": [1, 2]}, r"^slices .*\[1, 2\]"),
        ({"times": [1990, 2000]}, r"^times .* 3 documents; .* 2$"),
        ({"groups": ["a", "", "b"]}, r"^groups: 1 of 3 .*, 'doc1': add"),
        ({"groups": ["NA", "DE", "US"]}, r"^groups: 1 of 3 .*, 'doc0' \('NA' "),
        ({"times": 1990}, "^column 'times' .* int: "),
        ({"times": "199"}, "^column 'times' .* str: "),
        ({"times": [1, 2, 3], "groups": ["a", "b", "b"], "predict": [1]}, r"^predict: 1 .* 1, "),
        ({"groups": ["a", "b", "c"], "slices": 3}, "give times"),
        ({"groups": ["a", "b", "c"], "slices": 1}, "give times"),
        ({"times": [1990, 1991, 1992], "predict": [1980]}, r"^predict: 1980 .* 1990"),
        ({"times": [1990, 1991, 1992], "slices": "month"}, r"^slices .*'month'$"),
        ({"times": [1990, 1991, 1992], "slices": 2.5}, r"^slices .*2\.5$"),
        ({"times": [1990, 1991, 1992], "predict": [1991]}, r"^predict: 1991 .* 1991"),
        ({"times": [1990, 1991, 1992], "predict": ["x"]}, r"^predict .*\['x'\]$"),
        ({"times": [1990, 1991, 1992], "batch_size": 2}, "batch_size must be 3, all documents"),
        ({"times": [1990, 1991, 1992], "heldout": (np.ones((1, 2), int),) * 2}, "give holdout"),
    ],
)
def test_what_is_missing_or_wrong_is_named(given, message):
    counts = from_counts(np.ones((3, 2), int), ["a", "b"], ["doc0", "doc1", "doc2"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=message):
            dtm.fit(counts, 2, **given)


def test_labels_in_another_order_are_refused(fitted):
    """Of pandas only, and only if they are those of the documents."""
    pd = pytest.importorskip("pandas")
    texts = pd.Series(["tea time", "war peace", "tea peace"], index=["a", "b", "c"])
    years = pd.Series([1990, 1991, 1992], index=["c", "a", "b"])
    with pytest.raises(ValueError, match=r"^times: .*to_numpy"):
        dtm.fit(texts, 2, times=years)
    with pytest.raises(ValueError, match=r"^groups: .*to_numpy"):
        fitted.transform(texts, groups=years)
    for rows, times in (
        (texts, years.loc[texts.index]),
        (list(texts), years),
        (texts, years.reset_index(drop=True)),
        (texts, None),
    ):
        frames.check_order(rows, {"times": times})


@pytest.fixture(scope="module")
def fitted():
    return dtm.fit(CORPUS, times=YEARS, predict=[1990], passes=240, **OPTIONS, holdout=3)


def test_a_fit_finds_the_change(fitted):
    first = fitted.topics_by_slice[0].argmax(axis=1)
    moving = int(np.flatnonzero(first == 0)[0])
    assert fitted.slices.names == ("1914", "1944", "1974", "1990 (predicted)")
    leading = [
        "".join(sorted(CORPUS.vocabulary[w] for w in row))
        for row in fitted.leading_words(moving, 2)
    ]
    assert leading[0] == "ab"
    assert leading[2] == "cd"
    assert {*"efg"} >= {CORPUS.vocabulary[w] for w in fitted.leading_words(1 - moving, 2).ravel()}
    assert (fitted.proportions[1::2, moving] > 0.8).all()
    np.testing.assert_allclose(fitted.topics_by_slice.sum(axis=2), 1, rtol=1e-3)
    np.testing.assert_allclose(fitted.prevalence_by_slice.sum(axis=1), 1, rtol=1e-3)
    # A prediction is less certain than what it continues.
    wide = fitted.topics_by_slice_sd[:, moving].sum(axis=1)
    assert wide[3] > wide[2]
    assert fitted.metrics[-1]["perplexity_average"] < fitted.metrics[0]["perplexity"]
    assert fitted.steadiness[moving] < fitted.steadiness[1 - moving]


@pytest.mark.slow
def test_topics_that_hardly_a_token_uses_are_not_stable():
    # The prior makes them alike, with an affinity beyond that of the same topic.
    counts = np.kron(np.eye(2, dtype=int), np.full((12, 20), 2))
    times = np.tile([1914, 1944, 1974], 8)
    fitted = dtm.fit(
        counts, 6, times=times, alpha=0.01, beta=0.5, passes=120, static_passes=40, seed=0
    )
    tokens = fitted.prevalence * counts.sum()
    assert fitted.stable[tokens > 100].all()
    empty = tokens < 1
    assert empty.any()
    assert (fitted.stability[empty] > matching.SAME).all()
    assert not fitted.stable[empty].any()


@pytest.mark.slow
def test_intervals_are_those_of_topics_that_all_chains_have(fitted):
    ends, kinds = fitted.prevalence_by_slice_interval, fitted.kinds
    assert (np.isnan(ends).any(axis=0) == (kinds == topics.NONE)).all()
    inside = (ends[0] <= fitted.prevalence_by_slice) & (fitted.prevalence_by_slice <= ends[1])
    assert inside[kinds != topics.NONE].all()
    words = [0, 1]
    known, kinds = fitted.interval(0, words), fitted.word_kinds(0, words)
    assert (np.isnan(known).any(axis=0) == (kinds == topics.NONE)).all()
    assert (known[0] < fitted.topics_by_slice[:, 0, words]).all()
    assert (known[1] > fitted.topics_by_slice[:, 0, words]).all()
    assert (kinds == topics.INTERVAL).any()
    few = dtm.fit(CORPUS, times=YEARS, predict=[1990], passes=80, **OPTIONS, holdout=3)
    assert 20 <= few.num_samples < 50
    assert few.stable.all()
    assert (few.kinds != topics.NONE).all()
    assert (few.kinds == topics.OVER_CHAINS).any()
    assert np.isfinite(few.prevalence_by_slice_interval).all()
    assert np.isfinite(few.steadiness_interval).all()
    fewer = dtm.fit(CORPUS, times=YEARS, passes=30, **OPTIONS, holdout=3)
    assert fewer.stable.all()
    assert (fewer.kinds == topics.NONE).all()
    assert np.isnan(fewer.prevalence_by_slice_interval).all()
    alone = dtm.fit(CORPUS, times=YEARS, passes=80, **OPTIONS, chains=1, holdout=3)
    assert (alone.kinds == topics.NONE).all()
    assert np.isnan(alone.interval(0, words)).all()
    assert np.isnan(alone.pace_interval).all()


def autoregressions(key, shape, size):
    """Return standard normal traces along the first axis, which are worth `size` samples."""
    rng, number = np.random.default_rng(key), shape[0]
    r = (number - size) / (number + size)
    steps = rng.normal(size=shape) * np.sqrt(1 - r * r)
    steps[0] = rng.normal(size=shape[1:])
    return signal.lfilter([1.0], [1.0, -r], steps, axis=0)


@pytest.mark.parametrize(("size", "apart", "expected"), [(300, 0, 600), (20, 0, 40), (300, 1, 10)])
def test_parts_of_chains_tell_the_effective_samples(size, apart, expected):
    # 100 words of 2 topics in 2 slices: the mean of the ratio F over words is within 15%.
    trace = autoregressions(0, (300, 2, 2, 2, 100), size)
    trace = trace + apart * np.random.default_rng(1).normal(size=(2, 2, 2, 100))
    parts = [intervals.Parts(trace.shape[1:]) for _ in range(3)]
    for i, sample in enumerate(trace):
        parts[i // 100].add(sample)
    whole = intervals.Parts(trace.shape[1:])
    for part in parts:
        whole.merge(part)
    order = np.array([[0, 1], [1, 0]])
    variance, effective = whole.analysed(order, np.ones((2, 2), bool))
    within = np.stack([trace[:, c, order[c]].var(axis=0, ddof=1) for c in range(2)]).mean(axis=0)
    np.testing.assert_allclose(variance, within, rtol=1e-4)
    f = 600 / effective
    exact = 600 / expected
    assert exact * 0.8 < f.mean() < max(exact, 1.4) * 1.25
    unshared = np.array([[True, True], [True, False]])
    assert (whole.analysed(order, unshared)[1][1] <= 300).all()


def test_intervals_hold_what_a_further_chain_draws(monkeypatch):
    # 400 quantities whose chains differ as much as a chain varies. A further chain differs from the
    # mean of two by a normal of variance 2.5, so its share in an interval has a deviation of about
    # 0.09 / sqrt(400) and intervals that are not widened hold 79%.
    rng = np.random.default_rng(2)
    level = rng.normal(size=(3, 400))
    trace = level + autoregressions(3, (500, 3, 400), 500)
    shown = np.full(400, topics.OVER_CHAINS)
    lower, upper = intervals.interval_of(trace[:, :2], shown)
    further = trace[:, 2]
    held = ((lower <= further) & (further <= upper)).mean()
    assert 0.92 < held < 0.98
    with monkeypatch.context() as planted:
        planted.setattr(intervals, "_widening", lambda mean, variance: np.ones(mean.shape[-1]))
        lower, upper = intervals.interval_of(trace[:, :2], shown)
        assert ((lower <= further) & (further <= upper)).mean() < 0.85
    # A chain that lacks a quantity: the other one is twice as far from a further chain.
    lacking = np.where(np.arange(400) % 4 == 0, np.nan, trace[:, 1])
    lower, upper = intervals.interval_of(np.stack([trace[:, 0], lacking], axis=1), shown)
    held = ((lower <= further) & (further <= upper))[:, ::4].mean()
    assert 0.9 < held < 0.99
    shown[0] = topics.NONE
    assert np.isnan(intervals.interval_of(trace[:, :2], shown)[:, 0]).all()
    one = intervals.interval_of(trace[:, :1], shown)[:, 1]
    np.testing.assert_allclose(one, np.quantile(trace[:, 0, 1], [0.025, 0.975]))


def test_intervals_are_no_wider_where_chains_agree_than_their_draws():
    # Half of 400 quantities differ between chains by ten deviations, the others by none: of these
    # an interval holds 95% of a further chain, widened like the rest nearly all of it.
    apart = np.arange(400) % 2
    level = np.random.default_rng(4).normal(size=(3, 400)) * 10 * apart
    trace = level + autoregressions(5, (500, 3, 400), 500)
    further = trace[:, 2, apart == 0]

    def held(ends):
        return ((ends[0] <= further) & (further <= ends[1])).mean()

    shown = np.where(apart, topics.OVER_CHAINS, topics.INTERVAL)
    ends = intervals.interval_of(trace[:, :2], shown)[:, apart == 0]
    assert 0.94 < held(ends) < 0.96
    widened = np.full(400, topics.OVER_CHAINS)
    assert held(intervals.interval_of(trace[:, :2], widened)[:, apart == 0]) > 0.99

    # The same quantities as words, of which each topic has 20 that differ and 20 that do not.
    words = 100 + trace[:, :2].reshape(500, 2, 10, 1, 40)
    mean, within = words.mean(axis=0), words.var(axis=0, ddof=1).mean(axis=0)
    known = np.broadcast_to(apart.reshape(10, 1, 40) == 0, within.shape)
    pooled = words.std(axis=(0, 1), ddof=1)
    order, shared = np.tile(np.arange(10), (2, 1)), np.ones((2, 10), bool)
    given = mean.mean(axis=0), pooled, known, mean, within, order, shared
    sd = intervals.deviations(*given)
    np.testing.assert_array_equal(sd[known], pooled[known])
    assert (sd[~known] > 4).all()
    shared[1, 0] = False  # then samples of one chain do not say that chains agree
    assert (intervals.deviations(*given)[0] > 4).all()


def test_other_documents_take_the_topics_of_their_slice(fitted):
    shift = int(fitted.topics_by_slice[0].argmax(axis=1).argmin())
    new = from_counts([[0, 0, 9, 9, 0, 0, 0]] * 2, CORPUS.vocabulary)
    shares = fitted.transform(new, times=[1914, 1974])
    assert shares[1, shift] > 0.9
    assert shares.shape == fitted.transform(new).shape == (2, 2)
    own = fitted.transform(CORPUS, times=YEARS)
    np.testing.assert_allclose(own, fitted.proportions, atol=0.03)
    late = fitted.score(CORPUS, times=YEARS)
    assert late > fitted.score(CORPUS, times=YEARS[::-1]) + 0.1
    assert late > fitted.score(CORPUS)
    with pytest.raises(ValueError, match="have no time"):
        fitted.transform(new, times=[1914, None])


@pytest.mark.parametrize("own", [None, 2.5])
def test_a_prediction_counts_what_the_other_half_repeats(own):
    """With one topic, whose probabilities are known, it is a formula."""
    topics = np.array([[[0.5, 0.3, 0.2]], [[0.1, 0.2, 0.7]]])  # two slices
    counts = sp.csr_array([[4, 0, 1], [2, 2, 0], [0, 5, 3], [1, 0, 1]])
    place = np.array([1, 0, 1, 0])
    observed, target = (half.toarray() for half in split_tokens(counts, 7))
    p = topics[place, 0]
    if own is not None:
        p = (own * p + observed) / (own + observed.sum(axis=1, keepdims=True))
    expected = np.exp(-(target * np.log(p)).sum() / target.sum())
    seen = fitting.perplexity_of(topics, np.full((2, 1), 0.3), own, counts, place, seed=7)
    np.testing.assert_allclose(seen, expected, rtol=1e-5)


def test_a_word_that_is_impossible_in_its_slice_is_predicted_by_its_repeats():
    own, counts = 2.5, sp.csr_array([[3, 2, 9]])
    observed, target = (half.toarray() for half in split_tokens(counts, 7))
    assert observed[0, 2] > 0 < target[0, 2]
    p = (own * np.array([0.6, 0.4, 0.0]) + observed) / (own + observed.sum())
    expected = np.exp(-(target * np.log(p)).sum() / target.sum())
    topics = np.array([[[0.6, 0.4, 0.0]]])
    seen = fitting.perplexity_of(topics, np.ones((1, 1)), own, counts, np.zeros(1, int), seed=7)
    np.testing.assert_allclose(seen, expected, rtol=1e-5)


@pytest.mark.slow
def test_bursts_are_learned_and_can_be_left_out():
    rng = np.random.default_rng(0)
    own = rng.dirichlet(np.full(12, 6.0 / 12), 60)  # bursts of concentration 6
    counts = np.stack([rng.multinomial(40, p) for p in own])
    shared = {"times": np.arange(60) % 3, "num_topics": 1, "passes": 300, "chains": 1}
    fitted = dtm.fit(counts, **shared, static_passes=100)
    assert 4 < fitted.document_steadiness[0] < 9
    without = dtm.fit(counts, **shared, static_passes=100, document_steadiness="none")
    assert np.isnan(without.document_steadiness).all()
    assert without.steadiness[0] < fitted.steadiness[0]
    with pytest.raises(ValueError, match=r"document_steadiness.*learn or none"):
        dtm.fit(counts, **shared, document_steadiness="some")


def test_an_engine_that_a_gpu_lacks_is_not_announced(monkeypatch):
    for name, value in {"platform": "cuda", "works": True, "most_topics": 10_000}.items():
        monkeypatch.setattr(library, name, lambda value=value: value)
    counts, shared = np.ones((4, 3), int), {"num_topics": 2, "passes": 4}
    assert resolved(counts, **shared).engine == "xla"
    # As for a run that began on a CPU.
    assert resolved(counts, **shared, engine="native").engine == "xla"
    assert resolved(counts, **shared, document_steadiness="none").engine == "native"


def test_a_document_beyond_what_can_be_counted_is_refused():
    counts = np.array([[2**24, 1], [1, 1]])
    with pytest.raises(ValueError, match=r"document 0 has 16777217 tokens.*split it"):
        dtm.fit(counts, 2, times=[1, 2], passes=4, holdout=0)


@pytest.mark.slow
def test_a_run_is_used_where_its_engine_is_missing(fitted, monkeypatch):
    settings = dataclasses.replace(fitted.settings, engine="native")
    brought = dataclasses.replace(fitted, settings=settings)
    monkeypatch.setattr(library, "works", lambda: False)
    for times in (None, YEARS):
        shares = brought.transform(CORPUS, times=times)
        np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-5)


def test_slices_that_need_more_memory_than_there_is_are_refused(monkeypatch):
    monkeypatch.setattr(devices, "memory", lambda: 10_000)
    with pytest.raises(ValueError, match="fewer slices"):
        dtm.fit(np.ones((100, 2), int), 2, groups=[*range(50)] + [0] * 50, passes=4)


def test_without_static_passes_the_perplexity_is_judged(fitted):
    records = [{"step": 10 * i, "perplexity": p} for i, p in enumerate([5.0, 9.0, 9.0, 9.0], 1)]
    for static, said in ((0, True), (5, False)):
        settings = dataclasses.replace(fitted.settings, static_passes=static)
        short = dataclasses.replace(fitted, metrics=records, settings=settings)
        assert any("did not fall" in sentence for sentence in report.warn(short)) == said


def test_groups_may_look_like_dates(recwarn):
    assert placed(groups=[20200101, 20200102]).slices.names == ("20200101", "20200102")
    assert not recwarn.list


def test_files_hold_the_fit(fitted, tmp_path):
    fitted.save(tmp_path / "run")
    loaded = dtm.Fit.load(tmp_path / "run")
    assert_same(loaded, fitted, "state", "samples", "interrupted", "settings", "versions")
    rows = (tmp_path / "run" / "topics_over_time.csv").read_text().splitlines()
    assert rows[0] == "topic,slice,time,group,word,mean,lower,upper,interval"
    assert len(rows) - 1 == 2 * 4 * 7
    assert len((tmp_path / "run" / "prevalence_over_time.csv").read_text().splitlines()) == 9
    page = (tmp_path / "run" / "report.html").read_text()
    assert "1990 (predicted)" in page
    # So that arrows point onwards after words that are written from right to left, too.
    assert re.search(r"<bdi>\w</bdi> [\d.<]+%[^<>]* → ", page)
    assert "<script" not in page


def test_a_plot_shows_words_by_slice(fitted):
    axes = fitted.plot(0, ["a", "g"])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "g"]
    assert len(axes.lines[0].get_xdata()) == 4
    assert len(fitted.plot(1, 3).lines) == len(fitted.plot(1, np.int64(3)).lines) == 3
    assert len(fitted.plot(0, "a").lines) == 1
    for wrong, message in (
        ({"topic": 2}, r"topic .* 0 to 1"),
        ({"topic": 0, "words": ["zebra"]}, "zebra"),
        ({"topic": 0, "group": "D"}, r"^group .*'D'$"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted.plot(**wrong)


@pytest.mark.slow
def test_a_pace_is_reported_only_where_a_slice_continues_another(fitted):
    assert any("pace" in name for name in report.context(fitted, 3)["concentrations"])
    one = dtm.fit(CORPUS, times=[1914] * len(YEARS), passes=25, slices="year", **OPTIONS)
    assert not any("pace" in name for name in report.context(one, 3)["concentrations"])


def test_a_categorical_of_years_has_times():
    pandas = pytest.importorskip("pandas")
    years = pandas.Series(["1914", "1931", "1914"], dtype="category")
    for times in (years, years.astype(int).astype("category")):
        assert placed(times).slices.names == ("1914", "1931")


@pytest.mark.slow
def test_one_slice_is_said_to_be_one():
    fit = dtm.fit(CORPUS, passes=25, **OPTIONS)
    assert fit.slices.names == ("all",)
    assert any("in one slice" in line for line in fit.warnings)
    same = dtm.fit(CORPUS, passes=25, slices=1, **OPTIONS)
    np.testing.assert_array_equal(same.topics, fit.topics)
    with pytest.raises(ValueError, match="documents with times"):
        dtm.fit(CORPUS, passes=25, slices=2, **OPTIONS)
    fit = dtm.fit(CORPUS, times=YEARS, passes=10, **OPTIONS)
    assert any("not change yet" in line for line in fit.warnings)
    # Longer than the static passes, and not just than the run.
    assert "passes=80" in fit.verdict[-1]
    assert "static_passes=20" in fit.verdict[-1]


def test_two_thirds_of_the_passes_are_static_by_default():
    options = {"num_topics": 2, "times": YEARS, "seed": 1}
    fit = dtm.fit(CORPUS, passes=24, **options)
    assert fit.settings.static_passes == 16
    assert "passes=24" in fit.again
    assert "static_passes=16" in fit.again
    assert "passes=96" in fit.verdict[-1]
    assert "static_passes=16" in fit.verdict[-1]
    for given, expected in (({"passes": 5000}, 1000), ({"seconds": 9.0}, 150), ({}, 1000)):
        assert resolved(CORPUS, **given).static_passes == expected


@pytest.mark.slow
def test_one_topic_has_a_share_of_one():
    fit = dtm.fit(CORPUS, 1, groups=YEARS, passes=60, static_passes=5, chains=1)
    np.testing.assert_allclose(fit.prevalence_by_slice, 1)
    assert (fit.kinds == topics.INTERVAL).all()
    assert np.isfinite(fit.topics_by_slice).all()


@pytest.mark.slow
def test_a_run_is_resumed_to_the_same_fit(tmp_path):
    options = OPTIONS | {"times": YEARS, "keep_samples": 2}
    whole = dtm.fit(CORPUS, passes=60, **options)
    dtm.fit(CORPUS, passes=30, **options, checkpoint=tmp_path, checkpoint_every=0)
    longer = dtm.fit(CORPUS, passes=60, **options, checkpoint=tmp_path, resume=True)
    assert_same(longer, whole, "metrics", "again")
    assert whole.samples["topics"].shape == (2, 2, 2, 3, 7)
    assert "times=times" in whole.again


def table_of(tmp_path, years=True):
    path = tmp_path / "texts.csv"
    lines = ["id,text,year,party"]
    for i in range(24):
        words = " ".join(
            word * 3 for word, n in zip("abcdefg", COUNTS[i], strict=True) for _ in range(n)
        )
        lines.append(f"d{i},{words},{YEARS[i] if years else ''},{'DR'[i % 2]}")
    path.write_text("\n".join(lines))
    return path


READING = ["--min-df", 1, "--max-df", 1.0, "--stop-words", "none", "--quiet"]


@pytest.mark.slow
def test_the_command_reads_columns(tmp_path):
    texts, out = table_of(tmp_path), tmp_path / "run"
    options = [*READING, "--topics", 2, "--passes", 60, "--static-passes", 20, "--holdout", 2]
    result = invoke("dtm", texts, "--time", "year", *options, "--out", out)
    assert result.exit_code == 0, result.output
    run = dtm.Fit.load(out)
    assert run.slices.names == ("1914", "1944", "1974")
    assert run.place.tolist() == np.repeat([0, 1, 2], 8).tolist()
    again = invoke("dtm", "--resume", out, "--passes", 70, "--quiet")
    assert again.exit_code == 0, again.output
    shares = tmp_path / "shares.csv"
    one = ["--model", out, "--quiet"]
    assert invoke("dtm", "transform", texts, *one, "--time", "year", "--out", shares).exit_code == 0
    assert len(shares.read_text().splitlines()) == 25
    dated = json.loads(invoke("dtm", "evaluate", texts, *one, "--time", "year").stdout)
    undated = json.loads(invoke("dtm", "evaluate", texts, *one).stdout)
    assert dated["perplexity"] < undated["perplexity"]


@pytest.mark.slow
def test_the_command_reads_groups_from_another_file(tmp_path):
    texts, out = table_of(tmp_path), tmp_path / "run"
    metadata = tmp_path / "about.csv"
    metadata.write_text("id,side\n" + "\n".join(f"d{i},{'LR'[i % 2]}" for i in reversed(range(24))))
    options = [*READING, "--topics", 2, "--passes", 6, "--static-passes", 2, "--chains", 1]
    columns = ["--by", "side", "--metadata", metadata]
    needed = invoke("dtm", texts, *columns, *options, "--dry-run")
    assert needed.exit_code == 0, needed.output
    assert "in all" in needed.stdout
    assert not out.exists()
    assert invoke("dtm", texts, *columns, *options, "--out", out).exit_code == 0
    run = dtm.Fit.load(out)
    assert run.slices.names == ("L", "R")
    assert run.place.tolist() == [0, 1] * 12
    axes = run.plot(0, 2)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["L", "R"]


def test_the_command_says_what_is_missing(tmp_path):
    texts = table_of(tmp_path, years=False)
    said = invoke("dtm", texts, *READING)
    assert said.exit_code == 2
    assert "--time COLUMN" in said.stderr
    said = invoke("dtm", texts, "--by", "party", "--slices", 3, *READING)
    assert "--slices and --predict are" in said.stderr
    said = invoke("dtm", texts, "--by", "party", "--slices", 1, *READING)
    assert "--slices and --predict are" in said.stderr
    said = invoke("dtm", texts, "--time", "year", "--slices", "week", *READING)
    assert "year, decade or" in said.stderr
    said = invoke("dtm", texts, "--time", "year", *READING)
    assert said.exit_code == 1
    assert "24 of 24 documents have" in said.stderr
    said = invoke("dtm", "--by", "party")
    assert "--by requires INPUT" in said.stderr


def test_shares_that_underflow_are_concentrations_above_0(fitted):
    """Of topics that groups do not share: proportions need positive concentrations."""
    paths = fitted.state.prevalence
    state = fitted.state._replace(prevalence=paths._replace(position=paths.position - 200))
    slices, topics = paths.position.shape[-2:]
    read = fitting._read(state, jnp.ones((topics, slices)), jnp.ones(slices) / slices)
    np.testing.assert_allclose(read["alpha_by_slice"], LEAST, rtol=1e-6)


def test_an_estimator_without_bursts_is_saved(tmp_path):
    options = {"passes": 3, "static_passes": 1, "document_steadiness": "none", "random_state": 0}
    estimator = DynamicTopicModel(n_components=2, **options).fit(COUNTS, times=YEARS)
    estimator.save(tmp_path / "one.npz")
    assert DynamicTopicModel.load(tmp_path / "one.npz").document_steadiness_ is None


def test_the_estimator_is_the_fit_of_the_core():
    options = {"passes": 30, "static_passes": 10}
    core = dtm.fit(COUNTS, 2, times=YEARS, seed=3, **options)
    estimator = DynamicTopicModel(n_components=2, random_state=3, **options)
    shares = estimator.fit_transform(COUNTS, times=YEARS)
    np.testing.assert_array_equal(shares, core.proportions)
    np.testing.assert_array_equal(estimator.components_by_slice_, core.topics_by_slice)
    assert estimator.slices_.names == core.slices.names
    np.testing.assert_array_equal(estimator.transform(COUNTS), core.transform(COUNTS, seed=3))

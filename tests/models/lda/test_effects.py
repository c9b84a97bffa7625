"""Effects of covariates on topic shares: intervals hold what is true, and Python asks as files do.

The simulations draw everything from the model itself: topics from Dirichlet(0.1), the share t of
the first topic in a document from Beta(2, 2), and its group from t, so that shares are Beta(3, 2)
in one and Beta(2, 3) in the other, which differ by 1/5 on the average.
"""

import io

import matplotlib as mpl
import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from simplex_jax._src.corpus import from_counts
from simplex_jax._src.evaluate import composition, matching
from simplex_jax._src.models import lda
from simplex_jax._src.models.lda import regression

EFFECT, WORDS = 0.2, 30


def simulated(rng, documents, tokens):
    """Counts, groups and topics of a corpus."""
    topics = rng.dirichlet(np.full(WORDS, 0.1), 2)
    first = rng.beta(2, 2, documents)
    group = rng.random(documents) < first
    words = np.stack([first, 1 - first], axis=1) @ topics
    counts = sp.csr_array(np.array([rng.multinomial(tokens, p) for p in words]))
    return counts, group, topics


def fit(counts, seed, **options):
    settings = {"alpha": 2.0, "beta": 0.1, "steps": 300, "holdout": 0, "keep_samples": 20}
    return lda.fit(counts, 2, seed=seed, **(settings | options))


def of_means(fitted, counts, group, level):
    """The interval of a regression that takes the shares' posterior means for the shares."""
    del counts
    matrix = np.linalg.qr(np.column_stack([np.ones(len(group)), group]))
    asked = np.linalg.solve(matrix.R.T, [0.0, 1.0])[None]
    result = composition.Regression(matrix.Q, asked).of(fitted.proportions)
    pooled = composition.pool(result.mean[None], result.error[None], result.freedom, level=level)
    return pooled.lower[:, 0], pooled.upper[:, 0]


def of_effects(fitted, counts, group, level):
    result = lda.effects(fitted, counts, {"group": group}, level=level, seed=fitted.settings.seed)
    assert result.terms[-1].label == "True - False"
    return result.lower[:, -1], result.upper[:, -1]


def without_errors(fitted, counts, group, level):
    """The interval over draws of the shares alone, as if these were all documents there are."""
    with pytest.MonkeyPatch.context() as patch:
        whole = composition.Regression.of

        def certain(self, values):
            result = whole(self, values)
            return result._replace(error=0 * result.error)

        patch.setattr(composition.Regression, "of", certain)
        return of_effects(fitted, counts, group, level)


def held(intervals, seed, repeats=200, documents=20, tokens=10, level=0.9):
    """How many of so many intervals hold the effect."""
    rng = np.random.default_rng(seed)
    number = dict.fromkeys(intervals, 0)
    for repeat in range(repeats):
        counts, group, topics = simulated(rng, documents, tokens)
        fitted = fit(counts, repeat)
        first = matching.match(topics, fitted.topics).order[0]
        for one in intervals:
            lower, upper = one(fitted, counts, group, level)
            number[one] += bool(lower[first] <= EFFECT <= upper[first])
    return number


@pytest.mark.slow
def test_intervals_hold_a_known_effect(seed):
    """At 90%, in 200 corpora of 20 documents of 10 words; false alarm 1e-3 where 90% hold it.

    183 of the 200 hold it (178 with another seed): the intervals are wider than they would be for
    known shares, and about a mean that is drawn towards 0, 0.12 for 0.2. Mutants that ignore the
    uncertainty of the shares (147, 157), or that of the documents (101), are rejected.
    """
    number = held((of_effects, of_means, without_errors), seed)
    least = stats.binom.ppf(1e-3, 200, 0.9)
    assert number[of_effects] >= least
    assert number[of_means] < least
    assert number[without_errors] < least


@pytest.fixture(scope="module")
def corpus():
    counts, group, _ = simulated(np.random.default_rng(1), 60, 80)
    return counts, np.where(group, "b", "a")


@pytest.fixture(scope="module")
def fitted(corpus):
    return fit(corpus[0], 3, chains=2, keep_samples=6)


def test_a_fit_and_columns_give_terms_intervals_and_a_picture(fitted, corpus):
    counts, group = corpus
    years = np.arange(60) + 1950
    result = lda.effects(fitted, counts, {"group": group, "year": years}, by="group")
    assert [term.label for term in result.terms] == ["a", "b", "b - a"]
    assert (result.documents, result.draws) == (60, 12)
    # Shares sum to one, and so do their means: those of a group do, and differences cancel.
    np.testing.assert_allclose(result.mean.sum(axis=0), [1, 1, 0], atol=1e-5)
    assert (result.lower < result.mean).all()
    assert (result.mean < result.upper).all()
    both = lda.effects(fitted, counts, {"group": group, "year": years}, every=20, sweeps=5)
    labels = [term.label for term in both.terms if term.column == "year"]
    assert labels[:4] == ["1940-1959", "1960-1979", "1980-1999", "2000-2019"]
    records = list(both.rows())
    names = ["topic", "column", "term", "kind", "mean", "sd", "lower", "upper", "level", "ordered"]
    assert list(records[0]) == names
    assert {record["column"]: record["ordered"] for record in records} == {
        "group": False,
        "year": True,
    }
    assert (records[0]["column"], records[0]["term"]) == ("group", "group=a")
    with mpl.rc_context({"backend": "Agg"}):
        figure = both.plot([1])
    assert [axes.get_xlabel() for axes in figure.axes] == ["group", "year"]
    assert len(lda.effects(fitted, counts, {"year": years}, sweeps=2).plot().axes) == 2


def test_effects_of_columns_stay_apart_whatever_their_names(fitted, corpus):
    known = [
        list(lda.effects(fitted, corpus[0], {name: corpus[1]}, sweeps=2).rows())
        for name in ("k=1", "k=2", "k: 3")
    ]
    both = regression.joined(regression.joined(known[0], known[1]), known[2])
    assert [record["column"] for record in both[:: len(known[0])]] == ["k=1", "k=2", "k: 3"]
    assert regression.joined(both, known[1])[-1] == known[1][-1]
    assert len(regression.joined(both, known[1])) == len(both) == 3 * len(known[0])


def test_dollar_signs_are_drawn(fitted, corpus):
    prices = np.where(corpus[1] == "a", "$10-$20", "$20-$50")
    result = lda.effects(fitted, corpus[0], {"price in $": prices}, sweeps=2)
    file, titles = io.StringIO(), tuple(rf"{t}: $10 $\none$" for t in range(2))
    with mpl.rc_context({"svg.fonttype": "none"}):
        result._replace(titles=titles).plot().savefig(file, format="svg")
    for text in ("price in $", "$10-$20", "$20-$50", *titles):
        assert f">{text}</text>" in file.getvalue()


def test_draws_are_of_the_seed(fitted, corpus):
    counts, group = corpus
    one, same, other = (
        lda.effects(fitted, counts, {"group": group}, seed=seed).mean for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_topics_are_of_the_chains_that_have_them(fitted, corpus, monkeypatch):
    """With the second chain's first topic not shared, it has the mean of the first chain."""
    counts, group = corpus
    alone = fitted.shared.copy()
    alone[1, 0] = False
    both = lda.effects(fitted, counts, {"group": group})
    monkeypatch.setitem(fitted.__dict__, "shared", alone)
    first = lda.effects(fitted, counts, {"group": group})
    np.testing.assert_array_equal(both.mean[1], first.mean[1])
    assert (both.mean[0] != first.mean[0]).all()


def test_reasons_for_care_are_said(corpus):
    counts, group = corpus
    few = fit(counts, 4, keep_samples=2, steps=60)
    table = sp.vstack([counts, sp.csr_array((1, WORDS), dtype=counts.dtype)]).tocsr()
    columns = {"group": [*group[:58], None, "c", "a"]}
    said = "\n".join(lda.effects(few, table, columns, sweeps=2).warnings)
    assert "1 document without" in said
    assert "missing covariate" in said
    assert "2 draws of" in said
    assert "5 documents are in group=c" in said


def test_a_number_far_from_all_others_is_warned_of(fitted, corpus):
    counts, group = corpus
    income = [*np.linspace(1, 2, len(group) - 1), 1e4]
    said = "\n".join(lda.effects(fitted, counts, {"income": income}, sweeps=2).warnings)
    assert "1 document with numbers" in said
    assert f"'{len(group) - 1}' (leverage 1.00)" in said
    usual = lda.effects(fitted, counts, {"income": np.log(income)}, sweeps=2, every=1).warnings
    assert "far from" not in "\n".join(usual)


def test_documents_of_another_vocabulary_are_mapped(fitted, corpus):
    counts, group = corpus
    words = fitted.vocabulary
    turned = from_counts(counts[:, ::-1], words[::-1])
    one = lda.effects(fitted, from_counts(counts, words), {"group": group})
    np.testing.assert_array_equal(one.mean, lda.effects(fitted, turned, {"group": group}).mean)


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        ({"group": ["a", "b"]}, {}, "column 'group' has 2 values for 60 documents"),
        ({"group": ["a", "b"] * 30}, {"by": "party"}, "no column 'party'"),
        ({"group": ["a"] * 60}, {}, r"column 'group' .* 'a'"),
        ({"group": ["a", "b"] * 30}, {"level": 1}, r"level .* 1; it is 1"),
        ({"group": ["a", "b"] * 30}, {"level": "a"}, r"level .* 'a'"),
        ({"group": ["a", "b"] * 30}, {"sweeps": 0}, "sweeps"),
        ({"year": range(60)}, {"every": 10, "smooth": 3}, "every .* and smooth .*: give one of"),
    ],
)
def test_what_cannot_be_answered_is_refused(fitted, corpus, columns, options, says):
    with pytest.raises(ValueError, match=says):
        lda.effects(fitted, corpus[0], columns, **options)


def test_a_fit_without_samples_is_refused(corpus, fitted, tmp_path):
    bare = fit(corpus[0], 3, keep_samples=0, steps=20)
    with pytest.raises(ValueError, match=r"^the fit .*keep_samples=50"):
        lda.effects(bare, corpus[0], {"group": corpus[1]})
    with pytest.raises(ValueError, match="has no samples"):
        lda.effects(fitted, corpus[0], {"group": corpus[1]}, samples=tmp_path)


def test_what_is_missing_is_a_type_error(fitted, corpus):
    with pytest.raises(TypeError, match=r"effects\(\) .*: 'columns'"):
        lda.effects(fitted, corpus[0])
    with pytest.raises(TypeError, match=r"effects\(\) .* 'evry'"):
        lda.effects(fitted, corpus[0], {}, evry=1)

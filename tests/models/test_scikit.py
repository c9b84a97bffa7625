"""The estimators: the scikit-learn interface over the core, which is tested elsewhere."""

import copy
import signal

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from support.cut_runs import Cut

from simplex_jax._src.evaluate import compare, exports
from simplex_jax._src.models import dpm, hdp, lda, sam
from simplex_jax._src.runtime import hooks
from simplex_jax._src.runtime.saved import RunError
from simplex_jax.sklearn import (
    LDA,
    DirichletProcessMixture,
    HierarchicalDirichletProcess,
    SphericalAdmixture,
)

TEXTS = ["cat dog cat mouse", "dog cat dog", "sun moon sun star", "moon sun moon"] * 5
ALPHA = [0.1, 0.3]
SPHERICAL = {"n_components": 2, "alpha": 1.0, "kappa1": 100.0, "passes": 20, "random_state": 1}


@pytest.fixture(scope="module")
def counts():
    return CountVectorizer().fit_transform(TEXTS)


@pytest.fixture(scope="module")
def fitted(counts):
    return LDA(2, alpha=ALPHA, passes=30, random_state=3, keep_samples=4).fit(counts)


def test_it_is_the_fit_of_the_core(counts, fitted):
    core = lda.fit(sp.csr_array(counts), 2, alpha=ALPHA, passes=30, seed=3, keep_samples=4)
    np.testing.assert_array_equal(fitted.components_, core.topics)
    np.testing.assert_array_equal(fitted.transform(counts), core.proportions)
    np.testing.assert_array_equal(fitted.samples_["topics"], core.samples["topics"])
    again = clone(fitted)
    np.testing.assert_array_equal(again.fit_transform(counts), core.proportions)


@pytest.mark.parametrize(
    ("estimator", "model"),
    [
        (LDA(2, passes=4), lda),
        pytest.param(HierarchicalDirichletProcess(passes=4), hdp, marks=pytest.mark.slow),
        pytest.param(SphericalAdmixture(2, passes=4, normalise=True), sam, marks=pytest.mark.slow),
        pytest.param(DirichletProcessMixture("multinomial", passes=4), dpm, marks=pytest.mark.slow),
    ],
    ids=lambda value: type(value).__name__,
)
def test_warnings_are_those_of_the_fit(estimator, model, counts, monkeypatch):
    fits, fit = [], model.fit

    def remember(*data, **options):
        fits.append(fit(*data, **options))
        return fits[-1]

    monkeypatch.setattr(model, "fit", remember)
    estimator = clone(estimator).set_params(random_state=0).fit(counts)
    assert estimator.warnings_ == fits[0].warnings
    assert any("gives more" in sentence for sentence in estimator.warnings_)


@pytest.mark.slow
def test_texts_without_a_known_word_are_put_aside_by_the_spherical_one():
    vectors = TfidfVectorizer().fit_transform(TEXTS)
    model = SphericalAdmixture(**SPHERICAL)
    model.fit(vectors)
    turned = model.transform(vectors[::-1])[::-1]
    assert (turned != model.transform(vectors)).any()  # as of LDA, see below
    more = sp.vstack([vectors[:2], 0 * vectors[:1], vectors[2:3]])
    with pytest.warns(UserWarning, match=r"1 zero vectors.* row 2, counted from 0"):
        result = model.transform(more)
    np.testing.assert_array_equal(result[2], [0.5, 0.5])
    np.testing.assert_array_equal(result[[0, 1, 3]], model.transform(vectors[:3]))
    with (
        pytest.warns(UserWarning, match="zero"),
        pytest.raises(ValueError, match=r"row 3 .* has length 2"),
    ):
        model.transform(sp.vstack([more[:3], 2 * more[3:]]))
    with pytest.warns(UserWarning, match="zero"):
        np.testing.assert_array_equal(model.transform(0 * vectors[:2]), np.full((2, 2), 0.5))
    with (
        pytest.warns(UserWarning, match="zero"),
        pytest.raises(ValueError, match="have no density"),
    ):
        model.score(0 * vectors[:2])
    with pytest.raises(ValueError, match="zero vectors only"):
        model.fit(0 * vectors)


@pytest.mark.slow
def test_the_spherical_one_too():
    vectors = TfidfVectorizer().fit_transform(TEXTS)
    model = SphericalAdmixture(2, alpha=1.0, kappa1=100.0, passes=30, random_state=1)
    core = sam.fit(sp.csr_array(vectors), 2, alpha=1.0, kappa1=100.0, passes=30, seed=1)
    np.testing.assert_array_equal(model.fit_transform(vectors), core.proportions)
    np.testing.assert_array_equal(model.components_, core.topics)
    assert model.log_perplexity(vectors) == -model.score(vectors)
    with pytest.raises(ValueError, match="has length 5, not 1"):
        model.transform(np.eye(model.n_features_in_) * 5)


def test_ctrl_c_ends_a_search_and_leaves_what_was_sampled(counts, fitted):
    cut = Cut(number=signal.SIGINT)
    model = clone(fitted).set_params(callbacks=[cut])
    with pytest.raises(KeyboardInterrupt, match="SIGINT"):
        model.fit(counts)
    assert len(cut.steps) == 1
    np.testing.assert_allclose(model.components_.sum(axis=1), 1, rtol=1e-5)
    assert [record["step"] for record in model.metrics_] == cut.steps
    assert model.transform(counts).shape == (20, 2)
    cut = Cut(number=signal.SIGINT)
    model.set_params(callbacks=[lambda event: cut(event)])  # a search copies what is not a function
    everything = np.arange(len(TEXTS))
    search = GridSearchCV(model, {"beta": [0.05, 0.1]}, cv=[(everything, everything)])
    with pytest.raises(KeyboardInterrupt):
        search.fit(counts)
    assert len(cut.steps) == 1


@pytest.mark.slow
def test_ctrl_c_ends_a_fit_of_the_spherical_one():
    vectors, cut = TfidfVectorizer().fit_transform(TEXTS), Cut(number=signal.SIGINT)
    model = SphericalAdmixture(**SPHERICAL, callbacks=[cut])
    with pytest.raises(KeyboardInterrupt, match="SIGINT"):
        model.fit(vectors)
    assert len(cut.steps) == len(model.metrics_) == 1
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1, rtol=1e-5)


def test_proportions_do_not_depend_on_the_place_in_a_call(fitted):
    same = np.ones((len(TEXTS), 6), int)
    shares = fitted.transform(same)
    np.testing.assert_array_equal(fitted.transform(same[:1]), shares[:1])
    assert (shares == shares[0]).all()


def test_a_generator_is_a_random_state(counts):
    models = [
        LDA(2, passes=2, random_state=np.random.default_rng(seed)).fit(counts) for seed in (0, 0, 1)
    ]
    assert models[0].seed_ == models[1].seed_ != models[2].seed_


@pytest.mark.parametrize("random_state", [-1, 2**33])
def test_a_stream_has_the_seeds_of_a_fit(random_state):
    for use in (LDA.fit, LDA.partial_fit):
        with pytest.raises(ValueError, match=r"^random_state must be"):
            use(LDA(2, random_state=random_state), [[1, 2]])


def test_hooks_that_show_progress_can_be_copied(capsys):
    """As by `clone` and every search of scikit-learn."""
    hook = clone(LDA(2, callbacks=[hooks.Progress()])).callbacks[0]
    hook.finish(hooks.Event(3, 0, 3, 1.0, 0.0, None, (), {}))
    assert "step 3/3" in capsys.readouterr().err


def test_documents_of_given_shares_are_mixtures_of_topics(counts, fitted):
    shares = fitted.transform(counts)
    words = fitted.inverse_transform(shares)
    np.testing.assert_allclose(words.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(words, shares @ fitted.components_)
    np.testing.assert_allclose(fitted.inverse_transform(sp.csr_array(shares)), words, rtol=1e-6)
    with pytest.raises(ValueError, match=r"X has 3 columns, .* 2 topics"):
        fitted.inverse_transform(np.ones((1, 3)))


def test_a_pipeline_names_topics_and_words():
    pipeline = make_pipeline(CountVectorizer(), LDA(2, passes=10, random_state=0))
    shares = pipeline.fit_transform(TEXTS)
    assert shares.shape == (20, 2)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-5)
    assert list(pipeline.get_feature_names_out()) == ["lda0", "lda1"]


def test_scores_prefer_the_documents_of_the_model(counts, fitted):
    shuffled = np.random.default_rng(0).permuted(counts.toarray(), axis=1)
    assert fitted.score(counts) > fitted.score(shuffled)
    assert fitted.perplexity(counts) == pytest.approx(np.exp(-fitted.score(counts)))
    (entry,) = compare.compare(
        lambda k, seed: fitted,
        [2],
        counts,
        repeats=1,
        heldout=lambda model: model.perplexity(counts),
    )
    assert entry.heldout == fitted.perplexity(counts)
    assert np.isfinite(entry.coherence).all()


@pytest.mark.slow
def test_batches_that_stream_by_find_the_topics(counts):
    model = LDA(2, alpha="learn-asymmetric", total_samples=20, random_state=0, step_size=0.5)
    for _ in range(40):
        model.partial_fit(counts)
    assert model.n_updates_ == 40
    np.testing.assert_allclose(model.components_.sum(axis=1), 1, rtol=1e-5)
    side = model.transform(counts).argmax(axis=1)
    assert (side[::4] != side[2::4]).all()
    # From 32 updates on a mean of nine of them: nearer to its neighbours than a sample is.
    before = model.components_.copy()
    model.partial_fit(counts)
    assert 0 < np.abs(model.components_ - before).max() < 0.1


def test_streaming_goes_on_from_a_fit(counts, fitted):
    """From its topics and alpha, which steps this short leave alone; what is outdated goes."""
    model = copy.deepcopy(fitted)
    model.set_params(alpha="learn-asymmetric", total_samples=20, step_size=1e-6).partial_fit(counts)
    np.testing.assert_allclose(model.components_, fitted.components_, atol=0.02)
    np.testing.assert_allclose(model.alpha_, ALPHA, rtol=0.02)
    for name in ("prevalence_", "samples_", "order_", "diagnostics_", "metrics_", "warnings_"):
        assert hasattr(fitted, name)
        assert not hasattr(model, name)
    with pytest.raises(ValueError, match="`fit` keep_samples"):
        exports.to_arviz(model)


def test_files_hold_the_fit_and_no_pickle(tmp_path, counts, fitted):
    fitted.save(tmp_path / "model.npz")
    back = LDA.load(tmp_path / "model.npz")
    assert back.get_params() == fitted.get_params()
    np.testing.assert_array_equal(back.transform(counts), fitted.transform(counts))
    with np.load(tmp_path / "model.npz", allow_pickle=False) as arrays:
        assert not any(array.dtype.hasobject for array in arrays.values())
    with pytest.raises(RunError, match="this holds LDA of format 4, not SphericalAdmixture"):
        SphericalAdmixture.load(tmp_path / "model.npz")
    (tmp_path / "torn.npz").write_bytes((tmp_path / "model.npz").read_bytes()[:100])
    with pytest.raises(RunError, match="damaged"):
        LDA.load(tmp_path / "torn.npz")
    with pytest.raises(RunError, match=r"none.npz: .*\(no such file"):
        LDA.load(tmp_path / "none.npz")


@pytest.mark.slow
def test_files_hold_the_names_of_the_words(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.eye(3, dtype=int) + 1, columns=["a", "b", "c"])
    model = LDA(2, passes=2, random_state=0).fit(frame)
    model.save(tmp_path / "model.npz")
    back = LDA.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(back.feature_names_in_, ["a", "b", "c"])
    back.transform(frame)


@pytest.mark.parametrize(
    ("params", "X", "message"),
    [
        ({}, [[1.5, 2.0]], "is 1.5, "),
        ({}, [[-1, 2]], "Negative values"),
        ({"fractions": "round"}, [[1, 2]], r"^fractions .*'round'$"),
        ({"n_components": 0}, [[1, 2]], r"^n_components .* 1"),
        ({"n_components": 4}, [[1, 2]], r"^n_components .* 3"),
        ({"n_chains": 0}, [[1, 2]], "^n_chains must be"),
        ({"random_state": -1}, [[1, 2]], "^random_state must be"),
        ({"beta": -1}, [[1, 2]], "^beta must be"),
        ({"callbacks": [3]}, [[1, 2]], r"^callbacks .* 3 "),
        ({"callbacks": print}, [[1, 2]], r"^callbacks .*print"),
        ({"passes": 2, "seconds": 2}, [[1, 2]], "passes, steps"),
    ],
)
def test_bad_input_is_told(params, X, message):
    with pytest.raises(ValueError, match=message):
        LDA(**{"n_components": 2, "random_state": 0} | params).fit(X)


def test_nothing_is_done_before_fit(counts):
    for use in (LDA().transform, LDA().score, LDA().save):
        with pytest.raises(NotFittedError):
            use(counts)


def test_fractions_are_drawn_with_the_right_mean():
    model = LDA(2, fractions="draw", random_state=0)
    model.seed_ = 5
    drawn = model._data(np.full((400, 50), 1.25), reset=True)
    # 20,000 draws of 1 or 2: a standard deviation of 0.0031, and 4.5 of them on either side.
    assert drawn.mean() == pytest.approx(1.25, abs=0.014)
    assert set(drawn.data.tolist()) == {1, 2}

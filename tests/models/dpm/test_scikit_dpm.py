"""The estimator of mixtures: scikit-learn interface over `dpm.fit`, which is tested elsewhere."""

import copy
import signal
from types import SimpleNamespace

import chex
import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from simplex_jax._src.models import dpm
from simplex_jax._src.models.dpm import estimator as families
from simplex_jax._src.models.dpm import families as dp_families
from simplex_jax._src.models.dpm.clusters import assign
from simplex_jax._src.models.dpm.estimator import _OF_FAMILY
from simplex_jax._src.models.dpm.families.diagonal_gaussian import DiagonalNormals
from simplex_jax._src.models.dpm.families.gaussian import Normals
from simplex_jax._src.models.dpm.families.von_mises_fisher import Directions
from simplex_jax._src.models.dpm.model import Mixture
from simplex_jax._src.runtime.saved import RunError
from simplex_jax.sklearn import LDA, DirichletProcessMixture

SHORT = {"passes": 60, "keep_samples": 6, "initial_clusters": 4, "random_state": 2}
NORMAL = np.random.default_rng(0).normal(size=(40, 1))
# Two groups, far from 0 and from each other.
X = NORMAL + np.repeat([[990.0], [1010.0]], [25, 15], axis=0)
CODES = np.repeat([[0.0, 0, 1], [1, 1, 0]], [25, 15], axis=0)
CODES[3, 1] = CODES[30, 2] = np.nan


@pytest.fixture(scope="module")
def fitted():
    return DirichletProcessMixture(**SHORT).fit(X)


@pytest.mark.slow
def test_it_is_the_fit_of_the_core(fitted):
    rows = (X - X.mean(axis=0)).astype(np.float32)
    prior = {name: fitted.family_params_[name] for name in ("scale", "strength", "freedom")}
    family = dp_families.gaussian(np.zeros(1), **prior)
    core = dpm.fit(rows, family, passes=60, keep_samples=6, initial_clusters=4, seed=2)
    np.testing.assert_array_equal(fitted.labels_, core.point.labels)
    np.testing.assert_array_equal(fitted.samples_["labels"], core.partitions["labels"])
    log_p = assign(core.clusters.samples, family, rows).log_predictive
    np.testing.assert_allclose(fitted.score_samples(X), log_p, rtol=1e-5)
    assert fitted.score(X) == pytest.approx(log_p.mean(), rel=1e-5)
    assert fitted.concentration_ == core.alpha


@pytest.mark.slow
def test_clusters_and_their_parameters(fitted):
    assert fitted.n_clusters_ == 2
    np.testing.assert_array_equal(fitted.labels_, np.repeat([0, 1], [25, 15]))
    # The prior mean counts as a row.
    means = [np.append(X[:25], X.mean()).mean(), np.append(X[25:], X.mean()).mean()]
    np.testing.assert_allclose(fitted.means_.ravel(), means, atol=1.5)
    assert fitted.covariances_.shape == (2, 1, 1)
    np.testing.assert_allclose(fitted.weights_, [25 / 41, 15 / 41], atol=0.15)
    rest = np.exp(fitted.mixtures_.log_rest).mean()
    assert fitted.weights_.sum() + rest == pytest.approx(1, abs=1e-5)
    np.testing.assert_array_equal(clone(fitted).fit_predict(X), fitted.labels_)


@pytest.fixture(scope="module")
def by_hand():
    """Two posterior samples of five rows about 100, of which the second joins the first two."""
    model = DirichletProcessMixture()
    model.seed_, model.n_features_in_ = 0, 1
    model.expected_loss_ = model.concentration_ = model.concentration_sd_ = 0.0
    table = np.array([[98.0], [99], [100], [101], [102]])
    model.family_ = "gaussian"
    model.family_params_ = families.hyperparameters("gaussian", table, {"scale": [[1.0]]})
    model.labels_, model.n_clusters_ = np.array([0, 0, 0, 1, 1]), 2
    model.samples_ = {"labels": np.array([[[0, 0, 1, 2, 2]], [[0, 0, 0, 0, 1]]])}
    roots = np.full((2, 3, 1, 1), 2.0, np.float32)
    mean = np.array([[[-2.0], [0], [2]], [[-1], [2], [50]]], np.float32)
    atoms = Normals(mean, roots, np.log(roots[..., 0, 0]))
    with np.errstate(divide="ignore"):
        log_weights = np.log(np.array([[0.4, 0.2, 0.3], [0.7, 0.2, 0.0]], np.float32))
    log_rest = np.full(2, np.log(0.1), np.float32)
    model._describe(Mixture(log_weights, log_rest, atoms))
    return model


def test_membership_of_components(by_hand):
    company = [[[1, 1, 0], [0, 0, 1]], [[0.75, 0, 0], [0.25, 1, 0]]]
    np.testing.assert_allclose(by_hand.membership_, company)
    np.testing.assert_allclose(by_hand.weights_, [(0.6 + 0.525) / 2, (0.3 + 0.375) / 2], rtol=1e-6)
    # Rows 0 to 2 are at -2, -2, 0 and -1, -1, -1; rows 3 and 4 at 2, 2 and -1, 2.
    np.testing.assert_allclose(by_hand.means_, [[100 - 7 / 6], [100 + 5 / 4]], rtol=1e-6)
    np.testing.assert_allclose(by_hand.covariances_, np.full((2, 1, 1), 0.25), rtol=1e-6)


def test_nothing_of_an_earlier_family_is_left(by_hand):
    model = copy.copy(by_hand)
    model.components_ = model.concentrations_ = np.ones((2, 3))
    model._describe(by_hand.mixtures_)
    assert {name for name in vars(model) if name in _OF_FAMILY} == {"means_", "covariances_"}


@pytest.mark.parametrize("family", ["categorical", "mixed", dp_families.categorical([2])])
def test_a_parameter_that_changes_leaves_the_fit_as_it_is(by_hand, family, tmp_path):
    rows = np.array([[98.0], [100.0], [101.5], [130.0]])
    model = copy.copy(by_hand).set_params(family=family)
    np.testing.assert_array_equal(model.predict_proba(rows), by_hand.predict_proba(rows))
    with pytest.raises(AttributeError, match="those of family 'mixed'"):
        print(model.columns_)
    if isinstance(family, str):
        model.save(tmp_path / "model.npz")
        back = DirichletProcessMixture.load(tmp_path / "model.npz")
        assert (back.family, back.family_) == (family, "gaussian")
        np.testing.assert_array_equal(back.predict(rows), by_hand.predict(rows))


def test_a_fit_that_fails_leaves_the_one_before(by_hand):
    rows = np.array([[98.0], [100.0], [101.5], [130.0]])
    model = copy.copy(by_hand).set_params(family="categorical")
    with pytest.raises(ValueError, match=r"rows\[2, 0\] is 101.5"):
        model.fit(rows)
    np.testing.assert_array_equal(model.predict_proba(rows), by_hand.predict_proba(rows))


def test_a_row_of_missing_numbers_belongs_anywhere(by_hand):
    p = by_hand.predict_proba(np.array([[98.0], [np.nan]]))
    np.testing.assert_allclose(p[1], by_hand.weights_, rtol=1e-5)


def test_new_rows_go_where_their_membership_is(by_hand):
    """Against probabilities of the components, shared out as their rows are."""
    rows = np.array([[98.0], [100.0], [101.5], [130.0]])
    expected, densities = np.zeros((4, 2)), np.zeros(4)
    for log_w, mean, company in zip(
        by_hand.mixtures_.log_weights,
        by_hand.mixtures_.atoms.mean,
        by_hand.membership_,
        strict=True,
    ):
        p = np.exp(log_w) * stats.norm.pdf(rows - 100, mean[:, 0], 0.5)
        # The prior predictive: Student's t with freedom - p + 1 = 3 degrees of freedom.
        new = 0.1 * stats.t.pdf(rows - 100, 3, scale=np.sqrt(2 / 3))
        total = p.sum(axis=1, keepdims=True) + new
        expected += (p / total) @ company.T / 2
        densities += total[:, 0] / 2
    np.testing.assert_allclose(by_hand.predict_proba(rows), expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(by_hand.score_samples(rows), np.log(densities), rtol=1e-5)
    assert by_hand.score(rows) == pytest.approx(np.log(densities).mean(), rel=1e-5)
    assert by_hand.predict(rows).tolist() == [0, 0, 1, -1]
    np.testing.assert_array_equal(by_hand.transform(rows), by_hand.predict_proba(rows))
    assert list(by_hand.get_feature_names_out()) == [
        "dirichletprocessmixture0",
        "dirichletprocessmixture1",
    ]


def test_densities_have_an_integral_of_one(by_hand):
    """With the mass of new clusters; without it they would lack a tenth."""
    grid = np.linspace(-400, 600, 8_001)[:, None]
    density = np.exp(by_hand.score_samples(grid))
    assert density.sum() * 0.125 == pytest.approx(1, abs=1e-3)


def test_files_hold_what_predicts_and_no_pickle(by_hand, tmp_path):
    by_hand.save(tmp_path / "model.npz")
    back = DirichletProcessMixture.load(tmp_path / "model.npz")
    assert back.get_params() == by_hand.get_params()
    rows = np.linspace(95, 105, 7)[:, None]
    for method in ("predict", "predict_proba", "score_samples"):
        np.testing.assert_array_equal(getattr(back, method)(rows), getattr(by_hand, method)(rows))
    np.testing.assert_array_equal(back.means_, by_hand.means_)
    with np.load(tmp_path / "model.npz", allow_pickle=False) as arrays:
        assert not any(array.dtype.hasobject for array in arrays.values())
    with pytest.raises(RunError, match="this holds DirichletProcessMixture"):
        LDA.load(tmp_path / "model.npz")


@pytest.mark.parametrize(
    ("name", "atoms", "expected"),
    [
        (
            "categorical",
            (np.log([[[[0.9, 0.1]], [[0.2, 0.8]]]]), np.log([[[[0.2, 0.3, 0.5]]] * 2])),
            {"components_": [[0.9, 0.1, 0.2, 0.3, 0.5], [0.2, 0.8, 0.2, 0.3, 0.5]]},
        ),
        (
            "multinomial",
            np.log([[[0.9, 0.1], [0.2, 0.8]]]),
            {"components_": [[0.9, 0.1], [0.2, 0.8]]},
        ),
        (
            "von_mises_fisher",
            Directions(np.array([[[0.6, 0.8], [1.0, 0.0]]]), np.array([[3.0, 4.0]])),
            {"means_": [[0.6, 0.8], [1, 0]], "concentrations_": [3, 4]},
        ),
    ],
)
def test_files_of_other_families(name, atoms, expected, tmp_path):
    """Atoms go through a file as leaves."""
    model = DirichletProcessMixture(name)
    model.family_ = name
    model.family_params_ = families.hyperparameters(name, np.array([[0, 2.0], [1, np.nan]]), {})
    model.seed_, model.n_features_in_ = 0, 2
    model.labels_, model.n_clusters_ = np.array([0, 1]), 2
    model.samples_ = {"labels": np.array([[[0, 1]]])}
    weights = np.log(np.array([[0.5, 0.4]], np.float32)), np.log(np.array([0.1], np.float32))
    model._describe(Mixture(*weights, atoms))
    model.save(tmp_path / "model.npz")
    back = DirichletProcessMixture.load(tmp_path / "model.npz")
    chex.assert_trees_all_equal(back.mixtures_, model.mixtures_)
    for attribute, values in expected.items():
        np.testing.assert_allclose(getattr(back, attribute), values, rtol=1e-12)


def test_atoms_without_rows_may_be_infinite():
    """Draws from a prior with few degrees of freedom."""
    weights = np.array([[[1.0, 0.0]]])
    mean, centre = np.array([[[3.0], [np.inf]]]), {"mean": np.ones(1)}
    normals = DiagonalNormals(mean, np.array([[[2.0], [np.inf]]]))
    described = families.profiles_of("diagonal_gaussian", centre, normals, weights)
    assert (described["means_"], described["standard_deviations_"]) == (4, 2)
    normals = Normals(mean, np.array([[[[0.5]], [[0.0]]]]), np.zeros((1, 2)))
    described = families.profiles_of("gaussian", centre, normals, weights)
    assert (described["means_"], described["covariances_"]) == (4, 4)


@pytest.fixture
def interrupted(by_hand):
    """A fit of `by_hand` that Ctrl-C has ended."""
    return SimpleNamespace(
        point=SimpleNamespace(labels=by_hand.labels_, loss=0.5),
        alpha=1.0,
        alpha_sd=0.0,
        num_clusters=2,
        num_clusters_posterior={2: 1.0},
        traces={},
        partitions=by_hand.samples_,
        diagnostics={},
        metrics=[],
        warnings=[],
        clusters=SimpleNamespace(samples=SimpleNamespace(mixtures=by_hand.mixtures_)),
        interrupted=signal.SIGINT,
    )


def test_ctrl_c_leaves_what_was_sampled(interrupted, by_hand, monkeypatch):
    monkeypatch.setattr(dpm, "fit", lambda rows, family, **options: interrupted)
    model = DirichletProcessMixture(family_params={"scale": [[1.0]]})
    table = np.array([[98.0], [99], [100], [101], [102]])
    with pytest.raises(KeyboardInterrupt, match="SIGINT"):
        model.fit(table)
    np.testing.assert_array_equal(model.predict(table), by_hand.predict(table))


@pytest.mark.slow
def test_ctrl_c_ends_a_fit(cut):
    once, steps = cut
    model = DirichletProcessMixture(**SHORT, callbacks=[once])
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert len(steps) == 1
    assert model.predict(X).shape == (40,)


@pytest.mark.slow
def test_a_row_far_from_all_has_a_cluster_of_its_own():
    params = {"mean": [1000.0], "scale": [[1.0]], "strength": 1e-4}
    model = DirichletProcessMixture(family_params=params, **SHORT).fit(X)
    assert model.predict([[940.0], [990.0]]).tolist() == [-1, 0]


@pytest.mark.slow
def test_codes_with_missing_values():
    model = DirichletProcessMixture("categorical", **SHORT).fit(CODES)
    np.testing.assert_array_equal(model.labels_, np.repeat([0, 1], [25, 15]))
    np.testing.assert_array_equal(model.family_params_["categories"], [2, 2, 2])
    assert model.components_.shape == (2, 6)
    np.testing.assert_allclose(model.components_.reshape(2, 3, 2).sum(axis=2), 1, rtol=1e-5)
    assert (model.components_[0, [0, 2, 5]] > 0.8).all()
    assert model.predict([[np.nan, -1, 0]]).tolist() == [1]
    with pytest.raises(ValueError, match="variable 1 has categories 0 to 1"):
        model.predict([[0, 2, 0]])


@pytest.mark.slow
def test_a_pipeline_of_texts():
    texts = ["cat dog cat mouse", "sun moon sun star"] * 10
    model = DirichletProcessMixture("multinomial", **SHORT)
    pipeline = make_pipeline(CountVectorizer(), model)
    assert pipeline.fit_predict(texts).tolist() == [0, 1] * 10
    names = ["dirichletprocessmixture0", "dirichletprocessmixture1"]
    assert list(pipeline.get_feature_names_out()) == names
    np.testing.assert_allclose(model.components_.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.slow
def test_unit_vectors():
    vectors = np.repeat([[1.0, 0, 0], [0, 0.6, 0.8]], [12, 8], axis=0)
    model = DirichletProcessMixture("von_mises_fisher", **SHORT).fit(vectors)
    np.testing.assert_array_equal(model.labels_, np.repeat([0, 1], [12, 8]))
    np.testing.assert_allclose(model.means_, [[1, 0, 0], [0, 0.6, 0.8]], atol=0.1)
    assert model.concentrations_.shape == (2,)


@pytest.mark.slow
def test_rows_without_observations_do_not_change_the_prior():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(-3, 1, (50, 2)), rng.normal(3, 1, (50, 2))])
    more = np.concatenate([rows, np.full((25, 2), np.nan)])
    expected = families.hyperparameters("gaussian", rows, {})
    chex.assert_trees_all_equal(families.hyperparameters("gaussian", more, {}), expected)


@pytest.mark.slow
def test_weights_leave_the_kinds_of_columns():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"size": [1.5, 2.5, 7.5, 8.5], "kind": pd.Categorical([0, 0, 1, 1])})
    model = DirichletProcessMixture(family="mixed", passes=2, random_state=0)
    kinds = model.fit(table, sample_weight=[2, 1, 1, 2]).columns_.kinds
    assert kinds == model.fit(table).columns_.kinds


@pytest.mark.slow
def test_a_family_of_ones_own(tmp_path):
    model = DirichletProcessMixture(dp_families.categorical([2, 2, 2]), **SHORT)
    codes = np.nan_to_num(CODES).astype(np.int64)
    assert clone(model).fit_predict(codes).max() == 1
    model.fit(codes)
    assert model.predict_proba(codes).shape == (40, 2)
    with pytest.raises(ValueError, match="family by its"):
        model.save(tmp_path / "model.npz")


@pytest.mark.parametrize(
    ("params", "table", "message"),
    [
        ({"family": "poisson"}, X, r"^family .*'poisson'$"),
        ({"family_params": {"width": 3}}, X, r"^family_params of gaussian .*'width'$"),
        ({"family_params": {"mean": [0.0, 1.0]}}, X, r"must have shape \[1\]"),
        ({"family_params": {"mean": [np.nan]}}, X, r"^mean .* finite"),
        ({}, np.ones((4, 2)), "column 0 of X does not vary"),
        ({}, [[1e30], [2e30], [4e30]], "column 0 of X has numbers .* too large for float32: resc"),
        ({"family": "diagonal_gaussian"}, [[1e-30], [2e-30]], "column 0 of X has .* too small"),
        ({}, np.eye(4)[:, [0, 1, 0]], r"covariance of X is singular \(4 rows, 3 columns\)"),
        ({}, [[np.nan], [1.0]], "column 0 of X does not vary"),
        ({"family": "von_mises_fisher"}, [[np.nan], [1.0]], "Input X contains NaN"),
        ({"family": "categorical"}, [[0.5], [1.0]], r"rows\[0, 0\] is 0.5"),
        ({"family": "categorical"}, [[0], [3e9]], r"categories .* OrdinalEncoder"),
        ({"family": "multinomial"}, [[0.5, 1.0]], "whole numbers"),
        ({"family": "von_mises_fisher"}, [[3.0, 4.0]], "has length 5"),
        ({"sampler": "scir"}, X, r"^sampler 'scir' "),
        ({"loss": "best"}, X, r"^loss .*'best'$"),
        ({"callbacks": [3]}, X, r"^callbacks .* 3 "),
        ({"passes": 2, "seconds": 2}, X, "passes, steps"),
    ],
)
def test_bad_input_is_told(params, table, message):
    with pytest.raises(ValueError, match=message):
        DirichletProcessMixture(**params, random_state=0).fit(table)


def test_nothing_is_done_before_fit():
    for use in ("predict", "predict_proba", "transform", "score", "save"):
        with pytest.raises(NotFittedError):
            getattr(DirichletProcessMixture(), use)(X)

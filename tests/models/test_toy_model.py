"""A fourth model has everything that a model has: one folder, and its name among the models."""

import importlib
import json
import signal
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from sklearn.base import clone
from support.cut_runs import Cut, look_after_every_step
from support.fits import assert_same
from support.paths import TESTS
from support.scikit import failed_checks

from simplex_jax._src import models
from simplex_jax._src.cli import main, verbs
from simplex_jax._src.corpus import from_counts
from simplex_jax._src.evaluate import exports
from simplex_jax._src.models import pipeline
from simplex_jax._src.runtime.checkpoint import CheckpointError

COUNTS = sp.csr_array(np.array([[5, 4, 0, 1], [4, 6, 0, 0], [0, 0, 7, 3], [6, 3, 1, 0]] * 6))
OPTIONS = {"steps": 40, "eval_every": 4, "chains": 2, "seed": 2, "keep_samples": 3, "holdout": 4}


@pytest.fixture(scope="module", autouse=True)
def unigrams():
    """The model in its place: its folder among the models', and a line with its name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "__path__", [*models.__path__, str(TESTS / "support")])
        patch.setitem(models.NAMES, "unigrams", "Find kinds of documents, and use them.")
        yield importlib.import_module("simplex_jax._src.models.unigrams")
    for name in [
        name for name in sys.modules if name.startswith("simplex_jax._src.models.unigrams")
    ]:
        del sys.modules[name]
    del models.unigrams


@pytest.fixture(scope="module")
def fitted(unigrams):
    return unigrams.fit(from_counts(COUNTS, ["oak", "elm", "sun", "moon"]), 2, **OPTIONS)


def test_its_options_are_settled(unigrams):
    model = unigrams.MODEL
    data = model.as_data(COUNTS)
    settled = model.resolve_options(data, None, model.options(2, passes=7))
    assert (settled.batch_size, settled.steps, settled.passes) == (24, 7, None)
    assert model.resolve_options(data, None, settled) == settled
    assert "\n    alpha: Concentration of" in unigrams.fit.__doc__


def test_a_fit_finds_the_kinds(fitted):
    """Three documents in four are of trees; the posterior of the share is Beta(16, 6), or near."""
    trees = fitted.topics[:, 0].argmax()
    assert fitted.proportions[:, trees].round().tolist() == [1, 1, 0, 1] * 6
    assert fitted.shares[trees] == pytest.approx(16 / 22, abs=0.1)
    assert fitted.metrics[-1]["log_density"] > 10 * np.log(1 / 4)
    assert fitted.corpus["held_out"] == 4
    assert fitted.samples["topics"].shape == (3, 2, 2, 4)
    assert {"topics", "shares"} == set(exports.to_arviz(fitted)["posterior"].data_vars)


def test_transform_takes_documents_of_any_vocabulary(fitted):
    other = from_counts([[0, 3, 9], [4, 0, 0]], ["moon", "sun", "zebra"])
    trees = fitted.topics[:, 0].argmax()
    assert fitted.transform(other)[:, trees].round().tolist() == [0, 0]


def test_a_run_that_was_cut_goes_on(unigrams, fitted, tmp_path, monkeypatch):
    look_after_every_step(monkeypatch)
    corpus = from_counts(COUNTS, ["oak", "elm", "sun", "moon"])
    options = OPTIONS | {"checkpoint": tmp_path}
    cut = unigrams.fit(corpus, 2, hooks=[Cut(17, signal.SIGTERM)], **options)
    assert cut.interrupted is signal.SIGTERM
    assert cut.warnings[-1] == pipeline.INTERRUPTED
    assert_same(unigrams.fit(corpus, 2, resume=True, **options), fitted)
    with pytest.raises(CheckpointError, match="alpha"):
        unigrams.fit(corpus, 2, resume=True, alpha=2.0, **options)


def test_save_load_and_report(unigrams, fitted, tmp_path):
    loaded = unigrams.load(fitted.save(tmp_path / "run"))
    assert_same(loaded, fitted, "samples", "state")
    assert loaded.settings == fitted.settings
    page = loaded.report(tmp_path / "page.html").read_text()
    assert page == (tmp_path / "run" / "report.html").read_text()
    assert "2 kinds of documents" in page
    assert "oak elm" in page


def test_the_commands(tmp_path, monkeypatch):
    def invoke(*arguments):
        return CliRunner().invoke(main, ["unigrams", *map(str, arguments)])

    texts, out = tmp_path / "texts.txt", tmp_path / "run"
    texts.write_text("oak elm oak\nsun moon sun\n" * 20)
    assert "Find kinds of documents" in CliRunner().invoke(main, ["--help"]).output
    assert "Concentration of the shares" in " ".join(invoke("--help-all").output.split())
    given = ["--topics", 2, "--steps", 20, "--eval-every", 2, "--min-df", 1, "--max-df", 1.0]
    with monkeypatch.context() as patch:
        patch.setattr(verbs, "MetricsLog", Cut(6, signal.SIGINT).log)
        assert invoke(texts, *given, "--holdout", 4, "--out", out).exit_code == 130
    result = invoke("--resume", out)
    assert result.exit_code == 0, result.output
    assert "36 documents, 2 topics" in result.stderr
    assert json.loads((out / "config.json").read_text())["settings"]["steps"] == 20
    assert invoke("transform", texts, "--model", out, "--out", tmp_path / "x.npz").exit_code == 0
    with np.load(tmp_path / "x.npz") as arrays:
        assert arrays["proportions"].shape == (40, 2)
    assert float(invoke("evaluate", texts, "--model", out, "--quiet").output) > 0.9
    (out / "report.html").unlink()
    assert invoke("report", out, "--quiet").exit_code == 0
    assert (out / "report.html").exists()


def test_the_estimator(unigrams, tmp_path):
    estimator = importlib.import_module("simplex_jax._src.models.unigrams.estimator").Unigrams
    model = estimator(2, passes=40, n_chains=2, random_state=2)
    shares = clone(model).fit_transform(COUNTS)
    core = unigrams.fit(COUNTS, 2, passes=40, chains=2, seed=2)
    np.testing.assert_array_equal(shares, core.proportions)
    model.fit(COUNTS).save(tmp_path / "model.npz")
    np.testing.assert_array_equal(estimator.load(tmp_path / "model.npz").transform(COUNTS), shares)
    assert "alpha: Concentration of" in estimator.__doc__
    assert all(f"    {parameter}: " in estimator.__doc__ for parameter in model.get_params())


@pytest.mark.slow
def test_the_checks_of_scikit_learn(unigrams):
    estimator = importlib.import_module("simplex_jax._src.models.unigrams.estimator").Unigrams
    assert failed_checks(estimator(2, passes=6, fractions="draw", random_state=0)) == {}

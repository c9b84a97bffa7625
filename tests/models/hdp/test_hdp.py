"""Fits of the hierarchical Dirichlet process: topics of a corpus, files, resuming, the commands."""

import dataclasses
import json
import signal

import jax
import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from sklearn.base import clone
from support.cut_runs import Cut, look_after_every_step
from support.fits import assert_same
from support.settled import resolve

from simplex_jax._src.cli import main, verbs
from simplex_jax._src.corpus import from_counts, split_tokens
from simplex_jax._src.evaluate import exports, matching
from simplex_jax._src.models import growth, hdp
from simplex_jax._src.models.hdp import fitting, posterior
from simplex_jax._src.models.topics.evaluation import measure_completion
from simplex_jax._src.models.topics.report import OVER_CHAINS, interval_kinds
from simplex_jax._src.runtime import devices, directory
from simplex_jax._src.runtime.checkpoint import CheckpointError
from simplex_jax._src.runtime.saved import RunError
from simplex_jax.sklearn import HierarchicalDirichletProcess

# Three topics of four words each; a document has one of them, the last has no word.
COUNTS = np.kron(np.eye(3, dtype=np.int32), [6, 4, 3, 2])[np.repeat(np.arange(3), [14, 10, 6])]
COUNTS[-1] = 0
WORDS = tuple("abcdefghijkl")
OPTIONS = {"passes": 150, "eval_every": 15, "keep_samples": 10, "seed": 1}
OPTIONS |= {"beta": 0.5, "capacity": 32, "chains": 1}


@pytest.mark.slow
@pytest.mark.parametrize("engine", [None, "xla"])
def test_double_precision(engine):
    with jax.enable_x64(True):
        fitted = hdp.fit(COUNTS, **OPTIONS | {"passes": 4, "eval_every": 2}, engine=engine)
    assert np.isfinite(fitted.topics).all()
    assert fitted.metrics[-1]["passes"] == 4


def test_one_reported_topic_has_no_interval_before_it_mixes():
    counts = np.random.default_rng(3).multinomial(12, np.full(8, 1 / 8), 30)
    lengths = {"passes": 40, "initial_topics": 2, "chains": 2, "seed": 1, "holdout": 0}
    fitted = hdp.fit(counts, **lengths)
    assert fitted.num_topics == 1
    assert fitted.stable.all()
    assert fitted.prevalence[0] < 1
    assert fitted.diagnostics["prevalence 0"]["ess"] < 50
    assert (interval_kinds(fitted, fitted.prevalence_range) == OVER_CHAINS).all()
    assert "points apart" in " ".join(fitted.verdict)


@pytest.fixture(scope="module")
def fitted():
    return hdp.fit(from_counts(COUNTS, WORDS), **OPTIONS)


@pytest.mark.slow
def test_a_fit_finds_topics_and_their_number(fitted, tmp_path):
    leading = [tuple(sorted(row.argsort()[-4:].tolist())) for row in fitted.topics]
    groups = [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)]
    assert set(leading) == set(groups)
    assert 0.8 < fitted.prevalence.sum() <= 1  # topics that few samples have are not reported
    assert 3 <= min(fitted.num_topics_posterior) <= max(fitted.num_topics_posterior) < 12
    most = fitted.proportions[[0, 14, 24]].argmax(axis=1)
    assert [leading[topic] for topic in most] == groups
    assert fitted.num_empty_documents == 1
    assert fitted.partitions["labels"].shape[:2] == (10, 1)
    assert "alpha" in exports.to_arviz(fitted)["posterior"]
    shares = fitted.transform(from_counts([[5, 0], [0, 7]], ["l", "a"]))
    assert [leading[topic] for topic in shares.argmax(axis=1)] == [groups[2], groups[0]]
    # And it is read again as it was written.
    loaded = hdp.Fit.load(fitted.save(tmp_path / "run"))
    assert_same(loaded, fitted, "state", "traces", "partitions", "diagnostics")
    assert loaded.settings == fitted.settings
    assert (
        loaded.report(tmp_path / "page.html").read_text()
        == (tmp_path / "run" / "report.html").read_text()
    )


def test_samples_are_put_together(monkeypatch):
    """The second sample has its topics in another order, and one more; a third has only one."""
    tokens = np.repeat([0, 1, 2, 3], 10)
    first, second = np.repeat([4, 4, 7, 7], 10), np.repeat([9, 9, 2, 2], 10)
    second[-1] = 5
    labels = np.stack([second, np.repeat([1, 1, 3, 3], 10), first])[:, None]
    labels[1, 0, 20:] = 1
    weights = np.tile(np.arange(10.0), (3, 1, 1))
    actual = posterior.summarise(labels, weights, tokens, 5, 0.5)
    assert actual.present[:, 0].tolist() == [[True, True], [True, False], [True, True]]
    np.testing.assert_allclose(actual.concentrations[:, 0], [[9, 2], [1, 0], [4, 7]])
    np.testing.assert_allclose(actual.prevalence[:, 0], [[0.5, 19 / 40], [1, 0], [0.5, 0.5]])
    assert actual.mean[1, 3] == pytest.approx((9.5 / 21.5 + 10.5 / 22.5) / 2, rel=1e-6)
    single = (9.5 / 21.5, 10.5 / 22.5)
    inside = np.mean([p * (1 - p) / (n + 1) for p, n in zip(single, (21.5, 22.5), strict=True)])
    assert actual.sd[1, 3] == pytest.approx(np.sqrt(np.var(single) + inside), rel=1e-5)
    monkeypatch.setattr(posterior, "_AT_ONCE", 5)
    monkeypatch.setattr(matching, "WORDS_AT_ONCE", 2)
    again = posterior.summarise(labels, weights, tokens, 5, 0.5)
    for part, whole in zip(again[:-1], actual[:-1], strict=True):
        np.testing.assert_allclose(part, whole, rtol=1e-6)


def test_the_reference_is_the_most_typical_sample():
    """The last of ten samples has topics 1 and 2 merged: so had the report, unless reversed."""
    tokens = np.repeat(np.arange(30), 20)
    true = tokens // 10
    labels = np.stack([true] * 10)[:, None]
    labels[-1, 0, true == 2] = 1
    for order in (labels, labels[::-1]):
        reported = posterior.summarise(order, np.ones((10, 1, 3)), tokens, 30, 0.1)
        assert reported.prevalence.mean(axis=(0, 1)) == pytest.approx([11 / 30, 1 / 3, 0.3])


def test_documents_have_the_shares_of_their_tokens():
    """Topic 0 is in all samples, the tokens of words 2 and 3 are of other topics in each."""
    tokens = np.repeat([0, 1, 2, 3], 10)
    labels = np.repeat([0, 0, 1, 1], 10) * np.ones((3, 1, 1), int)
    labels[:, 0, 20:] = [np.arange(20) % 7 + i for i in (1, 2, 3)]
    labels[1, 0, :5] = 1  # in the second sample, a quarter of the first topic is elsewhere
    concentrations = np.tile([2.0, *[0.5] * 10, 0.25], (3, 1, 1))
    result = posterior.summarise(labels, concentrations, tokens, 4, 0.5)
    kept = len(result.mean)
    assert result.matched[0, 0, 0] == 0
    lengths = np.array([10, 10, 20, 0])
    shares, errors = posterior.shares(labels, concentrations, result, lengths)
    np.testing.assert_allclose(
        shares[:, 0],
        [(2 + 25 / 3) / 17.25, 12 / 17.25, 2 / 27.25, 2 / 7.25],
        rtol=1e-6,
    )
    spread = np.std([12 / 17.25, 7 / 17.25, 12 / 17.25]) / np.sqrt(2)
    assert errors[0] >= spread * (1 - 1e-6)
    # All topics are there to predict with: those of a sample have all its concentration.
    draws = result.draws
    assert len(draws) == 3
    for draw, labelled in zip(draws, labels[:, 0], strict=True):
        np.testing.assert_allclose(draw.topics.sum(axis=1), 1, rtol=1e-6)
        assert draw.alpha.sum() == pytest.approx(7.25)
        assert np.count_nonzero(draw.alpha) == len(np.unique(labelled)) + 1
        assert set(draw.reported) <= set(range(-1, kept))
    np.testing.assert_allclose(draws[1].topics[0], np.array([5.5, 10.5, 0.5, 0.5]) / 17)
    np.testing.assert_allclose(draws[-1].topics[0], draws[2].topics[0])


@pytest.fixture(scope="module")
def unsettled():
    """A short run, whose chains agree on few topics: about half of the tokens are of others."""
    random = np.random.default_rng(3)
    topics, shares = random.dirichlet(np.full(60, 0.1), 15), random.dirichlet(np.full(15, 0.1), 120)
    counts = np.array([random.multinomial(25, share @ topics) for share in shares])
    halves = split_tokens(sp.csr_array(counts[100:]), 0)
    return hdp.fit(counts[:100], heldout=halves, passes=12, eval_every=1, seed=1), counts, halves


def test_shares_of_documents_agree_with_prevalence(unsettled):
    fitted, counts, _ = unsettled
    lengths = counts[:100].sum(axis=1)
    reported = fitted.prevalence.sum()
    assert 0.2 < reported < 0.8
    by_documents = lengths @ fitted.proportions / lengths.sum()
    assert by_documents.sum() == pytest.approx(reported, rel=0.03)
    np.testing.assert_allclose(by_documents, fitted.prevalence, rtol=0.15)
    again = lengths @ fitted.transform(counts[:100]) / lengths.sum()
    assert again.sum() == pytest.approx(reported, rel=0.1)


def test_the_fit_predicts_as_well_as_the_run(unsettled):
    fitted, _, halves = unsettled
    measured = measure_completion(fitted, *halves, seed=0)["perplexity"]
    assert measured == pytest.approx(fitted.metrics[-1]["perplexity_average"], rel=0.05)


@pytest.fixture(scope="module")
def partial():
    """A fit that reports one topic of three: two thirds of the tokens are of the rest."""
    fitted = hdp.fit(from_counts(COUNTS, WORDS), **OPTIONS | {"passes": 40})
    reported = np.where(fitted.predictive.reported > 0, -1, fitted.predictive.reported)
    predictive = dataclasses.replace(fitted.predictive, reported=reported)
    return dataclasses.replace(fitted, topics=fitted.topics[:1], predictive=predictive), fitted


@pytest.mark.slow
def test_documents_have_shares_of_topics_that_are_not_reported(partial):
    (some, whole), documents = partial, from_counts(COUNTS, WORDS)
    shares = some.transform(documents)
    np.testing.assert_allclose(shares, whole.transform(documents)[:, :1], rtol=1e-6)
    assert shares[:29].min() < 0.2
    halves = split_tokens(sp.csr_array(COUNTS), 0)
    assert measure_completion(some, *halves, seed=0)["perplexity"] == pytest.approx(
        measure_completion(whole, *halves, seed=0)["perplexity"], rel=1e-5
    )
    lengths = COUNTS.sum(axis=1)
    by_documents = lengths @ whole.proportions / lengths.sum()
    assert by_documents.sum() == pytest.approx(whole.prevalence.sum(), abs=0.05)
    np.testing.assert_allclose(whole.proportions.sum(axis=1) + whole.other, 1, rtol=1e-5)


def test_files_have_a_column_of_the_rest(partial, tmp_path):
    _, fitted = partial
    with np.load(fitted.save(tmp_path / "run") / "doc_topics.npz") as arrays:
        np.testing.assert_allclose(arrays["other"], fitted.other)
    shares = [(fitted.proportions, None)]
    path = tmp_path / "x.csv"
    number = len(fitted.topics)
    directory.write_proportions(path, fitted.names, number, shares, rest=True)
    header, *rows = path.read_text().splitlines()
    assert header.endswith(f"topic_{number - 1},other")
    assert float(rows[0].split(",")[-1]) == pytest.approx(fitted.other[0], rel=1e-4)


def test_chains_start_on_both_sides():
    assert growth.from_below(2, 100, 1) == [100]
    assert growth.from_below(2, 100, 2) == [2, 100]
    assert growth.from_below(2, 100, 4) == [2, 7, 27, 100]
    for tokens, starts in (
        (30, [1, 1]),
        (1_000, [2, 20]),
        (100_000, [20, 100]),
        (10**6, [50, 100]),
    ):
        assert resolve(hdp, sp.csr_array([[tokens - 1, 1]])).starts() == starts
    with pytest.raises(ValueError, match=r"fewest_topics .* initial_topics, 5; it is 6"):
        resolve(hdp, COUNTS, initial_topics=5, fewest_topics=6)


@pytest.mark.slow
def test_the_number_of_topics_does_not_depend_on_the_start(tmp_path):
    """Five topics of a hundred words: from the larger start alone there were up to 19."""
    random = np.random.default_rng(0)
    topics, shares = random.dirichlet(np.full(100, 0.1), 5), random.dirichlet(np.full(5, 0.3), 200)
    counts = np.array([random.multinomial(60, share @ topics) for share in shares])
    fitted = hdp.fit(counts)
    assert fitted.settings.starts() == [2, 100]
    assert min(fitted.numbers[0]) <= 7
    assert len(fitted.topics) in (5, 6)
    assert matching.match(topics, fitted.topics[:5], matching.affinity).similarity.min() > 0.7
    assert "start with 2, " in fitted.report(tmp_path / "x.html").read_text()
    assert any("on their number: " in sentence for sentence in fitted.verdict)


def test_options_are_settled():
    settled = resolve(hdp, COUNTS, passes=7)
    assert (settled.batch_size, settled.steps, settled.initial_topics) == (30, 7, 8)
    assert resolve(hdp, COUNTS, **vars(settled)) == settled
    assert resolve(hdp, COUNTS, gamma=2.0).gamma_prior is None
    alone = resolve(hdp, COUNTS, chains=1)
    assert alone.starts() == [8]
    assert resolve(hdp, COUNTS, **vars(alone)) == alone
    kept = {
        tokens: resolve(hdp, np.full((1, 10), tokens // 10)).keep_samples
        for tokens in (10**6, 10**7, 10**8)
    }
    assert kept == {10**6: 50, 10**7: 25, 10**8: 20}
    assert resolve(hdp, COUNTS, keep_samples=3).keep_samples == 3
    for options, message in (
        ({"batch_size": 5}, "batch_size must be 30"),
        ({"initial_topics": 9, "capacity": 8}, r"initial_topics .*, 8"),
        (
            {"alpha": 1.0, "alpha_prior": (1, 2)},
            r"^alpha_prior ",
        ),
        ({"capacity": 10**6}, r"capacity .* 65,535"),
        ({"chains": 1, "fewest_topics": 2}, "fewest_topics"),
        (
            {"alpha_prior": (1, 1e-8)},
            r"alpha_prior, .* 1e-12 to 16,777,216; it is 1e\+08",
        ),
        ({"gamma_prior": (1e-20, 0.1)}, r"gamma_prior, .* 1e-19$"),
    ):
        with pytest.raises(ValueError, match=message):
            resolve(hdp, COUNTS, **options)
    with pytest.raises(TypeError, match="unexpected keyword argument 'samples_dir'"):
        hdp.fit(COUNTS, samples_dir="anywhere")


def test_topics_that_hardly_a_sample_has_are_said_to_be_of_one(fitted):
    rare = dataclasses.replace(fitted, present=np.full(len(fitted.topics), 0.25))
    assert any("No topic" in sentence for sentence in fitting.warn(rare))
    assert not any("No topic" in sentence for sentence in fitting.warn(fitted))


def test_a_state_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(devices, "memory", lambda: 10_000)
    with pytest.raises(ValueError, match=r"9\.8 KiB: .*--capacity"):
        hdp.fit(COUNTS, passes=1)


@pytest.mark.slow
def test_a_run_that_was_cut_goes_on(tmp_path, monkeypatch):
    look_after_every_step(monkeypatch)
    corpus = from_counts(COUNTS, WORDS)
    options = OPTIONS | {"holdout": 4, "capacity": 4, "initial_topics": 3}  # and it has to grow
    whole = hdp.fit(corpus, **options)
    assert whole.state.counts.shape[0] > 4
    options |= {"checkpoint": tmp_path}
    cut = hdp.fit(corpus, hooks=[Cut(37, signal.SIGTERM)], **options)
    assert cut.interrupted is signal.SIGTERM
    assert_same(hdp.fit(corpus, resume=True, **options), whole)
    with pytest.raises(CheckpointError, match="gamma"):
        hdp.fit(corpus, resume=True, gamma=2.0, **options)


@pytest.mark.slow
def test_a_run_that_is_made_longer_is_told_by_its_new_second_half(tmp_path):
    corpus, options = from_counts(COUNTS, WORDS), OPTIONS | {"keep_samples": 5, "eval_every": 1}
    first = hdp.fit(corpus, **options | {"passes": 20}, checkpoint=tmp_path)
    assert first.partitions["step"].max() == 20
    longer = hdp.fit(corpus, **options | {"passes": 60}, checkpoint=tmp_path, resume=True)
    straight = hdp.fit(corpus, **options | {"passes": 60})
    assert longer.partitions["step"].min() >= 30
    assert_same(longer, straight, "topics", "partitions", "traces", "diagnostics")


@pytest.mark.slow
def test_the_commands(tmp_path, monkeypatch):
    def invoke(*arguments):
        return CliRunner().invoke(main, ["hdp", *map(str, arguments)])

    texts, out = tmp_path / "texts.txt", tmp_path / "run"
    texts.write_text("oak elm oak fir oak elm\nsun moon sun star sun moon\n" * 20)
    given = ["--passes", 60, "--eval-every", 3, "--min-df", 1, "--max-df", 1.0]
    with monkeypatch.context() as patch:
        patch.setattr(verbs, "MetricsLog", Cut(6, signal.SIGINT).log)
        assert invoke(texts, *given, "--holdout", 4, "--out", out).exit_code == 130
    result = invoke("--resume", out)
    assert result.exit_code == 0, result.output
    assert "from 2 to 4 topics" in result.stderr
    assert "in a sample: " in result.stdout
    assert json.loads((out / "config.json").read_text())["settings"]["steps"] == 60
    names = {path.name for path in out.iterdir()}
    assert {
        "report.html",
        "topics.csv",
        "topic_keys.txt",
        "doc_topics.npz",
        "metrics.jsonl",
    } < names
    shares = tmp_path / "x.npz"
    assert invoke("transform", texts, "--model", out, "--out", shares).exit_code == 0
    with np.load(shares) as arrays:
        assert arrays["proportions"].shape == (40, len(hdp.Fit.load(out).topics))
    measures = json.loads(invoke("evaluate", texts, "--model", out, "--quiet").output)
    assert 1 < measures["perplexity"] < 4
    (out / "report.html").unlink()
    assert invoke("report", out, "--quiet").exit_code == 0
    assert "topics with tokens" in (out / "report.html").read_text()


@pytest.mark.slow
def test_the_estimator(tmp_path, monkeypatch):
    model = HierarchicalDirichletProcess(passes=60, keep_samples=10, n_chains=2, random_state=1)
    with monkeypatch.context() as patch:  # a fit needs no proportions of other documents
        patch.delattr(HierarchicalDirichletProcess, "_shards")
        model.fit(sp.csr_array(COUNTS))
    core = hdp.fit(COUNTS, passes=60, keep_samples=10, chains=2, seed=1)
    np.testing.assert_array_equal(model.components_, core.topics)
    np.testing.assert_array_equal(clone(model).fit_transform(COUNTS), model.transform(COUNTS))
    model.save(tmp_path / "model.npz")
    loaded = HierarchicalDirichletProcess.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.transform(COUNTS), model.transform(COUNTS))
    assert -2 < loaded.score(COUNTS) < 0
    with np.load(tmp_path / "model.npz") as arrays:
        wrong = dict(arrays) | {"draws.reported": arrays["draws.reported"] + 99}
    np.savez(tmp_path / "wrong.npz", **wrong)
    with pytest.raises(RunError, match=r"wrong\.npz: "):
        HierarchicalDirichletProcess.load(tmp_path / "wrong.npz")


@pytest.mark.slow
def test_chains_predict_held_out_documents(tmp_path):
    fitted = hdp.fit(from_counts(COUNTS, WORDS), holdout=4, **OPTIONS | {"chains": 2})
    assert fitted.metrics[-1]["perplexity_average"] < 6
    assert fitted.corpus["held_out"] == 4
    assert fitted.partitions["labels"].shape[:2] == (10, 2)
    assert fitted.shared.all(axis=0)[:3].all()
    assert set(fitted.traces) == {"alpha", "gamma", "topics", "log_predictive"}
    assert "chains that have" in fitted.report(tmp_path / "page.html").read_text()


def test_samples_that_are_left_out_of_predictions_are_told(monkeypatch):
    """The topics of all samples may take too much memory; no sample is dropped in silence."""
    counts = np.random.default_rng(0).poisson(1.0, (20, 15))
    options = {"passes": 40, "chains": 1, "seed": 0}
    whole = hdp.fit(counts, **options)
    assert len(whole.predictive.ends) == whole.num_samples
    assert not any("samples, evenly" in line for line in whole.warnings)
    monkeypatch.setattr(posterior, "_MOST_BYTES", 2000)
    part = hdp.fit(counts, **options)
    number = len(part.predictive.ends)
    assert 1 <= number < whole.num_samples
    assert any(f"{number} of the {whole.num_samples} samples" in line for line in part.warnings)
    assert np.isfinite(part.transform(counts)).all()

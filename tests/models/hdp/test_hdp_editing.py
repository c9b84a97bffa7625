"""Topics of the process merged, left out and named: exactly what its kept samples say."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from support.fits import assert_same

from simplex_jax._src.cli import main
from simplex_jax._src.corpus import from_counts
from simplex_jax._src.models import hdp

WORDS = 30


@pytest.fixture(scope="module")
def corpus():
    rng = np.random.default_rng(3)
    topics = rng.dirichlet(np.full(WORDS, 0.05), 8)
    shares = rng.dirichlet(np.full(8, 0.3), 80)
    counts = sp.csr_array(np.array([rng.multinomial(60, p) for p in shares @ topics]))
    return from_counts(counts, [f"w{i}" for i in range(WORDS)], [f"d{i}" for i in range(80)])


@pytest.fixture(scope="module")
def fitted(corpus):
    return hdp.fit(corpus, passes=80, chains=2, seed=1, keep_samples=12)


@pytest.mark.slow
def test_what_samples_say_of_a_topic_is_what_the_fit_reports(fitted):
    """Merged topics are computed by the same function as these, which are known."""
    assert fitted.num_topics > 3
    for k in range(fitted.num_topics):
        found = fitted.predictive.joined(k)
        np.testing.assert_allclose(found.mean, fitted.topics[k], rtol=1e-5)
        np.testing.assert_allclose(found.sd, fitted.topics_sd[k], rtol=1e-3)
        assert found.prevalence.mean() == pytest.approx(fitted.prevalence[k], rel=1e-6)
        assert found.prevalence.std(ddof=1) == pytest.approx(fitted.prevalence_sd[k], rel=1e-6)
        assert found.alpha.mean() == pytest.approx(fitted.topic_alpha[k], rel=1e-5)
        assert found.alpha.std(ddof=1) == pytest.approx(fitted.topic_alpha_sd[k], rel=1e-4)
        assert found.present.mean() == fitted.present[k]
        assert found.similarity == pytest.approx(fitted.stability[k], rel=1e-5)


@pytest.mark.slow
def test_a_merged_topic_is_the_mixture_of_its_parts(fitted, corpus):
    """Against topics drawn from their posterior given the labels: means and deviations."""
    merged = fitted.merge([2, 0], corpus=corpus)
    assert merged.num_topics == fitted.num_topics - 1
    drawn, rng, prevalence = [], np.random.default_rng(0), []
    kept, beta = fitted.predictive, fitted.settings.beta
    for first, end in zip([0, *kept.ends[:-1]], kept.ends, strict=True):
        table = kept.counts[first:end].toarray()
        own = table[np.isin(kept.reported[first:end], (0, 2))]
        prevalence.append(own.sum() / table.sum())
        if own.size:
            weights = own.sum(axis=1) / own.sum()
            drawn += [
                weights @ np.stack([rng.dirichlet(n + beta) for n in own]) for _ in range(400)
            ]
    topics = np.array(drawn)
    # Standard errors of 400 draws in each of 24 samples; 30 words, six standard errors each.
    error = topics.std(axis=0) / np.sqrt(len(topics))
    assert (abs(topics.mean(axis=0) - merged.topics[0]) < 6 * error + 1e-6).all()
    common = merged.topics[0] > 0.005  # deviations of rare words have heavy tails
    np.testing.assert_allclose(topics.std(axis=0)[common], merged.topics_sd[0][common], rtol=0.05)
    assert merged.prevalence[0] == pytest.approx(np.mean(prevalence), rel=1e-6)
    assert merged.prevalence_sd[0] == pytest.approx(np.std(prevalence, ddof=1), rel=1e-6)
    by_chain = np.reshape(prevalence, (-1, 2)).mean(axis=0)
    np.testing.assert_allclose(merged.prevalence_range[:, 0], np.sort(by_chain), rtol=1e-6)
    np.testing.assert_allclose(
        merged.proportions[:, 0], fitted.proportions[:, 0] + fitted.proportions[:, 2], rtol=1e-6
    )
    assert merged.coherence[0] == merged.coherence[0]
    assert "prevalence 0" in merged.diagnostics
    # Other topics keep their results to the bit, and the model predicts as before.
    np.testing.assert_array_equal(
        merged.topics[1:], fitted.topics[[1, *range(3, len(fitted.topics))]]
    )
    whole, now = fitted.transform(corpus), merged.transform(corpus)
    np.testing.assert_allclose(now[:, 0], whole[:, 0] + whole[:, 2], atol=1e-6)
    np.testing.assert_array_equal(now[:, 1], whole[:, 1])
    assert merged.score(corpus) == fitted.score(corpus)


def test_edits_one_after_the_other_are_saved(fitted, corpus, tmp_path):
    edited = fitted.merge([0, 1]).drop([1]).rename({0: "Both"})
    assert edited.trained.parts[0] == (0, 1)
    assert edited.dropped == [2]
    once = fitted.merge([0, 1, 3])
    twice = fitted.merge([0, 3]).merge([0, 1])
    np.testing.assert_allclose(once.topics[0], twice.topics[0], rtol=1e-6)
    assert once.stability[0] == pytest.approx(twice.stability[0])
    np.testing.assert_allclose(
        edited.other, fitted.other + fitted.proportions[:, 2], rtol=1e-4, atol=1e-6
    )
    # What is left out is not taken for topics that come and go.
    assert edited.drop([0]).warnings == fitted.warnings
    loaded = hdp.Fit.load(edited.save(tmp_path / "run"))
    assert_same(
        *(loaded, edited, "state", "samples", "partitions", "traces", "interrupted", "examples"),
        "predictive",
    )
    np.testing.assert_array_equal(loaded.transform(corpus), edited.transform(corpus))
    again = loaded.merge([0, 1])
    np.testing.assert_array_equal(again.topics, edited.merge([0, 1]).topics)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "merged from topics 0, 1 of the run" in page
    assert "were left out" in page
    assert "Both" in (tmp_path / "run" / "topics.csv").read_text()


def test_a_fit_with_some_of_its_samples_does_not_merge(fitted):
    few = dataclasses.replace(fitted, num_samples=fitted.num_samples + 1)
    with pytest.raises(ValueError, match="topics of 24 of its 25 samples"):
        few.merge([0, 1])
    assert few.drop([0]).num_topics == few.num_topics - 1


@pytest.mark.slow
def test_the_command(tmp_path):
    themes = ["river water stream boat ", "goal match team ball ", "bread oven cake flour "]
    rows = "\n".join(4 * themes[i % 3] for i in range(60))
    (tmp_path / "x.txt").write_text(rows)
    made = ["--passes", 40, "--min-df", 1, "--max-df", 1, "--quiet", "--out", tmp_path / "run"]

    def invoke(*arguments):
        return CliRunner().invoke(main, ["hdp", *map(str, arguments)])

    result = invoke(tmp_path / "x.txt", *made)
    assert result.exit_code == 0, result.stderr
    (tmp_path / "edits.txt").write_text("0+1 Both\n")
    result = invoke("edit", tmp_path / "run", tmp_path / "edits.txt")
    assert result.exit_code == 0, result.stderr
    assert "[Both]" in result.stdout
    edited = hdp.Fit.load(tmp_path / "run-edited")
    assert edited.trained.parts[0] == (0, 1)
    assert edited.coherence[0] == edited.coherence[0]
    (tmp_path / "names.txt").write_text("0 Boats\n")
    result = invoke("report", tmp_path / "run", "--topic-names", tmp_path / "names.txt")
    assert result.exit_code == 0, result.stderr
    assert hdp.Fit.load(tmp_path / "run").titles[0] == "Boats"
    result = invoke("--resume", tmp_path / "run-edited", "--passes", 60)
    assert "the run in" in result.stderr

"""The files of a run: what is in them, and that only a whole run is read again."""

import csv
import dataclasses
import json
import re
import zipfile

import numpy as np
import pytest
from support.fits import assert_same, topic_fit

from simplex_jax._src.corpus import from_counts
from simplex_jax._src.evaluate.intervals import beta_interval
from simplex_jax._src.models import dtm, hdp, lda, sam
from simplex_jax._src.models.lda import checks
from simplex_jax._src.report.examples import representative
from simplex_jax._src.runtime import directory, output
from simplex_jax._src.runtime import saved as runs

MEAN = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], np.float32)
COUNTS = [[5, 3, 0], [0, 1, 9], [0, 0, 0], [4, 4, 1]]
CORPUS = from_counts(COUNTS, ["café", "two words", "<b>"], ["one", "tw\udc80", "empty", "three"])
SHARES = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5], [0.7, 0.3]], np.float32)


def fit(**changes):
    values = {
        **{"proportions_error": np.zeros(4, np.float32)},
        **{"proportions": SHARES, "names": CORPUS.names, "alpha": np.array([0.1, 0.25])},
        **{"diagnostics": {"alpha": {"rhat": float("nan"), "ess": 9.0}}, "warnings": ["few"]},
        **{"metrics": [{"step": 5, "perplexity": 10.5}], "settings": lda.resolve(CORPUS, 2)},
    }
    values |= changes
    examples = representative(
        CORPUS.counts, CORPUS.names, CORPUS.vocabulary, values["proportions"], MEAN
    )
    return topic_fit(MEAN, CORPUS.vocabulary, **values, examples=examples)


@pytest.fixture
def run(tmp_path):
    return fit().save(tmp_path / "run")


def test_a_run_is_read_as_it_was_written(run):
    fitted = lda.load(run)
    assert_same(fitted, fit())
    assert fitted.settings == fit().settings
    assert fitted.metrics == runs.load_metrics(run) == [{"step": 5, "perplexity": 10.5}]
    assert runs.finished(run)


def test_topics_csv_has_the_intervals(run):
    with (run / "topics.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["topic", "rank", "word", "probability", "lower", "upper", "interval"]
    assert [row["word"] for row in rows[3:]] == ["<b>", "café", "two words"]
    lower, upper = beta_interval(MEAN[1, 2], np.float32(0.1) * MEAN[1, 2])
    assert float(rows[3]["lower"]) == pytest.approx(float(lower), rel=1e-5)
    assert float(rows[3]["upper"]) == pytest.approx(float(upper), rel=1e-5)
    assert {row["interval"] for row in rows} == {"95%"}


def test_topics_csv_names_what_its_ends_are(tmp_path):
    """Few effective samples: the range over chains of a topic in both, none of one in one only."""
    few = {f"prevalence {k}": {"rhat": 1.0, "ess": 12.0} for k in range(2)}
    two = {"shared": np.array([[True, True], [True, False]]), "order": np.array([[0, 1]] * 2)}
    two["prevalence_draws"] = np.zeros((0, 2, 2))
    reach = MEAN * np.array([0.9, 1.1], np.float32)[:, None, None]
    fitted = dataclasses.replace(fit(), diagnostics=few, topics_range=reach, **two)
    fitted.save(tmp_path / "run")
    with (tmp_path / "run" / "topics.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["interval"] for row in rows] == ["range over chains"] * 3 + ["none"] * 3
    for row in rows[:3]:
        ends = [float(row[name]) / float(row["probability"]) for name in ("lower", "upper")]
        assert ends == pytest.approx([0.9, 1.1], rel=1e-4)
    assert {row["lower"] for row in rows[3:]} == {"nan"}
    np.testing.assert_array_equal(lda.load(tmp_path / "run").topics_range, reach)


def test_topic_keys_are_those_of_mallet(run):
    lines = (run / "topic_keys.txt").read_text("utf-8").splitlines()
    assert lines == ["0\t0.1\tcafé two words <b>", "1\t0.25\t<b> café two words"]


def test_summary(run):
    summary = json.loads((run / "summary.json").read_text("utf-8"))
    assert summary["warnings"] == ["few"]
    assert summary["diagnostics"] == {"alpha": {"rhat": None, "ess": 9.0}}
    assert len(summary["coherence_npmi"]) == 2
    named = [[entry["name"] for entry in entries] for entries in summary["documents"]]
    # The empty document, whose share is that of the prior, represents no topic.
    assert named == [["one", "three", "tw?"], ["tw?", "three", "one"]]
    assert summary["documents"][1][0]["words"] == ["<b>", "two words"]


def test_doc_topics_in_parts(run, tmp_path):
    path = tmp_path / "parts.npz"
    directory.write_proportions(
        path, CORPUS.names, 2, iter([(SHARES[:1], None), (SHARES[1:], None)])
    )
    for result in (path, run / "doc_topics.npz"):
        with np.load(result, allow_pickle=False) as arrays:
            np.testing.assert_array_equal(arrays["proportions"], SHARES)
            assert tuple(arrays["documents"].tolist()) == CORPUS.names
    with pytest.raises(ValueError, match="3 rows for 4 documents"):
        directory.write_proportions(path, CORPUS.names, 2, [(SHARES[:3], None)])
    assert path.exists(), "the old file is kept"


@pytest.mark.parametrize("name", ["shares.csv", "SHARES.CSV"])
def test_doc_topics_as_csv(tmp_path, name):
    path, errors = tmp_path / name, np.array([0.012, 0, 0.5], np.float32)
    directory.write_proportions(path, CORPUS.names, 2, [(SHARES[:1], None), (SHARES[1:], errors)])
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["document", "error", "topic_0", "topic_1"]
    assert rows[1] == ["one", "", "0.9", "0.1"]
    assert rows[2] == ["tw?", "0.012", "0.2", "0.8"]
    assert len(rows) == 5
    with pytest.raises(ValueError, match="1 rows for 4 documents"):
        directory.write_proportions(path, CORPUS.names, 2, [(SHARES[:1], None)])


def test_errors_of_proportions_come_back_and_are_told(tmp_path):
    errors = np.array([0.001, 0.01, 0.03, 0], np.float32)
    fitted = fit(proportions_error=errors)
    np.testing.assert_array_equal(lda.load(fitted.save(tmp_path / "run")).proportions_error, errors)
    (sentence,) = (text for text in checks.warn(fitted) if "Monte-Carlo" in text)
    assert "25.0% of the documents" in sentence
    assert "0.03" in sentence


def test_without_proportions_no_file_and_no_documents(tmp_path):
    place = fit(
        proportions=np.zeros((0, 2), np.float32), proportions_error=np.zeros(0, np.float32)
    ).save(tmp_path / "run")
    assert not (place / "doc_topics.npz").exists()
    assert json.loads((place / "summary.json").read_text())["documents"] == []
    assert lda.load(place).proportions.shape == (0, 2)


def test_a_run_replaces_another_on_request_only(run):
    """And is not in its place where it cannot be written."""
    (run / "notes.txt").write_text("mine")
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    with pytest.raises(FileExistsError, match="overwrite=True"):
        fit().save(run)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before
    fit(num_samples=30).save(run, overwrite=True)
    assert lda.load(run).num_samples == 30
    assert (run / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("word", ["two\nlines", "half \ud800"])
def test_words_that_no_line_can_hold(word):
    with pytest.raises(ValueError, match=r"^word 1 .*vocabulary\.txt"):
        directory.check_words(["fine", word])


@pytest.mark.parametrize("model", [lda, hdp, sam, dtm])
def test_such_a_word_is_refused_before_a_fit(model):
    """Which could not be saved."""
    data = from_counts(np.eye(3, dtype=int).repeat(10, 0), ["two\nlines", "fine", "too"])
    named = {"times": np.arange(30) // 10} if model is dtm else {}
    named |= {} if model is hdp else {"num_topics": 2}
    with pytest.raises(ValueError, match=r"'two\\nlines', .*vocabulary\.txt"):
        model.fit(data, **named)


def test_a_fit_with_such_a_word_is_not_saved(run):
    """Nor is the run removed that is there: what would take its place could not be read."""
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    words = ("two\nlines", *fit().vocabulary[1:])
    with pytest.raises(ValueError, match=r"'two\\nlines', .*vocabulary\.txt"):
        dataclasses.replace(fit(), vocabulary=words).save(run, overwrite=True)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


@pytest.mark.parametrize("words", [[], ["river"]])
def test_a_vocabulary_that_no_topics_can_have(words):
    with pytest.raises(ValueError, match=rf"has {len(words)} word.* at least 2.*--min-df"):
        directory.check_words(words)


def arrays_with(**changes):
    def damage(run):
        with np.load(run / "topics.npz") as arrays:
            kept = dict(arrays)
        kept.update(changes)
        output.write_npz(run / "topics.npz", {k: v for k, v in kept.items() if v is not None})

    return damage


def flipped(run):
    content = bytearray((run / "topics.npz").read_bytes())
    content[200] ^= 1
    (run / "topics.npz").write_bytes(content)


def bomb(run):
    with zipfile.ZipFile(run / "topics.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("topics.npy", bytes(80_000_000))


def earlier(run):
    """Turn a run into one of a version whose files had no number of their format."""
    config = json.loads((run / "config.json").read_text())
    del config["format"]
    config["versions"]["simplex_jax"] = "0.0.9"
    (run / "config.json").write_text(json.dumps(config))


DAMAGES = {
    "no directory": (lambda run: run.rename(run.parent / "away"), "no such directory"),
    "foreign": (lambda run: (run / "config.json").unlink(), "no config.json"),
    "unfinished": (lambda run: (run / "topics.npz").unlink(), "--resume"),
    "no words": (lambda run: (run / "vocabulary.txt").unlink(), "vocabulary.txt: cannot be read"),
    "other words": (lambda run: (run / "vocabulary.txt").write_text("a\n"), "different runs"),
    "latin words": (lambda run: (run / "vocabulary.txt").write_bytes(b"\xe9\n"), "cannot be read"),
    "torn json": (lambda run: (run / "config.json").write_text('{"set'), "not JSON"),
    "deep json": (lambda run: (run / "config.json").write_text("[" * 10**5), "not JSON"),
    "list": (lambda run: (run / "config.json").write_text("[]"), "not a JSON object"),
    "other json": (lambda run: (run / "config.json").write_text("{}"), "not a configuration"),
    "earlier format": (earlier, "another format: read them with simplex_jax 0.0.9"),
    "torn": (lambda run: (run / "topics.npz").write_bytes(b"PK\x03\x04"), "damaged"),
    "flipped bit": (flipped, "damaged"),
    "bomb": (bomb, "far more than its size"),
    "missing array": (arrays_with(alpha=None), "damaged"),
    "other topics": (arrays_with(topics=MEAN[:1]), "different runs"),
    "integers": (arrays_with(beta=np.ones(3, int)), "different runs"),
    "negative": (arrays_with(prevalence=np.array([-0.1, 1.1])), "out of range"),
    "nan": (arrays_with(topics=np.full_like(MEAN, np.nan)), "out of range"),
    "zero alpha": (arrays_with(alpha=np.array([0.0, 1.0])), "out of range"),
    "no sum": (arrays_with(topics=MEAN / 2), "do not sum to 1"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_run_is_one_clear_error(run, name):
    damage, message = DAMAGES[name]
    damage(run)
    with pytest.raises(runs.RunError, match=re.escape(message)) as caught:
        lda.load(run)
    assert str(run) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_run_without_excerpts_of_its_documents_is_read(run):
    summary = json.loads((run / "summary.json").read_text())
    documents = [entry for entries in summary["documents"] for entry in entries]
    assert documents
    for entry in documents:
        del entry["text"]
    (run / "summary.json").write_text(json.dumps(summary))
    assert {entry["text"] for entries in lda.load(run).examples for entry in entries} == {""}


def test_nothing_is_unpickled(run):
    np.savez(run / "topics.npz", topics=np.array([object()]))
    with pytest.raises(runs.RunError, match="damaged"):
        lda.load(run)


def test_damaged_metrics(run):
    for text in ("no json\n", "[1]\n"):
        (run / "metrics.jsonl").write_text(text)
        with pytest.raises(runs.RunError, match="damaged"):
            runs.load_metrics(run)

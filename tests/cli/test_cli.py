"""The command line as a user meets it: outputs, exit status, one line for each error."""

import csv
import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

from simplex_jax._src.cli import main
from simplex_jax._src.corpus import TextOptions, read
from simplex_jax._src.models import lda, pipeline
from simplex_jax._src.models.lda.options import Arguments

TINY = ["--topics", "2", "--passes", "4", "--min-df", "1", "--max-df", "1.0"]


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    lines = ["river water stream boat", "goal match team ball"] * 20
    path.write_text("\n".join(lines) + "\n")
    return path


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_a_run_writes_everything(texts, tmp_path):
    out = tmp_path / "run"
    result = invoke("lda", texts, *TINY, "--holdout", 4, "--seed", 1, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert "perplexity" in result.stderr

    config = json.loads((out / "config.json").read_text())
    assert config["settings"]["num_topics"] == 2
    assert config["settings"]["batch_size"] >= 1
    assert config["corpus"]["documents"] == 40
    assert len(config["corpus"]["digest"]) == 64
    assert config["versions"]["jax"]

    metrics = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert {"step", "documents", "seconds", "perplexity", "tokens_per_second"} <= set(metrics[-1])
    assert metrics[-1]["perplexity_average"] > 1

    words = (out / "vocabulary.txt").read_text().splitlines()
    assert words == sorted(["river", "water", "stream", "boat", "goal", "match", "team", "ball"])
    with np.load(out / "topics.npz", allow_pickle=False) as arrays:
        mean, sd = arrays["topics"], arrays["topics_sd"]
    assert mean.shape == sd.shape == (2, 8)
    np.testing.assert_allclose(mean.sum(axis=1), 1, rtol=1e-5)
    with np.load(out / "doc_topics.npz", allow_pickle=False) as arrays:
        proportions, names = arrays["proportions"], arrays["documents"]
    assert proportions.shape == (40, 2)
    rivers = [int(name) % 2 for name in names]  # lines are numbered from 1: rivers are odd
    leaning = (proportions[:, 0] > 0.5).astype(int).tolist()
    assert leaning in (rivers, [1 - river for river in rivers])
    assert config["source"]["reading"]["min_df"] == 1
    with (out / "topics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["topic", "rank", "word", "probability", "lower", "upper", "interval"]
    # Four passes have fewer than 50 effective samples: no interval says anything.
    assert {(row["lower"], row["upper"]) for row in rows} == {("nan", "nan")}
    assert len(rows) == 16
    top = words[int(mean[0].argmax())]
    assert (rows[0]["word"], float(rows[0]["probability"])) == (top, pytest.approx(mean[0].max()))
    keys = [line.split("\t") for line in (out / "topic_keys.txt").read_text().splitlines()]
    assert [key[:2] for key in keys] == [["0", "0.1"], ["1", "0.1"]]
    assert keys[0][2].split()[0] == top
    assert (out / "checkpoint").is_dir()
    assert (
        len(list((out / "samples").iterdir()))
        == json.loads((out / "summary.json").read_text())["num_samples"]
        // config["settings"]["chains"]
    )
    html = (out / "report.html").read_text()
    assert "river" in html
    assert not re.search(r'(src|href)="(?!#|data:)|url\((?!#)', html)

    again = invoke("lda", texts, *TINY, "--out", out)
    assert again.exit_code == 1
    assert "--overwrite" in again.stderr
    assert json.loads((out / "config.json").read_text()) == config
    assert invoke("lda", texts, *TINY, "--holdout", 0, "--out", out, "--overwrite").exit_code == 0


def test_options_about_reading_need_an_input(tmp_path):
    result = invoke("lda", "--min-df", 3, "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert "--min-df" in result.stderr


def test_documents_too_short_to_hold_out(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("river\ngoal\n" * 10)
    every = ["--min-df", 1, "--max-df", 1.0, "--topics", 2, "--dry-run"]
    corpus = read(path, text=TextOptions(min_df=1, max_df=1.0))
    refused = []
    for seed in range(8):
        data = pipeline.plan(lda.MODEL, corpus, Arguments(2, seed=seed, holdout=None))
        assert (data.heldout is None) == (data.held == 0)
        if data.held == 0:  # by the draw of sides
            refused.append(seed)
            with pytest.raises(ValueError, match="hold out more"):
                pipeline.plan(lda.MODEL, corpus, Arguments(2, seed=seed, holdout=2))
    assert refused, "one in four"
    result = invoke("lda", path, *every, "--seed", refused[0])
    assert result.exit_code == 0, result.stderr
    assert "too short to" in result.stderr
    result = invoke("lda", path, *every, "--seed", refused[0], "--holdout", 2)
    assert result.exit_code == 1
    assert "hold out more" in result.stderr


def test_without_out_a_new_directory_is_made(texts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("simplex-jax-lda", "simplex-jax-lda-2"):
        result = invoke("lda", texts, *TINY, "--holdout", 0, "--quiet")
        assert (result.exit_code, result.output) == (0, "")
        assert (tmp_path / name / "report.html").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--topics", "0"],
        ["--sampler", "hmc"],
        ["--sampler", "smld"],  # there to compare with, in Python
        ["--passes", "2", "--steps", "3"],
        ["--seconds", "-1"],
        ["--alpha", "-1"],
        ["--alpha", "learned"],
        ["--beta", "0"],
        ["--beta", "nan"],
        ["--chains", "0"],
        ["--devices", "0"],
        ["--devices", "two"],
        ["--stream", "--min-df", "3"],
        ["--max-df", "7"],
        ["--no-such-option"],
    ],
)
def test_bad_usage_is_status_two(texts, tmp_path, arguments):
    result = invoke("lda", texts, *arguments, "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("docword.x.txt", b"2\n3\n2\n1 1 2\n1 9 1\n", ["docword.x.txt:5"]),
        ("docword.x.txt", b"2\n3\n1\n1 1 -2\n", ["docword.x.txt:4"]),
        ("empty.txt", b"", ["empty.txt"]),
        ("latin.txt", b"caf\xe9 river water\n", ["latin.txt:1", "encoding"]),
        ("pickle.npz", b"\x80\x04K\x01.", ["pickle.npz"]),
        ("missing.txt", None, ["missing.txt"]),
    ],
)
def test_bad_data_is_one_line_and_status_one(tmp_path, name, content, words):
    (tmp_path / "vocab.x.txt").write_text("a\nb\nc\n")
    if content is not None:
        (tmp_path / name).write_bytes(content)
    result = invoke("lda", tmp_path / name, *TINY[:4], "--quiet", "--out", tmp_path / "run")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert all(word in result.stderr for word in words), result.stderr
    assert not (tmp_path / "run").exists()


def test_bad_settings_are_status_one_and_leave_nothing(texts, tmp_path):
    devices = ["--devices", "1000"]  # JAX has started: there are no more than it has
    for wrong in (["--batch-size", "1000"], ["--holdout", "41"], ["--passes", "1e30"], devices):
        result = invoke("lda", texts, *TINY, *wrong, "--quiet", "--out", tmp_path / "run")
        assert result.exit_code == 1
        assert len(result.stderr.splitlines()) == 1
        assert wrong[0].strip("-").split("-")[0] in result.stderr
        assert not (tmp_path / "run").exists()


def test_a_failure_shows_its_traceback_on_request(tmp_path):
    result = invoke("lda", tmp_path / "none.txt", "--debug")
    assert result.exit_code == 1
    assert isinstance(result.exception, ValueError)

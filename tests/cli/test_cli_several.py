"""Several numbers of topics from one command."""

import csv
import json
import signal

import numpy as np
import pytest
from click.testing import CliRunner
from support.cut_runs import Cut, look_after_every_step

from simplex_jax._src.cli import main, verbs
from simplex_jax._src.models import lda
from simplex_jax._src.runtime.hooks import MetricsLog

LINES = ["river water stream boat", "goal match team ball", "violin sonata opera quartet"] * 16
CUT = ["--min-df", "1", "--max-df", "1.0"]


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


@pytest.mark.parametrize(
    "command",
    [
        ["lda", "--passes", 20],
        pytest.param(["sam", "--steps", 20, "--eval-every", 5], marks=pytest.mark.slow),
    ],
    ids=["lda", "sam"],
)
def test_numbers_of_topics_are_compared(command, texts, tmp_path):
    out = tmp_path / "runs"
    options = ["--topics", "2, 3", "--holdout", 8, "--seed", 5, "--out", out]
    name, *length = command
    result = invoke(name, texts, *CUT, *options, *length)
    assert result.exit_code == 0, result.stderr
    with (out / "comparison.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["topics"] for row in rows] == ["2", "3"]
    for row in rows:
        assert float(row["heldout"]) > 0 or name == "sam"
        assert float(row["heldout_error"]) >= 0
        assert 0 <= float(row["stability"]) <= 1
        assert 0 <= float(row["intervals"]) <= 1
        assert row["coherence_error"] != "nan"
        assert 0 <= float(row["in_all_fits"]) <= int(row["topics"])
    best = max(rows, key=lambda row: (float(row["in_all_fits"]), -int(row["topics"])))
    advice = f"take {best['topics']} topics: {float(best['in_all_fits']):.0f} of them are in all"
    assert advice in result.stdout
    assert "== run 3 of 4: 3 topics, seed 5" in result.stderr
    assert "<svg" in (out / "comparison.svg").read_text()
    runs = sorted(path.name for path in out.iterdir() if path.is_dir())
    assert runs == [f"topics-{size}-seed-{seed}" for size in (2, 3) for seed in (5, 6)]
    sources = [json.loads((out / run / "config.json").read_text())["source"] for run in runs]
    assert {source["holdout_seed"] for source in sources} == {5}, "all predict the same documents"
    if name == "lda":
        assert lda.load(out / "topics-3-seed-6").topics.shape == (3, 12)

    kept = (out / "topics-2-seed-5" / "topics.csv").stat().st_mtime_ns
    again = invoke(name, texts, *CUT, *options, *length)
    assert again.exit_code == 0, again.stderr
    assert again.stderr.count("is finished") == 4
    assert (out / "topics-2-seed-5" / "topics.csv").stat().st_mtime_ns == kept
    for arguments in (["report", out], ["--resume", out]):
        refused = invoke(name, *arguments)
        assert refused.exit_code == 1
        assert f"such as {out / runs[0]}" in refused.stderr
    (out / "notes.txt").write_text("mine")
    again = invoke(name, texts, *CUT, *options, *length)
    assert again.exit_code == 1
    assert "is not empty (notes.txt)" in again.stderr


def test_the_same_command_goes_on_after_an_interruption(texts, tmp_path, monkeypatch):
    """To the table of a command that was not interrupted; another command is refused."""
    given = [texts, *CUT, "--topics", "2,3", "--repeats", 1, "--holdout", 8, "--steps", 40]
    given += ["--eval-every", 5]
    out, whole = tmp_path / "runs", tmp_path / "whole"
    assert invoke("lda", *given, "--out", whole).exit_code == 0

    logs = iter([MetricsLog, Cut(20, signal.SIGINT).log])  # the second fit is cut
    look_after_every_step(monkeypatch)
    with monkeypatch.context() as patched:
        patched.setattr(verbs, "MetricsLog", lambda path: next(logs)(path))
        result = invoke("lda", *given, "--out", out, "--checkpoint-every", 0)
    assert result.exit_code == 130
    assert "keeps finished fits" in result.stderr
    assert not (out / "comparison.csv").exists()

    for other in (["--alpha", 0.3], ["--steps", 50], ["--holdout", 9]):
        refused = invoke("lda", *given, *other, "--out", out)
        assert refused.exit_code == 1
        assert f"the run in {out / 'topics-2-seed-0'} has other settings" in refused.stderr
        assert other[0].removeprefix("--") in refused.stderr.splitlines()[-1]

    result = invoke("lda", *given, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert f"the run in {out / 'topics-2-seed-0'} is finished" in result.stderr
    table = (out / "comparison.csv").read_text()
    assert table == (whole / "comparison.csv").read_text()
    ended, straight = (lda.load(place / "topics-3-seed-0") for place in (out, whole))
    np.testing.assert_array_equal(ended.topics, straight.topics)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--topics", "2,2"], "'2,2' has a number twice"),
        (["--topics", "2,x"], "'2,x' is not a whole number, or several with"),
        (["--topics", "2,"], "'2,' is not a whole number, or several with commas between them."),
        (["--topics", "2,0"], "0 is not in the range"),
        (["--topics", "2", "--repeats", "3"], "--repeats requires several values of --topics"),
        (["--topics", "auto"], "simplex-jax hdp infers the number of topics"),
        (["--topics", "2,3", "--seed", "4294967295"], "--seed must be at most 4294967294"),
        (["--topics", "2,3", "--dry-run"], "--dry-run does not support several values"),
    ],
)
def test_bad_numbers_are_named(arguments, message, texts):
    result = invoke("lda", texts, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr

"""Several numbers of topics from one command."""

import csv
import json

import pytest
from click.testing import CliRunner

from simplex_jax.cli import main
from simplex_jax.models import lda

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
    assert "<svg" in (out / "comparison.svg").read_text()
    runs = sorted(path.name for path in out.iterdir() if path.is_dir())
    assert runs == [f"topics-{size}-seed-{seed}" for size in (2, 3) for seed in (5, 6)]
    sources = [json.loads((out / run / "config.json").read_text())["source"] for run in runs]
    assert {source["holdout_seed"] for source in sources} == {5}, "all predict the same documents"
    if name == "lda":
        assert lda.load(out / "topics-3-seed-6").mean.shape == (3, 12)

    again = invoke(name, texts, *CUT, *options, *length)
    assert again.exit_code == 1
    assert "is not empty" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--topics", "2,2"], "'2,2' has a number twice"),
        (["--topics", "2,x"], "'x' is not a valid integer"),
        (["--topics", "2,0"], "0 is not in the range"),
        (["--topics", "2", "--repeats", "3"], "--repeats requires several values of --topics"),
        (["--topics", "auto"], "The number of topics is found by simplex-jax hdp"),
        (["--topics", "2,3", "--dry-run"], "--dry-run does not support several values"),
    ],
)
def test_bad_numbers_are_named(arguments, message, texts):
    result = invoke("lda", texts, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr

"""Runs that are cut short, by signals and by kill -9, and resumed."""

import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from support.cut_runs import Cut
from support.paths import TESTS

from simplex_jax._src.cli import main, verbs
from simplex_jax._src.models import lda
from simplex_jax._src.models.lda.commands import COMMANDS
from simplex_jax._src.runtime import saved

LINES = ["river water stream boat", "goal match team ball", "violin sonata opera quartet"] * 20
OPTIONS = [
    *("--topics", 3, "--min-df", 1, "--max-df", 1.0, "--holdout", 6, "--seed", 3),
    *("--alpha", "learn-asymmetric", "--steps", 100, "--eval-every", 10, "--devices", 1),
]


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def run_until_killed(step, *arguments):
    verbs.MetricsLog = Cut(step, signal.SIGKILL).log
    main(list(arguments))


def steps_of(run):
    return [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_a_run_cut_three_times_ends_with_the_same_samples(texts, tmp_path, monkeypatch):
    whole, out = tmp_path / "whole", tmp_path / "cut"
    assert invoke("lda", texts, *OPTIONS, "--out", whole).exit_code == 0

    code = "import sys; from cli import test_cli_resume as t; t.run_until_killed(30, *sys.argv[1:])"
    arguments = ["lda", texts, *OPTIONS, "--checkpoint-every", 0, "--out", out]
    killed = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        capture_output=True,
        text=True,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (out / "topics.npz").exists()
    report = invoke("lda", "report", out)
    assert report.exit_code == 1
    assert "--resume" in report.stderr
    assert steps_of(out) == [10, 20, 30], "the last one after the last checkpoint"
    with (out / "metrics.jsonl").open("a") as file:
        file.write('{"step": 35, "torn')

    for number, step, status in ((signal.SIGINT, 40, 130), (signal.SIGTERM, 70, 143)):
        with monkeypatch.context() as patch:
            patch.setattr(verbs, "MetricsLog", Cut(step, number).log)
            result = invoke("lda", "--resume", out, "--quiet")
        assert result.exit_code == status, result.stderr
        assert result.stderr.splitlines()[-1].endswith(f"simplex-jax lda --resume {out}")
        assert steps_of(out) == list(range(10, step + 1, 10))
        assert json.loads((out / "summary.json").read_text())["interrupted"]
        assert "The run was interrupted" in (out / "report.html").read_text()

    result = invoke("lda", "--resume", out, "--quiet")
    assert result.exit_code == 0, result.stderr
    assert "The run was interrupted" not in (out / "report.html").read_text()
    assert steps_of(out) == steps_of(whole)
    for name in ("topics.npz", "doc_topics.npz"):
        with np.load(out / name) as a, np.load(whole / name) as b:
            for array in b.files:
                np.testing.assert_array_equal(a[array], b[array])


@pytest.fixture
def begun(texts, tmp_path):
    """The files of a run that was killed before its first checkpoint."""
    out = tmp_path / "run"
    assert invoke("lda", texts, *OPTIONS, "--out", out).exit_code == 0
    for path in out.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in ("config.json", "metrics.jsonl"):
            path.unlink()
    return out


@pytest.mark.filterwarnings("default")
def test_a_damaged_checkpoint_is_one_line_and_leftovers_go(texts, tmp_path):
    out = tmp_path / "run"
    every = ("--checkpoint-every", 0, "--keep-samples", 2)
    result = invoke("lda", texts, *OPTIONS, *every, "--out", out)
    assert result.exit_code == 0, result.stderr
    (out / "topics.npz").unlink()
    (out / "summary.json").unlink()
    newest = max((out / "checkpoint").iterdir())
    os.truncate(newest / "arrays-0.npz", 100)
    leftovers = [
        ".topics.npz.0123abcd.tmp",
        "samples/.sample-00000.npz.0123abcd.tmp",
        "checkpoint/.000099-step-5.0123abcd.tmp",
    ]
    for name in [*leftovers, ".topics.npz.mine.tmp", "samples/.other.npz.0123abcd.tmp"]:
        (out / name).write_text("half")
    result = invoke("lda", "--resume", out, "--quiet")
    assert result.exit_code == 0, result.stderr
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"simplex-jax: warning: checkpoint {str(newest)!r} is damaged")
    assert "SHA256SUMS" in line
    left = sorted(str(path.relative_to(out)) for path in out.rglob(".*.tmp"))
    assert left == [".topics.npz.mine.tmp", "samples/.other.npz.0123abcd.tmp"]


def test_resume_refuses_other_settings(begun):
    for given in (["--topics", 3], ["--holdout", 9], ["--out", "x"], ["--dry-run"]):
        result = invoke("lda", "--resume", begun, *given)
        assert result.exit_code == 2
        assert f"{given[0]} cannot change" in result.stderr
    result = invoke("lda", "--resume", begun, "--steps", 200, "--passes", 9)
    assert result.exit_code == 2
    assert "give one of" in result.stderr
    config = begun / "config.json"
    values = json.loads(config.read_text())
    values["settings"] |= {"counts": "subsampled"}
    config.write_text(json.dumps(values))
    for goal in (["--target-ess", 50], ["--time-limit", 9]):
        result = invoke("lda", "--resume", begun, *goal)
        assert result.exit_code == 2
        assert "Error: target_ess and time_limit" in result.stderr


def test_a_finished_run_goes_on_to_another_length(texts, tmp_path, monkeypatch):
    """And is that run from then on: cut on its way, it goes on to the new end."""
    out, whole = tmp_path / "run", tmp_path / "whole"
    assert invoke("lda", texts, *OPTIONS, "--out", out).exit_code == 0
    assert "is finished" in invoke("lda", "--resume", out).stderr
    with monkeypatch.context() as patch:
        patch.setattr(verbs, "MetricsLog", Cut(120, signal.SIGINT).log)
        assert invoke("lda", "--resume", out, "--steps", 150, "--quiet").exit_code == 130
    assert lda.load(out).settings.steps == 150
    (out / "summary.json").write_text('{"interrupted": true}')  # whatever had become of the rest
    part = out / "doc_topics" / "part-00000-of-00002.npz"  # as several processes have written it
    part.parent.mkdir()
    part.touch()
    assert invoke("lda", "--resume", out, "--quiet").exit_code == 0
    assert not part.exists()
    assert steps_of(out) == list(range(10, 151, 10))
    assert "is finished" in invoke("lda", "--resume", out).stderr

    (out / "topics.npz").unlink()
    with pytest.raises(saved.RunError, match="continue it with simplex-jax lda --resume"):
        lda.load(out)
    assert invoke("lda", "--resume", out, "--quiet").exit_code == 0

    longer = ["--steps", 150, "--eval-every", 10]
    assert invoke("lda", texts, *OPTIONS, *longer, "--out", whole).exit_code == 0
    shown = [
        [(record["step"], record["perplexity"]) for record in lda.load(run).metrics]
        for run in (out, whole)
    ]
    assert shown[0] == shown[1], "the state has gone on to the bit"
    part.parent.mkdir()
    part.touch()
    before = [(out / name).read_bytes() for name in ("config.json", "summary.json")]
    result = invoke("lda", "--resume", out, "--steps", 50, "--quiet")
    assert result.exit_code == 1
    assert "already done 150 steps" in result.stderr
    assert before == [(out / name).read_bytes() for name in ("config.json", "summary.json")]
    assert part.exists(), "a run that is refused loses nothing"


def test_resume_where_nothing_was_saved_and_the_corpus_has_moved(begun, texts):
    moved = texts.rename(texts.with_name("moved.txt"))
    result = invoke("lda", "--resume", begun)
    assert result.exit_code == 1
    assert "texts.txt" in result.stderr
    result = invoke("lda", moved, "--resume", begun, "--devices", 1)
    assert result.exit_code == 0, result.stderr
    assert "its first checkpoint" in result.stderr
    assert (begun / "metrics.jsonl").read_text().count("\n") == 10

    moved.write_text("\n".join([*LINES[:-1], "river goal"]) + "\n")
    (begun / "summary.json").unlink()
    result = invoke("lda", moved, "--resume", begun)
    assert result.exit_code == 1
    assert "not the data" in result.stderr


def test_resume_wants_a_run(tmp_path):
    result = invoke("lda", "--resume", tmp_path)
    assert result.exit_code == 1
    assert "no config.json" in result.stderr
    source = {"input": None, "reading": {}, "holdout": None, "holdout_seed": None}
    config = {"command": "lda", "settings": {"num_topics": 2}, "corpus": {}, "versions": {}}
    config["format"] = saved.FORMAT
    for wrong, says in (
        (source | {"input": 1}, "cannot resume"),
        (source | {"more": 1}, "cannot resume"),
        (source | {"reading": {"format": None}}, "cannot resume"),
        (None, "cannot resume"),
        (source | {"reading": dict.fromkeys(COMMANDS.reading)}, "the settings are damaged"),
    ):
        (tmp_path / "config.json").write_text(json.dumps(config | {"source": wrong}))
        result = invoke("lda", "--resume", tmp_path)
        assert result.exit_code == 1
        assert f"{tmp_path / 'config.json'}: " in result.stderr
        assert says in result.stderr
        assert len(result.stderr.splitlines()) == 1


@pytest.mark.slow
def test_a_run_without_a_length_is_made_longer(texts, tmp_path):
    out, given = tmp_path / "run", [*OPTIONS[:8], "--target-ess", 40, "--quiet"]
    assert invoke("lda", texts, *given, "--out", out).exit_code == 0
    steps = steps_of(out)[-1]
    assert "is finished" in invoke("lda", "--resume", out).stderr
    assert invoke("lda", "--resume", out, "--time-limit", 60, "--quiet").exit_code == 0
    settings = lda.load(out).settings
    assert (settings.target_ess, settings.time_limit, settings.steps) == (40, 60, None)
    result = invoke("lda", "--resume", out, "--steps", 2 * steps, "--quiet")
    assert result.exit_code == 0, result.stderr
    settings = lda.load(out).settings
    assert (settings.target_ess, settings.time_limit, settings.steps) == (None, None, 2 * steps)
    assert steps_of(out)[-1] == 2 * steps


def test_a_run_too_short_for_a_sample_has_results(texts, tmp_path):
    run = tmp_path / "run"
    options = ["--topics", 3, "--chains", 1, "--passes", 1, "--min-df", 1, "--max-df", 1.0]
    short = invoke("lda", texts, *options, "--out", run)
    assert short.exit_code == 0, short.output
    assert not list(run.glob("samples/*"))
    assert (run / "report.html").exists()
    assert "lda correlate" not in short.stdout  # it takes draws

    (run / "summary.json").unlink()  # as if it had ended while its results were written
    nothing_left = invoke("lda", "--resume", run)
    assert nothing_left.exit_code == 1
    assert "--resume RUN --passes" in nothing_left.output

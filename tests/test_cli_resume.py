"""Runs that are cut short, by signals and by kill -9, and go on."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from cut_runs import cut

from simplex_jax.cli import main, runs

LINES = ["river water stream boat", "goal match team ball", "violin sonata opera quartet"] * 20
OPTIONS = [
    *("--topics", 3, "--min-df", 1, "--max-df", 1.0, "--holdout", 6, "--seed", 3),
    *("--alpha", "learn", "--steps", 100, "--eval-every", 10, "--devices", 1),
]


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def run_until_killed(step, *arguments):
    runs.MetricsLog = cut(signal.SIGKILL, step)
    main(list(arguments))


def steps_of(run):
    return [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_a_run_cut_three_times_ends_with_the_same_samples(texts, tmp_path, monkeypatch):
    whole, out = tmp_path / "whole", tmp_path / "cut"
    assert invoke("lda", texts, *OPTIONS, "--out", whole).exit_code == 0

    code = "import test_cli_resume as t, sys; t.run_until_killed(30, *sys.argv[1:])"
    arguments = ["lda", texts, *OPTIONS, "--checkpoint-every", 0, "--out", out]
    killed = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
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
            patch.setattr(runs, "MetricsLog", cut(number, step))
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
    """What a run leaves that was killed before its first checkpoint."""
    out = tmp_path / "run"
    assert invoke("lda", texts, *OPTIONS, "--out", out).exit_code == 0
    for path in out.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in ("config.json", "metrics.jsonl"):
            path.unlink()
    return out


def test_resume_refuses_other_settings(begun):
    for given in (["--topics", 3], ["--passes", 9], ["--out", "x"], ["--dry-run"]):
        result = invoke("lda", "--resume", begun, *given)
        assert result.exit_code == 2
        assert f"{given[0]} cannot change" in result.stderr


def test_resume_where_nothing_was_saved_and_the_corpus_has_moved(begun, texts):
    moved = texts.rename(texts.with_name("moved.txt"))
    result = invoke("lda", "--resume", begun)
    assert result.exit_code == 1
    assert "texts.txt" in result.stderr
    result = invoke("lda", moved, "--resume", begun)
    assert result.exit_code == 0, result.stderr
    assert (begun / "metrics.jsonl").read_text().count("\n") == 10

    moved.write_text("\n".join([*LINES[:-1], "river goal"]) + "\n")
    (begun / "summary.json").unlink()
    result = invoke("lda", moved, "--resume", begun)
    assert result.exit_code == 1
    assert "not the corpus" in result.stderr


def test_resume_wants_a_run(tmp_path):
    result = invoke("lda", "--resume", tmp_path)
    assert result.exit_code == 1
    assert "no config.json" in result.stderr
    fit = {"num_topics": 2, "devices": 1, "seed": 0}
    job = {"input": None, "reading": {}, "stream": False, "holdout": None, "fit": fit}
    for wrong in (
        {"input": 1},
        job | {"more": 1},
        job | {"reading": {"format": None}},
        job | {"fit": fit | {"temperature": 1}},
        job | {"fit": {"num_topics": 2}},
    ):
        config = {"command": "lda", "settings": {"num_topics": 2}, "corpus": {}, "job": wrong}
        (tmp_path / "config.json").write_text(json.dumps(config))
        result = invoke("lda", "--resume", tmp_path)
        assert result.exit_code == 1
        assert "how to go on" in result.stderr

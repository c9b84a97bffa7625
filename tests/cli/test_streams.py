"""Results go to standard output and progress to standard error, whatever becomes of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from simplex_jax._src import models
from simplex_jax._src.cli import main
from simplex_jax._src.runtime import directory

OPTIONS = ["--topics", "2", "--passes", "20", "--min-df", "1", "--max-df", "1", "--chains", "2"]
COMMAND = [sys.executable, "-m", "simplex_jax"]
ENVIRONMENT = os.environ | {"JAX_PLATFORMS": "cpu"}


@pytest.fixture
def texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("river water stream boat\ngoal match team ball\n" * 20)
    return tmp_path


def invoke(*args):
    return CliRunner().invoke(main, list(map(str, args)))


def test_results_are_apart_from_progress(texts):
    result = invoke("lda", "texts.txt", *OPTIONS, "--out", "run")
    assert result.exit_code == 0, result.output
    assert "goal" in result.stdout
    assert any(line.endswith("report.html") for line in result.stdout.splitlines())
    assert result.stderr.startswith("reading ")
    assert "perplexity" not in result.stdout
    assert invoke("lda", "texts.txt", *OPTIONS, "--out", "quiet", "--quiet").output == ""


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["stdout", "stderr", "both"])
def test_a_run_outlasts_its_readers(texts, closed):
    """As in `simplex-jax lda ... 2>&1 | head -2`."""
    reading, writing = os.pipe()
    ends = {name: subprocess.PIPE for name in ("stdout", "stderr")}
    ends |= {name: writing for name in ends if closed in (name, "both")}
    process = subprocess.Popen(
        [*COMMAND, "lda", "texts.txt", *OPTIONS, "--out", "run"], env=ENVIRONMENT, **ends
    )
    os.close(writing)
    os.close(reading)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert (texts / "run" / "topics.csv").exists()
    if closed == "stderr":
        assert b"goal" in out
    if closed == "stdout":
        assert b"Traceback" not in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_results_that_cannot_be_written_are_one_line(texts):
    for arguments in (["--help"], ["lda", "--help"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [*COMMAND, *arguments],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                env=ENVIRONMENT,
                check=False,
            )
        assert done.returncode == 1
        assert done.stderr == "simplex-jax: error: standard output: No space left on device\n"


def test_a_name_that_is_no_command_has_a_suggestion():
    result = invoke("lad", "texts/")
    assert result.exit_code == 2
    assert "No such command 'lad'. Did you mean 'lda'?" in result.stderr
    assert ", ".join(models.NAMES) in invoke("regression").stderr


def test_a_folder_that_cannot_be_written_to_is_named_before_the_input_is_read(texts, monkeypatch):
    def mkdir(self, *given, **options):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(directory.Path, "mkdir", mkdir)
    result = invoke("lda", "texts.txt", *OPTIONS)
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("simplex-jax: error: ")
    assert f"{str(texts)!r} (Permission denied)" in line
    assert "(--out)" in line

"""Ctrl-C ends a command with one line and status 130 whenever it comes."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

LINE = "simplex-jax: interrupted by SIGINT before the results were written\n"
ENTRY = "from simplex_jax.__main__ import main; print('ready', flush=True); main()"
"""What the installed command does; Python itself takes the signals that come before."""


def start(program, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process):
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def fit(tmp_path, passes):
    """Start a command that writes `tmp_path / "run"`."""
    (tmp_path / "texts.txt").write_text("river water stream boat\ngoal match team ball\n" * 200)
    options = ["--passes", str(passes), "--min-df", "1", "--max-df", "1", "--eval-every", "1000"]
    return start(
        ENTRY, "lda", str(tmp_path / "texts.txt"), *options, "--out", str(tmp_path / "run")
    )


def interrupted(tmp_path, seconds):
    """Run a command, with Ctrl-C some time after its start; return how it ends and what stays."""
    process = fit(tmp_path, 100_000)
    assert process.stdout.readline() == "ready\n"
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    return *ended(process), (tmp_path / "run").exists()


@pytest.mark.parametrize("seconds", [0.05, 0.4, 1.0])
def test_ctrl_c_in_the_first_second(tmp_path, seconds):
    code, out, err, left = interrupted(tmp_path, seconds)
    assert code == 130
    assert out == ""
    assert err.endswith(LINE)
    assert "Traceback" not in err
    assert "ignored" not in err
    assert not left


@pytest.mark.slow
def test_ctrl_c_at_random_moments(tmp_path, seed):
    moments = [random.Random(seed + turn).uniform(0.01, 4) for turn in range(20)]
    for turn, seconds in enumerate(moments):
        (tmp_path / str(turn)).mkdir()
        code, out, err, left = interrupted(tmp_path / str(turn), seconds)
        assert code == 130, (seconds, err)
        assert "Traceback" not in err
        assert "ignored" not in err
        if "finishing the step" in err:  # the run had begun: it has ended early, with results
            assert left
            assert "--resume" in err
            continue
        assert out == ""
        assert err.count(LINE) == 1
        if left:  # ended within an import of JAX's, at once: another run takes the directory
            report = tmp_path / str(turn) / "run" / "report.html"
            assert not report.exists()
            assert ended(fit(tmp_path / str(turn), 5))[0] == 0
            assert report.exists()


@pytest.mark.slow
def test_an_exception_that_is_lost_in_a_callback_is_raised_again():
    program = """
import gc, os, signal, sys, time
from simplex_jax._src.runtime.ending import Ending
def callback(phase, info):
    if phase == "start" and not sent:
        sent.append(1)
        signal.raise_signal(signal.SIGINT)
sent = []
gc.callbacks.append(callback)
with Ending():
    try:
        gc.collect()
        print("lost", flush=True)
        time.sleep(60)
    finally:
        print("cleaned", flush=True)
"""
    assert ended(start(program)) == (130, "lost\ncleaned\n", LINE)


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
@pytest.mark.parametrize("importing", [False, True])
def test_what_is_half_done_is_undone_but_within_an_import(name, code, importing, tmp_path):
    body = f"""
import signal
try:
    signal.raise_signal(signal.{name})
    print("went on")
finally:
    print("cleaned", flush=True)
"""
    (tmp_path / "half_done.py").write_text(body)
    program = f"""
import sys
from simplex_jax._src.runtime.ending import Ending
sys.path.insert(0, {str(tmp_path)!r})
with Ending():
    if {importing}:
        import half_done
    exec({body!r})
"""
    line = LINE.replace("SIGINT", name)
    assert ended(start(program)) == (code, "" if importing else "cleaned\n", line)


def test_a_crash_of_the_finalisation_is_not_reached():
    # As of JAX, ended in the middle of a compilation; what is done at the exit is done.
    program = """
import atexit, os, signal
from simplex_jax._src.runtime.ending import Ending
class Crash:
    def __del__(self):
        os.abort()
with Ending():
    atexit.register(print, "at the exit")
    crash = Crash()
    signal.raise_signal(signal.SIGINT)
"""
    assert ended(start(program)) == (130, "at the exit\n", LINE)


def test_the_second_signal_ends_at_once():
    program = """
import signal
from simplex_jax._src.runtime.ending import Ending
with Ending():
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.raise_signal(signal.SIGTERM)
        print("went on", flush=True)
"""
    assert ended(start(program)) == (143, "", LINE)


def test_after_the_end_and_where_it_is_ignored():
    program = """
import signal, sys
from simplex_jax._src.runtime.ending import Ending
if sys.argv[1] == "ignored":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
with Ending():
    if sys.argv[1] == "ignored":
        signal.raise_signal(signal.SIGINT)
signal.raise_signal(signal.SIGINT)
print("went on")
"""
    for when in ("ignored", "after"):
        assert ended(start(program, when)) == (0, "went on\n", "")


def test_nothing_heavy_stands_before_the_handler():
    program = "import simplex_jax.__main__, sys; print(sorted({'jax', 'numpy'} & {*sys.modules}))"
    assert ended(start(program)) == (0, "[]\n", "")


def test_the_package_gives_what_it_names():
    import simplex_jax
    from simplex_jax._src.runtime import driver

    assert simplex_jax.run is driver.run
    assert {"run", "__version__"} <= set(dir(simplex_jax))
    with pytest.raises(AttributeError, match="no attribute 'walk'"):
        simplex_jax.walk  # noqa: B018


def test_as_a_module():
    shown = subprocess.run(
        [sys.executable, "-m", "simplex_jax", "--version"],
        capture_output=True,
        text=True,
        env=os.environ,
        check=True,
    )
    assert shown.stdout.startswith("simplex-jax, version")

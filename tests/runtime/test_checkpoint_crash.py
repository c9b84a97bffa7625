"""Killed at any point, on a full disk, or without the right to write: the old checkpoint stays."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support import crash_runs
from support.marks import slow_but
from support.paths import ROOT

from simplex_jax._src.runtime.checkpoint import CheckpointError, Store

LIKE = crash_runs.tree(0)


def children(kind, directories):
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.crash_runs", kind, *map(str, directories)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def assert_is(saved, step):
    assert saved.step == step
    assert saved.tree["note"] == f"step {step}"
    np.testing.assert_array_equal(saved.tree["x"], crash_runs.tree(step)["x"])


@pytest.mark.parametrize("number", [3, pytest.param(40, marks=pytest.mark.slow)])
def test_killed_at_a_random_time(tmp_path, number, seed):
    directories = [tmp_path / str(turn) for turn in range(number)]
    for killed in children(f"saves:{seed}", directories):
        assert killed["code"] == -signal.SIGKILL
        saved = Store(killed["directory"]).latest(LIKE, {})
        assert saved.step - killed["steps"][-1] in (0, 1), "what was reported had been saved"
        assert_is(saved, saved.step)


@pytest.mark.parametrize(
    ("number", "stride"), [(6, 3), pytest.param(crash_runs.SAVE, 1, marks=pytest.mark.slow)]
)
def test_killed_inside_a_save(tmp_path, number, stride):
    directories = [tmp_path / str(turn) for turn in range(number)]
    result = []
    for killed in children(f"inside:1:{stride}", directories):
        assert killed["code"] == -signal.SIGKILL
        saved = Store(killed["directory"]).latest(LIKE, {})
        result.append(saved.step)
        assert_is(saved, saved.step)
        names = [path for path in Path(killed["directory"]).iterdir() if path.name[0] != "."]
        assert all(len(list(path.iterdir())) == 3 for path in names), "whole, or out of sight"
        # The next save removes what is left of the interrupted one.
        Store(killed["directory"], keep=1).save(3, crash_runs.tree(3), {})
        assert len(os.listdir(killed["directory"])) == 1
    assert result == sorted(result)
    assert set(result) == {1, 2}


def test_a_save_makes_as_many_calls_as_are_tried(tmp_path):
    (whole,) = children(f"inside:{crash_runs.SAVE + 1}", [tmp_path / "whole"])
    assert (whole["code"], whole["steps"][-1]) == (0, crash_runs.SAVE)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return crash_runs.sample(tmp_path_factory.mktemp("whole"), every=1e9)


@pytest.mark.parametrize("number", [2, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", slow_but(["run", "term"], "term"))
def test_killed_runs_end_with_the_same_samples(tmp_path, whole, kind, number, seed):
    expected, expected_mean = whole
    for killed in children(f"{kind}:{seed}", [tmp_path / str(turn) for turn in range(number)]):
        directory, reported = killed["directory"], killed["steps"][-1]
        names = [path.name for path in Path(directory).glob("*-step-*") if path.name[0] != "."]
        saved = max([int(name.split("-")[2]) for name in names], default=0)
        if kind == "run":
            assert saved >= reported - crash_runs.CHUNK, "no more than one interval is lost"
        else:
            assert saved >= reported, "nothing is lost"
            assert killed["code"] == 0 or saved == crash_runs.STEPS
        state, mean = crash_runs.sample(directory, every=1e9)
        assert np.asarray(state.position).tobytes() == np.asarray(expected.position).tobytes()
        assert mean.sum.tobytes() == expected_mean.sum.tobytes()
        assert mean.seen == expected_mean.seen


@pytest.mark.parametrize("call", ["mkdir", "rename", "fsync"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EROFS])
def test_a_failing_disk_is_one_clear_error(tmp_path, monkeypatch, call, code):
    store = Store(tmp_path)
    store.save(1, crash_runs.tree(1), {})

    def fail(*args, **named):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(CheckpointError) as caught:
        store.save(2, crash_runs.tree(2), {})
    monkeypatch.undo()
    said = f"cannot save step 2 in {str(tmp_path)!r}: {os.strerror(code)} "
    assert str(caught.value).startswith(said)
    assert os.listdir(tmp_path) == ["000001-step-1"]
    assert_is(store.latest(LIKE, {}), 1)


SMALL_DISK = """
mount -t tmpfs -o size=200k none "$1" && exec "$2" -c '
import os, subprocess, sys
import numpy as np
from simplex_jax._src.runtime.checkpoint import CheckpointError, Store
store = Store(sys.argv[1] + "/run")
small, large = ({str(i): np.ones(100 * n) for i in range(9)} for n in (1, 60))
store.save(1, small, {})
def refused(store, tree):
    try:
        store.save(2, tree, {})
    except CheckpointError as error:
        print(error)
refused(store, large)
subprocess.run(["mount", "-o", "remount,ro", sys.argv[1]], check=True)
refused(store, small)
refused(Store(sys.argv[1] + "/other"), small)
print(os.listdir(sys.argv[1]), os.listdir(sys.argv[1] + "/run"), store.latest(small, {}).step)
' "$1"
"""


def test_a_full_disk_and_one_without_the_right_to_write(tmp_path):
    if subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("no right to mount a small disk here")
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", SMALL_DISK, "sh", str(tmp_path), sys.executable],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    *refusals, left = done.stdout.splitlines()
    expected = [("run", errno.ENOSPC), ("run", errno.EROFS), ("other", errno.EROFS)]
    for line, (place, code) in zip(refusals, expected, strict=True):
        assert line.startswith(f"cannot save step 2 in '{tmp_path}/{place}': {os.strerror(code)} ")
    assert left == "['run'] ['000001-step-1'] 1"

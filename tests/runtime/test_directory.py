"""The directory of a run: one process at a time, and nothing of a user's is ever removed."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from simplex_jax._src.runtime import contents, directory, lock, output
from simplex_jax._src.runtime.checkpoint import Store

FILES = ["config.json", "metrics.jsonl", "topics.npz", "report.html"]
CONFIG = {"command": "lda", "versions": {"simplex_jax": "0.1.0"}, "settings": {}}


def claim(place, overwrite=True, config=CONFIG, **options):
    return directory.claim(place, config, FILES, overwrite=overwrite, **options)


def tree(place):
    return sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())


@pytest.fixture
def run(tmp_path):
    """A run as it is left: results, checkpoints, samples, and what a crash has left of writing."""
    place = tmp_path / "run"
    with claim(place):
        output.append_json_line(place / "metrics.jsonl", {"step": 1})
        output.write_text(place / "report.html", "page")
        store = Store(place / "checkpoint")
        for step in (1, 2):
            store.save(step, {"x": np.arange(3.0), "note": "a"}, {})
        (place / "samples").mkdir()
        output.write_npz(place / "samples" / "sample-00000.npz", {"x": np.zeros(2)})
    (place / ".topics.npz.0123abcd.tmp").write_text("half")
    (place / "checkpoint" / ".000003-step-9.0123abcd.tmp").mkdir()
    (place / "checkpoint" / ".000003-step-9.0123abcd.tmp" / "manifest.json").write_text("{")
    return place


def test_a_directory_that_cannot_be_made_is_told_before(tmp_path):
    (tmp_path / "file").write_text("mine")
    for refuse in (directory.check, lambda *given: claim(given[0]).__enter__()):
        with pytest.raises(
            NotADirectoryError, match=r"file/a/b' cannot be created \(Not a directory"
        ):
            refuse(tmp_path / "file" / "a" / "b", "lda", FILES)
    directory.check(tmp_path / "new" / "run", "lda", FILES)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_earlier_run_goes_whole_and_nothing_else(run):
    theirs = ["notes.txt", ".other.tmp", "checkpoint/model.pt", "checkpoint/old/model.pt"]
    theirs += ["samples/take.wav", "samples/sample-one.npz", "plots/a.png", ".topics.npz.tmp"]
    for name in theirs:
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text("mine")
    said = []
    with claim(run, say=said.append):
        assert tree(run) == sorted([*theirs, "config.json", lock.NAME])
        output.append_json_line(run / "metrics.jsonl", {"step": 1})
    (line,) = said
    removed = "metrics.jsonl, report.html, config.json, 2 checkpoints, 1 sample"
    assert line.endswith(f"{run}: {removed}")
    assert tree(run) == sorted([*theirs, "config.json", "metrics.jsonl"])


def test_without_overwrite_the_message_names_what_it_would_remove(run):
    before = tree(run)
    for look in (lambda: directory.check(run, "lda", FILES), claim(run, False).__enter__):
        with pytest.raises(FileExistsError) as caught:
            look()
        assert "--overwrite" in str(caught.value)
        assert "report.html, config.json, 2 checkpoints, 1 sample" in str(caught.value)
        assert "\n" not in str(caught.value)
    assert tree(run) == before


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    "config", [None, "no json", "[]", '{"command": "train"}', '{"versions": {"simplex_jax": "1"}}']
)
def test_a_directory_without_a_run_is_refused(tmp_path, config, overwrite):
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "model.pt").write_text("mine")
    (tmp_path / "report.html").write_text("mine")
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    before = tree(tmp_path)
    with pytest.raises(FileExistsError, match="holds no run") as caught, claim(tmp_path, overwrite):
        pass
    assert "checkpoint" in str(caught.value)
    assert tree(tmp_path) == before


def test_a_run_of_another_command_is_refused(run):
    before = tree(run)
    other = CONFIG | {"command": "dpm"}
    with pytest.raises(FileExistsError, match="a run of simplex-jax lda"), claim(run, config=other):
        pass
    assert tree(run) == before


@pytest.mark.parametrize(
    "name", ["checkpoint/000001-step-1/model.pt", "checkpoint/000007-step-7", "topics.npz/model.pt"]
)
def test_what_stands_where_the_run_writes_is_refused(run, name):
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).write_text("mine")
    before = tree(run)
    with pytest.raises(FileExistsError, match="has not written") as caught, claim(run):
        pass
    assert Path(name).name in str(caught.value) or "topics.npz" in str(caught.value)
    assert tree(run) == before


def test_hidden_files_of_a_system_go_with_their_checkpoint(run):
    (run / "checkpoint" / "000001-step-1" / ".DS_Store").write_text("of the Finder")
    with claim(run):
        assert tree(run) == [lock.NAME, "config.json"]


def test_a_long_name_that_makes_the_array_of_names_large_is_named():
    names = ["a"] * 100_000 + ["b" * 8_000]
    with pytest.raises(ValueError, match=r" 100001, 'bbb.* 8,000 .* 3\.0 GiB: .*--id-column"):
        directory.check_names(names)
    for fine in (names[-10_000:], names[-1:] * len(names), []):
        directory.check_names(fine)


def test_links_are_not_followed_out_of_the_directory(run, tmp_path):
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "file").write_text("mine")
    (run / "samples" / "sample-00001.npz").symlink_to(tmp_path / "away")
    (run / "checkpoint" / ".000004-step-9.0123abcd.tmp").symlink_to(tmp_path / "away")
    with claim(run):
        pass
    assert tree(tmp_path / "away") == ["file"]


def test_a_file_is_no_directory(tmp_path):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(NotADirectoryError, match="is a file"), claim(tmp_path / "run"):
        pass
    assert (tmp_path / "run").read_text() == "mine"


def fail(place, name, error):
    with claim(place, False):
        (place / name).write_text("text")
        raise error("for a reason")


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_run_that_fails_before_a_result_leaves_nothing(tmp_path, error):
    place = tmp_path / "a" / "b"
    with pytest.raises(error, match="for a reason"):
        fail(place, ".topics.npz.0123abcd.tmp", error)
    assert os.listdir(tmp_path) == []
    place.mkdir(parents=True)
    with pytest.raises(error, match="for a reason"):
        fail(place, "notes.txt", error)
    assert os.listdir(place) == ["notes.txt"]


def test_a_run_that_fails_after_a_result_leaves_it(tmp_path):
    with pytest.raises(ValueError, match="for a reason"):
        fail(tmp_path / "run", "metrics.jsonl", ValueError)
    assert tree(tmp_path / "run") == ["config.json", "metrics.jsonl"]


def test_a_process_that_was_killed_before_a_result_blocks_nobody(tmp_path):
    other = held_by_another(tmp_path / "run")
    other.kill()
    other.communicate()
    assert tree(tmp_path / "run") == [lock.NAME, "config.json"]
    with claim(tmp_path / "run", False):
        pass


def held_by_another(place):
    program = (
        "import sys, time\n"
        "from simplex_jax._src.runtime import directory\n"
        "config = {'command': 'lda', 'versions': {'simplex_jax': '0'}}\n"
        "with directory.claim(sys.argv[1], config, ['config.json', 'topics.npz']):\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(600)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(place)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    return process


def test_two_processes_on_one_directory(tmp_path):
    place = tmp_path / "run"
    other = held_by_another(place)
    try:
        tries = [
            lambda: directory.check(place, "lda", FILES, overwrite=True),
            claim(place, overwrite=True).__enter__,
            directory.reopen(place, FILES).__enter__,
        ]
        for look in tries:
            with pytest.raises(BlockingIOError, match=f"process {other.pid}") as caught:
                look()
            assert str(place) in str(caught.value)
        assert tree(place) == [lock.NAME, "config.json"]
        assert other.poll() is None
    finally:
        other.send_signal(signal.SIGKILL)
        other.communicate()
    with directory.reopen(place, FILES):
        pass
    assert tree(place) == ["config.json"]


def test_a_run_that_goes_on_loses_only_what_is_half_written(run):
    before = [
        name for name in tree(run) if not name.endswith("manifest.json") or ".tmp" not in name
    ]
    with directory.reopen(run, FILES):
        assert tree(run) == sorted([name for name in before if ".tmp" not in name] + [lock.NAME])
        with pytest.raises(BlockingIOError), lock.locked(run):
            pass
    assert not contents.scan(run, FILES).unfinished


def test_a_directory_that_cannot_be_written_to_is_named_when_it_is_locked(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise OSError(errno.EROFS, "Read-only file system", str(arguments[0]))

    monkeypatch.setattr(os, "open", refuse)
    with (
        pytest.raises(PermissionError, match=r"\(Read-only.*--out") as caught,
        lock.locked(tmp_path),
    ):
        pass
    assert lock.NAME not in str(caught.value)


def test_a_full_disk_is_named_when_a_directory_is_locked(tmp_path, monkeypatch):
    def full(descriptor, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(lock.os, "write", full)
        with pytest.raises(OSError, match="No space left") as caught:
            lock.locked(tmp_path).__enter__()
    assert caught.value.filename == str(tmp_path / lock.NAME)
    assert tree(tmp_path) == []


def test_names_of_new_directories(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "simplex-jax-lda-2").mkdir()
    with claim(None) as first, claim(None) as second:
        assert [first.name, second.name] == ["simplex-jax-lda", "simplex-jax-lda-3"]
        assert json.loads((first / "config.json").read_text()) == CONFIG
    assert os.listdir(tmp_path) == ["simplex-jax-lda-2"]

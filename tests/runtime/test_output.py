"""The files of a run: whole, never half written."""

import contextlib
import csv
import errno
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from simplex_jax._src.runtime import output


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_in_the_middle_keeps_the_old_file(tmp_path, error):
    path = tmp_path / "report.html"
    output.write_text(path, "old")

    def break_off() -> None:
        with output.replacing(path) as file:
            file.write(b"half of the n")
            raise error

    with pytest.raises(error):
        break_off()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.html"]


@pytest.mark.skipif(os.name != "posix", reason="no pipes with names")
def test_what_is_no_file_is_not_replaced_by_one(tmp_path):
    """As root /dev/null would become a file."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "out").symlink_to("pipe")
    for name in ("pipe", "out"):
        with pytest.raises(FileExistsError, match=f"{name} .*regular file"):
            output.write_text(tmp_path / name, "new")
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "out").is_symlink()


@pytest.mark.skipif(os.name != "posix", reason="only there directories are flushed")
@pytest.mark.parametrize(
    ("number", "fails"), [(errno.EINVAL, False), (errno.EBADF, False), (errno.EIO, True)]
)
def test_a_directory_that_cannot_be_flushed(tmp_path, monkeypatch, number, fails):
    """Some network file systems refuse it, which is not an error of the disk."""
    flush = os.fsync

    def refuse(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="error") if fails else contextlib.nullcontext():
        output.write_text(tmp_path / "topics.csv", "new")
    assert (tmp_path / "topics.csv").read_text() == "new"


def test_a_link_leads_to_what_is_written(tmp_path):
    """As /dev/stdout does where it is sent to a file."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to("disk/topics.csv")
    for text in ("old", "new"):
        output.write_text(tmp_path / "out", text)
        assert (tmp_path / "disk" / "topics.csv").read_text() == text
    assert (tmp_path / "out").is_symlink()
    assert os.listdir(tmp_path / "disk") == ["topics.csv"]
    (tmp_path / "loop").symlink_to("loop")
    output.write_text(tmp_path / "loop", "new")
    assert (tmp_path / "loop").read_text() == "new"


def test_a_full_disk_names_the_file(tmp_path):
    full = OSError(errno.ENOSPC, "No space left on device")

    def fill(error: OSError) -> None:
        with output.replacing(tmp_path / "topics.npz") as file:
            file.write(b"half")
            raise error

    with pytest.raises(OSError, match="No space left") as caught:
        fill(full)
    named = Path(caught.value.filename)
    assert named.parent == tmp_path
    assert output.final_name(named) == "topics.npz"
    assert os.listdir(tmp_path) == []
    with pytest.raises(FileNotFoundError) as caught:  # One with a name keeps it,
        fill(FileNotFoundError(errno.ENOENT, "No such file", "other.txt"))
    assert caught.value.filename == "other.txt"
    with pytest.raises(OSError, match=r"^in words$"):  # and a sentence stays one.
        fill(OSError("in words"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full")
def test_a_log_that_cannot_grow_is_named():
    with pytest.raises(OSError, match="No space left") as caught:
        output.append_json_line("/dev/full", {"step": 1})
    assert caught.value.filename == "/dev/full"


def test_a_killed_process_keeps_the_old_file(tmp_path):
    path = tmp_path / "report.html"
    output.write_text(path, "old")
    program = (
        "import os, sys\n"
        "from simplex_jax._src.runtime import output\n"
        "with output.replacing(sys.argv[1]) as file:\n"
        "    file.write(b'half of the n')\n"
        "    file.flush()\n"
        "    os._exit(9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert done.returncode == 9
    assert path.read_text() == "old"
    foreign = [".report.html.notes.tmp", ".other.0123abcd.tmp", "report.html"]
    for name in foreign[:2]:
        (tmp_path / name).write_text("mine")
    assert len(os.listdir(tmp_path)) == 4
    output.remove_leftovers(tmp_path, r"report\.html")
    assert sorted(os.listdir(tmp_path)) == sorted(foreign)


def test_ends_of_lines_within_fields_stay_in_them(tmp_path):
    rows = [["a\rb", "c\nd"], ["e\r\n", 'f"\r'], ["\r", "1,5"]]
    output.write_csv(path := tmp_path / "names.csv", ["name", "other"], rows)
    with path.open(newline="") as file:
        assert list(csv.reader(file)) == [["name", "other"], *rows]
    assert path.read_bytes().startswith(b"name,other\n")


def test_an_error_in_a_row_keeps_the_old_csv(tmp_path):
    path = tmp_path / "topics.csv"
    output.write_csv(path, ["topic", "word"], [[0, 'a "quoted", word'], [1, "naïve"]])
    with pytest.raises(ValueError, match="row 2 has 1 fields"):
        output.write_csv(path, ["topic", "word"], [[0, "new"], [1]])
    with path.open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [
            ["topic", "word"],
            ["0", 'a "quoted", word'],
            ["1", "naïve"],
        ]


def test_json_takes_arrays_and_has_no_nan(tmp_path):
    path = tmp_path / "config.json"
    value = {
        "path": Path("a") / "b",
        "alpha": np.float32(0.5),
        "h": jnp.array([1.0, jnp.inf]),
        "perplexity": float("nan"),
        "shape": (2, np.int64(3)),
        "memoised": True,
        "input": None,
        "word": "Straße",
    }
    output.write_json(path, value)

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    assert json.loads(path.read_text("utf-8"), parse_constant=refuse) == {
        "path": str(Path("a") / "b"),
        "alpha": 0.5,
        "h": [1.0, None],
        "perplexity": None,
        "shape": [2, 3],
        "memoised": True,
        "input": None,
        "word": "Straße",
    }
    with pytest.raises(TypeError, match="a set as JSON"):
        output.write_json(path, {"bad": {1, 2}})
    assert json.loads(path.read_text("utf-8"))["alpha"] == 0.5


def test_json_takes_names_of_files_that_no_text_holds(tmp_path):
    """As those in Latin-1, which are not UTF-8: `config.json` has the name of the input."""
    record = {"input": os.fsdecode(b"caf\xe9.txt"), "word": "café"}
    output.write_json(tmp_path / "config.json", record)
    output.append_json_line(tmp_path / "lines", record)
    for path in (tmp_path / "config.json", tmp_path / "lines"):
        assert json.loads(path.read_text("utf-8")) == record


def test_npz_loads_without_pickle(tmp_path):
    path = tmp_path / "topics.npz"
    mean = jnp.ones((2, 3)) / 3
    output.write_npz(path, {"mean": mean, "names": ["a", "ö"], "file": np.arange(3)})
    with np.load(path, allow_pickle=False) as loaded:
        np.testing.assert_array_equal(loaded["mean"], mean)
        assert loaded["mean"].dtype == np.float32
        assert loaded["names"].tolist() == ["a", "ö"]


def test_npz_refuses_objects_and_keeps_the_old_file(tmp_path):
    path = tmp_path / "topics.npz"
    output.write_npz(path, {"mean": np.zeros(2)})
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"arrays\['bad'\] holds Python objects"):
        output.write_npz(path, {"bad": np.array([None, "a"], dtype=object)})
    assert path.read_bytes() == before


def test_the_same_arrays_give_the_same_bytes(tmp_path):
    for name in ("a.npz", "b.npz"):
        output.write_npz(tmp_path / name, {"x": np.arange(5.0)})
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_records_are_appended_whole(tmp_path):
    path = tmp_path / "metrics.jsonl"
    output.append_json_line(path, {"step": 1, "perplexity": np.float32(2.5)})
    assert json.loads(path.read_text()) == {"step": 1, "perplexity": 2.5}
    with pytest.raises(TypeError, match="object as JSON"):
        output.append_json_line(path, {"step": 2, "perplexity": object()})
    output.append_json_line(path, {"step": 3, "perplexity": float("inf")})
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert records == [{"step": 1, "perplexity": 2.5}, {"step": 3, "perplexity": None}]


def test_files_obey_the_umask(tmp_path):
    output.write_text(tmp_path / "plain.txt", "x")
    expected = tmp_path / "expected.txt"
    expected.touch()
    assert (tmp_path / "plain.txt").stat().st_mode == expected.stat().st_mode

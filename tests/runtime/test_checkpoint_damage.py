"""Damage on the disk: all of it is seen, and an older checkpoint is used."""

import os
import shutil
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest

from simplex_jax._src.runtime import output
from simplex_jax._src.runtime.checkpoint import CheckpointError, CheckpointWarning, Store

LIKE = {"x": np.zeros(40, np.float32), "labels": np.zeros(30, np.uint8), "note": ""}


def tree(step):
    rng = np.random.default_rng(step)
    x, labels = rng.random(40, np.float32), rng.integers(0, 9, 30, np.uint8)
    return {"x": x, "labels": labels, "note": f"step {step}"}


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path)
    for step in (1, 2):
        store.save(step, tree(step), {})
    return store


@pytest.fixture
def newest(tmp_path, store):
    return tmp_path / "000002-step-2"


def all_files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


def assert_older_is_used(store):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        saved = store.latest(LIKE, {})
    assert [warning.category for warning in caught] == [CheckpointWarning]
    assert "\n" not in str(caught[0].message)
    assert "000002-step-2" in str(caught[0].message)
    assert_is(saved, 1)


def assert_is(saved, step):
    assert saved.step == step
    expected = tree(step)
    assert all(np.array_equal(saved.tree[name], expected[name]) for name in expected)


def flip(path, rng):
    content = bytearray(path.read_bytes())
    content[rng.integers(len(content))] ^= 1 << rng.integers(8)
    path.write_bytes(content)


def seal(directory):
    """Make the sums those of the files, as they are now."""
    names = ["arrays-0.npz", "manifest.json"]
    done = subprocess.run(["sha256sum", *names], cwd=directory, capture_output=True, check=True)
    (directory / "SHA256SUMS").write_bytes(done.stdout)


@pytest.mark.parametrize("number", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_flipped_bits(store, newest, number, seed):
    rng = np.random.default_rng(seed)
    paths = all_files(newest)
    for turn in range(number):
        path = paths[turn % len(paths)]
        before = path.read_bytes()
        flip(path, rng)
        assert_older_is_used(store)
        path.write_bytes(before)
    assert_is(store.latest(LIKE, {}), 2)


@pytest.mark.parametrize("number", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_truncated_files(store, newest, number, seed):
    rng = np.random.default_rng(seed)
    paths = all_files(newest)
    for turn in range(number):
        path = paths[turn % len(paths)]
        before = path.read_bytes()
        os.truncate(path, rng.integers(len(before)))
        assert_older_is_used(store)
        path.write_bytes(before)


def test_missing_and_foreign_files(store, newest, tmp_path):
    for path in all_files(newest):
        path.rename(tmp_path / "away")
        assert_older_is_used(store)
        (tmp_path / "away").rename(path)
    (newest / "arrays-1.npz").write_text("more")
    assert_older_is_used(store)
    (newest / "arrays-1.npz").unlink()
    manifest = newest / "manifest.json"
    manifest.rename(tmp_path / "away")
    manifest.symlink_to(tmp_path / "away")
    assert_older_is_used(store)
    shutil.rmtree(newest)
    newest.mkdir()
    assert_older_is_used(store)


@pytest.mark.parametrize("name", [".DS_Store", "._arrays-0.npz", ".AppleDouble/manifest.json"])
def test_hidden_files_of_a_system_are_no_damage(store, newest, name):
    (newest / name).parent.mkdir(exist_ok=True)
    (newest / name).write_text("of the Finder")
    assert_is(store.latest(LIKE, {}), 2)


def test_flipped_bits_under_sums_of_the_damaged_files(store, newest, seed):
    """What is left is the checksum of every array in the archive, and the manifest's shapes."""
    rng = np.random.default_rng(seed)
    payload = newest / "arrays-0.npz"
    before, seen = payload.read_bytes(), 0
    for _ in range(50):
        flip(payload, rng)
        seal(newest)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            saved = store.latest(LIKE, {})
        assert_is(saved, 1 if caught else 2)
        seen += bool(caught)
        payload.write_bytes(before)
    assert seen > 20


@pytest.mark.parametrize("change", [lambda array: array[1:], lambda array: array.astype("<u2")])
def test_a_sealed_archive_of_other_arrays(store, newest, change):
    with np.load(newest / "arrays-0.npz") as archive:
        arrays = {name: change(archive[name]) for name in archive.files}
    output.write_npz(newest / "arrays-0.npz", arrays)
    seal(newest)
    assert_older_is_used(store)


def test_a_sealed_archive_that_is_compressed(store, newest):
    with np.load(newest / "arrays-0.npz") as archive:
        np.savez_compressed(newest / "arrays-0.npz", **archive)
    seal(newest)
    assert_older_is_used(store)


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", "null", "[" * 100_000, "\udc80", '{"step": 1}']
)
def test_a_sealed_manifest_that_is_none(store, newest, content):
    (newest / "manifest.json").write_text(content, "utf-8", errors="surrogateescape")
    seal(newest)
    assert_older_is_used(store)


def test_when_all_are_damaged_nothing_starts_anew(store, tmp_path):
    for path in tmp_path.iterdir():
        (path / "manifest.json").unlink()
    with (
        pytest.warns(CheckpointWarning),
        pytest.raises(CheckpointError, match=r"all 2 checkpoints in .* are damaged"),
    ):
        store.latest(LIKE, {})


def test_a_run_goes_on_after_damage(store, newest, seed):
    flip(newest / "manifest.json", np.random.default_rng(seed))
    store.save(2, tree(2), {})
    assert_is(store.latest(LIKE, {}), 2)


def test_what_does_not_read_back_is_not_published(store, tmp_path, monkeypatch):
    write = output.write_npz

    def write_other(path, arrays):
        write(path, {name: array + 1 for name, array in arrays.items()})

    monkeypatch.setattr(output, "write_npz", write_other)
    with pytest.raises(CheckpointError, match=r"cannot save step 3 .*labels "):
        store.save(3, tree(3), {})
    monkeypatch.undo()
    assert sorted(os.listdir(tmp_path)) == ["000001-step-1", "000002-step-2"]
    assert_is(store.latest(LIKE, {}), 2)


def test_an_interrupt_within_a_save_leaves_nothing(store, tmp_path, monkeypatch):
    def interrupted(path, arrays):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(output, "write_npz", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.save(3, tree(3), {})
    assert sorted(os.listdir(tmp_path)) == ["000001-step-1", "000002-step-2"]

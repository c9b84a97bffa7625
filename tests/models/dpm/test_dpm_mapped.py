"""Rows that stay in a file: they are not copied, and give the fit of the same rows in memory."""

import importlib
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from simplex_jax._src.models import dpm
from simplex_jax._src.models.dpm import data, families
from simplex_jax._src.models.dpm.families import family as family_rows
from simplex_jax._src.runtime import devices


def points(rows: int, columns: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    centres = 6 * rng.integers(0, 3, (rows, 1))
    return rng.normal(centres, size=(rows, columns)).astype(np.float32)


@pytest.fixture
def mapped(tmp_path: Path) -> np.memmap:
    np.save(tmp_path / "rows.npy", points(300, 4))
    return np.load(tmp_path / "rows.npy", mmap_mode="r")


def address(array: object) -> int:
    return array.unsafe_buffer_pointer()  # type: ignore[attr-defined]


def test_rows_stay_in_their_file(mapped: np.memmap) -> None:
    assert address(family_rows.on_device(mapped)) == mapped.ctypes.data
    family = families.diagonal_gaussian_of(np.array(mapped))
    assert address(data.as_data(data.Given(mapped, family)).rows) == mapped.ctypes.data
    # Rows 16 and later begin at a multiple of 64 bytes, rows 1 and later do not.
    assert address(family_rows.on_device(mapped[16:])) == mapped[16:].ctypes.data
    np.testing.assert_array_equal(family_rows.on_device(mapped[1:]), mapped[1:])
    np.testing.assert_array_equal(family_rows.on_device(mapped[:, 1:]), mapped[:, 1:])


def test_rows_that_have_to_be_copied_must_fit_the_memory(
    tmp_path: Path, mapped: np.memmap, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "doubles.npy", points(300, 4).astype(np.float64))
    doubles = np.load(tmp_path / "doubles.npy", mmap_mode="r")
    assert family_rows.on_device(doubles).dtype == jnp.zeros(0).dtype
    monkeypatch.setattr(devices, "memory", lambda: 4000)
    family_rows.on_device(mapped)
    with pytest.raises(ValueError, match=r"\.npy file of float32"):
        family_rows.on_device(mapped[1:])
    if jnp.zeros(0).dtype == jnp.float32:
        with pytest.raises(ValueError, match=r"all of an \.npy file of float32"):
            family_rows.on_device(doubles)


@pytest.mark.slow
def test_the_fit_is_that_of_rows_in_memory(
    mapped: np.memmap, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = np.array(mapped)
    family = families.diagonal_gaussian_of(rows)
    ours = dpm.fit(rows, family, passes=10, holdout=30, seed=1)
    monkeypatch.setattr(data, "_COPY", 0)  # rows to learn from are chosen, not copied
    for same in (mapped, rows):
        fitted = dpm.fit(same, family, passes=10, holdout=30, seed=1)
        np.testing.assert_array_equal(fitted.proportions, ours.proportions)
        np.testing.assert_array_equal(fitted.partitions["labels"], ours.partitions["labels"])
        assert fitted.metrics[-1]["log_predictive"] == ours.metrics[-1]["log_predictive"]
        np.testing.assert_array_equal(fitted.transform(same), ours.transform(rows))


def test_chosen_rows_are_those_that_are_taken() -> None:
    rows = {"x": jnp.arange(20.0).reshape(10, 2), "y": jnp.arange(10, dtype=jnp.uint8)}
    numbers = jnp.array([7, 2, 9], jnp.int32)
    chosen = family_rows.Selected(rows, numbers)
    assert family_rows.size(chosen) == 3
    ids = jnp.array([2, 0, 3, -1], jnp.int32)  # the last two are rows without data
    taken = family_rows.take(chosen, ids)
    expected = family_rows.take(family_rows.take(rows, numbers), ids)
    np.testing.assert_array_equal(taken["x"], expected["x"])
    np.testing.assert_array_equal(taken["y"], [9, 7, -1, -1])


@pytest.mark.parametrize("place", [0, 2, 4])
def test_bad_rows_are_named_by_their_place_in_the_table(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module("simplex_jax._src.models.dpm.families.family")
    monkeypatch.setattr(module, "_BLOCK", 4)  # two rows at a time
    rows = np.array([[1, 0]] * 5, np.float32)
    entry, row = rf"rows\[{place}, 1\]", rf"rows\[{place}\]"
    for family, bad, name in (
        (families.poisson(jnp.ones(2), jnp.ones(2)), -0.5, entry),
        (families.categorical([3, 3]), 3, entry),
        (families.diagonal_gaussian_of(points(9, 2)), np.inf, entry),
        (families.gaussian_of(points(9, 2)), np.inf, entry),
        (families.von_mises_fisher(2), 0.5, row),
    ):
        family.check(rows)
        wrong = rows.copy()
        wrong[place, 1] = bad
        with pytest.raises(ValueError, match=name):
            family.check(wrong)
    with pytest.raises(ValueError, match=r"column 1 of rows has 2\.51658e\+09 counts"):
        families.poisson(jnp.ones(2), jnp.ones(2)).check(np.full((150, 2), [0, 2.0**24]))


_MEMORY = """
import re, sys, threading, time
import numpy as np
from simplex_jax import dpm

def watch():
    while True:
        status = open("/proc/self/status").read()
        sizes.append(int(re.search(r"RssAnon:\\s+(\\d+)", status)[1]))
        time.sleep(0.02)

rows, sizes = np.load(sys.argv[1], mmap_mode="r"), []
family = dpm.families.diagonal_gaussian_of(np.array(rows[:1000]))
dpm.fit(rows[:64], family, passes=2, seed=0, split_merge=0, initial_clusters=3)
threading.Thread(target=watch, daemon=True).start()
dpm.fit(rows, family, passes=2, seed=0, split_merge=0, initial_clusters=3)
print(max(sizes) - sizes[0])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_holds_no_copy_of_the_rows(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", points(150_000, 1024))  # 614 MB
    command = [sys.executable, "-c", _MEMORY, str(tmp_path / "rows.npy")]
    grown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert int(grown) * 1024 < 400e6

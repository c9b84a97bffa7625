"""Malformed input: every case is one `CorpusError` with the place and a remedy, nothing else."""

import os
import re
import tracemalloc

import numpy as np
import pytest
from support.malformed_formats import CASES

from simplex_jax._src.corpus import CorpusError, read


@pytest.mark.filterwarnings("ignore:.*no word has id 0")
@pytest.mark.parametrize("write", CASES.values(), ids=CASES)
def test_malformed(tmp_path, write):
    path, place, says, arguments = write(tmp_path)
    with pytest.raises(CorpusError, match=says) as caught:
        read(path, **arguments)
    message = str(caught.value)
    assert message.isprintable()  # and so one line
    where, remedy = message.split(": ", 1)[0], message.rsplit("; ", 1)[1]
    assert place in where
    assert re.search(r":\d+$", place) or not re.search(r":\d+$", where)
    assert remedy
    assert not remedy.endswith(".")


def test_there_are_enough_cases():
    assert len(CASES) >= 300


LIES = (
    "npz bomb",
    "npz documents 1e18",
    "npz words 1e9",
    "uci entries 1e12",
    "uci documents 1e17",
    "mtx entries 1e12",
    "mtx rows 1e9",
    "mtx columns 1e9",
    "mtx gzip bomb",
    "ldac word 1e9",
    "svmlight index 2^31",
    "h5ad bomb",
    "h5ad shape 1e18",
    "h5ad words 1e9",
    "store documents",
)


@pytest.mark.filterwarnings("ignore:.*no word has id 0")
@pytest.mark.parametrize("name", LIES)
def test_lies_are_refused_before_memory_is_taken(tmp_path, name):
    path, *_, arguments = CASES[name](tmp_path)
    tracemalloc.start()
    try:
        with pytest.raises(CorpusError):
            read(path, **arguments)
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()


class Trap:
    """An object whose unpickling makes a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("member", ["data", "format", "extra"])
def test_a_pickle_is_never_run(tmp_path, member):
    trap = np.array([Trap(str(tmp_path / "sprung"))], object)
    arrays = {"format": "csr", "shape": [1, 1], "data": [1], "indices": [0], "indptr": [0, 1]}
    path = tmp_path / "trap.npz"
    np.savez(path, **{**arrays, member: trap})
    with pytest.raises(CorpusError, match="never loaded"):
        read(path)
    assert not (tmp_path / "sprung").exists()
    with np.load(path, allow_pickle=True) as loaded:
        assert loaded[member].size == 1
    assert (tmp_path / "sprung").exists(), "the trap would have worked"


def test_standard_input_that_is_closed(monkeypatch):
    """As that of a program that was started with `<&-`."""
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(CorpusError, match=r"^-: .*is closed"):
        read("-")

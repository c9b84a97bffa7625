"""What a process that was killed while it stored a corpus leaves behind is removed by the next."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from simplex_jax._src.corpus import from_counts, store

COUNTS = sp.csr_array(np.array([[2, 0, 1], [0, 1, 0]], np.int32))
WORDS = ("apple", "pear", "plum")
CORPUS = from_counts(COUNTS, WORDS)
KILLED = """
import os, signal, sys
import numpy as np, scipy.sparse as sp
from simplex_jax._src.corpus import store

def blocks():
    yield sp.csr_array(np.ones((2, 3), np.int32))
    os.kill(os.getpid(), signal.SIGKILL)

store.write_blocks(sys.argv[1], blocks(), ("apple", "pear", "plum"))
"""


def hidden(folder):
    return sorted(path.name for path in folder.glob(".*"))


@pytest.mark.skipif(os.name != "posix", reason="nothing is locked there")
def test_the_folder_of_a_killed_process_is_removed(tmp_path):
    killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "a"], check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = hidden(tmp_path)
    store.write(tmp_path / "b", CORPUS)
    assert hidden(tmp_path) == [left], "that of another place is not ours to judge"
    store.write(tmp_path / "a", CORPUS)
    assert hidden(tmp_path) == []


def test_the_folder_of_a_process_that_still_writes_stays(tmp_path):
    """Of two that write at once, the first to end has the place."""
    seen = []

    def blocks():
        yield COUNTS
        seen.append(hidden(tmp_path))
        store.write(tmp_path / "a", CORPUS)
        assert hidden(tmp_path) == seen[0]
        yield COUNTS

    with pytest.raises(OSError, match="not empty"):
        store.write_blocks(tmp_path / "a", blocks(), WORDS)
    assert len(seen[0]) == 1
    assert hidden(tmp_path) == []
    assert store.open(tmp_path / "a").documents == 2


def test_only_folders_of_a_corpus_are_removed(tmp_path):
    """One with a file of the user, a link, a pipe, other names: all stay."""
    mine = tmp_path / ".a.0123abcd.tmp"
    mine.mkdir()
    (mine / "letter.txt").write_text("mine")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".a.0123abce.tmp").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / ".a.0123abcf.tmp")
    (tmp_path / ".a.mine.tmp").mkdir()
    (tmp_path / ".ab.0123abcd.tmp").mkdir()
    before = hidden(tmp_path)
    store.write(tmp_path / "a", CORPUS)
    assert hidden(tmp_path) == before
    assert (tmp_path / "elsewhere").is_dir()

"""The reader of the data of SAM's authors: what it reads exactly, and refuses."""

import gzip
import importlib

import numpy as np
import pytest
from support.paths import BENCHMARKS

from simplex_jax._src.corpus import CorpusError

PAPERS = BENCHMARKS / "papers"
GOOD = "4 3\n2 a 0:0.6 3:-0.8\n1 b 2:1\n2 a 1:8e-1 0:.6\n2\n"
ROWS = np.array([[0.6, 0, 0, -0.8], [0, 0, 1, 0], [0.6, 0.8, 0, 0]], np.float32)


def write(tmp_path, content, name="x.data"):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.fixture
def read(monkeypatch):
    monkeypatch.syspath_prepend(str(PAPERS))
    return importlib.import_module("sam_data").read


@pytest.mark.parametrize("content", [GOOD, GOOD[:-2], GOOD.replace("\n", "\r\n"), GOOD + "\n\n"])
def test_a_file_is_read(read, tmp_path, content):
    result = read(write(tmp_path, content))
    np.testing.assert_allclose(result.values.toarray(), ROWS, rtol=1e-6)
    assert result.values.dtype == np.float32
    assert result.vocabulary == ("w0", "w1", "w2", "w3")
    assert result.names == ("1", "2", "3")


def test_gzip_and_the_vocabulary_beside(read, tmp_path):
    path = write(tmp_path, gzip.compress(GOOD.encode()), "x.train.tfidf.data")
    write(tmp_path, "oak\nelm\nash\nfir\n", "x.voc")
    assert read(path).vocabulary == ("oak", "elm", "ash", "fir")


BAD = {
    "no header": ("1 a 0:1\n", 1, "the first line"),
    "nothing declared": ("0 1\n1 a 0:1\n", 1, "0 words"),
    "cut short": ("4 3\n1 a 0:1\n", None, "1 documents, and the first line declares 3"),
    "number of pairs": ("4 1\n2 a 0:1\n1\n", 2, "1 pairs after the number 2"),
    "word id": ("4 1\n1 a 4:1\n1\n", 2, "word id 4 is not in 0..3"),
    "twice": ("4 1\n2 a 0:0.6 0:0.8\n1\n", 2, "twice"),
    "not a number": ("4 1\n1 a 0:nan\n1\n", 2, "is not a document"),
    "infinite": ("4 1\n1 a 0:1e999\n1\n", 2, "not finite"),
    "zero": ("4 2\n1 a 0:1\n1 a 0:0\n1\n", 3, "zero vector"),
    "empty": ("4 2\n1 a 0:1\n0 a\n1\n", 3, "zero vector"),
    "length": ("4 1\n1 a 0:0.9\n1\n", 2, "has length 0.9, not 1; give --normalise"),
    "labels": ("4 2\n1 a 0:1\n1 b 0:1\n1\n", 4, "number of its 2 labels"),
    "more documents": ("4 1\n1 a 0:1\n1 b 0:1\n2\n", 3, "after the last document"),
    "more lines": ("4 1\n1 a 0:1\n1\n5\n", 4, "after the end"),
    "blank": ("4 2\n1 a 0:1\n\n1 a 0:1\n1\n", 3, "is not a document"),
    "unused words": ("9999999 1\n1 a 0:1\n1\n", 1, "give a vocabulary"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_line_that_says_where(read, tmp_path, name):
    content, line, message = BAD[name]
    path = write(tmp_path, content)
    with pytest.raises(CorpusError) as caught:
        read(path)
    where = str(path) if line is None else f"{path}:{line}"
    assert str(caught.value).startswith(f"{where}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_vectors_of_any_length_are_taken_when_told_to(read, tmp_path):
    path = write(tmp_path, GOOD.replace("-0.8", "-8").replace("0:0.6 3", "0:6 3"))
    with pytest.raises(CorpusError, match="length 10, not 1"):
        read(path)
    result = read(path, normalise=True)
    np.testing.assert_allclose(result.values.toarray(), ROWS, rtol=1e-6)
    with pytest.raises(CorpusError, match="zero vector"):
        read(write(tmp_path, "4 1\n1 a 0:0\n1\n"), normalise=True)


def test_the_vocabulary_must_fit(read, tmp_path):
    path = write(tmp_path, GOOD)
    write(tmp_path, "oak\nelm\n", "x.voc")
    with pytest.raises(CorpusError, match="4 words declared, and 2 in the vocabulary"):
        read(path)


def test_the_published_data(read, shared_data):
    folder = shared_data / "20news-different"
    if not folder.is_dir():
        pytest.skip("20news-different is not there")
    result = read(folder / "diff.train.tfidf1.data")
    assert result.values.shape == (1666, 5000)
    assert result.vocabulary[:2] == ("archive", "name")

"""Unit vectors from arrays and from files: what is read, and what is refused, where."""

import gzip

import numpy as np
import pytest
import scipy.sparse as sp

from simplex_jax.corpus import CorpusError, unit_vectors, vectors

GOOD = "4 3\n2 a 0:0.6 3:-0.8\n1 b 2:1\n2 a 1:8e-1 0:.6\n2\n"
ROWS = np.array([[0.6, 0, 0, -0.8], [0, 0, 1, 0], [0.6, 0.8, 0, 0]], np.float32)


def write(tmp_path, content, name="x.data"):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("content", [GOOD, GOOD[:-2], GOOD.replace("\n", "\r\n"), GOOD + "\n\n"])
def test_a_file_is_read(tmp_path, content):
    found = unit_vectors.read(write(tmp_path, content))
    np.testing.assert_allclose(found.values.toarray(), ROWS, rtol=1e-6)
    assert found.values.dtype == np.float32
    assert found.vocabulary == ("w0", "w1", "w2", "w3")
    assert found.names == ("1", "2", "3")
    assert unit_vectors.recognises(write(tmp_path, content))


def test_gzip_names_and_the_vocabulary_beside(tmp_path):
    path = write(tmp_path, gzip.compress(GOOD.encode()), "x.train.tfidf.data")
    write(tmp_path, "oak\nelm\nash\nfir\n", "x.voc")
    names = write(tmp_path, "one\ntwo\nthree\n", "names.txt")
    found = unit_vectors.read(path, names=names)
    assert found.vocabulary == ("oak", "elm", "ash", "fir")
    assert found.names == ("one", "two", "three")
    other = write(tmp_path, "a\nb\nc\nd\n", "other.txt")
    assert unit_vectors.read(path, vocabulary=other).vocabulary == ("a", "b", "c", "d")


def test_arrays_are_read(tmp_path):
    np.save(tmp_path / "x.npy", ROWS.astype(np.float64))
    sp.save_npz(tmp_path / "x.npz", sp.csr_array(ROWS))
    for name in ("x.npy", "x.npz"):
        found = unit_vectors.read(tmp_path / name)
        np.testing.assert_allclose(found.values.toarray(), ROWS, rtol=1e-6)
    assert unit_vectors.recognises(tmp_path / "x.npy")
    assert not unit_vectors.recognises(tmp_path / "x.npz"), "it may hold counts"
    assert not unit_vectors.recognises(tmp_path), "a folder"
    assert not unit_vectors.recognises(write(tmp_path, "two words\nof text\n"))


BAD = {
    "no header": ("1 a 0:1\n", 1, "the first line"),
    "nothing declared": ("0 1\n1 a 0:1\n", 1, "0 words"),
    "cut short": ("4 3\n1 a 0:1\n", None, "1 documents, and the first line declares 3"),
    "number of pairs": ("4 1\n2 a 0:1\n1\n", 2, "1 pairs after the number 2"),
    "word id": ("4 1\n1 a 4:1\n1\n", 2, "word id 4 is not in 0..3"),
    "twice": ("4 1\n2 a 0:0.6 0:0.8\n1\n", 2, "twice"),
    "not a number": ("4 1\n1 a 0:nan\n1\n", 2, "is no document"),
    "infinite": ("4 1\n1 a 0:1e999\n1\n", 2, "not finite"),
    "zero": ("4 2\n1 a 0:1\n1 a 0:0\n1\n", 3, "zero vector"),
    "empty": ("4 2\n1 a 0:1\n0 a\n1\n", 3, "zero vector"),
    "length": ("4 1\n1 a 0:0.9\n1\n", 2, "has length 0.9, not 1; give --normalise"),
    "labels": ("4 2\n1 a 0:1\n1 b 0:1\n1\n", 4, "number of its 2 labels"),
    "more documents": ("4 1\n1 a 0:1\n1 b 0:1\n2\n", 3, "after the last document"),
    "more lines": ("4 1\n1 a 0:1\n1\n5\n", 4, "after the end"),
    "blank": ("4 2\n1 a 0:1\n\n1 a 0:1\n1\n", 3, "is no document"),
    "unused words": ("9999999 1\n1 a 0:1\n1\n", 1, "give a vocabulary"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_line_that_says_where(tmp_path, name):
    content, line, message = BAD[name]
    path = write(tmp_path, content)
    with pytest.raises(CorpusError) as caught:
        unit_vectors.read(path)
    where = str(path) if line is None else f"{path}:{line}"
    assert str(caught.value).startswith(f"{where}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_vectors_of_any_length_are_taken_when_told_to(tmp_path):
    path = write(tmp_path, GOOD.replace("-0.8", "-8").replace("0:0.6 3", "0:6 3"))
    with pytest.raises(CorpusError, match="length 10, not 1"):
        unit_vectors.read(path)
    found = unit_vectors.read(path, normalise=True)
    np.testing.assert_allclose(found.values.toarray(), ROWS, rtol=1e-6)
    with pytest.raises(CorpusError, match="zero vector"):
        unit_vectors.read(write(tmp_path, "4 1\n1 a 0:0\n1\n"), normalise=True)


def test_the_vocabulary_must_fit(tmp_path):
    path = write(tmp_path, GOOD)
    short = write(tmp_path, "oak\nelm\n", "short.txt")
    with pytest.raises(CorpusError, match="4 words declared, and 2 in the vocabulary"):
        unit_vectors.read(path, vocabulary=short)
    np.save(tmp_path / "x.npy", ROWS)
    with pytest.raises(CorpusError, match="2 words for 4 columns"):
        unit_vectors.read(tmp_path / "x.npy", vocabulary=short)


def test_pickles_and_damaged_arrays_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[None]]), allow_pickle=True)
    with pytest.raises(CorpusError, match="pickled objects"):
        unit_vectors.read(tmp_path / "x.npy")
    np.save(tmp_path / "y.npy", ROWS)
    content = (tmp_path / "y.npy").read_bytes()
    with pytest.raises(CorpusError, match="not of the size"):
        unit_vectors.read(write(tmp_path, content[:-3], "z.npy"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1.0, 0.0], [0.0, np.nan]], "row 1, column 1 .* is nan"),
        ([[1.0, 0.0], [np.inf, 0.0]], "row 1, column 0 .* is inf"),
        ([[1.0, 0.0], [0.0, 0.0]], r"row 1 .* zero vector"),
        ([[1.0, 0.0], [0.0, 0.5]], r"row 1 .* length 0.5"),
        ([1.0, 0.0], "an array float64"),
        ([["a"]], "an array"),
    ],
)
def test_bad_arrays(values, message):
    for given in (values, np.asarray(values)):
        with pytest.raises(CorpusError, match=message):
            vectors.from_array(given)


def test_lengths_become_one_to_rounding_and_repeats_are_summed():
    rounded = vectors.from_array([[0.6003, 0.8004]])
    assert np.linalg.norm(rounded.values.toarray()) == pytest.approx(1, abs=1e-7)
    twice = sp.coo_array(([0.5, 0.5, 1.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    assert vectors.from_array(twice).values.toarray().tolist() == [[0, 1], [1, 0]]


def test_the_digest_sees_values_and_words_and_not_names():
    one = vectors.from_array(ROWS)
    assert vectors.digest(one) == vectors.digest(one._replace(names=("a", "b", "c")))
    assert vectors.digest(one) != vectors.digest(one._replace(vocabulary=("a", "b", "c", "d")))
    assert vectors.digest(one) != vectors.digest(vectors.from_array(ROWS[::-1]))


def test_the_published_data(shared_data):
    folder = shared_data / "20news-different"
    if not folder.is_dir():
        pytest.skip("20news-different is not there")
    found = unit_vectors.read(folder / "diff.train.tfidf1.data")
    assert found.values.shape == (1666, 5000)
    assert found.vocabulary[:2] == ("archive", "name")

"""Unit vectors from arrays and from files: what is read, and what is refused, where."""

import gzip

import numpy as np
import pytest
import scipy.sparse as sp

from simplex_jax._src.corpus import CorpusError, read_vectors, vectors
from simplex_jax._src.corpus.formats import registry

ROWS = np.array([[0.6, 0, 0, -0.8], [0, 0, 1, 0], [0.6, 0.8, 0, 0]], np.float32)


def write(tmp_path, content, name):
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return tmp_path / name


def test_arrays_are_read(tmp_path):
    np.save(tmp_path / "x.npy", ROWS.astype(np.float64))
    np.save(tmp_path / "turned.npy", np.asfortranarray(ROWS).astype(">f4"))
    write(tmp_path, gzip.compress((tmp_path / "x.npy").read_bytes()), "x.npy.gz")
    sp.save_npz(tmp_path / "x.npz", sp.csr_array(ROWS))
    for name in ("x.npy", "turned.npy", "x.npy.gz", "x.npz"):
        result = read_vectors(tmp_path / name)
        np.testing.assert_allclose(result.values.toarray(), ROWS, rtol=1e-6)
        assert result.values.dtype == np.float32
        assert result.vocabulary == ("w0", "w1", "w2", "w3")
        assert result.names == ("1", "2", "3")


def test_words_and_names(tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    words = write(tmp_path, "oak\nelm\nash\nfir\n", "words")
    names = write(tmp_path, "one\ntwo\nthree\n", "names")
    result = read_vectors(tmp_path / "x.npy", vocabulary=words, names=names)
    assert result.vocabulary == ("oak", "elm", "ash", "fir")
    assert result.names == ("one", "two", "three")
    with pytest.raises(CorpusError, match=r"3 words .*\(3, 4\)"):
        read_vectors(tmp_path / "x.npy", vocabulary=names)


def test_which_files_are_taken_for_vectors(tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    sp.save_npz(tmp_path / "x.npz", sp.csr_array(ROWS))
    write(tmp_path, "two words\nof text\n", "x.txt")
    kinds = {name: registry.recognised(tmp_path / name, "vectors", "counts").kind for name in
             ("x.npy", "x.npz", "x.txt", "")}  # fmt: skip
    assert kinds == {"x.npy": "vectors", "x.npz": "counts", "x.txt": "counts", "": "counts"}


def test_vectors_of_any_length_are_taken_when_told_to(tmp_path):
    np.save(tmp_path / "x.npy", [[3.0, 4.0]])
    with pytest.raises(CorpusError, match=r"x.npy: row 0 .* has length 5, not 1; give --normalise"):
        read_vectors(tmp_path / "x.npy")
    result = read_vectors(tmp_path / "x.npy", normalise=True)
    np.testing.assert_allclose(result.values.toarray(), [[0.6, 0.8]], rtol=1e-6)
    np.save(tmp_path / "x.npy", [[0.0, 0.0]])
    with pytest.raises(CorpusError, match="zero vector"):
        read_vectors(tmp_path / "x.npy", normalise=True)


def test_pickles_and_damaged_arrays_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[None]]), allow_pickle=True)
    with pytest.raises(CorpusError, match="pickled objects"):
        read_vectors(tmp_path / "x.npy")
    np.save(tmp_path / "y.npy", ROWS)
    content = (tmp_path / "y.npy").read_bytes()
    with pytest.raises(CorpusError, match=r"z\.npy: .*its header"):
        read_vectors(write(tmp_path, content[:-3], "z.npy"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1.0, 0.0], [0.0, np.nan]], "row 1, column 1 .* is nan"),
        ([[1.0, 0.0], [np.inf, 0.0]], "row 1, column 0 .* is inf"),
        ([[1.0, 0.0], [0.0, 0.0]], r"row 1 .* zero vector"),
        ([[1.0, 0.0], [0.0, 0.5]], r"row 1 .* length 0.5"),
        ([1.0, 0.0], "the array has 1 dimensions, not 2"),
        (np.array([["a"]]), "dtype <U1"),
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

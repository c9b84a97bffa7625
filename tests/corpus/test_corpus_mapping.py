"""Documents over the vocabulary of a model."""

import numpy as np
import pytest
import scipy.sparse as sp

from simplex_jax._src.corpus import (
    CorpusError,
    drop_words,
    from_counts,
    same_words,
    to_vocabulary,
    vectors,
)


def test_counts_go_to_the_columns_of_their_words():
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.5, (30, 12))
    words = [f"word{i}" for i in rng.permutation(12)]
    corpus = from_counts(counts, words, [f"d{i}" for i in range(30)])
    vocabulary = [f"word{i}" for i in (7, 20, 3, 11, 0, 21)]
    mapped = to_vocabulary(corpus, vocabulary)
    expected = np.zeros((30, 6), int)
    for column, word in enumerate(vocabulary):
        if word in words:
            expected[:, column] = counts[:, words.index(word)]
    np.testing.assert_array_equal(mapped.corpus.counts.toarray(), expected)
    assert mapped.unknown == counts.sum() - expected.sum() > 0
    assert mapped.corpus.vocabulary == tuple(vocabulary)
    assert mapped.corpus.names == corpus.names
    assert mapped.corpus.counts.has_canonical_format
    assert mapped.corpus.counts.dtype == np.int32


def test_the_same_vocabulary_changes_nothing():
    corpus = from_counts([[1, 0], [0, 0], [2, 3]], ["a", "b"])
    mapped = to_vocabulary(corpus, ["a", "b"])
    assert (mapped.corpus, mapped.unknown) == (corpus, 0)


def test_accented_letters_are_one_character_or_several():
    one, several = "caf\u00e9", "cafe\u0301"
    corpus = from_counts([[1, 2], [0, 3]], [several, "tea"])
    assert to_vocabulary(corpus, ["tea", one]).corpus.counts.toarray().tolist() == [[2, 1], [3, 0]]
    both = from_counts([[1, 2, 4], [0, 0, 5]], [several, one, "tea"])
    mapped = to_vocabulary(both, [one])
    assert (mapped.corpus.counts.toarray().tolist(), mapped.unknown) == ([[3], [0]], 9)
    assert mapped.corpus.counts.has_canonical_format
    assert to_vocabulary(both, [one, several]).corpus.counts.toarray()[0].tolist() == [2, 1]
    assert drop_words(both, [several]).vocabulary == ("tea",)


def test_tokens_beyond_32_bits_are_counted():
    corpus = from_counts(np.full((300, 1), 2**24) * [1, 1], ["a", "b"])
    assert to_vocabulary(corpus, ["b"]).unknown == 300 * 2**24


@pytest.mark.parametrize(
    ("vocabulary", "says"),
    [
        (["a", "a"], "repeats word 0"),
        ([], "has no word"),
        (["a", ""], "is empty"),
    ],
)
def test_what_cannot_be_mapped(vocabulary, says):
    corpus = from_counts([[1, 0], [2, 3]], ["a", "b"])
    with pytest.raises(CorpusError, match=says):
        to_vocabulary(corpus, vocabulary, source="x.txt")


def test_documents_without_a_known_word_are_empty():
    mapped = to_vocabulary(from_counts(sp.csr_array([[1, 0]]), ["a", "b"]), ["b"])
    assert (mapped.corpus.counts.nnz, mapped.corpus.counts.shape, mapped.unknown) == (0, (1, 1), 1)
    with pytest.warns(UserWarning, match="x.txt: none of its 50"):
        to_vocabulary(from_counts([[50]], ["a"]), ["b"], source="x.txt")
    with pytest.raises(CorpusError, match=r"its 2 .* first one is 'b'"):
        to_vocabulary(from_counts([[1, 0]]), ["b"])


def test_vectors_are_of_the_same_words_or_of_none():
    rows = vectors.from_array(np.eye(2), ["a", "b"])
    assert same_words(rows, ("a", "b")) == rows
    assert same_words(vectors.from_array(np.eye(2)), ["a", "b"]).vocabulary == ("a", "b")
    for words in (["b", "a"], ["a", "b", "c"], ["a"]):
        with pytest.raises(CorpusError, match=r"x\.npy: its 2"):
            same_words(rows, words, source="x.npy")

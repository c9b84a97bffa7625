"""tf-idf vectors: the two weights, the vocabulary cut, and documents without a direction."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from simplex_jax._src.corpus import CorpusError, TextOptions, from_counts, from_texts, vectors

TEXTS = ["oak elm oak ash", "elm ash", "oak fir fir", "ash ash elm oak"]
PLAIN = TextOptions(min_df=1, max_df=1.0, stop_words="none")
CORPUS = from_texts(TEXTS, options=PLAIN)


def test_smooth_weights_are_those_of_scikit_learn():
    expected = TfidfVectorizer().fit(TEXTS)
    idf = vectors.idf_weights(CORPUS, "smooth")
    np.testing.assert_allclose(idf, expected.idf_)
    result = vectors.tfidf(CORPUS, idf).vectors.values
    np.testing.assert_allclose(result.toarray(), expected.transform(TEXTS).toarray(), rtol=1e-6)


def test_log_weights_are_those_of_the_paper():
    counts = CORPUS.counts.toarray()
    idf = np.maximum(np.log(4 / (1 + (counts > 0).sum(axis=0))), 0)
    np.testing.assert_allclose(vectors.idf_weights(CORPUS), idf)
    result = vectors.tfidf(CORPUS, np.array([1.0, 0.5, 0.25, 2.0]))
    dense = counts * [1.0, 0.5, 0.25, 2.0]
    dense /= np.linalg.norm(dense, axis=1, keepdims=True)
    np.testing.assert_allclose(result.vectors.values.toarray(), dense, rtol=1e-6)


def test_documents_without_a_direction_are_named():
    counts = from_counts([[2, 1, 0], [3, 0, 0], [0, 0, 0], [1, 0, 1]], names=["a", "b", "c", "d"])
    result = vectors.tfidf(counts, np.array([0.0, 1.0, 1.0]))
    assert result.rows.tolist() == [0, 3]
    assert result.vectors.names == ("a", "d")
    with pytest.raises(CorpusError, match="every tf-idf vector is zero"):
        vectors.tfidf(from_counts([[1], [2]]), np.array([0.0]))


def test_the_vocabulary_is_cut_by_document_frequency():
    counts = from_counts([[9, 1, 0, 1], [9, 1, 1, 0], [9, 0, 1, 0], [9, 1, 1, 0]], list("abcd"))
    assert vectors.cut(counts, max_df=0.9).vocabulary == ("b", "c", "d")
    assert vectors.cut(counts, min_df=2, max_df=0.9).vocabulary == ("b", "c")
    assert vectors.cut(counts, max_vocabulary=1).vocabulary == ("a",)
    cut = vectors.cut(counts, min_df=1, max_df=0.25)
    assert cut.counts.toarray().tolist() == [[1], [0], [0], [0]], "documents stay"
    with pytest.raises(CorpusError, match=r"5 documents .*--min-df"):
        vectors.cut(counts, min_df=5)


def test_an_unknown_weight():
    with pytest.raises(ValueError, match=r"^idf .*'none'$"):
        vectors.idf_weights(CORPUS, "none")

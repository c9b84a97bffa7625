"""Fitted topics for pyLDAvis and gensim: contents, and what does not go together."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp

from simplex_jax._src.evaluate import exports

TOPICS = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.1, 0.2, 0.6]])
SHARES = np.array([[0.25, 0.75], [0.5, 0.5], [1.0, 1.0]])
COUNTS = sp.csr_array([[1, 0, 5, 2], [0, 0, 0, 0], [3, 0, 0, 2]])
WORDS = ["sun", "moon", "star", "sky"]


def test_pyldavis_gets_the_words_that_occur_most_often():
    result = exports.to_pyldavis(TOPICS, SHARES, COUNTS, WORDS, top_terms=3)
    assert result["vocab"] == ["star", "sun", "sky"]  # of equal ones the first in the vocabulary
    assert result["term_frequency"].tolist() == [5, 4, 4]
    kept = TOPICS[:, [2, 0, 3]]
    np.testing.assert_allclose(result["topic_term_dists"], kept / kept.sum(axis=1, keepdims=True))
    # The document without words is left out; shares have a sum of 1.
    assert result["doc_lengths"].tolist() == [8, 5]
    np.testing.assert_allclose(result["doc_topic_dists"], [[0.25, 0.75], [0.5, 0.5]])


def test_pyldavis_gets_all_words_where_there_are_few():
    result = exports.to_pyldavis(TOPICS, SHARES, COUNTS.toarray(), np.array(WORDS, object))
    assert result["vocab"] == ["star", "sun", "sky", "moon"]
    assert all(type(word) is str for word in result["vocab"])
    np.testing.assert_allclose(result["topic_term_dists"], TOPICS[:, [2, 0, 3, 1]])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"topics": TOPICS[:, :3]}, r"topics \(2, 3\), .* must be \[K, V\], \[D, K\] and \[D, V\]"),
        ({"proportions": SHARES[:2]}, r"proportions \(2, 2\)"),
        ({"proportions": SHARES[:, :1]}, r"proportions \(3, 1\)"),
        ({"counts": COUNTS[:2]}, r"counts \(2, 4\)"),
        ({"counts": COUNTS * 0.3}, "counts: .* which is not a whole number"),
        ({"topics": -TOPICS}, "topics: row 0 is not a topic"),
        ({"vocabulary": WORDS[:3]}, "vocabulary has 3 words for 4 columns"),
        ({"top_terms": 1}, "top_terms must be an integer of at least 2"),
        ({"topics": np.eye(2, 4), "top_terms": 2}, "a topic has no word among the 2 kept"),
    ],
)
def test_pyldavis_does_not_get_what_does_not_go_together(changed, message):
    given = {"topics": TOPICS, "proportions": SHARES, "counts": COUNTS, "vocabulary": WORDS}
    with pytest.raises(ValueError, match=message):
        exports.to_pyldavis(**given | changed)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"vocabulary": WORDS[:3]}, "vocabulary has 3 words for 4 columns"),
        ({"alpha": 0.0}, "alpha must be finite and positive; it is 0"),
        ({"alpha": [0.1, np.nan]}, "alpha must be finite and positive; it is nan"),
        ({"alpha": [0.1, 0.2, 0.3]}, r"alpha of shape \(3,\)"),
        ({"topics": [[0.5, -0.5, 0.5, 0.5]]}, "topics: row 0 is not a topic"),
        ({"topics": TOPICS[0]}, r"topics must be numbers \[K, V\]"),
    ],
)
def test_gensim_does_not_get_what_does_not_go_together(changed, message):
    """With or without gensim."""
    given = {"topics": TOPICS, "alpha": 0.1, "vocabulary": WORDS}
    with pytest.raises(ValueError, match=message):
        exports.to_gensim(**given | changed)


def test_without_gensim_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(ImportError, match=r"gensim: pip install 'simplex-jax\[coherence\]'"):
        exports.to_gensim(TOPICS, 0.1, WORDS)


def test_gensim_has_the_topics():
    models = pytest.importorskip("gensim.models")
    model = exports.to_gensim(TOPICS, [0.1, 0.3], WORDS)
    assert isinstance(model, models.LdaModel)
    np.testing.assert_allclose(model.get_topics(), TOPICS, rtol=1e-5)
    np.testing.assert_allclose(model.alpha, [0.1, 0.3], rtol=1e-6)
    assert [word for word, _ in model.show_topic(1, 2)] == ["sky", "star"]
    # Its inference: a document of the sky is of the second topic.
    assert max(model[[(3, 9)]], key=lambda pair: pair[1])[0] == 1
    assert exports.to_gensim(TOPICS, 0.5, WORDS).alpha.tolist() == [0.5, 0.5]

"""Fitted topics for pyLDAvis: contents, and what does not go together."""

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
        ({"counts": COUNTS * 0.3}, r"^counts: .* is 0\.3, "),
        ({"topics": -TOPICS}, "topics: row 0"),
        ({"vocabulary": WORDS[:3]}, "vocabulary has 3 words for 4 columns"),
        ({"top_terms": 1}, r"top_terms .* 2"),
        ({"topics": np.eye(2, 4), "top_terms": 2}, r"2 kept: .*top_terms"),
        ({"proportions": SHARES * [[1], [1], [0]]}, "document 2 sum to 0$"),
    ],
)
def test_pyldavis_does_not_get_what_does_not_go_together(changed, message):
    given = {"topics": TOPICS, "proportions": SHARES, "counts": COUNTS, "vocabulary": WORDS}
    with pytest.raises(ValueError, match=message):
        exports.to_pyldavis(**given | changed)

"""Proportions of new documents: right, in shards, in order, and few shapes compiled."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from simplex_jax import topics
from simplex_jax.models import inference
from simplex_jax.topics import proportions

TOPICS = np.array([[0.7, 0.2, 0.1, 0.0], [0.1, 0.3, 0.6, 0.0]])
ALPHA = np.array([0.5, 0.8])


def exact(words):
    """E[theta | words] by enumeration of all topic assignments."""
    total, mean = 0.0, np.zeros(2)
    for z in itertools.product(range(2), repeat=len(words)):
        n, weight = np.zeros(2), 1.0
        for topic, word in zip(z, words, strict=True):
            weight *= (ALPHA[topic] + n[topic]) * TOPICS[topic, word]
            n[topic] += 1
        total += weight
        mean += weight * (ALPHA + n) / (ALPHA.sum() + len(words))
    return mean / total


def table(documents, copies):
    counts = [np.bincount(words, minlength=4) for words in documents]
    return sp.csr_array(np.array(counts * copies, np.int32))


def test_they_are_posterior_means_in_the_order_of_the_documents():
    """Copies of four documents in shards of 700; 5 standard errors, false alarm below 1e-5."""
    documents = [[0, 0, 1, 2, 2], [2], [], [0, 0]]
    rows = topics.transform(TOPICS, ALPHA, table(documents, 600), shard=700)
    assert rows.dtype == np.float32
    rows = rows.reshape(600, 4, 2).astype(float)
    for i, words in enumerate(documents):
        error = rows[:, i].std(axis=0) / np.sqrt(600)
        assert (abs(rows[:, i].mean(axis=0) - exact(words)) <= 5 * error + 1e-6).all()


def test_shards_are_whole_bounded_and_compiled_together(monkeypatch):
    monkeypatch.setattr(proportions, "_MOST_TOKENS", 50)
    counts = table([[0] * 30, [1] * 25, [2], []], 5)
    compiled = inference.document_proportions._cache_size()
    parts = list(topics.shards(TOPICS, 0.5, counts, shard=6))
    assert [first for first, _ in parts] == np.cumsum(
        [0] + [len(r) for _, r in parts[:-1]]
    ).tolist()
    assert sum(len(rows) for _, rows in parts) == 20
    lengths = counts.sum(axis=1)
    assert max(lengths[first : first + len(rows)].sum() for first, rows in parts) <= 50
    assert inference.document_proportions._cache_size() <= compiled + 3
    np.testing.assert_allclose(np.concatenate([r for _, r in parts]).sum(axis=1), 1, rtol=1e-5)


def test_a_document_longer_than_a_shard_may_be(monkeypatch):
    monkeypatch.setattr(proportions, "_MOST_TOKENS", 10)
    parts = list(topics.shards(TOPICS, ALPHA, table([[0], [1] * 40, [2]], 1)))
    assert [first for first, _ in parts] == [0, 1, 2]


def test_no_documents_no_rows():
    assert topics.transform(TOPICS, ALPHA, sp.csr_array((0, 4), dtype=np.int32)).shape == (0, 2)
    assert (
        topics.transform(TOPICS, 0.5, sp.csr_array((2, 4), dtype=np.int32)).tolist()
        == [[0.5, 0.5]] * 2
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"topics": TOPICS[:, :3]}, "the documents have 4 words and the topics 3"),
        ({"topics": -TOPICS}, "topics: row 0 is no topic"),
        ({"topics": np.zeros((2, 4))}, "topics: row 0 is no topic"),
        ({"alpha": [0.1, 0.2, 0.3]}, "alpha"),
        ({"alpha": 0.0}, "alpha"),
        ({"counts": sp.csr_array([[-1, 0, 0, 0]])}, "-1"),
        ({"shard": 0}, "shard"),
        ({"sweeps": 0}, "sweeps"),
        ({"sweeps": 3, "burn_in": 3}, "burn_in"),
    ],
)
def test_bad_arguments_are_named_before_any_work(arguments, words):
    given = {"topics": TOPICS, "alpha": ALPHA, "counts": table([[0]], 1)} | arguments
    with pytest.raises(ValueError, match=words):
        topics.shards(**given)

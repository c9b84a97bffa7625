"""Topics put together over runs: by hand, by brute force, and the edges."""

import itertools

import numpy as np
import pytest

from simplex_jax._src.evaluate import matching


def test_affinity_by_hand():
    result = matching.affinity([[1, 0, 0], [2, 2, 0]], [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(result, [[np.sqrt(0.5), 0], [1, 0]], rtol=1e-15)


def test_affinity_over_more_words_than_are_taken_at_once(monkeypatch):
    rng = np.random.default_rng(0)
    one, two = rng.dirichlet(np.full(101, 0.1), 4), rng.dirichlet(np.full(101, 0.1), 3)
    whole = np.sqrt(one) @ np.sqrt(two).T
    monkeypatch.setattr(matching, "WORDS_AT_ONCE", 10)
    np.testing.assert_allclose(matching.affinity(one, two), whole, rtol=1e-12)
    single = matching.affinity(one.astype(np.float32), two.astype(np.float32))
    np.testing.assert_allclose(single, whole, rtol=1e-5, atol=1e-7)


def test_a_permutation_is_found_through_noise():
    rng = np.random.default_rng(1)
    reference = rng.dirichlet(np.full(200, 0.1), 12)
    order = rng.permutation(12)
    noisy = (reference + 0.1 * rng.dirichlet(np.full(200, 0.1), 12))[order]
    result = matching.match(reference, noisy)
    np.testing.assert_array_equal(order[result.order], np.arange(12))
    assert result.similarity.min() > 0.85


@pytest.mark.parametrize("others", [3, 4, 5])
def test_the_sum_of_affinities_is_largest(others):
    rng = np.random.default_rng(2)
    one, two = rng.dirichlet(np.ones(5), 4), rng.dirichlet(np.ones(5), others)
    table = matching.affinity(one, two)
    result = matching.match(one, two)
    chosen = result.order[result.order >= 0]
    assert len(set(chosen)) == len(chosen) == min(4, others)
    assert (result.similarity[result.order < 0] == 0).all()
    best = max(
        sum(table[i, j] for i, j in zip(rows, columns, strict=True))
        for rows in itertools.permutations(range(4), min(4, others))
        for columns in itertools.permutations(range(others), min(4, others))
    )
    assert result.similarity.sum() == pytest.approx(best)


def test_stability_is_the_mean_over_all_pairs_of_runs():
    runs = [
        [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]],
        [[0.0, 0.5, 0.5], [1.0, 0.0, 0.0]],
        [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]],
    ]
    np.testing.assert_allclose(matching.align(runs)[1], [1, (1 + 2 * np.sqrt(0.5)) / 3])


def test_topics_are_shared_if_their_partner_is_near():
    first = np.array([[0.5, 0.5, 0, 0], [0, 0.2, 0.8, 0], [0, 0, 0.1, 0.9]])
    other = np.array([[0.4, 0.6, 0, 0], [0.3, 0, 0, 0.7], [0, 0.1, 0.8, 0.1]])
    result = matching.align([first, other])
    assert result.shared[0].all()
    assert result.shared[1].tolist() == [True, True, True]
    far = matching.align([np.eye(3), np.full((3, 3), 1 / 3)])
    assert not far.shared[1].any()


@pytest.mark.parametrize("swap", [False, True])
def test_a_topic_that_another_run_divides_is_not_shared(swap):
    whole = np.array([[0.5, 0.5, 0, 0], [0, 0, 0.9, 0.1], [0, 0, 0.1, 0.9]])
    halves = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0.5, 0.5]])
    result = matching.align([halves, whole] if swap else [whole, halves])
    assert not result.shared[1, 0]


def test_stability_of_one_run_is_not_known():
    assert np.isnan(matching.align([np.eye(3)])[1]).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: matching.affinity([[1.0, 0.0]], [[1.0]]), "first has 2 words and second 1"),
        (lambda: matching.affinity([1.0], [[1.0]]), r"first .* \[K, V\]"),
        (lambda: matching.affinity([[1.0]], [["a"]]), r"^second .*1\)$"),
        (lambda: matching.match([[1.0, 0.0], [0.0, 0.0]], [[1.0, 0.0]]), "first: row 1"),
        (lambda: matching.match([[np.nan, 1.0]], [[1.0, 0.0]]), "first: row 0"),
        (lambda: matching.match([[1.0, 0.0]], [[1.0, -1e-3]]), "second: row 0"),
        (lambda: matching.align([]), "they are none"),
        (lambda: matching.align([np.eye(2), np.eye(3)]), r"\(2, 2\), \(3, 3\)"),
    ],
)
def test_bad_topics(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_topics_of_few_tokens_are_alike_whatever_their_words():
    """So that they are not told apart; the last two runs have other words in the same topic."""
    beta, words = 0.1, 1000
    numbers = np.zeros((2, 2, words))
    numbers[0, :, :10], numbers[1, :, -10:] = 1, 1  # few tokens: 10 of different words
    numbers[:, 1] *= 100
    means = (beta + numbers) / (beta + numbers).sum(axis=-1, keepdims=True)
    alike = np.diag(matching.affinity(*means)) >= matching.SAME
    assert alike.tolist() == [True, False]
    told = matching.told_apart(numbers.sum(axis=-1), beta * words)
    assert told.tolist() == [[False, True]]

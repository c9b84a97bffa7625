"""Summaries of partitions against definitions, and against all partitions of a few rows."""

import itertools
import tracemalloc
from functools import partial

import numpy as np
import pytest
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform
from scipy.stats import entropy
from sklearn import metrics

from simplex_jax._src.evaluate import partitions


def all_partitions(n):
    """Every partition of n rows once, by restricted growth."""
    result = [(0,)]
    for _ in range(n - 1):
        result = [(*p, k) for p in result for k in range(max(p) + 2)]
    return np.array(result)


def by_definition(a, b, loss):
    pairs = list(itertools.combinations(range(len(a)), 2))
    if loss == "binder":
        return np.mean([(a[i] == a[j]) != (b[i] == b[j]) for i, j in pairs]) if pairs else 0.0
    joint = np.unique(np.stack([a, b]), axis=1, return_counts=True)[1]
    single = [entropy(np.unique(x, return_counts=True)[1]) for x in (a, b)]
    return 2 * entropy(joint) - sum(single)


def distance(loss, first, second):
    """Return the loss of labels [n] against each of draws [S, n], or of labels [n]."""
    draws, one = (partitions._compact(np.atleast_2d(labels)) for labels in (first, second))
    losses = partitions._losses(draws, one[0], loss)
    return losses if np.ndim(first) == 2 else losses[0]


LOSSES = {loss: partial(distance, loss) for loss in ("vi", "binder")}


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_by_definition(loss, seed) -> None:
    rng = np.random.default_rng(seed)
    draws = rng.integers(-3, 40, (6, 25)) * 1000
    other = rng.integers(0, 4, 25)
    result = LOSSES[loss](draws, other)
    exact = [by_definition(draw, other, loss) for draw in draws]
    np.testing.assert_allclose(result, exact, atol=1e-12)
    assert LOSSES[loss](draws[0], draws[0] + 7) == 0
    assert LOSSES[loss]([3], [9]) == 0
    np.testing.assert_allclose(LOSSES[loss](other, draws[0]), exact[0], atol=1e-12)
    many = rng.integers(0, 30, 25)
    exact = [by_definition(draw, many, loss) for draw in draws]
    np.testing.assert_allclose(LOSSES[loss](draws, many), exact, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_many_clusters_need_no_table_of_their_pairs(loss) -> None:
    """A table of 2,000 times 2,000 clusters in 4 draws is of 128 MB."""
    rows = np.arange(2000)
    tracemalloc.start()
    try:
        result = LOSSES[loss](np.stack([rows, rows[::-1], rows // 2, 0 * rows]), rows)
        assert tracemalloc.get_traced_memory()[1] < 10e6
    finally:
        tracemalloc.stop()
    half = {"vi": np.log(2), "binder": 1 / 1999}[loss]
    whole = {"vi": np.log(2000), "binder": 1}[loss]
    np.testing.assert_allclose(result, [0, 0, half, whole], atol=1e-12)


def test_losses_agree_with_scikit_learn(seed) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 5, (2, 300))
    assert np.isclose(LOSSES["binder"](a, b), 1 - metrics.rand_score(a, b))
    information = metrics.mutual_info_score(a, b)
    entropies = entropy(np.bincount(a)) + entropy(np.bincount(b))
    assert np.isclose(LOSSES["vi"](a, b), entropies - 2 * information)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_variation_of_information_is_a_metric(loss) -> None:
    every = all_partitions(4)
    distance = np.array([LOSSES[loss](every, one) for one in every])
    np.testing.assert_allclose(distance, distance.T, atol=1e-12)
    assert ((distance < 1e-12) == np.eye(len(every), dtype=bool)).all()
    assert (distance[:, None] <= distance[:, :, None] + distance + 1e-12).all()


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_the_point_partition_is_the_best_of_all(loss, seed) -> None:
    """Draws from a few partitions of six rows: none of all 203 has a smaller expected loss."""
    rng = np.random.default_rng(seed)
    every = all_partitions(6)
    best = 0
    for _ in range(20):
        centre = every[rng.integers(len(every))]
        draws = np.where(rng.random((60, 6)) < 0.15, rng.integers(0, 7, (60, 6)), centre)
        result = partitions.point_partition(draws, loss)
        expected = [LOSSES[loss](draws, one).mean() for one in every]
        assert np.isclose(result.loss, LOSSES[loss](draws, result.labels).mean())
        assert result.loss >= min(expected) - 1e-12
        best += np.isclose(result.loss, min(expected))
        assert (result.rows_used, result.draws_used) == (6, 60)
    assert best >= 19  # draws and cuts are not all partitions


def blurred(rng, n, share, draws=30):
    truth = rng.integers(0, 3, n)
    labels = np.where(rng.random((draws, n)) < share, rng.integers(0, 9, (draws, n)), truth)
    return truth, labels


def test_the_tree_finds_what_no_draw_is(seed) -> None:
    truth, labels = blurred(np.random.default_rng(seed), 120, 0.2)
    result = partitions.point_partition(labels)
    assert result.source == "tree"
    assert LOSSES["vi"](result.labels, truth) == 0
    assert (np.diff(np.bincount(result.labels)) <= 0).all()


def test_thinning_is_told_and_labels_all_rows(seed) -> None:
    truth, labels = blurred(np.random.default_rng(seed), 900, 0.2)
    result = partitions.point_partition(labels, most_rows=150, most_draws=7)
    assert (result.rows_used, result.draws_used, result.source) == (150, 7, "tree")
    assert LOSSES["vi"](result.labels, truth) < 0.02
    same = partitions.point_partition(np.tile(truth, (4, 1)), most_rows=100)
    assert same.loss == 0
    assert LOSSES["vi"](same.labels, truth) == 0


def test_co_clustering_and_the_posterior_of_numbers(seed) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, (50, 12))
    chosen = [3, 0, 7]
    result = partitions.co_clustering(labels, chosen)
    exact = np.mean([[[d[i] == d[j] for j in chosen] for i in chosen] for d in labels], axis=0)
    np.testing.assert_allclose(result, exact)
    numbers = np.array([len(set(d)) for d in labels.tolist()])
    posterior = partitions.number_posterior(numbers)
    assert np.isclose(sum(posterior.values()), 1)
    assert np.isclose(sum(k * p for k, p in posterior.items()), numbers.mean())


def test_one_row_and_one_draw() -> None:
    result = partitions.point_partition(np.array([[5]]))
    assert (result.labels.tolist(), result.loss) == ([0], 0)
    result = partitions.point_partition(np.array([[2, 2, 1]]), "binder")
    assert (result.labels.tolist(), result.loss) == ([0, 0, 1], 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: partitions.point_partition([0, 1]), "draws"),
        (lambda: partitions.point_partition([[0.0, 1.0]]), "integer labels"),
        (lambda: partitions.point_partition(np.zeros((2, 0), int)), r"^labels .*0\)$"),
        (lambda: partitions.point_partition([[0, 1]], "rand"), "vi, binder"),
        (lambda: partitions.point_partition([[0, 1]], most_rows=1), "most_rows"),
        (lambda: partitions.co_clustering([[0, 1]], [2]), "from 0 to 1"),
        (lambda: partitions.relabelled([[0]]), "one partition"),
    ],
)
def test_bad_input_is_named(call, message) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_cuts_of_the_tree_are_those_of_scipy():
    """Of draws with many equal distances, whose merges SciPy takes in an order of its own."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        n, clusters = rng.integers(12, 60), rng.integers(1, 10)
        common = rng.integers(clusters, size=n)
        others = rng.integers(clusters, size=(rng.integers(1, 20), n))
        draws = partitions._compact(np.where(rng.random(others.shape) < 0.2, others, common))
        distances = 1 - partitions.co_clustering(draws)
        tree = hierarchy.linkage(squareform(distances, checks=False), method="average")
        cuts = partitions._cuts(draws)
        assert len(cuts) == draws.max() + 1
        expected = hierarchy.cut_tree(tree, np.arange(1, len(cuts) + 1)).T
        for cut, levels in zip(cuts, expected, strict=True):
            np.testing.assert_array_equal(cut, np.unique(levels, return_inverse=True)[1])

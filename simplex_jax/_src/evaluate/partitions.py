"""Posterior of a partition: co-clustering, number of clusters, and a point estimate.

A draw of a mixture labels its rows, but the labels are arbitrary: only the partition has meaning.
Partitions are integer labels [n], draws of them [S, n].
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jax.typing import ArrayLike

from simplex_jax._src import arguments

LOSSES = ("vi", "binder")


class PointPartition(NamedTuple):
    """The partition with the smallest expected loss among those compared."""

    labels: np.ndarray  # cluster of every row, int64 [n]: 0 for the largest
    loss: float  # its expected loss over the draws, on the rows compared
    rows_used: int  # number of rows on which partitions were compared; n unless thinned
    draws_used: int  # number of draws among the candidates, besides cuts of the tree
    source: str  # "draw" or "tree"


def _partitions(name: str, labels: ArrayLike) -> np.ndarray:
    values = np.asarray(labels)
    if values.ndim == 0 or values.size == 0 or not np.issubdtype(values.dtype, np.integer):
        raise ValueError(
            f"{name} must be integer labels [..., n] of at least one row; it is {values.dtype} of "
            f"shape {values.shape}"
        )
    return values


def _draws(labels: ArrayLike) -> np.ndarray:
    values = _partitions("labels", labels)
    if values.ndim != 2:
        raise ValueError(f"labels must be draws [S, n]; the shape is {values.shape}")
    return values


def relabelled(labels: ArrayLike) -> np.ndarray:
    """Return the same partition with labels 0, 1, ... from the largest cluster to the smallest.

    Clusters of equal size are in the order of their first rows.
    """
    values = _partitions("labels", labels)
    if values.ndim != 1:
        raise ValueError(f"labels must be one partition [n]; the shape is {values.shape}")
    _, first, place, sizes = np.unique(
        values, return_index=True, return_inverse=True, return_counts=True
    )
    rank = np.empty(sizes.size, np.int64)
    rank[np.lexsort((first, -sizes))] = np.arange(sizes.size)
    return rank[place]


def _compact(draws: np.ndarray) -> np.ndarray:
    """Return draws [S, n], each relabelled from 0 without gaps."""
    return np.stack([np.unique(draw, return_inverse=True)[1] for draw in draws])


def _entropy(counts: np.ndarray) -> np.ndarray:
    """Return m log m."""
    values = np.asarray(counts, np.float64)
    return values * np.log(np.where(values > 0, values, 1))


def _square(counts: np.ndarray) -> np.ndarray:
    return np.asarray(counts, np.float64) ** 2


def _sums(codes: np.ndarray, size: int, term: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return the sums of `term` over the numbers of equal codes in rows [S, n] of 0..size-1."""
    draws, n = codes.shape
    if size <= 4 * n:
        apart = codes + size * np.arange(draws)[:, None]
        counts = np.bincount(apart.ravel(), minlength=draws * size).reshape(draws, size)
        return term(counts).sum(axis=1)
    # Memory and time for all pairs of many clusters would grow with the square of their number.
    ordered = np.sort(codes, axis=1)
    last = np.ones(ordered.shape, bool)
    last[:, :-1] = ordered[:, 1:] != ordered[:, :-1]
    ends = np.flatnonzero(last)
    return np.bincount(ends // n, term(np.diff(ends, prepend=-1)), minlength=draws)


def _losses(draws: np.ndarray, partition: np.ndarray, loss: str) -> np.ndarray:
    """Return the loss of a compact partition [n] against each of compact draws, [S]."""
    n = partition.size
    num_labels, num_clusters = int(draws.max()) + 1, int(partition.max()) + 1
    term = _entropy if loss == "vi" else _square
    apart = _sums(draws, num_labels, term) + _sums(partition[None], num_clusters, term)
    apart -= 2 * _sums(draws * num_clusters + partition, num_labels * num_clusters, term)
    return np.maximum(apart, 0) / n if loss == "vi" else apart / max(n * (n - 1), 1)


def co_clustering(labels: ArrayLike, rows: ArrayLike | None = None) -> np.ndarray:
    """Return the posterior probability that rows share a cluster, float64 [r, r].

    `labels` are draws [S, n]. The cost is r^2 for the chosen `rows` [r], by default all n.

    Example:
        >>> co_clustering([[0, 0, 1], [2, 1, 1]], rows=[1, 2]).tolist()
        [[1.0, 0.5], [0.5, 1.0]]
    """
    draws = _draws(labels)
    if rows is not None:
        subset = _partitions("rows", rows)
        bad = (subset < 0) | (subset >= draws.shape[1])
        if subset.ndim != 1 or bad.any():
            raise ValueError(f"rows must be numbers [r] from 0 to {draws.shape[1] - 1}")
        draws = draws[:, subset]
    counts = np.zeros((draws.shape[1],) * 2, np.int32)
    for draw in draws:
        counts += draw[:, None] == draw
    return counts / len(draws)


def medoid(labels: ArrayLike, *, most_rows: int = 2000) -> int:
    """Return which of the draws [S, n] has the least mean variation of information from all others.

    They are compared on at most `most_rows` rows, evenly spaced.

    Example:
        >>> medoid([[0, 0, 0, 0], [0, 0, 1, 1], [5, 5, 2, 2]])
        1
    """
    draws = _draws(labels)
    some = np.unique(np.linspace(0, draws.shape[1] - 1, most_rows).round().astype(int))
    compact = _compact(draws[:, some])
    return int(np.argmin([_losses(compact, one, "vi").mean() for one in compact]))


def number_posterior(numbers: ArrayLike) -> dict[int, float]:
    """Return the posterior probability of each number of clusters that occurs in draws [S]."""
    values, counts = np.unique(_partitions("numbers", numbers), return_counts=True)
    total = counts.sum()
    return {int(k): float(c / total) for k, c in zip(values, counts, strict=True)}


def point_partition(
    labels: ArrayLike,
    loss: str = "vi",
    *,
    most_rows: int = 2000,
    most_draws: int = 500,
    seed: int = 0,
) -> PointPartition:
    """Return the candidate partition with the smallest expected loss over the draws [S, n].

    Candidates are at most `most_draws` draws, evenly spaced, and the cuts of an average-linkage
    tree of one minus the co-clustering probabilities into up to as many clusters as any draw has
    (Wade and Ghahramani 2018, section 4; the losses are theirs too: "vi", the variation of
    information in nats, and "binder", which favours extra small clusters). Expected losses are
    means over all draws, not bounds.

    Above `most_rows` rows, candidates are compared on a random subset of that size, as costs grow
    with the square. For a cut of the tree, each other row then joins the cluster with the largest
    mean probability of being together with its rows.

    Example:
        >>> point = point_partition([[0, 0, 1, 1], [3, 3, 2, 2], [0, 0, 0, 1]])
        >>> point.labels.tolist(), round(point.loss, 4), point.rows_used
        ([0, 0, 1, 1], 0.2747, 4)
    """
    draws = _draws(labels)
    arguments.choice("loss", loss, LOSSES)
    if most_rows < 2 or most_draws < 1:
        raise ValueError(f"give most_rows >= 2 and most_draws >= 1, not {most_rows}, {most_draws}")
    n, seed = draws.shape[1], arguments.seed(seed)
    subset = np.arange(n)
    if n > most_rows:
        subset = np.sort(np.random.default_rng(seed).choice(n, most_rows, replace=False))
    compact = _compact(draws[:, subset])
    draw_ids = np.unique(np.linspace(0, len(draws) - 1, min(most_draws, len(draws))).astype(int))
    candidates = [("draw", int(s), compact[s]) for s in draw_ids]
    candidates += [("tree", k, cut) for k, cut in enumerate(_cuts(compact))]
    expected = [float(_losses(compact, partition, loss).mean()) for _, _, partition in candidates]
    best = int(np.argmin(expected))
    source, number, partition = candidates[best]
    if source == "draw":
        partition = draws[number]
    elif n > most_rows:
        partition = _extended(draws, subset, partition)
    return PointPartition(relabelled(partition), expected[best], len(subset), len(draw_ids), source)


def _cuts(draws: np.ndarray) -> list[np.ndarray]:
    """Cut the tree of compact draws into 1, 2, ... clusters."""
    from scipy.cluster import hierarchy  # here, since it is slow to import
    from scipy.sparse import csgraph
    from scipy.spatial.distance import squareform

    n = draws.shape[1]
    if n == 1:
        return [np.zeros(1, np.int64)]
    distances = 1 - co_clustering(draws)
    tree = hierarchy.linkage(squareform(distances, checks=False), method="average")
    children = tree[:, :2].astype(int)
    # Merges by their height, and of equal heights in the order of `hierarchy.cut_tree`, which can
    # take a second for 2000 rows: those found last from the root, level by level, come first.
    found = [2 * n - 2]
    for node in found:
        found.extend(child for child in children[node - n, ::-1].tolist() if child >= n)
    place = np.empty(n - 1, int)
    place[np.array(found) - n] = np.arange(n - 1)
    order = np.lexsort((-place, tree[:, 2]))
    leaf = np.arange(2 * n - 1)  # one below each node
    for node, (left, _) in enumerate(children, start=n):
        leaf[node] = leaf[left]
    ends = leaf[children[order]]

    def cut(clusters: int) -> np.ndarray:
        rows, columns = ends[: n - clusters].T
        merged = sp.coo_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))
        return csgraph.connected_components(merged, directed=False)[1].astype(np.int64)

    return [cut(clusters) for clusters in range(1, int(draws.max()) + 2)]


def _extended(draws: np.ndarray, subset: np.ndarray, partition: np.ndarray) -> np.ndarray:
    """Return labels [n] of all rows, given those of the subset."""
    sizes = np.bincount(partition)
    affinity = np.zeros((draws.shape[1], sizes.size))
    for draw in draws:
        compact = np.unique(draw, return_inverse=True)[1]
        shared = np.zeros((compact.max() + 1, sizes.size))
        np.add.at(shared, (compact[subset], partition), 1)
        affinity += (shared / sizes)[compact]
    labels = np.argmax(affinity, axis=1)
    labels[subset] = partition
    return labels

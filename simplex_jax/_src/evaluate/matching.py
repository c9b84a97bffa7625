"""Matching of the topics of several runs, and their stability over runs.

Topics have no order: two chains of one model number them differently. They are matched one to one
to maximise the sum of the affinities of the pairs (an assignment problem). The affinity of two
topics is Bhattacharyya's, sum_w sqrt(p_w q_w), or 1 - H^2 with H the Hellinger distance: 1 for
equal topics, 0 for topics without a common word. It uses all words, whereas a cosine would be
dominated by the few most frequent ones, which topics of running text share. For topics that are
directions, with entries of either sign, the affinity is their cosine.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from jax.typing import ArrayLike

from simplex_jax._src.evaluate import diagnostics

Affinity: TypeAlias = Callable[[ArrayLike, ArrayLike], np.ndarray]
"""`(topics [K, V], topics [L, V]) -> [K, L]`, 1 for equal topics."""

SAME = 0.75
"""Affinity of posterior means from which on two topics are the same.

It is above sqrt(1/2), that of a topic with each of the halves into which another run divides it,
if these have no word in common. A run that has two unequal topics as one may share the larger: its
words are then blended into the mean over the runs, and its prevalence differs.
"""

_APART = 1e-3  # tolerance for rounding in the sum of probabilities

WORDS_AT_ONCE = 65_536
"""Words whose square roots are computed at once, to limit memory."""


class Match(NamedTuple):
    """Topics of one run matched with those of another."""

    # Index of each reference topic's partner, int64 [K]; -1 if the other run has fewer topics and
    # none is left. `topics[order]` are in the reference's order.
    order: np.ndarray
    # Affinity of the pair in [0, 1], float64 [K]; 0 without a partner
    similarity: np.ndarray


def as_topics(name: str, topics: ArrayLike) -> np.ndarray:
    """Return topics as a floating-point array [K, V].

    A row with a negative or non-finite entry, or without a positive one, is a ValueError.
    """
    array = np.asarray(topics)
    if array.ndim != 2 or not array.size or array.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be numbers [K, V]; it is {array.dtype} {array.shape}")
    if array.dtype.kind != "f":
        array = array.astype(np.float64)
    # A NaN or infinity shows in its row's sum: no mask of the size of the topics is needed.
    totals = array.sum(axis=1, dtype=np.float64)
    wrong = ~np.isfinite(totals) | ~(array.min(axis=1) >= 0) | ~(totals > 0)
    if wrong.any():
        raise ValueError(
            f"{name}: row {int(np.argmax(wrong))} is not a topic: give probabilities, finite, none "
            "negative and not all zero"
        )
    return array


def as_probabilities(name: str, topics: ArrayLike) -> np.ndarray:
    """Return topics as `as_topics` does; a row whose sum is not 1 is a ValueError.

    Counts, such as the components of scikit-learn's LDA, would weight topics by their totals.
    """
    array = as_topics(name, topics)
    totals = array.sum(axis=1, dtype=np.float64)
    wrong = np.abs(totals - 1) > _APART
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"{name}: row {row} sums to {totals[row]:.6g}, not to 1: give probabilities; divide "
            "each row of counts by its sum"
        )
    return array


def affinity(first: ArrayLike, second: ArrayLike) -> np.ndarray:
    """Return Bhattacharyya's affinity of every topic of one set with every topic of another.

    Topics are [K, V] and [L, V], their rows divided by their sums; the affinities, float64 [K, L],
    are in [0, 1]. The cost is one matrix product, K L V.

    Example:
        >>> affinity([[0.5, 0.5, 0.0]], [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]).round(6).tolist()
        [[1.0, 0.0]]
    """
    one, two = as_topics("first", first), as_topics("second", second)
    _check_vocabularies(one, two)
    return affinity_of_tables(one, two)


def affinity_of_tables(*tables: Any) -> np.ndarray:
    """Return the affinities of the rows of two tables, dense or sparse, in blocks of words."""
    total = np.zeros([table.shape[0] for table in tables])
    for start in range(0, tables[0].shape[1], WORDS_AT_ONCE):
        some = [table[:, start : start + WORDS_AT_ONCE] for table in tables]
        one, two = (np.sqrt(x.toarray() if sp.issparse(x) else x) for x in some)
        total += one @ two.T
    sums = np.multiply.outer(*(table.sum(axis=1, dtype=np.float64) for table in tables))
    return np.minimum(total / np.sqrt(sums), 1.0)


def cosine(first: ArrayLike, second: ArrayLike) -> np.ndarray:
    """Return the cosine of every direction of one set with every one of another.

    Directions are [K, V] and [L, V], of any length but 0; the cosines are float64 [K, L].

    Example:
        >>> cosine([[3.0, 4.0]], [[6.0, 8.0], [-3.0, -4.0], [4.0, -3.0]]).round(6).tolist()
        [[1.0, -1.0, 0.0]]
    """
    one, two = _directions("first", first), _directions("second", second)
    _check_vocabularies(one, two)
    return np.clip(one @ two.T, -1.0, 1.0)


def _check_vocabularies(one: np.ndarray, two: np.ndarray) -> None:
    if one.shape[1] != two.shape[1]:
        raise ValueError(
            f"first has {one.shape[1]} words and second {two.shape[1]}: "
            "give topics over one vocabulary"
        )


def _directions(name: str, rows: ArrayLike) -> np.ndarray:
    array = np.asarray(rows, np.float64)
    if array.ndim != 2 or not array.size:
        raise ValueError(f"{name} must be numbers [K, V]; its shape is {array.shape}")
    lengths = np.linalg.norm(array, axis=1, keepdims=True)
    wrong = ~((lengths > 0) & np.isfinite(lengths))[:, 0]
    if wrong.any():
        raise ValueError(f"{name}: row {int(np.argmax(wrong))} has no direction")
    return array / lengths


def match(reference: ArrayLike, topics: ArrayLike, measure: Affinity = affinity) -> Match:
    """Pair each reference topic [K, V] with one of other topics [L, V], one to one.

    Pairs maximise the sum of affinities: `affinity` or, for directions, `cosine`.

    Example:
        >>> pairs = match([[0.9, 0.1], [0.2, 0.8]], [[0.3, 0.7], [0.8, 0.2]])
        >>> pairs.order.tolist(), pairs.similarity.round(3).tolist()
        ([1, 0], [0.99, 0.993])
    """
    table = measure(reference, topics)
    rows, partners = assignment(table)
    order = np.full(len(table), -1)
    similarity = np.zeros(len(table))
    order[rows] = partners
    similarity[rows] = table[rows, partners]
    return Match(order, similarity)


class Alignment(NamedTuple):
    """Matched topics of several runs."""

    # Indices of each run's topics in the order of the first run, int64 [R, K]
    order: np.ndarray
    # Mean affinity over all pairs of runs, float64 [K], NaN for a single run. Near 1 all found the
    # same topic; topics that share only common words and smoothing have the affinity of those.
    stability: np.ndarray
    # Whether a run has the topic of the first, bool [R, K]: they are paired, with an affinity of at
    # least `SAME`.
    shared: np.ndarray


def align(runs: Sequence[ArrayLike], measure: Affinity = affinity) -> Alignment:
    """Match the topics of several chains or runs to those of the first.

    Runs are topics [K, V], ideally posterior means, the first in the desired order:
    `runs[r][order[r]]` are in the order of the first. Topics that are not `shared` were matched
    only because nothing else was left.

    Example:
        >>> first = [[0.9, 0.1, 0.0], [0.2, 0.8, 0.0]]
        >>> alignment = align([first, [[0.2, 0.8, 0.0], [0.0, 0.1, 0.9]]])
        >>> alignment.order.tolist(), alignment.stability.round(2).tolist()
        ([[0, 1], [1, 0]], [0.1, 1.0])
        >>> alignment.shared.tolist()
        [[True, True], [False, True]]
    """
    check = as_topics if measure is affinity else _directions
    arrays = [check(f"runs[{i}]", run) for i, run in enumerate(runs)]
    if not arrays or any(run.shape != arrays[0].shape for run in arrays):
        shapes = ", ".join(str(run.shape) for run in arrays) or "none"
        raise ValueError(f"runs must be topics of one shape; they are {shapes}")
    identity = np.arange(len(arrays[0]))
    orders, shared = [identity], [np.ones(len(identity), bool)]
    for run in arrays[1:]:
        table = measure(arrays[0], run)
        order = assignment(table)[1]
        orders.append(order)
        shared.append(table[identity, order] >= SAME)
    aligned = [run[rows] for run, rows in zip(arrays, orders, strict=True)]
    return Alignment(np.stack(orders), stability(aligned, measure), np.stack(shared))


def told_apart(tokens: np.ndarray, prior: float) -> np.ndarray:
    """Return which topics have tokens enough to be compared with the first run's, [R - 1, K].

    The prior adds the same to all words of all topics, so that means of n tokens, [R, K], have an
    affinity of about prior / (prior + n) whatever their words are.
    """
    known = prior / (prior + tokens) < SAME
    return known[1:] & known[0]


def stability(aligned: Sequence[np.ndarray], measure: Affinity = affinity) -> np.ndarray:
    """Return the mean affinity of each topic over all pairs of runs, [K, V] each; NaN for one."""
    if len(aligned) < 2:
        return np.full(len(aligned[0]), np.nan)
    return np.mean(
        [
            [measure(p[None], q[None])[0, 0] for p, q in zip(one, two, strict=True)]
            for i, one in enumerate(aligned)
            for two in aligned[i + 1 :]
        ],
        axis=0,
    )


def stable(shared: ArrayLike) -> np.ndarray:
    """Return which topics all of several chains or runs share, by `shared` [R, K], bool [K].

    Example:
        >>> stable([[True, True], [True, False]]).tolist(), stable([[True, True]]).tolist()
        ([True, False], [False, False])
    """
    in_run = np.asarray(shared, bool)
    return np.logical_and.reduce(in_run, axis=0) & np.full(in_run.shape[1], len(in_run) > 1)


def assignment(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and columns of the one-to-one pairs with the largest sum in a table."""
    from scipy.optimize import linear_sum_assignment  # here, since it is slow to import

    return linear_sum_assignment(table, maximize=True)


# Diagnostics and ranges over the chains of a fit, with topics matched.


def diagnose(
    traces: Mapping[str, np.ndarray], order: np.ndarray, shared: np.ndarray
) -> dict[str, dict[str, float]]:
    """Return R-hat and effective sample size of the traces, "prevalence" [S, C, K], others [S, C].

    Topics, matched by `matching.align`, are named "prevalence 0" and so on, each over the chains
    that share it. Empty and constant traces, such as fixed concentrations, are omitted, and so is
    the prevalence of a topic that has all tokens.
    """
    named = {name: trace.T for name, trace in traces.items() if name != "prevalence"}
    moving = {name: trace for name, trace in named.items() if np.unique(trace).size > 1}
    matched = np.take_along_axis(traces["prevalence"], order[None], axis=2)
    shares = {k: matched[:, shared[:, k], k].T for k in range(matched.shape[2])}
    return diagnostics.summary(moving) | diagnostics.of_topics(shares)


def range_over(chains: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the smallest and the largest of numbers of the chains, [C, K, ...], as [2, K, ...].

    Topics are matched by `order` [C, K].
    """
    result = np.stack([chains[0][order[0]]] * 2)
    for numbers, rows in zip(chains[1:], order[1:], strict=True):
        np.minimum(result[0], numbers[rows], out=result[0])
        np.maximum(result[1], numbers[rows], out=result[1])
    return result


def range_of_topics(chains: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the range of topics [C, K, V] over the chains, [2, K, V]; [2, K, 0] of one chain."""
    return range_over(chains if len(chains) > 1 else chains[:, :, :0], order)

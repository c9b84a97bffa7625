"""The split-merge moves whose acceptance `benchmarks/lda_split_merge.py` measures."""

from itertools import product

import jax
import lda_split_merge as moves
import numpy as np
import pytest

TOKENS = moves.Tokens(np.array([0, 0, 0, 1, 1]), np.array([0, 1, 0, 1, 2]), (2, 3))
TOPICS = 3


def _statistics(labels: np.ndarray) -> list[float]:
    return [
        float(labels[0] == labels[2]),
        float(labels[0] == labels[4]),
        float(labels[1] == labels[3]),
        float(labels[4] == 0),
        len(set(labels.tolist())),
    ]


def _expected() -> np.ndarray:
    states = [np.array(state) for state in product(range(TOPICS), repeat=5)]
    logs = np.array([moves.log_density(TOKENS, state, TOPICS) for state in states])
    weights = np.exp(logs - logs.max())
    return weights @ np.array([_statistics(state) for state in states]) / weights.sum()


def _means(steps: int, ratio_of: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the means of the statistics over a chain, and their errors from 20 batches."""
    rng = np.random.default_rng(0)
    labels, trace = np.zeros(5, int), []
    for number in range(steps):
        key, chosen = jax.random.fold_in(jax.random.key(0), number), rng.permutation(TOPICS)
        move, count = ((moves.resplit, 2), (moves.exchange, 3))[number % 2]
        proposal = move(key, TOKENS, labels, tuple(map(int, chosen[:count])), sweeps=1)
        if np.log(rng.random()) < getattr(proposal, ratio_of):
            labels = proposal.labels
        trace.append(_statistics(labels))
    batches = np.array(trace).reshape(20, -1, 5).mean(axis=1)
    return batches.mean(axis=0), batches.std(axis=0, ddof=1) / np.sqrt(20)


@pytest.mark.slow
def test_the_moves_leave_the_posterior_of_the_labels_as_it_is() -> None:
    """Each of five means fails by chance once in 10,000, with 19 degrees of freedom."""
    means, errors = _means(6_000, "log_ratio")
    np.testing.assert_array_less(np.abs(means - _expected()), 5 * errors)


@pytest.mark.slow
def test_moves_accepted_by_the_density_alone_are_seen() -> None:
    means, errors = _means(6_000, "gain")
    assert np.max(np.abs(means - _expected()) / errors) > 5

"""The topics of the samples of a run, put together.

A topic has no number that it would keep from one sample to the next, or in another chain. So the
topics of each kept sample are matched to those of one of them, the last of the first chain, by the
words of their tokens; those that at least half of the samples have are told of.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax.evaluate import matching

_LEAST_PRESENT = 0.5
"""Share of the samples that have a topic which is told of."""


class Summary(NamedTuple):
    """Topics that most samples have, the most prevalent first."""

    mean: np.ndarray  # posterior mean, float32 [K, V]
    sd: np.ndarray  # posterior standard deviation, float32 [K, V]
    prevalence: np.ndarray  # share of the tokens in each sample, 0 without it, [S, chains, K]
    concentrations: np.ndarray  # alpha b in each sample, likewise
    present: np.ndarray  # whether a sample has it, bool [S, chains, K]
    similarity: np.ndarray  # mean affinity with the topic of the samples that have it, [K]


def summarise(
    labels: np.ndarray, concentrations: np.ndarray, tokens: np.ndarray, words: int, beta: float
) -> Summary:
    """Put together samples of labels [S, chains, T] and concentrations [S, chains, C].

    The tokens are words, [T], of so many. Given the labels a topic is Dirichlet(beta + n): of that
    law mean and variance are averaged over the samples that have the topic.
    """
    samples, chains = labels.shape[:2]
    reference, number = _counts(labels[-1, 0], tokens, words)
    shape = (samples, chains, len(number))
    prevalence, weights = np.zeros(shape), np.zeros(shape)
    similarity = np.zeros(shape)
    mean, square, variance = (np.zeros(reference.shape) for _ in range(3))
    for s, c in np.ndindex(samples, chains):
        counts, own = _counts(labels[s, c], tokens, words)
        order, alike = matching.match(reference, counts)
        has = np.flatnonzero(alike >= matching.SAME)
        mine = order[has]
        similarity[s, c, has] = alike[has]
        prevalence[s, c, has] = counts[mine].sum(axis=1) / max(len(tokens), 1)
        weights[s, c, has] = concentrations[s, c, own[mine]]
        shapes = counts[mine] + beta
        total = shapes.sum(axis=1, keepdims=True)
        topic = shapes / total
        mean[has] += topic
        square[has] += topic**2
        variance[has] += topic * (1 - topic) / (total + 1)
    present = similarity > 0
    times = present.sum(axis=(0, 1))
    mean, square, variance = (array / times[:, None] for array in (mean, square, variance))
    sd = np.sqrt(np.maximum(square - mean**2, 0) + variance)
    told = np.flatnonzero(times >= _LEAST_PRESENT * samples * chains)
    # Where no topic lasts, those of the last sample are all that there is to tell of.
    told = told if told.size else np.arange(len(number))
    told = told[np.argsort(-prevalence[..., told].mean(axis=(0, 1)), kind="stable")]
    return Summary(
        mean[told].astype(np.float32),
        sd[told].astype(np.float32),
        prevalence[..., told],
        weights[..., told],
        present[..., told],
        similarity.sum(axis=(0, 1))[told] / times[told],
    )


def _counts(labels: np.ndarray, tokens: np.ndarray, words: int) -> tuple[np.ndarray, np.ndarray]:
    """Count the tokens of topics with any, by word, float32 [K, V]; also return their labels."""
    own, rows = np.unique(labels, return_inverse=True)
    ones = np.ones(len(tokens), np.float32)
    return sp.coo_array((ones, (rows, tokens)), shape=(len(own), words)).toarray(), own

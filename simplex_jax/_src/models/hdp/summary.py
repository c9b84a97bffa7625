"""Posterior summaries of topics.

Topic numbers are not comparable between samples or chains. The topics of each kept sample are
therefore matched, by the words of their tokens, to those of a reference, the sample whose partition
of the tokens is nearest to all others (`partitions.medoid`). Topics of the reference that at least
half of the samples have are reported; its other topics stand for those that are not.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.evaluate import matching, partitions

LEAST_PRESENT = 0.5
"""Topics in at least this share of the samples are reported."""

_AT_ONCE = 2**22  # maximum entries of topics processed together


class Summary(NamedTuple):
    """Topics that most samples have, the most prevalent first."""

    mean: np.ndarray  # posterior mean, float32 [K, V]
    sd: np.ndarray  # posterior standard deviation, float32 [K, V]
    prevalence: np.ndarray  # share of the tokens in each sample, 0 without it, [S, chains, K]
    concentrations: np.ndarray  # alpha b in each sample, likewise
    present: np.ndarray  # whether a sample has it, bool [S, chains, K]
    similarity: np.ndarray  # mean affinity to the matched topics of other samples, [K]
    rest: np.ndarray  # topics that are not reported, and one of all words alike, float32 [R, V]
    rest_concentrations: np.ndarray  # their alpha b in the reference; unseen topics come last, [R]


def summarise(
    labels: np.ndarray, concentrations: np.ndarray, tokens: np.ndarray, words: int, beta: float
) -> Summary:
    """Summarise samples of labels [S, chains, T] and concentrations [S, chains, C].

    The tokens are word indices below `words`, [T]. Given the labels a topic is Dirichlet(beta + n);
    its mean and variance are averaged over the samples that have the topic.
    """
    samples, chains = labels.shape[:2]
    middle = np.unravel_index(partitions.medoid(labels.reshape(-1, len(tokens))), (samples, chains))
    reference, number = _counts(labels[middle], tokens, words)
    shape = (samples, chains, len(number))
    prevalence, weights = np.zeros(shape), np.zeros(shape)
    similarity = np.zeros(shape)
    mean, square, variance = (np.zeros(reference.shape) for _ in range(3))
    rows = max(1, _AT_ONCE // words)
    for s, c in np.ndindex(samples, chains):
        counts, own = _counts(labels[s, c], tokens, words)
        order, alike = matching.match(reference, counts, _affinity)
        has = np.flatnonzero(alike >= matching.SAME)
        partners = order[has]
        similarity[s, c, has] = alike[has]
        prevalence[s, c, has] = counts[partners].sum(axis=1) / max(len(tokens), 1)
        weights[s, c, has] = concentrations[s, c, own[partners]]
        for first in range(0, len(has), rows):
            some = has[first : first + rows]
            shapes = counts[order[some]].toarray().astype(np.float64) + beta
            total = shapes.sum(axis=1, keepdims=True)
            topic = shapes / total
            mean[some] += topic
            square[some] += topic**2
            variance[some] += topic * (1 - topic) / (total + 1)
    present = similarity > 0
    times = present.sum(axis=(0, 1))
    mean, square, variance = (array / times[:, None] for array in (mean, square, variance))
    sd = np.sqrt(np.maximum(square - mean**2, 0) + variance)
    lasting = np.flatnonzero(times >= LEAST_PRESENT * samples * chains)
    # If no topic lasts, report all of the reference.
    lasting = lasting if lasting.size else np.arange(len(number))
    lasting = lasting[np.argsort(-prevalence[..., lasting].mean(axis=(0, 1)), kind="stable")]
    others = np.setdiff1d(np.arange(len(number)), lasting)
    # The concentrations of a sample are of topics with and without tokens.
    own = concentrations[middle]
    unseen = max(own.sum(dtype=np.float64) - own[number].sum(dtype=np.float64), 0.0)
    rest = np.concatenate([reference[others].toarray(), np.zeros((1, words))]) + beta
    return Summary(
        mean[lasting].astype(np.float32),
        sd[lasting].astype(np.float32),
        prevalence[..., lasting],
        weights[..., lasting],
        present[..., lasting],
        similarity.sum(axis=(0, 1))[lasting] / times[lasting],
        (rest / rest.sum(axis=1, keepdims=True)).astype(np.float32),
        np.append(own[number[others]], unseen).astype(np.float64),
    )


def _counts(labels: np.ndarray, tokens: np.ndarray, words: int) -> tuple[sp.csr_array, np.ndarray]:
    """Return token counts of nonempty topics by word, float32 [K, V], and their labels."""
    own, rows = np.unique(labels, return_inverse=True)
    ones = np.ones(len(tokens), np.float32)
    return sp.csr_array((ones, (rows, tokens)), shape=(len(own), words)), own


def _affinity(first: sp.csr_array, second: sp.csr_array) -> np.ndarray:
    """Return `matching.affinity` of sparse counts, densified in blocks."""
    total = np.zeros((first.shape[0], second.shape[0]))
    for start in range(0, first.shape[1], matching.WORDS_AT_ONCE):
        some = slice(start, start + matching.WORDS_AT_ONCE)
        one, two = (np.sqrt(x[:, some].toarray()) for x in (first, second))
        total += one @ two.T
    sums = np.multiply.outer(*(x.sum(axis=1).astype(np.float64) for x in (first, second)))
    return np.minimum(total / np.sqrt(sums), 1.0)

"""Posterior summaries of topics.

Topic numbers are not comparable between samples or chains. The topics of each kept sample are
therefore matched, by the words of their tokens, to those of a reference, the sample whose partition
of the tokens is nearest to all others (`partitions.medoid`). Topics of the reference that at least
half of the samples have are reported. The shares of documents are those in the samples: in each,
the tokens of a document at the topics that match the reported ones, averaged over the samples.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.evaluate import matching, partitions
from simplex_jax._src.models.hdp.draws import Draws

LEAST_PRESENT = 0.5
"""Topics in at least this share of the samples are reported."""

_AT_ONCE = 2**22  # maximum entries of topics, or of shares, processed together
_MOST_BYTES = 2**28  # of the draws: evenly spaced ones are left out above
_LEAST = 1e-6  # least concentration of topics without tokens


class Summary(NamedTuple):
    """Topics that most samples have, the most prevalent first."""

    mean: np.ndarray  # posterior mean, float32 [K, V]
    sd: np.ndarray  # posterior standard deviation, float32 [K, V]
    prevalence: np.ndarray  # share of the tokens in each sample, 0 without it, [S, chains, K]
    concentrations: np.ndarray  # alpha b in each sample, likewise
    present: np.ndarray  # whether a sample has it, bool [S, chains, K]
    similarity: np.ndarray  # mean affinity to the matched topics of other samples, [K]
    matched: np.ndarray  # the topic above of each label, or -1, int32 [S, chains, C]
    draws: Draws  # all topics of each sample


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
    partner = np.full(concentrations.shape, -1, np.int32)  # the topic of the reference
    tables = []
    rows = max(1, _AT_ONCE // words)
    for s, c in np.ndindex(samples, chains):
        counts, own = _counts(labels[s, c], tokens, words)
        tables.append((counts, own))
        order, alike = matching.match(reference, counts, _affinity)
        has = np.flatnonzero(alike >= matching.SAME)
        partners = order[has]
        similarity[s, c, has] = alike[has]
        prevalence[s, c, has] = counts[partners].sum(axis=1) / max(len(tokens), 1)
        weights[s, c, has] = concentrations[s, c, own[partners]]
        partner[s, c, own[partners]] = has
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
    # With a last entry for -1
    place = np.full(len(number) + 1, -1, np.int32)
    place[lasting] = np.arange(lasting.size)
    matched = place[partner]
    return Summary(
        mean[lasting].astype(np.float32),
        sd[lasting].astype(np.float32),
        prevalence[..., lasting],
        weights[..., lasting],
        present[..., lasting],
        similarity.sum(axis=(0, 1))[lasting] / times[lasting],
        matched,
        _draws(tables, concentrations.reshape(len(tables), -1), matched, beta),
    )


def _draws(
    tables: list[tuple[sp.csr_array, np.ndarray]],
    concentrations: np.ndarray,
    matched: np.ndarray,
    beta: float,
) -> Draws:
    """Return the topics of the samples [M], from their counts and labels."""
    size = sum(counts.data.nbytes + counts.indices.nbytes for counts, _ in tables)
    most = max(1, int(len(tables) * min(1, _MOST_BYTES / size)))
    some = np.unique(np.linspace(0, len(tables) - 1, most).round().astype(int))
    matched = matched.reshape(len(tables), -1)
    alpha = [concentrations[m, tables[m][1]].astype(np.float64) for m in some]
    # Concentrations are those of topics with and without tokens.
    totals = concentrations[some].sum(axis=1, dtype=np.float64)
    return Draws(
        counts=sp.vstack([tables[m][0] for m in some], format="csr").astype(np.int32),
        alpha=np.concatenate(alpha),
        reported=np.concatenate([matched[m, tables[m][1]] for m in some]),
        ends=np.cumsum([len(tables[m][1]) for m in some]),
        unseen=np.maximum(totals - [own.sum() for own in alpha], _LEAST),
        beta=beta,
    )


def shares(
    labels: np.ndarray,
    concentrations: np.ndarray,
    summary: Summary,
    lengths: np.ndarray,
    progress: Callable[[int], object] = lambda done: None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the shares of documents in the reported topics, and their errors, float32.

    In a sample with n_dk tokens of document d at a topic of concentration a_k, the mean of the
    share is (a_k + n_dk) / (sum of a + length). The shares [D, K] are the averages over the
    samples, and their errors [D] the standard errors of the largest spread over the samples, as if
    these were independent; NaN for a single sample.

    Args:
        labels: Labels of the samples, [S, chains, T], document after document.
        concentrations: Concentrations of the labels, [S, chains, C].
        summary: Their summary.
        lengths: Number of tokens of each document, [D].
        progress: Called with the number of documents done.
    """
    number, topics = labels.shape[0] * labels.shape[1], len(summary.mean)
    labels, matched = labels.reshape(number, -1), summary.matched.reshape(number, -1)
    alpha = summary.concentrations.reshape(number, topics)
    totals = concentrations.reshape(number, -1).sum(axis=1, dtype=np.float64)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    means = np.empty((len(lengths), topics), np.float32)
    errors = np.full(len(lengths), np.nan, np.float32)
    rows = max(1, _AT_ONCE // topics)
    for first in range(0, len(lengths), rows):
        own = lengths[first : first + rows]
        last = first + len(own)
        document = np.repeat(np.arange(len(own)), own)
        total, squares = np.zeros((2, len(own), topics))
        for m in range(number):
            topic = matched[m][labels[m, starts[first] : starts[last]]]
            inside = topic >= 0
            cells = document[inside] * topics + topic[inside]
            counts = np.bincount(cells, minlength=total.size).reshape(total.shape)
            share = (alpha[m] + counts) / (totals[m] + own[:, None])
            total += share
            squares += share**2
        means[first:last] = total / number
        if number > 1:
            variance = np.maximum(squares / number - (total / number) ** 2, 0).max(axis=1)
            errors[first:last] = np.sqrt(variance / (number - 1))
        progress(last)
    return means, errors


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

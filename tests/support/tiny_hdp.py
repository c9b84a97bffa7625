"""A hierarchical Dirichlet process of a few tokens: enumerable posterior and exact draws.

It is the Chinese restaurant franchise of Teh et al. (2006): given a partition of the tokens into
topics, the tokens of a topic in a document make tables of a CRP, and the tables of a topic are a
cluster of another CRP. Both concentrations have Gamma priors, on a grid of quantiles.
"""

import itertools
from typing import NamedTuple

import numpy as np
from scipy import special, stats

from support.tiny_dpm import log_evidence, partitions

# Unsigned Stirling numbers of the first kind, by customers and tables.
STIRLING = ((1,), (0, 1), (0, 1, 1), (0, 2, 3, 1), (0, 6, 11, 6, 1))
GRID = 2000


class Prior(NamedTuple):
    """A Gamma prior by its mean and shape."""

    mean: float
    shape: float

    def grid(self):
        """Middles of cells of equal probability."""
        p = (np.arange(GRID) + 0.5) / GRID
        return stats.gamma.ppf(p, self.shape, scale=self.mean / self.shape)


class Posterior(NamedTuple):
    """Posterior of partition and tables given words, with alpha and gamma on their grids."""

    documents: np.ndarray  # the document of each token, [N]
    partitions: np.ndarray  # the topic of each token, in order of appearance, [P, N]
    partition: np.ndarray  # the partition of each seating, [S]
    tables: np.ndarray  # tables of each topic in all documents, [S, N]
    seatings: np.ndarray  # probability of each seating, [S]
    alpha: np.ndarray  # the grids
    gamma: np.ndarray
    alpha_given: np.ndarray  # probabilities of alpha given the seating, [S, GRID]
    gamma_given: np.ndarray

    @property
    def probabilities(self):
        """Probabilities of the partitions, [P]."""
        return np.bincount(self.partition, self.seatings, len(self.partitions))


def posterior(words, documents, num_words, beta, alpha, gamma):
    """Enumerate, given the words and documents of tokens and the two priors."""
    words, documents = np.asarray(words), np.asarray(documents)
    result, n = partitions(len(words)), len(words)
    lengths = np.bincount(documents)
    seatings, log_p = [], []
    base = np.full(num_words, beta)
    for number, row in enumerate(result):
        cells = [
            (k, np.sum((row == k) & (documents == d)))
            for k in range(row.max() + 1)
            for d in range(len(lengths))
        ]
        evidence = sum(
            log_evidence(np.bincount(words[row == k], minlength=num_words), base)
            for k in range(row.max() + 1)
        )
        for choice in itertools.product(*(range(1, c + 1) if c else (0,) for _, c in cells)):
            tables = np.zeros(n, int)
            for (k, _), m in zip(cells, choice, strict=True):
                tables[k] += m
            ways = sum(np.log(STIRLING[c][m]) for (_, c), m in zip(cells, choice, strict=True) if c)
            seatings.append((number, tables))
            log_p.append(evidence + ways + special.gammaln(tables[tables > 0]).sum())
    tables = np.array([tables for _, tables in seatings])
    total, topics = tables.sum(axis=1), (tables > 0).sum(axis=1)
    a, g = alpha.grid(), gamma.grid()
    of_alpha = total[:, None] * np.log(a) + sum(
        special.gammaln(a) - special.gammaln(a + length) for length in lengths
    )
    of_gamma = topics[:, None] * np.log(g) + special.gammaln(g)
    of_gamma = of_gamma - special.gammaln(g + total[:, None])
    log_p = np.array(log_p) + special.logsumexp(of_alpha, 1) + special.logsumexp(of_gamma, 1)
    numbers = np.array([number for number, _ in seatings])
    given = special.softmax(of_alpha, axis=1), special.softmax(of_gamma, axis=1)
    return Posterior(documents, result, numbers, tables, special.softmax(log_p), a, g, *given)


class Draws(NamedTuple):
    """Exact draws, with topics numbered as in the partition."""

    partition: np.ndarray  # number of the partition, [n]
    labels: np.ndarray  # [n, N]
    weights: np.ndarray  # of the topics with tokens, 0 for others, [n, N]
    rest: np.ndarray  # [n]
    alpha: np.ndarray
    gamma: np.ndarray


def draw(law, rng, size):
    """Draw partitions, tables and concentrations from the posterior, and weights given them."""
    seating = rng.choice(len(law.seatings), size, p=law.seatings)
    alpha = law.alpha[_places(rng, law.alpha_given, seating)]
    gamma = law.gamma[_places(rng, law.gamma_given, seating)]
    tables = law.tables[seating]
    shares = np.where(tables > 0, rng.gamma(np.maximum(tables, 1)), 0)
    rest = rng.gamma(gamma)
    total = shares.sum(axis=1) + rest
    partition = law.partition[seating]
    labels = law.partitions[partition]
    return Draws(partition, labels, shares / total[:, None], rest / total, alpha, gamma)


def _places(rng, probabilities, rows):
    """A column for each of some rows, drawn from its probabilities."""
    places = np.empty(len(rows), int)
    for row in np.unique(rows):
        mine = rows == row
        places[mine] = rng.choice(probabilities.shape[1], mine.sum(), p=probabilities[row])
    return places


def numbers_of(law, labels):
    """The indices of the partitions of labels [n, N]."""
    rows = {tuple(row): number for number, row in enumerate(law.partitions.tolist())}
    result = []
    for row in labels.tolist():
        names: dict[int, int] = {}
        result.append(rows[tuple(names.setdefault(label, len(names)) for label in row)])
    return np.array(result)

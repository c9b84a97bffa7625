"""A Dirichlet-process mixture of a few rows, with an enumerable posterior and exact draws."""

from typing import NamedTuple

import numpy as np
from scipy import special

from support import tiny_lda

STICKS = 64  # of exact draws; the rest has a weight of about exp(-64 / alpha)
GRID = np.linspace(0.002, 10, 5000)  # of alpha, whose prior has negligible mass beyond


def partitions(n):
    """All partitions of n things as growth strings: clusters numbered in order of appearance."""
    rows = [(0,)]
    for _ in range(n - 1):
        rows = [(*row, k) for row in rows for k in range(max(row) + 2)]
    return np.array(rows)


def counted(labels):
    """How often each of `partitions` is among labels [chains, n]."""
    every = partitions(labels.shape[1])
    places = {tuple(row): i for i, row in enumerate(every.tolist())}
    found = []
    for row in labels.tolist():
        first = list(dict.fromkeys(row))
        found.append(places[tuple(first.index(k) for k in row)])
    return np.bincount(found, minlength=len(every))


class Posterior(NamedTuple):
    """Posterior of (partition, alpha) given rows of counts, with atoms ~ Dirichlet(base)."""

    counts: np.ndarray
    base: np.ndarray
    partitions: np.ndarray
    joint: np.ndarray  # [partitions, grid of alpha], sums to 1

    @property
    def probabilities(self):
        return self.joint.sum(axis=1)


def log_evidence(counts, base):
    """Log evidence of counts [..., V] of ordered words, with the atom integrated out."""
    a = counts + base
    return (
        special.gammaln(a).sum(axis=-1)
        - special.gammaln(a.sum(axis=-1))
        - special.gammaln(base).sum()
        + special.gammaln(base.sum())
    )


def posterior(counts, base, shape, rate):
    """Enumerate; alpha ~ Gamma(shape, rate)."""
    counts, base = np.asarray(counts), np.asarray(base, float)
    n = len(counts)
    result = partitions(n)
    k = result.max(axis=1) + 1
    log_p = np.zeros(len(result))
    for j in range(n):
        members = result == j
        log_p += special.gammaln(np.maximum(members.sum(axis=1), 1))
        log_p += log_evidence(members @ counts, base)  # no rows have evidence 1
    log_alpha = (shape - 1) * np.log(GRID) - rate * GRID
    log_alpha = log_alpha + special.gammaln(GRID) - special.gammaln(GRID + n)
    joint = log_p[:, None] + k[:, None] * np.log(GRID) + log_alpha
    return Posterior(counts, base, result, special.softmax(joint))


class Draws(NamedTuple):
    """Draws of everything, leaves [draws, ...]."""

    alpha: np.ndarray
    labels: np.ndarray
    sticks: np.ndarray  # logs of v and 1 - v
    log_atoms: np.ndarray


def draw(law, rng, size):
    """Draw from the posterior: weights given the partition, then sticks in size-biased order."""
    n = law.partitions.shape[1]
    cell = rng.choice(law.joint.size, size, p=law.joint.ravel())
    row, place = np.divmod(cell, GRID.size)
    alpha, partition = GRID[place], law.partitions[row]
    sizes = (partition[:, :, None] == np.arange(n)).sum(axis=1)
    log_left = np.where(sizes > 0, np.log(rng.gamma(np.maximum(sizes, 1))), -np.inf)
    log_rest = np.log(rng.gamma(alpha + 1)) - rng.exponential(size=size) / alpha
    stick_of = np.full((size, n), -1)
    # Sticks beyond the last cluster are drawn from the prior.
    log_stay = -rng.exponential(size=(size, STICKS)) / alpha[:, None]
    sticks = np.stack([np.log(-np.expm1(log_stay)), log_stay], axis=2)
    active = np.arange(size)
    for j in range(STICKS):
        left = np.concatenate([log_left, log_rest[:, None]], axis=1)[active]
        total = special.logsumexp(left, axis=1)
        chosen = (left + rng.gumbel(size=left.shape)).argmax(axis=1)
        old = chosen < n
        rows, cluster = active[old], chosen[old]
        log_w = log_rest[active] + sticks[active, j, 0]
        log_w[old] = log_left[rows, cluster]
        log_rest[active] += np.where(old, 0, sticks[active, j, 1])
        stick_of[rows, cluster] = j
        log_left[rows, cluster] = -np.inf
        left = np.concatenate([log_left, log_rest[:, None]], axis=1)[active]
        sticks[active, j] = np.stack([log_w, special.logsumexp(left, axis=1)], 1) - total[:, None]
        active = active[np.isfinite(log_left[active]).any(axis=1)]
    assert (stick_of[sizes > 0] >= 0).all()
    labels = np.take_along_axis(stick_of, partition, axis=1)
    return Draws(alpha, labels, sticks, atoms(law, labels, rng))


def totals(law, labels):
    """Counts of the rows at every stick, [draws, STICKS, V]."""
    return np.einsum("dns,nv->dsv", labels[:, :, None] == np.arange(STICKS), law.counts)


def atoms(law, labels, rng):
    """Log atoms of all sticks given the labels."""
    return tiny_lda.log_dirichlet(rng, law.base + totals(law, labels))


def features(law, draws):
    """The compared statistics, by name, [draws] each."""
    alpha, labels, sticks, log_atoms = (np.asarray(leaf, np.float64) for leaf in draws)
    labels = labels.astype(int)
    n = labels.shape[1]
    log_v, log_left = sticks[..., 0], np.cumsum(sticks[..., 1], axis=1)
    log_w = log_v + log_left - sticks[..., 1]
    mine = np.take_along_axis(log_atoms, labels[:, :, None], axis=1)
    distinct = (labels[:, :, None] == np.arange(STICKS)).any(axis=1).sum(axis=1)
    values = {
        "alpha": alpha,
        "log alpha": np.log(alpha),
        "clusters": distinct,
        "alpha clusters": alpha * distinct,
        "last": np.minimum(labels.max(axis=1), 12),
        "v0": np.exp(log_v[:, 0]),
        "v1": np.exp(log_v[:, 1]),
        "w0 w1": np.exp(log_w[:, 0] + log_w[:, 1]),
        "squares": np.exp(2 * log_w).sum(axis=1),
        "rest": np.exp(log_left[:, 4]),
        "alpha v0": alpha * np.exp(log_v[:, 0]),
        "predictive": np.einsum("ds,dsv->dv", np.exp(log_w), np.exp(log_atoms))[:, 0],
        "atom": np.exp(log_atoms[:, 0, 1]),
    }
    for i in range(n):
        values["at 0", i] = labels[:, i] == 0
        values["at 1", i] = labels[:, i] == 1
        if law.counts[i].any():
            values["own", i] = np.exp((mine[:, i] * (law.counts[i] > 0)).sum(axis=1))
        values["weight", i] = np.exp(np.take_along_axis(log_w, labels[:, i : i + 1], axis=1))[:, 0]
        for j in range(i):
            values["together", i, j] = labels[:, i] == labels[:, j]
    return {name: np.asarray(value, float) for name, value in values.items()}

r"""From partitions of the posterior to clusters that can be shown.

Labels mean nothing from one sample to the next. One of the sampled partitions is the reference: the
one whose mean variation of information from the others is least. The clusters of every other sample
are put to those of the reference one to one, so that as many rows as possible have the same label
in both (an assignment problem); some of either may be left over, and clusters of less than a row on
average are left out. What is said of a cluster is then an average over the samples that have it,
and shares are counted over all samples.

Where rows say little each, as users with three clicks, their labels differ from sample to sample
even though the clusters are the same ones. The matching holds there, too: where two samples draw
the labels from the same probabilities p_c(i), the expected number of rows with labels c and d is
sum_i p_c(i) p_d(i), and no permutation has a larger sum than the diagonal. A point partition
(`evaluate.partitions`), by contrast, joins clusters whose rows cannot be told apart one by one.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import linear_sum_assignment

from simplex_jax import draws
from simplex_jax.base import PyTree
from simplex_jax.dpm.assignment import Samples
from simplex_jax.evaluate import partitions
from simplex_jax.models import dp_families
from simplex_jax.models.dp_families import Family
from simplex_jax.models.dp_mixture import Mixture

_LEVEL = 0.95
_MOST_ROWS = 2_000
_ROUND = 16


class Clusters(NamedTuple):
    """The clusters of a reference partition, C of them, the largest on average first.

    Attributes:
        sizes: Posterior mean of the number of rows of each, float64 [C]; 0 enters for a sample that
            does not have it.
        lower: Lower bound of the interval that holds 95 % of the samples, [C].
        upper: Upper bound, [C].
        present: Share of the samples that have it, [C].
        shares: Share of the samples in which each row is in each cluster, float32 [N, C]. What they
            lack to 1 is in clusters that the reference does not have.
        labels: The cluster of the largest share of each row, int32 [N]; -1 where all others
            together have more.
        confusion: Mean shares of the rows with label c in each cluster, float64 [C, C].
        profiles: Posterior mean of the profiles: probabilities, a tree like atoms [C, ...]; of
            families whose atoms are on no simplex, means of the atoms.
        profiles_sd: Their standard deviation; NaN where a single sample does not tell it.
        overall: The profile of all rows as one cluster, a tree like an atom.
        samples: What new rows are assigned by.
    """

    sizes: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    present: np.ndarray
    shares: np.ndarray
    labels: np.ndarray
    confusion: np.ndarray
    profiles: PyTree
    profiles_sd: PyTree
    overall: PyTree
    samples: Samples


def summarise(
    key: jax.Array, family: Family, rows: PyTree, sampled: np.ndarray, alpha: np.ndarray
) -> Clusters:
    """Match the clusters of samples, and describe them.

    Components and weights of a sample are drawn anew given its partition, so that the profiles can
    be averages of conditional means (Rao and Blackwell's theorem).

    Args:
        key: Of these draws.
        family: The law of the components.
        rows: The rows, N.
        sampled: Sampled partitions, int [S, N], clusters numbered without gaps.
        alpha: The concentrations that go with them, [S].
    """
    reference = partitions.relabelled(sampled[_medoid(sampled)])
    count, number = int(reference.max()) + 1, len(sampled)
    # Fits of about as many clusters share compiled programs.
    width = -(-(int(sampled.max()) + 1) // _ROUND) * _ROUND
    partners = np.stack([_match(reference, one, count, width) for one in sampled])
    counts = [np.append(np.bincount(one, minlength=width), 0) for one in sampled]
    sizes = np.take_along_axis(np.array(counts), partners, axis=1)
    means = sizes.mean(axis=0)
    order = np.argsort(-means, kind="stable")[: max(1, np.count_nonzero(means >= 1))]
    count = len(order)
    partners, sizes = partners[:, order], sizes[:, order]
    shares = np.zeros((len(reference), count), np.float32)
    gathered = _Moments()
    mixtures, tables = [], []
    for i, (one, found) in enumerate(zip(sampled, partners, strict=True)):
        table = (found[:, None] == np.arange(width)).astype(np.float32)
        shares += table.T[one] / np.float32(number)
        mixture, mean, variance = _of_sample(
            jax.random.fold_in(key, i),
            family,
            rows,
            jnp.asarray(one, jnp.int32),
            jnp.asarray(alpha[i], jnp.float32),
            width=width,
        )
        gathered.add(mean, variance, found)
        mixtures.append(mixture)
        tables.append(table)
    lower, upper = np.quantile(sizes, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=0)
    labels = most_probable(shares)
    profiles, profiles_sd = gathered.pooled()
    stacked = jax.tree.map(lambda *leaves: np.stack([np.asarray(x) for x in leaves]), *mixtures)
    return Clusters(
        sizes=sizes.mean(axis=0),
        lower=lower,
        upper=upper,
        present=(partners < width).mean(axis=0),
        shares=shares,
        labels=labels,
        confusion=np.array([_mean(shares[labels == c], count) for c in range(count)]),
        profiles=profiles,
        profiles_sd=profiles_sd,
        overall=_overall(jax.random.fold_in(key, number), family, rows),
        samples=Samples(stacked, np.stack(tables)),
    )


def most_probable(shares: np.ndarray) -> np.ndarray:
    """Return the cluster of the largest share of each row, int32; -1 where what is left is larger.

    Example:
        >>> most_probable(np.array([[0.5, 0.4], [0.1, 0.2]])).tolist()
        [0, -1]
    """
    largest = shares.max(axis=1)
    found = np.where(largest >= 1 - shares.sum(axis=1), shares.argmax(axis=1), -1)
    return found.astype(np.int32)


def _medoid(sampled: np.ndarray) -> int:
    """Return the sample that is nearest to all others, by some rows if there are many."""
    some = np.unique(np.linspace(0, sampled.shape[1] - 1, _MOST_ROWS).round().astype(int))
    seen = sampled[:, some].astype(np.int64)
    return int(np.argmin([np.mean(partitions.variation_of_information(seen, one)) for one in seen]))


def _match(reference: np.ndarray, one: np.ndarray, count: int, width: int) -> np.ndarray:
    """Return the partner of each cluster of the reference, int [C]; `width` where there is none."""
    both = np.bincount(reference * width + one, minlength=count * width).reshape(count, width)
    rows, columns = linear_sum_assignment(both, maximize=True)
    found = np.full(count, width)
    found[rows] = np.where(both[rows, columns] > 0, columns, width)
    return found


def _mean(shares: np.ndarray, count: int) -> np.ndarray:
    return shares.mean(axis=0, dtype=np.float64) if len(shares) else np.zeros(count)


class _Moments:
    """Mean and deviation of what some samples say of each cluster, by the law of total variance."""

    def __init__(self) -> None:
        self._sums: list[list[np.ndarray]] = []
        self._samples: np.ndarray = np.zeros(())
        self._structure: jax.tree_util.PyTreeDef | None = None

    def add(self, mean: PyTree, variance: PyTree, partners: np.ndarray) -> None:
        """Add conditional means and variances, leaves [K, ...], of partners [C]; K is none."""
        means, self._structure = jax.tree.flatten(mean)
        there = partners < len(means[0])
        self._samples = self._samples + there
        if not self._sums:
            empty = [np.zeros((len(partners), *leaf.shape[1:])) for leaf in means]
            self._sums = [[zero.copy() for _ in range(3)] for zero in empty]
        parts = zip(self._sums, means, jax.tree.leaves(variance), strict=True)
        for (centre, squares, within), leaf, of_leaf in parts:
            value = np.asarray(leaf, np.float64)[partners[there]]
            count = self._samples[there].reshape(-1, *[1] * (value.ndim - 1))
            difference = value - centre[there]
            centre[there] += difference / count
            squares[there] += difference * (value - centre[there])
            within[there] += np.asarray(of_leaf, np.float64)[partners[there]]

    def pooled(self) -> tuple[PyTree, PyTree]:
        """Return mean and standard deviation, leaves float32 [C, ...]."""
        assert self._structure is not None
        means, deviations = [], []
        for centre, squares, within in self._sums:
            count = self._samples.reshape(-1, *[1] * (centre.ndim - 1))
            spread = squares / np.where(count > 1, count - 1, np.nan) + within / count
            means.append(centre.astype(np.float32))
            deviations.append(np.sqrt(spread).astype(np.float32))
        return self._structure.unflatten(means), self._structure.unflatten(deviations)


@functools.partial(jax.jit, static_argnames="width")
def _of_sample(
    key: jax.Array,
    family: Family,
    rows: PyTree,
    labels: jax.Array,
    alpha: jax.Array,
    *,
    width: int,
) -> tuple[Mixture, PyTree, PyTree]:
    """Return a mixture given a partition, and mean and variance of its components [K, ...]."""
    key_atoms, key_weights = jax.random.split(key)
    statistics = family.statistics(rows, labels, width)
    atoms = family.draw(key_atoms, statistics)
    occupancy = jnp.zeros(width, alpha.dtype).at[labels].add(1)
    masses = jnp.append(jnp.where(occupancy > 0, occupancy, 1), alpha)
    gammas = draws.loggamma(key_weights, masses)
    gammas = gammas.at[:-1].set(jnp.where(occupancy > 0, gammas[:-1], -jnp.inf))
    log_weights = jax.nn.log_softmax(gammas)
    mixture = Mixture(log_weights[:-1], log_weights[-1], atoms)
    return mixture, *_component(family, statistics, atoms)


def _component(family: Family, statistics: PyTree, atoms: PyTree) -> tuple[PyTree, PyTree]:
    """Return mean and variance of components given the rows of their clusters, [K, ...]."""
    if family.simplex is None:
        return atoms, jax.tree.map(jnp.zeros_like, atoms)
    a = jax.tree.map(jnp.add, family.simplex.alpha, family.simplex.counts(statistics))
    total = jax.tree.map(lambda leaf: jnp.sum(leaf, axis=-1, keepdims=True), a)
    mean = jax.tree.map(jnp.divide, a, total)
    return mean, jax.tree.map(lambda p, n: p * (1 - p) / (n + 1), mean, total)


@jax.jit
def _overall(key: jax.Array, family: Family, rows: PyTree) -> PyTree:
    labels = jnp.zeros(dp_families.size(rows), jnp.int32)
    statistics = family.statistics(rows, labels, 1)
    mean, _ = _component(family, statistics, family.draw(key, statistics))
    return jax.tree.map(lambda leaf: leaf[0], mean)

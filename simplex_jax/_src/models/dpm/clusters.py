r"""Clusters summarised from posterior partitions, and the assignment of new rows to them.

Labels are not comparable between samples. The reference is the sampled partition with the least
mean variation of information from the others. The clusters of every other sample are matched one to
one to those of the reference, so that as many rows as possible have the same label in both (an
assignment problem). Clusters may remain unmatched on either side. Those of less than one row on
average are dropped, as are small ones that come and go and are the most probable cluster of no row.
Cluster descriptions are averages over the samples that have the cluster, and proportions of rows
are averages over all samples.

If single rows carry little information, like users with three clicks, their labels differ between
samples even though the clusters are the same. The matching still works: if two samples draw the
labels from the same probabilities p_c(i), the expected number of rows with labels c and d is
sum_i p_c(i) p_d(i), and no permutation has a larger sum than the diagonal. A point partition
(`evaluate.partitions`), by contrast, merges clusters whose single rows cannot be told apart.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from scipy import special

from simplex_jax._src import arguments, draws
from simplex_jax._src.base import PyTree, as_pytree
from simplex_jax._src.draws.keys import by_native_code
from simplex_jax._src.evaluate import matching, partitions
from simplex_jax._src.models.dpm.families import Family
from simplex_jax._src.models.dpm.families import family as family_rows
from simplex_jax._src.models.dpm.families.family import component, draw_atoms
from simplex_jax._src.models.dpm.state import Mixture, where
from simplex_jax._src.models.dpm.totals import jit, statistics_of

SHARD = 8_192
"""Number of rows processed together."""

_DRAWN, _PARAMETERS = 2_048, 2**26
"""Largest numbers of rows drawn together, and of parameters of their components in memory."""

_LEVEL = 0.95
_SMALL, _OFTEN = 0.01, 0.5
"""A cluster of a smaller share of the rows, in fewer of the samples, is dropped if no row is most
probably in it: it would be counted although it may not exist."""
_ROUND = 16


class Samples(NamedTuple):
    """Posterior samples of the mixture, and the match of their components to clusters of a fit."""

    # S mixtures of K components: leaves [S, K, ...] and a rest [S]. Components without rows have
    # weight 0; their mass is in the rest
    mixtures: Mixture
    membership: np.ndarray  # 1 where component k is cluster c of the fit, else 0, float32 [S, C, K]


class Clusters(NamedTuple):
    """The clusters of a reference partition, C of them, the largest on average first."""

    # Posterior mean number of rows of each, float64 [C]; a sample without the cluster counts as 0.
    sizes: np.ndarray
    lower: np.ndarray  # lower bound of the interval that holds 95% of the samples, [C]
    upper: np.ndarray  # upper bound, [C]
    present: np.ndarray  # share of the samples that have it, [C]
    # Proportion of the samples in which each row is in each cluster, float32 [N, C]. The remainder
    # to 1 is in clusters that the reference does not have.
    proportions: np.ndarray
    # Cluster of the largest probability for each row, int32 [N]; -1 where the remainder is larger.
    labels: np.ndarray
    confusion: np.ndarray  # mean proportions of the rows of label c, float64 [C, C]
    # Posterior mean of the profiles, a tree like atoms [C, ...]: probabilities, or other
    # descriptions of the components (`families.Family.profile`).
    profiles: PyTree
    profiles_sd: PyTree  # their posterior standard deviation; NaN for a single sample
    overall: PyTree  # the profile of all rows as one cluster, a tree like an atom
    samples: Samples  # used to assign new rows


def summarise(
    key: jax.Array,
    family: Family,
    rows: PyTree,
    sampled: np.ndarray,
    alpha: np.ndarray,
    cells: Sequence[np.ndarray] = (),
) -> Clusters:
    """Match the clusters of the samples, and describe them.

    `sampled`, int [S, N], has clusters numbered without gaps; `alpha` is [S]. `key` redraws the
    components and weights of each sample given its partition and alpha, so that the profiles are
    averages of conditional means (Rao-Blackwellisation). `cells` are the values of missing cells in
    each sample, [S, N, m], if the family draws them.
    """
    reference = partitions.relabelled(sampled[partitions.medoid(sampled)])
    count, number = int(reference.max()) + 1, len(sampled)
    # Rounded up, so that fits with similar numbers of clusters share compiled programs.
    width = -(-(int(sampled.max()) + 1) // _ROUND) * _ROUND
    partners = np.stack([_match(reference, one, count, width) for one in sampled])
    counts = [np.append(np.bincount(one, minlength=width), 0) for one in sampled]
    sizes = np.take_along_axis(np.array(counts), partners, axis=1)
    means = sizes.mean(axis=0)
    order = np.argsort(-means, kind="stable")[: max(1, np.count_nonzero(means >= 1))]
    partners, sizes = partners[:, order], sizes[:, order]
    proportions = np.zeros((len(reference), len(order)), np.float32)
    for one, partner in zip(sampled, partners, strict=True):
        proportions += (partner[:, None] == np.arange(width)).T.astype(np.float32)[one] / number
    stays = np.isin(np.arange(len(order)), most_probable(proportions))
    stays |= means[order] > _SMALL * len(reference)
    stays |= (partners < width).mean(axis=0) >= _OFTEN
    stays[0] = True
    partners, sizes, proportions = partners[:, stays], sizes[:, stays], proportions[:, stays]
    count = proportions.shape[1]
    gathered = _Moments()
    mixtures, tables = [], []

    def of_sample(i: int, labels: np.ndarray, alpha: float) -> tuple[Mixture, PyTree, PyTree]:
        own_key = jax.random.fold_in(key, i)
        labels = labels.astype(np.int32)
        complete = family_rows.fill(rows, [each[i % number] for each in cells]) if cells else rows
        return _of_sample(own_key, family, complete, labels, np.float32(alpha), width=width)

    for i, (one, partner) in enumerate(zip(sampled, partners, strict=True)):
        table = (partner[:, None] == np.arange(width)).astype(np.float32)
        mixture, mean, variance = of_sample(i, one, alpha[i])
        gathered.add(mean, variance, partner)
        mixtures.append(mixture)
        tables.append(table)
    lower, upper = np.quantile(sizes, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=0)
    labels = most_probable(proportions)
    profiles, profiles_sd = gathered.pooled()
    # All rows as one cluster, with the same program.
    overall = of_sample(number, np.zeros_like(reference), 1.0)[1]
    stacked = jax.tree.map(lambda *leaves: np.stack([np.asarray(x) for x in leaves]), *mixtures)
    return Clusters(
        sizes=sizes.mean(axis=0),
        lower=lower,
        upper=upper,
        present=(partners < width).mean(axis=0),
        proportions=proportions,
        labels=labels,
        confusion=np.array(
            [
                proportions[labels == c].mean(axis=0, dtype=float)
                if (labels == c).any()
                else np.zeros(count)
                for c in range(count)
            ]
        ),
        profiles=profiles,
        profiles_sd=profiles_sd,
        overall=jax.tree.map(lambda leaf: np.asarray(leaf)[0], overall),
        samples=Samples(stacked, np.stack(tables)),
    )


def most_probable(proportions: np.ndarray) -> np.ndarray:
    """Return the most probable cluster of each row, int32; -1 if the rest is more probable."""
    largest = proportions.max(axis=1)
    labels = np.where(largest >= 1 - proportions.sum(axis=1), proportions.argmax(axis=1), -1)
    return labels.astype(np.int32)


def _match(reference: np.ndarray, one: np.ndarray, count: int, width: int) -> np.ndarray:
    """Return the partner of each cluster of the reference, int [C]; `width` where there is none."""
    overlaps = np.bincount(reference * width + one, minlength=count * width).reshape(count, width)
    rows, columns = matching.assignment(overlaps)
    partners = np.full(count, width)
    partners[rows] = np.where(overlaps[rows, columns] > 0, columns, width)
    return partners


class _Moments:
    """Mean and total variance of each cluster over the samples that have it."""

    def __init__(self) -> None:
        self._sums: list[np.ndarray] = []  # per leaf: mean, sums of squares about it, of variances
        self._samples: np.ndarray = np.zeros(())
        self._structure: jax.tree_util.PyTreeDef | None = None

    def add(self, mean: PyTree, variance: PyTree, partners: np.ndarray) -> None:
        """Add conditional means and variances, leaves [K, ...], of partners [C]; K means none."""
        means, self._structure = jax.tree.flatten(mean)
        present = partners < len(means[0])
        self._samples = self._samples + present
        if not self._sums:
            self._sums = [np.zeros((3, len(partners), *leaf.shape[1:])) for leaf in means]
        parts = zip(self._sums, means, jax.tree.leaves(variance), strict=True)
        for (centre, squares, within), leaf, of_leaf in parts:
            value = np.asarray(leaf, np.float64)[partners[present]]
            count = self._samples[present].reshape(-1, *[1] * (value.ndim - 1))
            difference = value - centre[present]
            centre[present] += difference / count
            squares[present] += difference * (value - centre[present])
            within[present] += np.asarray(of_leaf, np.float64)[partners[present]]

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


@functools.partial(jit, static_argnames="width")
def _of_sample(
    key: jax.Array,
    family: Family,
    rows: PyTree,
    labels: jax.Array,
    alpha: jax.Array,
    *,
    width: int,
) -> tuple[Mixture, PyTree, PyTree]:
    """Draw a mixture given a partition; also return component means and variances [K, ...]."""
    key_atoms, key_weights = jax.random.split(by_native_code(key))
    ids = jnp.arange(labels.shape[0], dtype=jnp.int32)
    statistics = statistics_of(family, rows, labels, ids, width)
    atoms = draw_atoms(family, key_atoms, statistics)
    # As integers: sums of ones in float32 end at 2^24.
    occupancy = jnp.zeros(width, jnp.int32).at[labels].add(1).astype(alpha.dtype)
    masses = jnp.append(jnp.where(occupancy > 0, occupancy, 1), alpha)
    gammas = draws.loggamma(key_weights, masses)
    gammas = gammas.at[:-1].set(jnp.where(occupancy > 0, gammas[:-1], -jnp.inf))
    log_weights = jax.nn.log_softmax(gammas)
    mixture = Mixture(log_weights[:-1], log_weights[-1], atoms)
    return mixture, *component(family, statistics, atoms)


class Assignment(NamedTuple):
    """The clusters of some rows."""

    # Posterior probability of each cluster, float32 [n, C]. The remainder to 1 belongs to clusters
    # that only some samples have, and to a new one.
    proportions: np.ndarray
    new: np.ndarray  # probability that a row is the first of a new cluster, float32 [n]
    # Log predictive density of each row under each of the samples, float64 [S, n], without the
    # factors that the family omits.
    log_densities: np.ndarray

    @property
    def log_predictive(self) -> np.ndarray:
        """Log of the mean over the samples of the predictive density of each row, [n]."""
        return special.logsumexp(self.log_densities, axis=0) - np.log(len(self.log_densities))


def assign(samples: Samples, family: Family, rows: PyTree, *, shard: int = SHARD) -> Assignment:
    """Assign rows to the clusters of a fit.

    A row belongs to component j of a sample, and so to its cluster of the fit, with probability
    proportional to w_j f(x | theta_j); the remaining weight has the prior predictive density. The
    probabilities are averaged over the samples. A row without observations gets the
    prevalence of the clusters in all rows.

    Args:
        samples: The samples of a fit, `Fit.clusters.samples`.
        family: The component distribution.
        rows: Rows in the form that the family expects.
        shard: Number of rows processed together.

    Raises:
        ValueError: The rows do not fit the family.

    Example:
        >>> import jax.numpy as jnp, numpy as np
        >>> from simplex_jax._src.models.dpm.clusters import Samples, assign
        >>> from simplex_jax._src.models.dpm.model import Mixture
        >>> from simplex_jax.dpm import families
        >>> log_weights, atoms = np.log([[0.6, 0.3]]), np.log([[[0.9, 0.1], [0.1, 0.9]]])
        >>> mixture = Mixture(jnp.array(log_weights), jnp.log(jnp.array([0.1])), jnp.array(atoms))
        >>> samples = Samples(mixture, np.eye(2, dtype=np.float32)[None])
        >>> rows = families.multinomial_rows([[0, 2], [0, 0]])
        >>> assigned = assign(samples, families.multinomial(2), rows)
        >>> print(assigned.proportions.round(2), assigned.new.round(2))
        [[0.02 0.85]
         [0.6  0.3 ]] [0.13 0.1 ]
    """
    shard = arguments.at_least("shard", shard, 1)
    family = as_pytree(family)
    rows = family_rows.prepare(family, rows)
    size, count = family_rows.size(rows), len(samples.membership)
    shard = min(shard, size)
    parts = []
    for first in range(0, size, shard):
        some = _take(rows, np.arange(first, first + shard, dtype=np.int32))
        total: np.ndarray = np.zeros(())
        densities = []
        for number in range(count):
            mixture = jax.tree.map(lambda leaf, i=number: leaf[i], samples.mixtures)
            proportions, log_p = _assign(family, mixture, samples.membership[number], some)
            total = total + np.asarray(proportions, np.float64) / count
            densities.append(np.asarray(log_p, np.float64))
        parts.append((total, np.stack(densities, axis=1)))
    proportions, log_p = (np.concatenate(part)[:size] for part in zip(*parts, strict=True))
    proportions = proportions.astype(np.float32)
    return Assignment(proportions[:, :-1], proportions[:, -1], log_p.T)


_take = jax.jit(family_rows.take)  # one program, not one for each of its operations


def sample(
    seed: int,
    samples: Samples,
    family: Family,
    count: int,
    *,
    draw: int | None = None,
    lengths: ArrayLike | None = None,
) -> tuple[PyTree, np.ndarray]:
    """Draw rows from the posterior predictive distribution, with their clusters of the fit.

    Each row has a random sample of the posterior, or that with the number `draw`, and a component
    of it; or a new one from the prior, in proportion to the weight that is left. The clusters are
    int32 [count]; -1 stands for new ones, and for those of the sample that the fit does not have.

    Raises:
        ValueError: An argument is out of range, or the family cannot draw rows.
    """
    count, size = arguments.at_least("number of rows", count, 1), len(samples.membership)
    if family.simulate is None:
        raise ValueError("rows cannot be drawn: the family has no `simulate`, see families.Family")
    if draw is not None and not 0 <= arguments.at_least("draw", draw, 0) < size:
        raise ValueError(f"draw must be below the number of samples, {size}; it is {draw}")
    given = None if lengths is None else _lengths(lengths, count)
    random, key = np.random.default_rng(seed), jax.random.key(seed)
    mixtures = jax.tree.map(np.asarray, samples.mixtures)
    log_weights = np.append(mixtures.log_weights, mixtures.log_rest[:, None], axis=1)
    weights = np.exp(log_weights.astype(np.float64))
    ends = np.cumsum(weights, axis=1)
    ends /= ends[:, -1:]
    one = jax.tree.map(lambda leaf: jnp.asarray(leaf[0, :1]), mixtures.atoms)
    if given is not None and not _needs_lengths(family, key, one):
        raise ValueError("lengths are for rows of counts of words: omit them")
    form = family.simulate(key, one, None if given is None else given[:1])
    step = min(_DRAWN, max(1, _PARAMETERS // sum(leaf.size for leaf in jax.tree.leaves(one))))
    rows, labels = [], []
    for first in range(0, count, step):
        number = min(step, count - first)
        key_new, key_rows = jax.random.split(jax.random.fold_in(key, first))
        which = random.integers(size, size=number) if draw is None else np.full(number, draw)
        component = (ends[which] <= random.random((number, 1))).sum(axis=1)
        new = component == ends.shape[1] - 1
        place = np.where(new, 0, component)
        at = (which, place)
        atoms = jax.tree.map(lambda leaf, at=at: jnp.asarray(leaf[at]), mixtures.atoms)
        if new.any():
            none = family.statistics(form, jnp.full(1, -1), number)
            atoms = where(jnp.asarray(new), draw_atoms(family, key_new, none), atoms)
        own = None if given is None else given[first : first + number]
        rows.append(family.simulate(key_rows, atoms, own))
        shares = np.cumsum(samples.membership[which, :, place], axis=1)
        chosen = (shares <= random.random((number, 1))).sum(axis=1)
        labels.append(np.where(new | (chosen == shares.shape[1]), -1, chosen).astype(np.int32))
    return family_rows.join(rows), np.concatenate(labels)


def _needs_lengths(family: Family, key: jax.Array, atoms: PyTree) -> bool:
    """Return whether a family cannot draw rows without their lengths."""
    assert family.simulate is not None
    try:
        family.simulate(key, atoms, None)
    except ValueError:
        return True
    return False


def _lengths(lengths: ArrayLike, count: int) -> np.ndarray:
    """Return the number of counts of each row, int64 [count]."""
    values = np.asarray(lengths)
    if values.shape not in ((), (count,)) or not np.issubdtype(values.dtype, np.integer):
        raise ValueError(
            f"lengths must be an integer or integers [{count}]; they are {values.dtype} "
            f"{list(values.shape)}"
        )
    if (values < 0).any() or (values > 2**24).any():
        raise ValueError("lengths must be from 0 to 2^24")
    return np.broadcast_to(values, (count,)).astype(np.int64)


@jit
def _assign(
    family: Family, mixture: Mixture, membership: jax.Array, rows: PyTree
) -> tuple[jax.Array, jax.Array]:
    """Return proportions [n, C + 1], the last one of a new cluster, and log densities [n]."""
    inside = family.log_likelihood(rows, mixture.atoms) + mixture.log_weights
    outside = mixture.log_rest + family.log_predictive(rows)
    logits = jnp.concatenate([inside, outside[:, None]], axis=1)
    p = jax.nn.softmax(logits, axis=1)
    by_cluster = jnp.matmul(p[:, :-1], membership.T, precision=lax.Precision.HIGHEST)
    return jnp.concatenate([by_cluster, p[:, -1:]], axis=1), jax.nn.logsumexp(logits, axis=1)

"""New rows: which of the clusters of a fit they belong to, and how likely they are."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from scipy import special

from simplex_jax.base import PyTree
from simplex_jax.draws import arguments
from simplex_jax.models import dp_families
from simplex_jax.models.dp_families import Family
from simplex_jax.models.dp_mixture import Mixture

SHARD = 8_192
"""Rows that are worked on together."""


class Samples(NamedTuple):
    """Mixtures of the posterior, and what their clusters have to do with those of a fit.

    Attributes:
        mixtures: S of them, of K components: leaves [S, K, ...] and a rest [S]. Components without
            rows have weight 0, and their mass is in the rest.
        shares: Which component is which cluster of the fit, 0 or 1, float32 [S, C, K].
    """

    mixtures: Mixture
    shares: np.ndarray


class Assignment(NamedTuple):
    """The clusters of some rows.

    Attributes:
        shares: Posterior probability of each cluster, float32 [n, C]. What they lack to 1 is that
            of clusters which only some of the samples have, and of a new one.
        new: Probability that a row is the first of a new cluster, float32 [n].
        log_densities: Log predictive density of each row under each of the samples, float64 [S,
            n]; factors that the family leaves out are left out.
    """

    shares: np.ndarray
    new: np.ndarray
    log_densities: np.ndarray

    @property
    def log_predictive(self) -> np.ndarray:
        """Log of the mean over the samples of the predictive density of each row, [n]."""
        return special.logsumexp(self.log_densities, axis=0) - np.log(len(self.log_densities))


def assign(samples: Samples, family: Family, rows: PyTree, *, shard: int = SHARD) -> Assignment:
    """Assign rows to the clusters of a fit.

    A row belongs to component j of a sample with probability proportional to w_j f(x | theta_j),
    where what is left of the weights is predicted by the prior, and with it to the cluster of the
    fit that the component is. This is averaged over the samples. A row without observations has the
    shares of the clusters in all rows.

    Args:
        samples: Those of a fit, `Fit.clusters.samples`.
        family: The law of the components.
        rows: Any rows that the family takes.
        shard: Rows worked on together.

    Raises:
        ValueError: The rows are not those of the family.

    Example:
        >>> import jax.numpy as jnp, numpy as np
        >>> from simplex_jax import dpm
        >>> from simplex_jax.dpm.assignment import Samples
        >>> from simplex_jax.models import dp_families
        >>> from simplex_jax.models.dp_mixture import Mixture
        >>> log_weights, atoms = np.log([[0.6, 0.3]]), np.log([[[0.9, 0.1], [0.1, 0.9]]])
        >>> mixture = Mixture(jnp.array(log_weights), jnp.log(jnp.array([0.1])), jnp.array(atoms))
        >>> samples = Samples(mixture, np.eye(2, dtype=np.float32)[None])
        >>> rows = dp_families.multinomial_rows([[0, 2], [0, 0]])
        >>> found = dpm.assign(samples, dp_families.multinomial(2), rows)
        >>> print(found.shares.round(2), found.new.round(2))
        [[0.02 0.85]
         [0.6  0.3 ]] [0.13 0.1 ]
    """
    shard = arguments.at_least("shard", shard, 1)
    family.check(rows)
    rows = jax.tree.map(jnp.asarray, rows)
    size, count = dp_families.size(rows), len(samples.shares)
    shard = min(shard, size)
    parts = []
    for first in range(0, size, shard):
        some = dp_families.take(rows, first + jnp.arange(shard, dtype=jnp.int32))
        total: np.ndarray = np.zeros(())
        densities = []
        for number in range(count):
            mixture = jax.tree.map(lambda leaf, i=number: leaf[i], samples.mixtures)
            shares, log_p = _assign(family, mixture, samples.shares[number], some)
            total = total + np.asarray(shares, np.float64) / count
            densities.append(np.asarray(log_p, np.float64))
        parts.append((total, np.stack(densities, axis=1)))
    shares, log_p = (np.concatenate(part)[:size] for part in zip(*parts, strict=True))
    shares = shares.astype(np.float32)
    return Assignment(shares[:, :-1], shares[:, -1], log_p.T)


@jax.jit
def _assign(
    family: Family, mixture: Mixture, shares: jax.Array, rows: PyTree
) -> tuple[jax.Array, jax.Array]:
    """Return shares [n, C + 1], the last that of a new cluster, and log densities [n]."""
    inside = family.log_likelihood(rows, mixture.atoms) + mixture.log_weights
    outside = mixture.log_rest + family.log_predictive(rows)
    logits = jnp.concatenate([inside, outside[:, None]], axis=1)
    p = jax.nn.softmax(logits, axis=1)
    mine = jnp.matmul(p[:, :-1], shares.T, precision=lax.Precision.HIGHEST)
    return jnp.concatenate([mine, p[:, -1:]], axis=1), jax.nn.logsumexp(logits, axis=1)

"""The components of a mixture: a record of functions."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from simplex_jax._src.base import PyTree
from simplex_jax._src.draws.keys import to_jax_key

Rows: TypeAlias = PyTree
"""Data: rows along the first axis of every leaf, or `SparseRows`. See `rows.take`."""

Atoms: TypeAlias = PyTree
"""Parameters of K components, leaves [K, ...]."""

Statistics: TypeAlias = PyTree
"""Sufficient statistics of the rows of K clusters, leaves [K, ...]; sums over the rows."""


class Simplex(NamedTuple):
    """Moves of log-probability atoms by a simplex kernel."""

    alpha: PyTree  # concentrations of the Dirichlet prior, a tree like one atom
    # `(statistics) -> counts`, floats, a tree like the atoms: given the rows of their clusters,
    # atoms are Dirichlet(alpha + counts).
    counts: Callable[[Statistics], PyTree]


def draw_atoms(family: "Family", key: jax.Array, statistics: Statistics) -> Atoms:
    """Draw atoms of a family, which may be a user's, with a standard JAX key."""
    return family.draw(to_jax_key(key), statistics)


def as_floats(prior: PyTree, counts: PyTree) -> PyTree:
    """Return counts in the dtypes of the prior concentrations."""
    return jax.tree.map(lambda a, n: n.astype(a.dtype), prior, counts)


class Family(NamedTuple):
    """A component distribution f(x | theta) with a prior G0 of theta, the base measure of mixtures.

    The functions are pure and can be traced and vmapped. Their hyperparameters are bound to them,
    so that a family is a pytree and new hyperparameters do not cause recompilation. A factor of f
    that does not depend on theta may be omitted, the same one in all three log densities; each
    family documents it.

    Rows without observations have likelihood 1, and statistics of 0 except for their number, if
    that is one of the statistics.

    Attributes:
        draw: `(key, statistics) -> atoms`, an exact draw of each atom given the rows of its
            cluster; from G0 if there are none.
        statistics: `(rows, labels, K) -> statistics` of the rows of each cluster, with int32 labels
            [n]; rows with labels outside 0..K-1 are ignored. Additive over rows, exactly so for
            integer statistics.
        log_likelihood: `(rows, atoms) -> log f(x | theta)`, [n, K].
        log_predictive: `(rows) -> log of the integral of f(x | theta) dG0(theta)`, [n].
        log_evidence: `(statistics, given=None) -> log f(rows | given)`, [K]: the probability of the
            rows of each cluster with theta integrated out, given other rows of that cluster by
            their statistics, which may be 0. A factor that the rows alone determine may be omitted
            if others are given: moves compare the same rows. None if it has no closed form.
        check: `(rows) -> None`; raises a ValueError that describes why rows do not fit the family.
            For concrete values, not under `jit`.
        simplex: Moves by simplex kernels, for atoms that are log-probabilities.
        profile: `(statistics, atoms) -> (means, variances)` of the parameters that describe each
            component, given the rows of its cluster: trees like atoms, of readable parameters such
            as rates for log-rates. None means the probabilities of a simplex, or the atoms.
    """

    draw: Callable[[jax.Array, Statistics], Atoms]
    statistics: Callable[[Rows, jax.Array, int], Statistics]
    log_likelihood: Callable[[Rows, Atoms], jax.Array]
    log_predictive: Callable[[Rows], jax.Array]
    log_evidence: Callable[..., jax.Array] | None
    check: Callable[[Rows], None]
    simplex: Simplex | None = None
    profile: Callable[[Statistics, Atoms], tuple[PyTree, PyTree]] | None = None


def component(family: Family, statistics: Statistics, atoms: Atoms) -> tuple[PyTree, PyTree]:
    """Return mean and variance of components given the rows of their clusters, [K, ...]."""
    if family.profile is not None:
        return family.profile(statistics, atoms)
    if family.simplex is None:
        return atoms, jax.tree.map(jnp.zeros_like, atoms)
    a = jax.tree.map(jnp.add, family.simplex.alpha, family.simplex.counts(statistics))
    total = jax.tree.map(lambda leaf: jnp.sum(leaf, axis=-1, keepdims=True), a)
    mean = jax.tree.map(jnp.divide, a, total)
    return mean, jax.tree.map(lambda a, p, n: p * _others(a, n) / (n + 1), a, mean, total)


def _others(a: jax.Array, total: jax.Array) -> jax.Array:
    """Return 1 - a / total along the last axis, precise near 0 too."""
    largest = jnp.arange(a.shape[-1]) == jnp.argmax(a, axis=-1, keepdims=True)
    others = jnp.sum(jnp.where(largest, 0, a), axis=-1, keepdims=True)
    return jnp.where(largest, others / total, 1 - a / total)

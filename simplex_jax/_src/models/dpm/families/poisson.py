"""Independent Poisson columns, with a gamma prior for each."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from simplex_jax._src import arguments, draws
from simplex_jax._src.base import bind
from simplex_jax._src.geometry.rising import excess, stirling_rest
from simplex_jax._src.models.dpm.families import family as by_label
from simplex_jax._src.models.dpm.families.family import Family, blocks, check_table, first_bad

MOST = 2**24
"""The largest count: float32 represents all integers up to it."""


class Counted(NamedTuple):
    """Statistics of clusters, over observed cells."""

    number: jax.Array  # number of cells, int32 [K, p]
    total: jax.Array  # their sums, int32 [K, p]


class _Prior(NamedTuple):
    shape: jax.Array
    rate: jax.Array


def poisson(shape: ArrayLike, rate: ArrayLike) -> Family:
    """Return the family of p columns x_j ~ Poisson(l_j), independent given the component.

    l_j ~ Gamma(shape_j, rate_j), whose mean is m_j = shape_j / rate_j. Rows are integers [n, p]
    with -1, or floats with NaN, for missing counts. These are left out of the likelihood: whether a
    count is missing must not depend on its value. Atoms are log-rates [K, p], and the statistics
    `Counted`, exact up to sums of 2^31.

    Likelihoods are relative to Poisson distributions with the prior means: x log(l / m) - (l - m)
    for a cell. The omitted factor m^x e^-m / x! is the same for all components. Without it large
    counts keep their precision: the error of a likelihood is about 1e-6 x, and that of the evidence
    of n rows with sum s about 1e-7 times the larger of s and n m. Evidences given other rows are
    relative to the Poisson distribution with the mean of the rows themselves, and exact to 1e-2
    nats where they decide a split or a merger.

    Args:
        shape: Positive, a scalar or [p].
        rate: Positive, a scalar or [p]. One of the two is [p].

    Raises:
        ValueError: An argument is out of range or does not fit.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax.dpm import families
        >>> family = families.poisson(jnp.ones(2), jnp.array([1.0, 0.1]))
        >>> rows = jnp.array([[3, 12], [0, -1]])
        >>> [leaf.tolist() for leaf in family.statistics(rows, jnp.array([0, 0]), 1)]
        [[[2, 1]], [[3, 12]]]
        >>> round(float(family.log_predictive(rows)[1]), 4)  # a half, over the e^-1 of Poisson(1)
        0.3069
    """
    a, b = arguments.promote(shape=shape, rate=rate)
    try:
        size = jnp.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        size = ()
    if len(size) != 1 or size == (0,):
        raise ValueError(
            "shape and rate must be scalars or [p], one of them [p]; their shapes are "
            f"{a.shape} and {b.shape}"
        )
    arguments.require("shape", a, arguments.positive(a), "finite and positive")
    arguments.require("rate", b, arguments.positive(b), "finite and positive")
    prior = _Prior(jnp.broadcast_to(a, size), jnp.broadcast_to(b, size))
    return Family(
        draw=bind(_draw, prior),
        statistics=bind(_statistics),
        log_likelihood=bind(_log_likelihood, prior),
        log_predictive=bind(_log_predictive, prior),
        log_evidence=bind(_log_evidence, prior),
        check=bind(_check, prior.shape),
        profile=bind(_profile, prior),
        simulate=bind(_simulate),
    )


def _draw(prior: _Prior, key: jax.Array, statistics: Counted) -> jax.Array:
    return draws.loggamma(key, prior.shape + statistics.total) - jnp.log(
        prior.rate + statistics.number
    )


def _simulate(key: jax.Array, atoms: jax.Array, lengths: Any) -> jax.Array:
    return jax.random.poisson(key, jnp.exp(atoms))


def _profile(prior: _Prior, statistics: Counted, atoms: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return means and variances of the rates."""
    rate = prior.rate + statistics.number
    mean = (prior.shape + statistics.total) / rate
    return mean, mean / rate


def _cells(rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the counts, int32 and 0 where missing, and the mask of observed ones."""
    if jnp.issubdtype(rows.dtype, jnp.floating):
        present = ~jnp.isnan(rows)
    else:
        rows = rows.astype(jnp.int32)  # the largest unsigned integer becomes -1
        present = rows != -1
    return jnp.where(present, rows, 0).astype(jnp.int32), present


def _statistics(rows: jax.Array, labels: jax.Array, num_clusters: int) -> Counted:
    x, present = _cells(rows)
    # A negative index would count from the end.
    labels = jnp.where(labels < 0, num_clusters, labels)
    none = jnp.zeros((num_clusters, x.shape[1]), jnp.int32)
    return Counted(
        by_label.counts(present, labels, num_clusters), none.at[labels].add(x, mode="drop")
    )


def _log_likelihood(prior: _Prior, rows: jax.Array, atoms: jax.Array) -> jax.Array:
    x, present = _cells(rows)
    mean = prior.shape / prior.rate
    log_ratio = atoms - jnp.log(mean)
    # By expm1: the difference of two large rates would lose the precision of a small one.
    apart = mean * jnp.expm1(log_ratio)

    # Column by column: a sum over the columns of all atoms at once does not vectorise.
    def add(total, column):
        x, here, log_ratio, apart = column
        # A rate of 0, with x = 0, has the log-rate -inf.
        each = jnp.where(x[:, None] > 0, x[:, None] * log_ratio, 0) - apart
        return total + jnp.where(here[:, None], each, 0), None

    start = jnp.zeros((x.shape[0], atoms.shape[0]), atoms.dtype)
    columns = (x.astype(atoms.dtype), present, log_ratio, apart)
    return lax.scan(add, start, jax.tree.map(jnp.transpose, columns))[0]


def _log_predictive(prior: _Prior, rows: jax.Array) -> jax.Array:
    x, present = _cells(rows)
    return _log_evidence(prior, Counted(present.astype(jnp.int32), x))


def _log_evidence(prior: _Prior, statistics: Counted, given: Counted | None = None) -> jax.Array:
    """Return log of Gamma(a + s) b^a / (Gamma(a) (b + n)^(a + s)) over m^s e^(-n m).

    The large terms are collected in s log(1 + u) - (s - n m), where m (1 + u) is the mean given all
    rows.
    """
    if given is not None:
        return _log_evidence_given(prior, statistics, given)
    a, b, m = prior.shape, prior.rate, prior.shape / prior.rate
    n, s = (leaf.astype(m.dtype) for leaf in statistics)
    above = s - n * m
    u = above / (m * (b + n))
    # Near -1, u has lost the precision of a small mean.
    log_mean = jnp.where(u > -0.5, jnp.log1p(u), jnp.log(a + s) - jnp.log(m * (b + n)))
    log_mean = jnp.where(s > 0, log_mean, 0)
    each = s * log_mean - above + (excess(a, s) - a * jnp.log1p(n / b))
    return jnp.sum(each, axis=-1)


def _log_evidence_given(prior: _Prior, statistics: Counted, given: Counted) -> jax.Array:
    """Return the same, with a and b those given other rows, over (s / n)^s e^(-s).

    Relative to m it would be as large as s where the rows are far from the prior mean, and its
    rounding error, 8 nats at s = 1e8, would decide whether clusters are split. Large terms are
    collected in s log(1 + w / s) + a log(1 - w / a), w = (a n - b s) / (b + n), whose parts of
    first order cancel: s + w and a - w are the counts that both would have at a common mean.
    """
    n, s, n_given, s_given = (leaf.astype(prior.shape.dtype) for leaf in (*statistics, *given))
    a, b = prior.shape + s_given, prior.rate + n_given
    moved = (a * n - b * s) / (b + n)
    of_rows = jnp.where(s > 0, s * jnp.log1p(moved / jnp.where(s > 0, s, 1)), 0)
    # Near -1, a small mean of the other rows would lose its precision.
    fall = -moved / a
    log_fall = jnp.where(fall > -0.5, jnp.log1p(fall), jnp.log1p(s / a) - jnp.log1p(n / b))
    return jnp.sum(of_rows + a * log_fall + stirling_rest(a, s), axis=-1)


def _check(shape: jax.Array, rows: ArrayLike) -> None:
    values = check_table(rows, shape.shape[0], np.number, "counts")
    if np.iscomplexobj(values):
        raise ValueError(f"rows must be counts, not {values.dtype}")

    def missing(block: np.ndarray) -> np.ndarray:
        return np.isnan(block) if block.dtype.kind == "f" else block == -1

    def bad(block: np.ndarray) -> np.ndarray:
        return ~missing(block) & ~((block >= 0) & (block <= MOST) & (block == np.floor(block)))

    if place := first_bad(values, bad):
        row, column = place
        raise ValueError(
            f"rows[{row}, {column}] is {values[row, column]}: counts must be whole numbers from 0 "
            "to 2^24, and NaN (of integers -1) where one is missing"
        )
    total = np.zeros(values.shape[1])
    for _, block in blocks(values):
        total += np.where(missing(block), 0, block).sum(axis=0, dtype=np.float64)
    column = int(np.argmax(total))
    check_total(total[column], f"column {column} of rows")


def check_total(total: float, name: str) -> None:
    """Raise a ValueError if the sum of a column's counts is beyond int32."""
    if total >= 2**31:
        raise ValueError(
            f"{name} has {total:.6g} counts in all; the sum must be below 2^31: take its logarithm "
            "as a number, or count in larger units"
        )

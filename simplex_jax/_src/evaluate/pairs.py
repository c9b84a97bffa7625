"""Sums of a kernel over all pairs of samples, and their null distribution."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from scipy import optimize, special

_ROWS = 256  # of the table of pairs in memory at a time
_NULL = 600  # samples whose pairs give the null distribution


class Discrepancy(NamedTuple):
    """The discrepancy between samples and a distribution."""

    # Unbiased estimate of the squared discrepancy: near 0, of either sign, for exact samples
    squared: float
    p_value: float  # probability of a larger estimate for as many exact independent samples


def discrepancy(kernel: Callable, data: NamedTuple) -> Discrepancy:
    """Return the U-statistic of a Stein kernel and its p-value, for data with leaves [n, ...].

    The kernel is `(one [n, ...], two [m, ...]) -> [n, m]`, with mean zero under the target in each
    argument.
    """
    sums, diagonal = (np.asarray(x, np.float64) for x in row_sums(data, kernel=kernel))
    n = len(sums)
    squared = (sums.sum() - diagonal.sum()) / (n * (n - 1))
    subset = np.unique(np.linspace(0, n - 1, _NULL).astype(int))
    part = jax.tree.map(lambda leaf: leaf[subset], data)
    table = np.asarray(table_of(part, part, kernel=kernel), np.float64)
    return Discrepancy(float(squared), upper_tail(np.sqrt(n * (n - 1.0)) * squared, table))


@partial(jax.jit, static_argnames="kernel")
def row_sums(data: NamedTuple, *, kernel: Callable) -> tuple[jax.Array, jax.Array]:
    """Return the sums of the rows of the table of pairs, and its diagonal, [n] each."""
    n = jax.tree.leaves(data)[0].shape[0]
    rows = min(_ROWS, n)
    # The last block is moved up to end with the last sample; rows computed twice are dropped.
    starts = jnp.minimum(jnp.arange(0, n, rows), n - rows)

    def block(start: jax.Array) -> tuple[jax.Array, jax.Array]:
        part = jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, start, rows), data)
        table = kernel(part, data)
        own = jnp.take_along_axis(table, (start + jnp.arange(rows))[:, None], axis=1)
        return table.sum(axis=1), own[:, 0]

    sums, own = lax.map(block, starts)
    place = starts[:, None] + jnp.arange(rows)
    empty = jnp.zeros(n, sums.dtype)
    return empty.at[place].set(sums), empty.at[place].set(own)


@partial(jax.jit, static_argnames="kernel")
def table_of(one: NamedTuple, two: NamedTuple, *, kernel: Callable) -> jax.Array:
    """Return the kernel of all pairs, compiled."""
    return kernel(one, two)


def upper_tail(statistic: float, table: np.ndarray) -> float:
    r"""Return P(sum_i l_i (Z_i^2 - 1) > statistic), where l_i are the kernel's eigenvalues.

    Uses the saddlepoint approximation of Lugannani and Rice for sums of chi-squares (Kuonen 1999),
    whose relative error is a few hundredths. The eigenvalues are those of the table of pairs
    without its diagonal, whose contribution vanishes slowly: they sum to 0, which centres the sum,
    and the sum of their squares is that of the null distribution.
    """
    m = len(table)
    pairs = table - np.diag(np.diag(table))
    values = np.linalg.eigvalsh(pairs) / np.sqrt(m * (m - 1.0))

    def slope(at: float) -> float:
        return float((values / (1 - 2 * at * values)).sum()) - statistic

    ends = [0.5 / values[0], 0.5 / values[-1]]
    # Near 0 rounding may lead it astray for more than the usual 100 iterations.
    inside = (end * (1 - 1e-9) for end in ends)
    zeta = optimize.brentq(slope, *inside, xtol=1e-300, maxiter=10_000)
    rest = 1 - 2 * zeta * values
    exponent = zeta * statistic + np.log(rest).sum() / 2
    w = np.copysign(np.sqrt(2 * max(exponent, 0.0)), zeta)
    spread = np.sqrt(2 * np.square(values / rest).sum())
    if abs(w) < 1e-3:  # near the mean, the limit
        skewness = 8 * (values**3).sum() / spread**3
        return float(special.ndtr(-(w + skewness / 6)))
    return float(special.ndtr(-(w + np.log(zeta * spread / w) / w)))

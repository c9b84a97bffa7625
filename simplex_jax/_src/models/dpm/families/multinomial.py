"""Multinomial counts with a Dirichlet prior."""

from collections.abc import Callable
from typing import Any, SupportsIndex

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from simplex_jax._src import arguments, draws
from simplex_jax._src.base import bind
from simplex_jax._src.corpus.device import CHUNK, token_slots
from simplex_jax._src.geometry.rising import log_dirichlet_evidence, log_rising
from simplex_jax._src.models.dpm.families.family import (
    Family,
    Simplex,
    SparseRows,
    as_floats,
    multinomial_rows,
)


def multinomial(categories: SupportsIndex, concentration: ArrayLike = 0.5) -> Family:
    """Return the family x ~ Multinomial(length of x, theta), theta ~ Dirichlet(concentration).

    Its rows are `multinomial_rows`, its atoms log-probabilities [K, V], and its statistics the
    counts of each cluster, int32 [K, V]; the check of rows refuses a category with 2^31 counts or
    more. Likelihoods omit the multinomial coefficient.

    The time of a pass over the entries is proportional to K: about 4 ns per entry and 10
    components.

    Args:
        categories: V, a positive integer.
        concentration: Positive, a scalar or [V]. The published code of the SCIR paper (Baker et al.
            2018, section 4.2) uses 0.5.

    Raises:
        ValueError: An argument is out of range or does not fit.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax.dpm import families
        >>> family = families.multinomial(3, concentration=1.0)
        >>> rows = families.multinomial_rows([[2, 0, 1], [0, 4, 0]])
        >>> family.statistics(rows, jnp.array([1, 1]), 2).tolist()
        [[0, 0, 0], [2, 4, 1]]
        >>> print(jnp.exp(family.log_predictive(rows)).round(4))  # 2! 1! 2! / 5!; 4! 2! / 6!
        [0.0333 0.0667]
    """
    categories = arguments.at_least("categories", categories, 1)
    (alpha,) = arguments.promote(concentration=concentration)
    arguments.require("concentration", alpha, arguments.positive(alpha), "finite and positive")
    if alpha.shape not in ((), (categories,)):
        raise ValueError(f"concentration must be a scalar or [{categories}]; it is {alpha.shape}")
    alpha = jnp.broadcast_to(alpha, (categories,))
    return Family(
        draw=bind(_draw, alpha),
        statistics=bind(_statistics, alpha),
        log_likelihood=bind(_log_likelihood),
        log_predictive=bind(_log_predictive, alpha),
        log_evidence=bind(_log_evidence, alpha),
        check=bind(_check, alpha),
        simplex=Simplex(alpha, bind(as_floats, alpha)),
        simulate=bind(_simulate),
    )


def _draw(alpha: jax.Array, key: jax.Array, statistics: jax.Array) -> jax.Array:
    return draws.log_dirichlet(key, alpha + statistics)


def _simulate(key: jax.Array, atoms: jax.Array, lengths: Any) -> SparseRows:
    if lengths is None:
        raise ValueError("the model does not say how many counts a row has: give lengths")
    # In float64: rounding of single precision would be as large as rare words are probable.
    random = np.random.default_rng(np.asarray(jax.random.key_data(key)).tolist())
    p = np.exp(np.asarray(atoms, np.float64))
    return multinomial_rows(random.multinomial(lengths, p / p.sum(axis=1, keepdims=True)))


def _over_entries(rows: SparseRows, add: Callable, start: jax.Array) -> jax.Array:
    """Loop over all entries of the rows in chunks.

    `add(total, row, word, count)` returns the new total, given the rows 0..n-1, words and counts of
    a chunk of entries, [m]. Padding entries have count 0.
    """
    documents = rows.documents
    entries = jnp.sum(rows.lengths)
    step = min(CHUNK, rows.words.shape[0])

    def chunk(loop):
        first, total = loop
        place, row = token_slots(documents, first, step)
        word = rows.words.at[place].get(mode="clip")
        count = rows.counts.at[place].get(mode="fill", fill_value=0)
        return first + step, add(total, row, word, count)

    return lax.while_loop(lambda loop: loop[0] < entries, chunk, (jnp.int32(0), start))[1]


def _statistics(
    alpha: jax.Array, rows: SparseRows, labels: jax.Array, num_clusters: int
) -> jax.Array:
    # A negative index would count from the end.
    labels = jnp.where(labels < 0, num_clusters, labels)

    def add(total, row, word, count):
        return total.at[labels[row], word].add(count, mode="drop")

    return _over_entries(rows, add, jnp.zeros((num_clusters, alpha.shape[0]), jnp.int32))


def _log_likelihood(rows: SparseRows, atoms: jax.Array) -> jax.Array:
    # Word-major, so that an entry reads contiguous memory.
    table = atoms.T

    def add(total, row, word, count):
        # Avoid 0 * -inf for words that do not occur.
        terms = jnp.where(count[:, None] > 0, table[word] * count[:, None].astype(table.dtype), 0)
        return total.at[row].add(terms, indices_are_sorted=True)

    start = jnp.zeros((rows.starts.shape[0], atoms.shape[0]), atoms.dtype)
    return _over_entries(rows, add, start)


def _log_predictive(alpha: jax.Array, rows: SparseRows) -> jax.Array:
    """Return log of prod_w (alpha_w)_(x_w) / (alpha_+)_(x_+), with rising factorials."""

    def add(total, row, word, count):
        entry = jnp.stack([log_rising(alpha[word], count), count.astype(alpha.dtype)])
        return total.at[:, row].add(entry, indices_are_sorted=True)

    start = jnp.zeros((2, rows.starts.shape[0]), alpha.dtype)
    log_words, lengths = _over_entries(rows, add, start)
    return log_words - log_rising(jnp.sum(alpha), lengths)


def _log_evidence(
    alpha: jax.Array, statistics: jax.Array, given: jax.Array | None = None
) -> jax.Array:
    weights = alpha if given is None else alpha + given
    return log_dirichlet_evidence(weights, statistics.astype(alpha.dtype))


def _check(alpha: jax.Array, rows: SparseRows) -> None:
    if not isinstance(rows, SparseRows):
        raise ValueError("rows must come from multinomial_rows")
    largest = int(np.max(np.asarray(rows.words)))
    if largest >= alpha.shape[0]:
        raise ValueError(
            f"rows have category {largest}, and the family has 0 to {alpha.shape[0] - 1}: give "
            f"categories={largest + 1} or more"
        )
    counts, lengths = (np.asarray(leaf, np.int64) for leaf in (rows.counts, rows.lengths))
    if counts.sum() < 2**31:
        return
    # Selected rows may leave out entries.
    first = np.asarray(rows.starts) - (np.cumsum(lengths) - lengths)
    entries = np.repeat(first, lengths) + np.arange(lengths.sum())
    total = np.bincount(np.asarray(rows.words)[entries], counts[entries], minlength=1)
    if (total >= 2**31).any():
        category = int(np.argmax(total))
        raise ValueError(
            f"category {category} has {total[category]:.6g} counts in all rows; the sum must be "
            "below 2^31: count in larger units"
        )

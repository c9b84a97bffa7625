"""Unit vectors: von Mises-Fisher distributions with a prior of direction and concentration."""

from typing import Any, NamedTuple, SupportsIndex

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from simplex_jax._src import arguments, draws
from simplex_jax._src.base import bind
from simplex_jax._src.draws.keys import by_native_code
from simplex_jax._src.geometry import bessel
from simplex_jax._src.geometry import von_mises_fisher as vmf
from simplex_jax._src.models.dpm.families import family as by_label
from simplex_jax._src.models.dpm.families.family import Family, check_table, first_bad

# The largest concentration for draws, and those of a prior.
_MOST, _LARGEST = 1e8, 1e7


class Directions(NamedTuple):
    """Von Mises-Fisher distributions: mean directions [K, p] and concentrations [K]."""

    mean: jax.Array
    concentration: jax.Array


class Resultants(NamedTuple):
    """Statistics of clusters: number of rows, int32 [K], and sums of rows, [K, p]."""

    number: jax.Array
    total: jax.Array


class _Prior(NamedTuple):
    grid: jax.Array  # concentrations, [M]
    log_weights: jax.Array  # their log prior probabilities, [M]
    centre: jax.Array  # prior mean direction times its concentration, [p]; 0 for uniform


def von_mises_fisher(
    dimension: SupportsIndex,
    concentrations: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    strength: ArrayLike = 0.0,
) -> Family:
    """Return the family x ~ vMF(mu, k) with a prior of both that is conjugate given k.

    mu ~ vMF(mean, strength), by default uniform, and k has probabilities `weights` on a grid of
    `concentrations`, by default equal ones on 128 values from p / 10 to 1000 p, or to 1e7 if that
    is less: at most 7.5% apart. Against the best k this loses up to (p - 1) / 3000 nats per row, so
    a finer or narrower grid pays for large p. On the grid everything is exact: given n rows with
    the sum s,

        p(k | rows) ~ weight(k) c(k)^n c(strength) / c(|k s + strength mean|),

    with c the normaliser of the density, and mu given k is vMF with that vector. Draws sample k and
    then mu.

    Rows are float unit vectors [n, p]; a row of NaNs has no observations. Atoms are `Directions`,
    statistics `Resultants`; densities are with respect to area. The length of a float32 vector is 1
    to within 1e-7, which limits the precision of log likelihoods to 1e-7 k per row.

    Args:
        dimension: p, an integer from 2 on.
        concentrations: The grid, positive, up to 1e7, [M].
        weights: Positive, [M]; need not be normalised.
        mean: Prior mean direction, a unit vector [p].
        strength: Its concentration, from 0 to 1e7. Needs a mean unless 0.

    Raises:
        ValueError: An argument is out of range or does not fit.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import draws
        >>> from simplex_jax.dpm import families
        >>> mu = jnp.array([0.6, 0.0, 0.8])
        >>> x = draws.von_mises_fisher(jax.random.key(0), mu, 50.0, shape=(1000,))
        >>> family = families.von_mises_fisher(3)
        >>> total = family.statistics(x, jnp.zeros(1000, jnp.int32), 1)
        >>> drawn = family.draw(jax.random.key(1), total)
        >>> bool(mu @ drawn.mean[0] > 0.999), bool(abs(drawn.concentration[0] - 50) < 8)
        (True, True)
    """
    p = arguments.at_least("dimension", dimension, 2)
    if concentrations is None:
        concentrations = jnp.minimum(p * jnp.geomspace(0.1, min(1000, _LARGEST / p), 128), _LARGEST)
    grid, strength = arguments.promote(concentrations=concentrations, strength=strength)
    _, weight = arguments.promote(
        grid=grid, weights=jnp.ones(grid.shape) if weights is None else weights
    )
    if grid.ndim != 1 or grid.size == 0 or weight.shape != grid.shape:
        raise ValueError(
            "concentrations and weights must have one shape [M]; the shapes are "
            f"{grid.shape} and {weight.shape}"
        )
    small = arguments.positive(grid) & (grid <= _LARGEST)
    arguments.require("concentrations", grid, small, "positive and at most 1e7")
    arguments.require("weights", weight, arguments.positive(weight), "finite and positive")
    allowed = (strength >= 0) & (strength <= _LARGEST)
    arguments.require("strength", strength, allowed, "from 0 to 1e7")
    if mean is None:
        arguments.require("strength", strength, strength == 0, "0 where no mean is given")
        mean = jnp.zeros(p).at[0].set(1)
    _, mean = arguments.promote(grid=grid, mean=mean)
    if mean.shape != (p,) or strength.shape:
        raise ValueError(
            f"mean must have shape [{p}] and strength be a scalar; the shapes are "
            f"{mean.shape} and {strength.shape}"
        )
    length = jnp.sqrt(jnp.sum(mean**2))
    arguments.require("the length of mean", length, jnp.abs(length - 1) < 1e-3, "1")
    prior = _Prior(grid, jax.nn.log_softmax(jnp.log(weight)), strength * mean / length)
    return Family(
        draw=bind(_draw, prior),
        statistics=bind(_statistics),
        log_likelihood=bind(_log_likelihood),
        log_predictive=bind(_log_predictive, prior),
        log_evidence=bind(_log_evidence, prior),
        check=bind(_check, prior.centre),
        simulate=bind(_simulate),
    )


def _simulate(key: jax.Array, atoms: Directions, lengths: Any) -> jax.Array:
    return draws.von_mises_fisher(key, atoms.mean, atoms.concentration)


def _norm(x: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.sum(x**2, axis=-1))


def _log_joint(prior: _Prior, statistics: Resultants) -> jax.Array:
    """Return log p(k, rows) for all k of the grid, [K, M].

    With log c(k) = log c(0) - k + g(k), where g is small, the large terms are collected in
    n k + strength - |k s + strength mean|, a difference of the squares over the sum.
    """
    dtype, p = prior.grid.dtype, prior.centre.shape[0]
    order = p / 2 - 1
    n = statistics.number.astype(dtype)[:, None]
    total = jnp.where(n > 0, statistics.total, 0)
    strength, k = _norm(prior.centre), prior.grid
    length = _norm(total)[:, None]
    along = jnp.sum(total * prior.centre, axis=-1, keepdims=True)
    # Rounding may make the sum of n unit vectors longer than n.
    gap = jnp.maximum(n - length, 0)
    aside = jnp.maximum(n * strength - along, 0)
    longest = n * k + strength
    square = (k * length) ** 2 + 2 * k * along + strength**2
    radius = jnp.sqrt(jnp.maximum(square, 0))
    apart = (k**2 * gap * (n + length) + 2 * k * aside) / (longest + radius)

    def excess(concentration: jax.Array) -> jax.Array:
        return bessel.scaled_log_series(order, concentration)

    log_c = vmf.log_uniform(p)
    each = n * (log_c + excess(k)) + (excess(strength) - excess(radius)) - apart
    return prior.log_weights + jnp.where(n > 0, each, 0)


def _draw(prior: _Prior, key: jax.Array, statistics: Resultants) -> Directions:
    key_grid, key_mean = jax.random.split(by_native_code(key))
    place = jax.random.categorical(key_grid, _log_joint(prior, statistics))
    k = prior.grid[place]
    vector = jnp.where(statistics.number[:, None] > 0, statistics.total, 0)
    vector = k[:, None] * vector + prior.centre
    length = _norm(vector)
    first = jnp.zeros_like(prior.centre).at[0].set(1)
    unit = vector / jnp.where(length > 0, length, 1)[:, None]
    unit = jnp.where(length[:, None] > 0, unit, first)
    drawn = draws.von_mises_fisher(key_mean, unit, jnp.minimum(length, _MOST))
    # Beyond, the distribution is normal in the tangent plane to p / 1e8; only its scale changes.
    closer = jnp.sqrt(_MOST / jnp.maximum(length, _MOST))[:, None]
    drawn = jnp.where(closer < 1, unit + closer * (drawn - unit), drawn)
    return Directions(drawn / _norm(drawn)[:, None], k)


def _present(rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the rows, 0 if without observations, and the mask of the others."""
    present = ~jnp.isnan(rows).all(axis=1)
    return jnp.where(present[:, None], rows, 0), present


def _statistics(rows: jax.Array, labels: jax.Array, num_clusters: int) -> Resultants:
    x, present = _present(rows)
    return Resultants(
        by_label.counts(present, labels, num_clusters),
        by_label.sums(lambda x: x, x.shape[1], x, labels, num_clusters),
    )


def _log_likelihood(rows: jax.Array, atoms: Directions) -> jax.Array:
    x, present = _present(rows)
    # Rows along the last axis: sums over the first one vectorise.
    columns = x.T

    def of_atom(atom: Directions) -> jax.Array:
        # k mean.x would lose k times the rounding of the inner product.
        return atom.concentration * 0.5 * jnp.sum((columns - atom.mean[:, None]) ** 2, axis=0)

    p = x.shape[1]
    peak = vmf.log_uniform(p) + bessel.scaled_log_series(p / 2 - 1, atoms.concentration)
    return jnp.where(present[:, None], peak - lax.map(of_atom, atoms).T, 0)


def _log_predictive(prior: _Prior, rows: jax.Array) -> jax.Array:
    x, present = _present(rows)
    return _log_evidence(prior, Resultants(present.astype(jnp.int32), x))


def _log_evidence(
    prior: _Prior, statistics: Resultants, given: Resultants | None = None
) -> jax.Array:
    if given is None:
        return jax.nn.logsumexp(_log_joint(prior, statistics), axis=-1)
    log_p = jax.nn.log_softmax(_log_joint(prior, given), axis=-1)
    alone, more = _log_joint(prior, statistics), _log_increase(prior, statistics, given)
    # Without rows before, gaps of lengths are at hand, and exact.
    more = jnp.where(given.number[:, None] > 0, more, alone - prior.log_weights)
    return jax.nn.logsumexp(log_p + more, axis=-1)


def _log_increase(prior: _Prior, statistics: Resultants, given: Resultants) -> jax.Array:
    """Return log p(rows | k, given rows) for all k of the grid, [K, M].

    It is the increase of `_log_joint`, in which each large term is a difference of its own.
    """
    dtype, p, k = prior.grid.dtype, prior.centre.shape[0], prior.grid
    n = statistics.number.astype(dtype)[:, None]
    total, before = (
        jnp.where(rows.number[:, None] > 0, rows.total, 0) for rows in (statistics, given)
    )

    def radius(total: jax.Array) -> jax.Array:
        along = jnp.sum(total * prior.centre, axis=-1, keepdims=True)
        length = _norm(total)[:, None]
        return jnp.sqrt(jnp.maximum((k * length) ** 2 + 2 * k * along + strength**2, 0))

    strength = _norm(prior.centre)
    short, long = radius(before), radius(before + total)
    # The difference of the radii is k times `along`: that of their squares over their sum.
    inner = jnp.sum(total * (2 * before + total), axis=-1, keepdims=True)
    aside = jnp.sum(total * prior.centre, axis=-1, keepdims=True)
    both = short + long
    along = (k * inner + 2 * aside) / jnp.where(both > 0, both, 1)
    order = p / 2 - 1
    log_c = vmf.log_uniform(p) + bessel.scaled_log_series(order, k)
    change = bessel.scaled_log_series_difference(order, long, short)
    more = n * log_c - change - k * jnp.maximum(n - along, 0)
    return jnp.where(n > 0, more, 0)


def _check(centre: jax.Array, rows: ArrayLike) -> None:
    values = check_table(rows, centre.shape[0], np.floating, "floats")

    def length(block: np.ndarray) -> np.ndarray:
        return np.sqrt(np.sum(block.astype(np.float64) ** 2, axis=1))

    def bad(block: np.ndarray) -> np.ndarray:
        return ~(np.abs(length(block) - 1) < 1e-3) & ~np.isnan(block).all(axis=1)

    if place := first_bad(values, bad):
        (row,) = place
        size = length(values[row : row + 1])[0]
        raise ValueError(
            f"rows[{row}] has length {size:.6g}: rows must be unit vectors, or NaN in all "
            "columns for a row without observations; divide each by its length"
        )

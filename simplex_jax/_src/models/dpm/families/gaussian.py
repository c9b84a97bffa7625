"""Normal vectors, with a normal-inverse-Wishart prior of mean and covariance."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike, DTypeLike

from simplex_jax._src import arguments, draws
from simplex_jax._src.base import bind
from simplex_jax._src.draws.keys import by_native_code
from simplex_jax._src.geometry.rising import log_rising
from simplex_jax._src.models.dpm.families import family as by_label
from simplex_jax._src.models.dpm.families.diagonal_gaussian import moments_of
from simplex_jax._src.models.dpm.families.family import Family, check_table, first_bad, reach
from simplex_jax._src.models.dpm.families.gaussian_prior import prior_of
from simplex_jax._src.models.dpm.families.one_of import one_of
from simplex_jax._src.precision import full_precision

# Batched operations on many small triangular matrices.
#
# On CPUs XLA passes matrices to LAPACK one by one, from threads that wait for the result: a few
# hundred thousand 2 x 2 matrices take minutes, and two solvers in one program can deadlock. Here
# each step processes one row of all matrices.


def cholesky(matrices: jax.Array) -> jax.Array:
    """Return lower triangular C with C C' = a for matrices a [..., p, p].

    NaN from the first row on at which a matrix is not positive definite.
    """
    p = matrices.shape[-1]
    place = jnp.arange(p)

    def one(j: jax.Array, upper: jax.Array) -> jax.Array:
        # Fill in C': sums over the second-to-last axis vectorise.
        row = lax.dynamic_index_in_dim(matrices, j, -2, keepdims=False)
        column = lax.dynamic_index_in_dim(upper, j, -1)
        rest = row - jnp.sum(column * upper, axis=-2)
        pivot = lax.dynamic_index_in_dim(rest, j, -1)
        new = jnp.where(place >= j, rest / jnp.sqrt(pivot), 0)
        return lax.dynamic_update_index_in_dim(upper, new, j, -2)

    return jnp.swapaxes(lax.fori_loop(0, p, one, jnp.zeros_like(matrices)), -1, -2)


def solve(lower: jax.Array, right: jax.Array) -> jax.Array:
    """Return x with L x = b for lower triangular L [..., p, p] and b [..., p, m]."""
    p = lower.shape[-1]

    def one(j: jax.Array, x: jax.Array) -> jax.Array:
        row = lax.dynamic_index_in_dim(lower, j, -2, keepdims=False)
        solved = jnp.sum(row[..., None] * x, axis=-2)
        rest = lax.dynamic_index_in_dim(right, j, -2, keepdims=False) - solved
        new = rest / lax.dynamic_index_in_dim(row, j, -1)
        return lax.dynamic_update_index_in_dim(x, new, j, -2)

    start = jnp.zeros(jnp.broadcast_shapes(lower.shape[:-2], right.shape[:-2]) + right.shape[-2:])
    return lax.fori_loop(0, p, one, start.astype(right.dtype))


def inverse(lower: jax.Array) -> jax.Array:
    """Return the inverses of lower triangular matrices [..., p, p]."""
    return solve(lower, jnp.broadcast_to(jnp.eye(lower.shape[-1], dtype=lower.dtype), lower.shape))


class Normals(NamedTuple):
    """Normal distributions."""

    mean: jax.Array  # means, [K, p]
    root: jax.Array  # matrices R with precision R' R, [K, p, p]: R (x - mean) is standard normal
    log_det: jax.Array  # logarithms of the determinants of R, [K]

    @property
    @full_precision
    def covariance(self) -> jax.Array:
        """The covariances, [K, p, p]."""
        inverse = jnp.linalg.inv(self.root)
        return inverse @ jnp.swapaxes(inverse, -1, -2)


class Moments(NamedTuple):
    """Statistics of clusters, about the prior mean m."""

    number: jax.Array  # number of rows, int32 [K]
    total: jax.Array  # sums of x - m, [K, p]
    square: jax.Array  # sums of (x - m) (x - m)', [K, p, p]


class _Prior(NamedTuple):
    mean: jax.Array
    strength: jax.Array
    freedom: jax.Array
    scale: jax.Array


def gaussian(
    mean: ArrayLike, scale: ArrayLike, strength: ArrayLike = 1.0, freedom: ArrayLike | None = None
) -> Family:
    """Return the family x ~ N(mu, Sigma) with the conjugate prior of both.

    Sigma ~ InverseWishart(freedom, scale), whose mean is scale / (freedom - p - 1), and
    mu ~ N(mean, Sigma / strength). Rows are floats [n, p]; a row of NaNs has no observations. Atoms
    are `Normals`, statistics `Moments`.

    Moments are taken about the prior mean and lose precision if a cluster is d of its own standard
    deviations away from it. In float32 the covariance has a relative error of 1e-7 d^2, which is
    below a percent up to d = 300, and the log evidence of n rows an error of n p 1e-7 d^2. Centre
    data whose mean is far from 0 before converting them to float32.

    If the width of clusters is unknown, give each one of several scales with `one_of`.

    Args:
        mean: Prior mean, [p].
        scale: Positive definite matrix, [p, p].
        strength: Positive; the prior mean counts as this many rows.
        freedom: Above p - 1; by default p + 2, for which `scale` is the prior mean of Sigma.

    Raises:
        ValueError: An argument is out of range or does not fit.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax.dpm import families
        >>> family = families.gaussian(jnp.zeros(1), jnp.ones((1, 1)))
        >>> round(float(family.log_predictive(jnp.array([[0.0]]))[0]), 4)  # Student's t, 3 degrees
        -0.7982
        >>> x = jnp.linspace(4.0, 6.0, 1001)[:, None]
        >>> drawn = family.draw(
        ...     jax.random.key(0), family.statistics(x, jnp.zeros(1001, jnp.int32), 1))
        >>> bool(abs(drawn.mean[0, 0] - 5) < 0.1), bool(abs(drawn.covariance[0, 0, 0] - 0.36) < 0.1)
        (True, True)
    """
    m, psi, k = arguments.promote(mean=mean, scale=scale, strength=strength)
    if m.ndim != 1 or m.size == 0 or psi.shape != (m.size, m.size):
        raise ValueError(
            f"mean must have shape [p] and scale [p, p]; the shapes are {m.shape} and {psi.shape}"
        )
    p = m.size
    _, nu = arguments.promote(mean=m, freedom=p + 2.0 if freedom is None else freedom)
    arguments.require("mean", m, jnp.isfinite(m), "finite")
    for name, value in (("strength", k), ("freedom", nu)):
        if value.shape:
            raise ValueError(f"{name} must be a scalar; its shape is {value.shape}")
        arguments.require(name, value, arguments.positive(value), "finite and positive")
    arguments.require("freedom", nu, nu > p - 1, f"above p - 1 = {p - 1}")
    symmetric, definite = _are_covariances(psi)
    arguments.require("scale", psi, symmetric, "a symmetric matrix with a positive diagonal")
    arguments.require("scale", psi, definite, "positive definite")
    prior = _Prior(m, k, nu, psi)
    return Family(
        draw=bind(_draw, prior),
        statistics=bind(_statistics, prior.mean),
        log_likelihood=bind(_log_likelihood, prior.mean),
        log_predictive=bind(_log_predictive, prior),
        log_evidence=bind(_log_evidence, prior),
        check=bind(_check, prior.mean),
    )


@jax.jit
def _are_covariances(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return masks of symmetry with a positive diagonal, and of positive definiteness."""
    sizes = jnp.sqrt(jnp.outer(jnp.diag(matrix), jnp.diag(matrix)))
    symmetric = jnp.abs(matrix - matrix.T) <= 1e-5 * sizes
    return symmetric, jnp.isfinite(cholesky(matrix))


def gaussian_of(
    rows: ArrayLike, strength: float | None = None, freedom: float | None = None
) -> Family:
    """Return the `gaussian` family with a prior from the data, computed in float64.

    The prior mean is the mean of the rows. The prior mean of a component's covariance is an
    estimate of that within clusters, and `freedom` says how much clusters have it in common: with
    the covariance of all rows instead, one cluster would be the most probable partition from some
    20 columns on, however clear the clusters. If clusters differ in width, each has one of five
    scales (`one_of`). See `families.gaussian_prior` for how scale, strength and freedom are chosen,
    the latter two where they are None. Rows of NaN are ignored.

    Raises:
        ValueError: Rows are not finite, a column is constant or squares of its numbers overflow or
            underflow, or the covariance is singular: a column is a linear function of others.

    Example:
        >>> import jax.numpy as jnp
        >>> from simplex_jax.dpm import families
        >>> family = families.gaussian_of(jnp.array([[0.0], [2.0], [4.0]]))
        >>> round(float(family.log_predictive(jnp.array([[2.0]]))[0]), 4)
        -1.2886
    """
    values = np.asanyarray(rows, np.float64)  # masked values are refused below
    if values.ndim != 2 or values.shape[1] == 0:
        raise ValueError(f"rows must have shape [n, p]; it is {values.shape}")
    _check(jnp.zeros(values.shape[1]), values)
    values = values[~np.isnan(values).all(axis=1)]
    remedy = "give mean and scale to families.gaussian"
    check_covariance(values, "rows", remedy, jnp.result_type(float))
    prior = prior_of(values, strength, freedom)
    return of_scales(jnp.asarray(values.mean(axis=0), float), *prior)


def of_scales(mean: ArrayLike, scale: Any, strength: ArrayLike, freedom: Any) -> Family:
    """Return `gaussian` for a scale [p, p], or `one_of` those with scales [S, p, p]."""
    scales = np.asarray(scale, float)
    if scales.ndim != 3:
        return gaussian(mean, jnp.asarray(scales, float), strength, freedom)
    return one_of([gaussian(mean, jnp.asarray(each, float), strength, freedom) for each in scales])


def check_covariance(values: np.ndarray, name: str, remedy: str, dtype: DTypeLike) -> None:
    """Raise a ValueError unless float64 rows [n, p] have a covariance that a dtype can represent.

    With at most as many rows as columns it is singular by their number. That is no harm: rounding
    errors of a cluster's scale grow with its rows, and the prior from the data is not singular.
    """
    for j, column in enumerate(values.T):
        moments_of(column, f"column {j} of {name}", dtype, f", or {remedy}")
    n, p = values.shape
    if n <= p:
        return
    # A ridge does not help: the scale of a cluster, and its rounding error, grow with its rows.
    correlation = np.atleast_2d(np.corrcoef(values.T))
    if np.linalg.eigvalsh(correlation)[0] <= p * np.finfo(dtype).eps:
        raise ValueError(
            f"the covariance of {name} is singular ({n} rows, {p} columns): leave out columns that "
            f"others determine, take the family diagonal_gaussian, or {remedy}"
        )


def _posterior(prior: _Prior, rows: Moments) -> _Prior:
    """Return the prior of mean and covariance, given the rows of each cluster, leaves [K, ...].

    Its mean is relative to the prior's.
    """
    n = rows.number.astype(prior.mean.dtype)
    # Sums of clusters without rows can have rounding errors.
    total = jnp.where(n[:, None] > 0, rows.total, 0)
    square = jnp.where(n[:, None, None] > 0, rows.square, 0)
    strength = prior.strength + n
    shift = total / strength[:, None]
    scale = prior.scale + square - total[:, :, None] * shift[:, None, :]
    return _Prior(shift, strength, prior.freedom + n, scale)


def _draw(prior: _Prior, key: jax.Array, statistics: Moments) -> Normals:
    """Draw the precision by Bartlett's decomposition, then the mean.

    With scale = C C', let A be lower triangular, with normal entries below the diagonal and squared
    diagonal entries that are chi-square with freedom - p + 1 degrees at the top to freedom at the
    bottom. A' A is Wishart(freedom, 1), the precision C^-T A' A C^-1, so that R = A C^-1, and the
    mean deviates from its expectation by R^-1 z / sqrt(strength).
    """
    after = _posterior(prior, statistics)
    (k, p), dtype = after.mean.shape, after.mean.dtype
    key_diagonal, key_below, key_mean = jax.random.split(by_native_code(key), 3)
    shapes = (after.freedom[:, None] - jnp.arange(p, dtype=dtype)[::-1]) / 2
    log_diagonal = 0.5 * (math.log(2) + draws.loggamma(key_diagonal, shapes))
    below = jnp.tril(jax.random.normal(key_below, (k, p, p), dtype), -1)
    a = below + jnp.exp(log_diagonal)[:, :, None] * jnp.eye(p, dtype=dtype)
    c = cholesky(after.scale)
    root = jnp.matmul(a, inverse(c), precision="highest")
    z = jax.random.normal(key_mean, (k, p, 1), dtype)
    off = solve(root, z)[..., 0]
    log_det = jnp.sum(log_diagonal - jnp.log(jnp.diagonal(c, axis1=-2, axis2=-1)), axis=-1)
    mean = prior.mean + (after.mean + off / jnp.sqrt(after.strength)[:, None])
    return Normals(mean, root, log_det)


def _statistics(
    centre: jax.Array, rows: jax.Array, labels: jax.Array, num_clusters: int
) -> Moments:
    y, present = _deviation(centre, rows)
    p = centre.shape[0]

    # Both kinds of sums in one call, so that one loop is compiled.
    def features(y: jax.Array) -> jax.Array:
        return jnp.concatenate([y, (y[:, :, None] * y[:, None, :]).reshape(-1, p * p)], axis=1)

    sums = by_label.sums(features, p * (p + 1), y, labels, num_clusters)
    number = by_label.counts(present, labels, num_clusters)
    return Moments(number, sums[:, :p], sums[:, p:].reshape(-1, p, p))


def _deviation(centre: jax.Array, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return rows - centre, 0 in rows without observations, and the mask of the other rows."""
    present = ~jnp.isnan(rows).all(axis=1)
    return jnp.where(present[:, None], rows - centre, 0), present


def _log_likelihood(centre: jax.Array, rows: jax.Array, atoms: Normals) -> jax.Array:
    y, present = _deviation(centre, rows)

    def of_atom(atom: Normals) -> jax.Array:
        z = jnp.matmul(y - (atom.mean - centre), atom.root.T, precision="highest")
        return atom.log_det - 0.5 * jnp.sum(z**2, axis=1)

    log_f = lax.map(of_atom, atoms).T - 0.5 * centre.shape[0] * math.log(2 * math.pi)
    # With few degrees of freedom draws from the prior overflow; their density is 0.
    log_f = jnp.where(jnp.isfinite(atoms.mean).all(axis=-1), log_f, -jnp.inf)
    return jnp.where(present[:, None], log_f, 0)


def _log_predictive(prior: _Prior, rows: jax.Array) -> jax.Array:
    """Return the log density of Student's t with freedom - p + 1 degrees of freedom."""
    y, present = _deviation(prior.mean, rows)
    p = prior.mean.shape[0]
    c = cholesky(prior.scale)
    square = jnp.sum(solve(c, y.T) ** 2, axis=0)
    widen = (prior.strength + 1) / prior.strength
    log_c = jnp.sum(jnp.log(jnp.diagonal(c)))
    constant = log_rising((prior.freedom - p + 1) / 2, jnp.asarray(p / 2, y.dtype))
    constant -= 0.5 * p * (math.log(math.pi) + jnp.log(widen)) + log_c
    return jnp.where(present, constant - 0.5 * (prior.freedom + 1) * jnp.log1p(square / widen), 0)


def _log_evidence(prior: _Prior, statistics: Moments, given: Moments | None = None) -> jax.Array:
    if given is None:
        given = jax.tree.map(jnp.zeros_like, statistics)
    before = _posterior(prior, given)
    after = _posterior(prior, jax.tree.map(jnp.add, given, statistics))
    p = prior.mean.shape[0]
    n = statistics.number.astype(prior.mean.dtype)
    factors = cholesky(jnp.stack([before.scale, after.scale]))
    logs = 2 * jnp.sum(jnp.log(jnp.diagonal(factors, axis1=-2, axis2=-1)), axis=-1)
    degrees = (before.freedom[:, None] - jnp.arange(p, dtype=n.dtype)) / 2
    log_gammas = jnp.sum(log_rising(degrees, n[:, None] / 2), axis=-1)
    log_dets = 0.5 * (n * logs[1] + before.freedom * (logs[1] - logs[0]))
    return (
        log_gammas - log_dets - 0.5 * p * (n * math.log(math.pi) + jnp.log1p(n / before.strength))
    )


def _check(centre: jax.Array, rows: ArrayLike) -> None:
    values = check_table(rows, centre.shape[0], np.floating, "floats")
    _, most = reach(centre.dtype)

    def bad(block: np.ndarray) -> np.ndarray:
        return ~(np.abs(block) <= most) & ~np.isnan(block).all(axis=1, keepdims=True)

    if place := first_bad(values, bad):
        row, column = place
        raise ValueError(
            f"rows[{row}, {column}] is {values[row, column]}: rows must be within {most:.0e} in "
            f"{centre.dtype}, or NaN in all columns for a row without observations; for single "
            "missing values take families.diagonal_gaussian"
        )

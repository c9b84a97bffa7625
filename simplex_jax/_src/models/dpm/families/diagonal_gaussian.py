"""Independent normal columns, with a normal-inverse-gamma prior for each."""

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
from simplex_jax._src.models.dpm.families.family import Family, check_numbers, reach


class DiagonalNormals(NamedTuple):
    """Normal distributions of independent columns."""

    mean: jax.Array  # means, [K, p]
    sd: jax.Array  # standard deviations, [K, p]


class ColumnMoments(NamedTuple):
    """Statistics of clusters, about the prior mean m, over observed cells."""

    number: jax.Array  # number of cells, int32 [K, p]
    total: jax.Array  # sums of x - m, [K, p]
    square: jax.Array  # sums of (x - m)^2, [K, p]


class _Prior(NamedTuple):
    mean: jax.Array
    scale: jax.Array
    strength: jax.Array
    freedom: jax.Array


def diagonal_gaussian(
    mean: ArrayLike, scale: ArrayLike, strength: ArrayLike = 1.0, freedom: ArrayLike = 3.0
) -> Family:
    """Return the family of p columns x_j ~ N(mu_j, s_j^2), independent given the component.

    s_j^2 ~ InverseGamma(freedom_j / 2, scale_j / 2), whose mean is scale_j / (freedom_j - 2), and
    mu_j ~ N(mean_j, s_j^2 / strength_j): for one column the model of `gaussian`. Missing cells are
    left out of the likelihood, which is exact without imputation: whether a cell is missing must
    not depend on its value.

    Rows are floats [n, p], NaN where missing. Atoms are `DiagonalNormals`, statistics
    `ColumnMoments`. As in `gaussian`, moments are taken about the prior mean and lose precision if
    a cluster is d of its own standard deviations away from it: 1e-7 d^2 of the variance in float32.
    `dpm.fit` refuses float64 rows that float32 rounds by more than a thousandth of the standard
    deviation of a column, as numbers near 1e9 are: subtract a number near their mean first.

    Args:
        mean: Prior means, [p].
        scale: Positive, a scalar or [p].
        strength: Positive, a scalar or [p]; the prior mean counts as this many rows.
        freedom: Positive, a scalar or [p]; at 3, the default, `scale` is the prior mean of the
            variance.

    Raises:
        ValueError: An argument is out of range or does not fit.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax.dpm import families
        >>> family = families.diagonal_gaussian(jnp.zeros(2), 1.0)
        >>> rows = jnp.array([[0.0, jnp.nan], [0.0, 0.0]])
        >>> [round(float(x), 3) for x in family.log_predictive(rows)]  # Student's t, 3 degrees
        [-0.798, -1.596]
        >>> family.statistics(rows, jnp.array([0, 0]), 1).number.tolist()
        [[2, 1]]
    """
    m, psi, k, nu = arguments.promote(mean=mean, scale=scale, strength=strength, freedom=freedom)
    if m.ndim != 1 or m.size == 0:
        raise ValueError(f"mean must have shape [p]; the shape is {m.shape}")
    arguments.require("mean", m, jnp.isfinite(m), "finite")
    spread = []
    for name, value in (("scale", psi), ("strength", k), ("freedom", nu)):
        if value.shape not in ((), m.shape):
            raise ValueError(f"{name} must be a scalar or [{m.size}]; it is {value.shape}")
        arguments.require(name, value, arguments.positive(value), "finite and positive")
        spread.append(jnp.broadcast_to(value, m.shape))
    prior = _Prior(m, *spread)
    return Family(
        draw=bind(_draw, prior),
        statistics=bind(_statistics, prior.mean),
        log_likelihood=bind(_log_likelihood, prior.mean),
        log_predictive=bind(_log_predictive, prior),
        log_evidence=bind(_log_evidence, prior),
        check=bind(_check, prior.mean),
        profile=bind(_profile, prior),
        simulate=bind(_simulate),
    )


def diagonal_gaussian_of(rows: ArrayLike, strength: ArrayLike = 1.0) -> Family:
    """Return the `diagonal_gaussian` family with means and variances of the data.

    The prior means of a column's mean and of its variance in a component are the mean and variance
    of its cells, computed in float64; `strength` is as there. Missing cells are ignored.

    Raises:
        ValueError: A cell is infinite, a column is constant or has no cells, or squares of its
            numbers overflow or underflow.

    Example:
        >>> import jax.numpy as jnp
        >>> from simplex_jax.dpm import families
        >>> rows = jnp.array([[0.0, 1e4], [2.0, jnp.nan], [4.0, 1e4 + 1]])
        >>> family = families.diagonal_gaussian_of(rows)
        >>> round(float(family.log_predictive(jnp.array([[2.0, jnp.nan]]))[0]), 4)
        -1.2886
    """
    values = np.asanyarray(rows, np.float64)  # masked values are refused below
    if values.ndim != 2 or values.shape[1] == 0:
        raise ValueError(f"rows must have shape [n, p]; it is {values.shape}")
    dtype = jnp.result_type(float)
    check_numbers(values, values.shape[1], dtype)
    each = [moments_of(column, f"column {j} of rows", dtype) for j, column in enumerate(values.T)]
    mean, sd = np.array(each).T
    return diagonal_gaussian(jnp.asarray(mean, float), jnp.asarray(sd**2, float), strength)


def moments_of(
    column: np.ndarray, name: str, dtype: DTypeLike = np.float64, remedy: str = ""
) -> tuple[float, float]:
    """Return mean and standard deviation of the cells of a column, computed in float64.

    Raises:
        ValueError: The column is constant, or squares of its deviations are out of the dtype's
            range.
    """
    cells = column[~np.isnan(column)].astype(np.float64)
    # The deviation of equal numbers can be a rounding error.
    if not len(cells) or cells.min() == cells.max():
        raise ValueError(f"{name} does not vary: leave it out{remedy}")
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        mean, sd = float(cells.mean()), float(cells.std())
    least, most = reach(dtype)
    if not least <= sd <= most:
        size = "small" if sd < least else "large"
        raise ValueError(
            f"{name} has numbers from {cells.min():g} to {cells.max():g}, whose squares are too "
            f"{size} for {jnp.dtype(dtype)}: rescale it"
        )
    return mean, sd


def _posterior(prior: _Prior, rows: ColumnMoments) -> _Prior:
    """Return the prior given the rows of each cluster, leaves [K, p]; its mean is relative."""
    n = rows.number.astype(prior.mean.dtype)
    # Sums of clusters without rows can have rounding errors.
    total, square = (jnp.where(n > 0, leaf, 0) for leaf in (rows.total, rows.square))
    strength = prior.strength + n
    shift = total / strength
    scale = prior.scale + jnp.maximum(square - total * shift, 0)
    return _Prior(shift, scale, strength, prior.freedom + n)


def _draw(prior: _Prior, key: jax.Array, statistics: ColumnMoments) -> DiagonalNormals:
    after = _posterior(prior, statistics)
    key_scale, key_mean = jax.random.split(by_native_code(key))
    log_gamma = draws.loggamma(key_scale, after.freedom / 2)
    sd = jnp.exp(0.5 * (jnp.log(after.scale) - math.log(2) - log_gamma))
    z = jax.random.normal(key_mean, sd.shape, sd.dtype)
    return DiagonalNormals(prior.mean + (after.mean + z * sd / jnp.sqrt(after.strength)), sd)


def _simulate(key: jax.Array, atoms: DiagonalNormals, lengths: Any) -> jax.Array:
    return atoms.mean + atoms.sd * jax.random.normal(key, atoms.sd.shape, atoms.sd.dtype)


def _profile(
    prior: _Prior, statistics: ColumnMoments, atoms: DiagonalNormals
) -> tuple[DiagonalNormals, DiagonalNormals]:
    """Return means and variances of mean and sd; infinite if they do not exist."""
    after = _posterior(prior, statistics)
    half = jnp.asarray(0.5, after.scale.dtype)
    few = after.freedom <= 2
    variance = jnp.where(few, jnp.inf, after.scale / jnp.where(few, 1, after.freedom - 2))
    # E[s] = sqrt(scale / 2) Gamma((freedom - 1) / 2) / Gamma(freedom / 2).
    least = jnp.maximum(after.freedom - 1, jnp.finfo(half.dtype).tiny) / 2
    sd = jnp.sqrt(after.scale / 2) * jnp.exp(-log_rising(least, half))
    mean = DiagonalNormals(prior.mean + after.mean, jnp.where(after.freedom <= 1, jnp.inf, sd))
    # The difference of near numbers, where freedom is large: by (Gamma(x + 1/2) / Gamma(x))^2 =
    # x - 1/4 + 1 / (32 x) + O(x^-2).
    extra = 1 / (8 * jnp.maximum(after.freedom - 1, 1))
    near = variance * (0.5 + extra) / (after.freedom - 1.5 + extra)
    spread = jnp.where(after.freedom > 50, near, jnp.maximum(variance - sd**2, 0))
    spread = jnp.where(few, jnp.inf, spread)
    return mean, DiagonalNormals(variance / after.strength, spread)


def _deviation(centre: jax.Array, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return rows - centre, 0 in missing cells, and the mask of observed cells."""
    present = ~jnp.isnan(rows)
    return jnp.where(present, rows - centre, 0), present


def _statistics(
    centre: jax.Array, rows: jax.Array, labels: jax.Array, num_clusters: int
) -> ColumnMoments:
    y, present = _deviation(centre, rows)
    p = centre.shape[0]
    sums = by_label.sums(
        lambda y: jnp.concatenate([y, y**2], axis=1), 2 * p, y, labels, num_clusters
    )
    return ColumnMoments(by_label.counts(present, labels, num_clusters), sums[:, :p], sums[:, p:])


def _log_likelihood(centre: jax.Array, rows: jax.Array, atoms: DiagonalNormals) -> jax.Array:
    y, present = _deviation(centre, rows)
    # With few degrees of freedom draws from the prior overflow; their density is 0.
    finite = jnp.isfinite(atoms.mean) & jnp.isfinite(atoms.sd)
    mean = jnp.where(finite, atoms.mean - centre, 0)
    peak = jnp.where(finite, jnp.log(atoms.sd) + 0.5 * math.log(2 * math.pi), jnp.inf)

    # Column by column: a sum over the columns of all atoms at once does not vectorise.
    def add(total, column):
        y, here, mean, inverse, peak = column
        z = (y[:, None] - mean) * inverse
        return total - jnp.where(here[:, None], 0.5 * z**2 + peak, 0), None

    start = jnp.zeros((y.shape[0], peak.shape[0]), peak.dtype)
    each = (y, present, mean, 1 / atoms.sd, peak)
    return lax.scan(add, start, jax.tree.map(jnp.transpose, each))[0]


def _log_predictive(prior: _Prior, rows: jax.Array) -> jax.Array:
    """Return sums of log densities of Student's t, with `freedom` degrees of freedom."""
    y, present = _deviation(prior.mean, rows)
    widen = prior.scale * (prior.strength + 1) / prior.strength
    constant = log_rising(prior.freedom / 2, jnp.asarray(0.5, y.dtype))
    constant -= 0.5 * (math.log(math.pi) + jnp.log(widen))
    log_t = constant - 0.5 * (prior.freedom + 1) * jnp.log1p(y * (y / widen))
    return jnp.sum(jnp.where(present, log_t, 0), axis=1)


def _log_evidence(
    prior: _Prior, statistics: ColumnMoments, given: ColumnMoments | None = None
) -> jax.Array:
    if given is None:
        given = jax.tree.map(jnp.zeros_like, statistics)
    before = _posterior(prior, given)
    n = statistics.number.astype(prior.mean.dtype)
    total, square = (jnp.where(n > 0, x, 0) for x in (statistics.total, statistics.square))
    # The increase of the scale, about the mean expected before.
    off = total - n * before.mean
    about = square - before.mean * (total + off)
    more = jnp.maximum(about - off * (off / (before.strength + n)), 0)
    growth = jnp.log1p(more / before.scale)
    each = log_rising(before.freedom / 2, n / 2) - 0.5 * (before.freedom + n) * growth
    each -= 0.5 * (n * (math.log(math.pi) + jnp.log(before.scale)) + jnp.log1p(n / before.strength))
    return jnp.sum(each, axis=-1)


def _check(centre: jax.Array, rows: ArrayLike) -> None:
    check_numbers(rows, centre.shape[0], centre.dtype)

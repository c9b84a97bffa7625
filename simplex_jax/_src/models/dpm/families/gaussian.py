"""Normal vectors, with a normal-inverse-Wishart prior of mean and covariance."""

import math
from collections.abc import Callable
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
from simplex_jax._src.models.dpm.families.family import (
    Family,
    Missing,
    PartialRows,
    check_numbers,
    first_bad,
)
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
    mu ~ N(mean, Sigma / strength). Rows are floats [n, p], NaN where a cell is missing; whether it
    is must not depend on its value. Atoms are `Normals`, statistics `Moments`.

    Labels and predictions depend on the observed cells alone. An update also draws the missing
    cells given the observed cells of the row and the atom of its cluster, and the next one draws
    atoms and proposes splits given complete rows: this is data augmentation (Tanner and Wong 1987),
    which is exact, and mixes slowly where most cells are missing. `statistics` and `log_evidence`
    are those of complete rows.

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
        missing=Missing(bind(_mark), bind(_draw_missing)),
        simulate=bind(_simulate),
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
    scales (`one_of`). The scale is chosen from the data, and so are strength and freedom where they
    are None. Missing cells are NaN.

    Raises:
        ValueError: A cell is infinite, a column is constant or squares of its numbers overflow or
            underflow, or the covariance is singular: a column is a linear function of others. Or
            `strength` is not positive, or `freedom` not above p - 1.

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
    check_numbers(values, values.shape[1], jnp.result_type(float))
    values = values[~np.isnan(values).all(axis=1)]
    remedy = "give mean and scale to families.gaussian"
    check_covariance(values, "rows", remedy, jnp.result_type(float))
    prior = prior_of(values, strength, freedom)
    return of_scales(jnp.asarray(np.nanmean(values, axis=0), float), *prior)


def of_scales(mean: ArrayLike, scale: Any, strength: ArrayLike, freedom: Any) -> Family:
    """Return `gaussian` for a scale [p, p], or `one_of` those with scales [S, p, p]."""
    scales = np.asarray(scale, float)
    if scales.ndim != 3:
        return gaussian(mean, jnp.asarray(scales, float), strength, freedom)
    return one_of([gaussian(mean, jnp.asarray(each, float), strength, freedom) for each in scales])


def check_covariance(values: np.ndarray, name: str, remedy: str, dtype: DTypeLike) -> None:
    """Raise a ValueError unless float64 rows [n, p] have a covariance that a dtype can represent.

    Where cells are missing, NaN, it is that of the complete rows.
    With at most as many rows as columns it is singular by their number. That is no harm: rounding
    errors of a cluster's scale grow with its rows, and the prior from the data is not singular.
    """
    for j, column in enumerate(values.T):
        moments_of(column, f"column {j} of {name}", dtype, f", or {remedy}")
    values = values[~np.isnan(values).any(axis=1)]
    if len(values) <= values.shape[1]:
        return
    # Columns that vary in other rows only say nothing here.
    values = values[:, np.ptp(values, axis=0) > 0]
    n, p = values.shape
    if p < 2:
        return
    # A ridge does not help: the scale of a cluster, and its rounding error, grow with its rows.
    correlation = np.corrcoef(values.T)
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
    # With few degrees of freedom the root has zeros, and inf - inf is not a number. If C has a NaN
    # it is an error, and stays one.
    off = jnp.where(jnp.isnan(off) & ~jnp.isnan(c).any(axis=(1, 2))[:, None], jnp.inf, off)
    log_det = jnp.sum(log_diagonal - jnp.log(jnp.diagonal(c, axis1=-2, axis2=-1)), axis=-1)
    mean = prior.mean + (after.mean + off / jnp.sqrt(after.strength)[:, None])
    return Normals(mean, root, log_det)


def _simulate(key: jax.Array, atoms: Normals, lengths: Any) -> jax.Array:
    noise = np.asarray(jax.random.normal(key, atoms.mean.shape), np.float64)
    root = np.array(atoms.root, np.float64)
    diagonal = np.einsum("...ii->...i", root)
    limits = jnp.finfo(atoms.mean.dtype)
    np.maximum(diagonal, limits.tiny, out=diagonal)  # 0 with few degrees of freedom, see `_draw`
    off = np.linalg.solve(root, noise[..., None])[..., 0]
    return atoms.mean + jnp.asarray(off.clip(limits.min, limits.max), atoms.mean.dtype)


def _statistics(
    centre: jax.Array, rows: jax.Array, labels: jax.Array, num_clusters: int
) -> Moments:
    y, present = _deviation(centre, rows)
    # The sums of rows are those of products with 1.
    sums = by_label.products(jnp.pad(y, ((0, 0), (0, 1)), constant_values=1), labels, num_clusters)
    number = by_label.counts(present, labels, num_clusters)
    return Moments(number, sums[:, :-1, -1], sums[:, :-1, :-1])


def _deviation(centre: jax.Array, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return rows - centre, 0 in rows without observations, and the mask of the other rows."""
    present = ~jnp.isnan(rows).all(axis=1)
    return jnp.where(present[:, None], rows - centre, 0), present


def _mark(rows: Any) -> Any:
    """Return the table of rows as `PartialRows` if rows lack some of their cells."""
    if isinstance(rows, PartialRows):
        return rows
    values = np.asarray(rows)

    def partial(block: np.ndarray) -> np.ndarray:
        gone = np.isnan(block)
        return gone.any(axis=1) & ~gone.all(axis=1)

    if first_bad(values, partial) is None:
        return rows
    gone = np.isnan(values) & partial(values)[:, None]
    p, most = values.shape[1], int(gone.sum(axis=1).max())
    width = min(1 << (most - 1).bit_length(), p - 1)  # few shapes to compile
    columns = np.argsort(~gone, axis=1, kind="stable")[:, :width]
    missing = np.where(np.take_along_axis(gone, columns, axis=1), columns, p)
    return PartialRows(jnp.asarray(values), jnp.asarray(missing, jnp.int32))


class _Projected(NamedTuple):
    """Rows without the directions of their missing cells; rows are the last axis.

    With y the deviations of a row, 0 in missing cells, and B those columns of the root of the
    precision that belong to the missing cells, B = Q S is a QR decomposition, and
    x -> |root y + B x|^2 has the minimum |rest|^2 at x = -S^-1 along.
    """

    rest: jax.Array  # root y - Q along, [p, b]
    along: jax.Array  # Q' root y, [m, b]
    upper: jax.Array  # S, upper triangular; 0 in rows and columns without a cell, [m, m, b]
    log_det: jax.Array  # of S, [b]


def _project(columns: jax.Array, rest: jax.Array, most: jax.Array) -> _Projected:
    """Decompose columns [p, m, b], of which the first `most` may differ from 0, and project rest.

    By the modified Gram-Schmidt process, which is backward stable for the rest (Bjorck 1967).
    """
    _, m, b = columns.shape
    none = jnp.zeros((m, b), rest.dtype)
    start = _Projected(rest, none, jnp.zeros((m, m, b), rest.dtype), none[0])

    def step(t: jax.Array, carry: tuple[jax.Array, _Projected]) -> tuple[jax.Array, _Projected]:
        columns, now = carry
        column = lax.dynamic_index_in_dim(columns, t, 1, keepdims=False)
        length = jnp.sqrt(jnp.sum(column**2, axis=0))
        unit = column / jnp.where(length > 0, length, 1)
        row = jnp.where(jnp.arange(m)[:, None] >= t, jnp.sum(unit[:, None] * columns, axis=0), 0)
        along = jnp.sum(unit * now.rest, axis=0)
        return columns - unit[:, None] * row, _Projected(
            now.rest - unit * along,
            lax.dynamic_update_index_in_dim(now.along, along, t, 0),
            lax.dynamic_update_index_in_dim(now.upper, row, t, 0),
            now.log_det + jnp.log(jnp.where(length > 0, length, 1)),
        )

    return lax.fori_loop(0, most, step, (columns, start))[1]


class _Block(NamedTuple):
    """Some of the rows that lack cells."""

    ids: jax.Array  # int32 [b]; n where there is none
    cells: jax.Array  # NaN where missing, [b, p]
    columns: jax.Array  # of the missing cells, filled up with p, int32 [b, m]
    most: jax.Array  # the largest number of missing cells of a row


_AT_ONCE = 2**18  # numbers in memory for a block


def _by_blocks(
    rows: PartialRows, each: int, step: Callable[[_Block, jax.Array], jax.Array], start: jax.Array
) -> jax.Array:
    """Return `step(block, total)` after all rows that lack cells, block by block.

    `each` is how many numbers a step has in memory for a row.
    """
    n, p = rows.cells.shape
    columns = jnp.where(rows.missing < 0, p, rows.missing)
    number = jnp.sum(columns < p, axis=1)
    # Rows with equally many missing cells come together, so that blocks need few steps.
    order = jnp.argsort(-number).astype(jnp.int32)
    size = max(1, min(n, _AT_ONCE // each))
    order = jnp.pad(order, (0, -n % size), constant_values=n)
    count = jnp.sum(number > 0)

    def turn(loop: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        first, total = loop
        ids = lax.dynamic_slice(order, (first,), (size,))
        ids = jnp.where(number.at[ids].get(mode="fill", fill_value=0) > 0, ids, n)
        own = columns.at[ids].get(mode="fill", fill_value=p)
        cells = rows.cells.at[ids].get(mode="fill", fill_value=jnp.nan)
        most = jnp.max(jnp.sum(own < p, axis=1))
        return first + size, step(_Block(ids, cells, own, most), total)

    return lax.while_loop(lambda loop: loop[0] < count, turn, (jnp.int32(0), start))[1]


def _deviations(cells: jax.Array, mean: jax.Array) -> jax.Array:
    """Return cells less the mean, 0 where missing."""
    return jnp.where(jnp.isnan(cells), 0, cells - mean)


def _observed(rows: PartialRows, means: jax.Array, roots: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return squares and log_lost of rows [n, K], which determine the density of observed cells.

    It is |root| exp(-square / 2 - log_lost) for the normal distribution with a mean and a root of
    its precision, without powers of 2 pi.
    """
    p, m = rows.cells.shape[1], rows.missing.shape[1]

    def of_all(pair: tuple[jax.Array, jax.Array]) -> jax.Array:
        y = _deviations(rows.cells, pair[0])
        return jnp.sum(jnp.matmul(y, pair[1].T, precision="highest") ** 2, axis=1)

    squares = lax.map(of_all, (means, roots))

    def step(block: _Block, both: jax.Array) -> jax.Array:
        places = jnp.minimum(block.columns, p - 1).T
        real = (block.columns < p).T

        def of_one(pair: tuple[jax.Array, jax.Array]) -> jax.Array:
            mean, root = pair
            rest = jnp.matmul(root, _deviations(block.cells, mean).T, precision="highest")
            found = _project(jnp.where(real, root[:, places], 0), rest, block.most)
            return jnp.stack([jnp.sum(found.rest**2, axis=0), found.log_det])

        each = lax.map(of_one, (means, roots))
        return both.at[:, :, block.ids].set(each, mode="drop")

    start = jnp.stack([squares, jnp.zeros_like(squares)], axis=1)  # [K, 2, n]
    both = _by_blocks(rows, p * m, step, start)
    return both[:, 0].T, both[:, 1].T


def _draw_missing(keys: jax.Array, rows: Any, atoms: Normals, labels: jax.Array) -> jax.Array:
    """Draw the missing cells of rows: normal, with mean -S^-1 along and precision S' S."""
    if not isinstance(rows, PartialRows):
        return rows
    p, m = rows.cells.shape[1], rows.missing.shape[1]

    def step(block: _Block, cells: jax.Array) -> jax.Array:
        own = labels.at[block.ids].get(mode="clip")
        mean, root = atoms.mean.at[own].get(mode="clip"), atoms.root.at[own].get(mode="clip")
        real, places = block.columns < p, jnp.minimum(block.columns, p - 1)
        rest = jnp.sum(root * _deviations(block.cells, mean)[:, None], axis=2).T
        columns = jnp.take_along_axis(root, places[:, None], axis=2)
        columns = jnp.where(real[:, None], columns, 0).transpose(1, 2, 0)
        found = _project(columns, rest, block.most)
        noise = jax.vmap(lambda key: jax.random.normal(key, (m,), mean.dtype))
        right = noise(keys.at[block.ids].get(mode="clip")).T - found.along

        def back(i: jax.Array, x: jax.Array) -> jax.Array:
            t = block.most - 1 - i
            row = lax.dynamic_index_in_dim(found.upper, t, 0, keepdims=False)
            pivot = lax.dynamic_index_in_dim(row, t, 0, keepdims=False)
            rest = lax.dynamic_index_in_dim(right, t, 0, keepdims=False) - jnp.sum(row * x, axis=0)
            drawn = jnp.where(pivot > 0, rest / jnp.where(pivot > 0, pivot, 1), 0)
            return lax.dynamic_update_index_in_dim(x, drawn, t, 0)

        off = lax.fori_loop(0, block.most, back, jnp.zeros_like(right)).T
        values = jnp.take_along_axis(mean, places, axis=1) + off
        return cells.at[block.ids[:, None], block.columns].set(values, mode="drop")

    return _by_blocks(rows, p * p, step, rows.cells)


def _log_likelihood(centre: jax.Array, rows: Any, atoms: Normals) -> jax.Array:
    if isinstance(rows, PartialRows):
        present = ~jnp.isnan(rows.cells).all(axis=1)
        square, log_lost = _observed(rows, atoms.mean, atoms.root)
        number = jnp.sum(~jnp.isnan(rows.cells), axis=1, keepdims=True)
        log_f = atoms.log_det - log_lost - 0.5 * square - 0.5 * number * math.log(2 * math.pi)
    else:
        y, present = _deviation(centre, rows)

        def of_atom(atom: Normals) -> jax.Array:
            z = jnp.matmul(y - (atom.mean - centre), atom.root.T, precision="highest")
            return atom.log_det - 0.5 * jnp.sum(z**2, axis=1)

        log_f = lax.map(of_atom, atoms).T - 0.5 * centre.shape[0] * math.log(2 * math.pi)
    # With few degrees of freedom draws from the prior overflow; their density is 0.
    log_f = jnp.where(jnp.isfinite(atoms.mean).all(axis=-1), log_f, -jnp.inf)
    return jnp.where(present[:, None], log_f, 0)


def _log_predictive(prior: _Prior, rows: Any) -> jax.Array:
    """Return the log density of Student's t with freedom - p + 1 degrees of freedom."""
    p, dtype = prior.mean.shape[0], prior.mean.dtype
    c = cholesky(prior.scale)
    widen = (prior.strength + 1) / prior.strength
    log_c: Any = jnp.sum(jnp.log(jnp.diagonal(c)))
    number: Any = jnp.asarray(p, dtype)  # of observed cells
    if isinstance(rows, PartialRows):
        present = ~jnp.isnan(rows.cells).all(axis=1)
        number = jnp.sum(~jnp.isnan(rows.cells), axis=1).astype(dtype)
        both = _observed(rows, prior.mean[None], inverse(c)[None])
        square, log_lost = (leaf[:, 0] for leaf in both)
        log_c += log_lost
    else:
        y, present = _deviation(prior.mean, rows)
        square = jnp.sum(solve(c, y.T) ** 2, axis=0)
    degrees = prior.freedom - p + 1
    constant = log_rising(degrees / 2, number / 2)
    constant -= 0.5 * number * (math.log(math.pi) + jnp.log(widen)) + log_c
    log_t = constant - 0.5 * (degrees + number) * jnp.log1p(square / widen)
    return jnp.where(present, log_t, 0)


def _log_evidence(prior: _Prior, statistics: Moments, given: Moments | None = None) -> jax.Array:
    if given is None:  # the same for all
        given = jax.tree.map(lambda leaf: jnp.zeros_like(leaf[:1]), statistics)
    before = _posterior(prior, given)
    p = prior.mean.shape[0]
    n = statistics.number.astype(prior.mean.dtype)
    root = cholesky(before.scale)
    log_before = 2 * jnp.sum(jnp.log(jnp.diagonal(root, axis1=-2, axis2=-1)), axis=-1)
    # Degrees of freedom multiply this: a difference of log determinants would not be exact enough.
    growth = _log_det_beyond_one(_increase(before, root, statistics))
    degrees = (before.freedom[:, None] - jnp.arange(p, dtype=n.dtype)) / 2
    log_gammas = jnp.sum(log_rising(degrees, n[:, None] / 2), axis=-1)
    log_dets = 0.5 * (n * log_before + (before.freedom + n) * growth)
    return (
        log_gammas - log_dets - 0.5 * p * (n * math.log(math.pi) + jnp.log1p(n / before.strength))
    )


@full_precision
def _increase(before: _Prior, root: jax.Array, rows: Moments) -> jax.Array:
    """Return C^-1 D C^-T, [K, p, p], for the increase D of the scale C C' by the rows."""
    n = rows.number.astype(before.mean.dtype)
    # Sums of clusters without rows can have rounding errors.
    total = jnp.where(n[:, None] > 0, rows.total, 0)
    square = jnp.where(n[:, None, None] > 0, rows.square, 0)

    def outer(a: jax.Array, b: jax.Array) -> jax.Array:
        return a[:, :, None] * b[:, None, :]

    # About the mean expected before.
    off = total - n[:, None] * before.mean
    about = square - outer(before.mean, total) - outer(off, before.mean)
    more = about - outer(off, off / (before.strength + n)[:, None])
    unit = inverse(root)
    return unit @ more @ jnp.swapaxes(unit, -1, -2)


def _log_det_beyond_one(matrices: jax.Array) -> jax.Array:
    """Return log |1 + a| of positive semidefinite matrices a [..., p, p], also for small ones.

    By Cholesky's decomposition with pivots less 1; NaN where 1 + a is not positive definite.
    """
    p = matrices.shape[-1]
    place = jnp.arange(p)

    def one(j: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        upper, log_det = now
        row = lax.dynamic_index_in_dim(matrices, j, -2, keepdims=False)
        column = lax.dynamic_index_in_dim(upper, j, -1)
        rest = row - jnp.sum(column * upper, axis=-2)
        pivot = lax.dynamic_index_in_dim(rest, j, -1)
        pivot = jnp.where(pivot > -1, pivot, jnp.nan)
        new = jnp.where(place > j, rest / jnp.sqrt(1 + pivot), 0)
        upper = lax.dynamic_update_index_in_dim(upper, new, j, -2)
        return upper, log_det + jnp.log1p(pivot[..., 0])

    none = jnp.zeros(matrices.shape[:-2], matrices.dtype)
    return lax.fori_loop(0, p, one, (jnp.zeros_like(matrices), none))[1]


def _check(centre: jax.Array, rows: Any) -> None:
    cells = rows.cells if isinstance(rows, PartialRows) else rows
    check_numbers(cells, centre.shape[0], centre.dtype)

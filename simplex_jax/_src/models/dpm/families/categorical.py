"""Independent categorical variables with Dirichlet priors."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from simplex_jax._src import arguments, draws
from simplex_jax._src.base import bind, static
from simplex_jax._src.draws.keys import by_native_code
from simplex_jax._src.geometry.rising import log_dirichlet_evidence
from simplex_jax._src.models.dpm.families.family import (
    Family,
    Simplex,
    as_floats,
    check_table,
    first_bad,
)

Tables = tuple[jax.Array, ...]
"""Values per category: one leaf [..., variables, d] for each number of categories d."""


_MOST = 2**31 - 1  # int32 numbers all categories of a row


class _Layout(NamedTuple):
    """The variables, grouped by their number of categories."""

    categories: tuple[int, ...]  # number of categories of each group, ascending
    columns: tuple[tuple[int, ...], ...]  # columns of the variables of each group

    @property
    def order(self) -> np.ndarray:
        """Column of each variable, group after group."""
        return np.concatenate([np.asarray(group) for group in self.columns])

    @property
    def sizes(self) -> np.ndarray:
        """Number of categories of each variable, group after group."""
        return np.repeat(self.categories, [len(group) for group in self.columns])

    @property
    def offsets(self) -> np.ndarray:
        """First category of each variable, group after group, in a joint numbering of all."""
        return np.cumsum(self.sizes) - self.sizes

    def split(self, flat: jax.Array) -> Tables:
        """Split the values of all categories, [..., sum d], into groups."""
        shapes = [(len(c), d) for c, d in zip(self.columns, self.categories, strict=True)]
        ends = np.cumsum([count * d for count, d in shapes])[:-1]
        parts = jnp.split(flat, ends, axis=-1)
        return tuple(
            part.reshape(*part.shape[:-1], *shape)
            for part, shape in zip(parts, shapes, strict=True)
        )

    def join(self, tables: Tables) -> jax.Array:
        """Join groups to the values of all categories, [..., sum d]."""
        return jnp.concatenate([t.reshape(*t.shape[:-2], -1) for t in tables], axis=-1)


def _layout(categories: Sequence[int]) -> _Layout:
    if np.ndim(categories) != 1:
        raise ValueError(f"categories must be a number for each variable; they are {categories!r}")
    groups: dict[int, list[int]] = {}
    for column, d in enumerate(categories):
        groups.setdefault(arguments.at_least(f"categories[{column}]", d, 1), []).append(column)
    if not groups:
        raise ValueError("categories must name at least one variable")
    if (total := sum(d * len(columns) for d, columns in groups.items())) > _MOST:
        raise ValueError(
            f"categories must be at most {_MOST:,} in total; they are {total:,}: number the values "
            "that occur 0, 1, ..., as OrdinalEncoder does"
        )
    sizes = tuple(sorted(groups))
    return _Layout(sizes, tuple(tuple(groups[d]) for d in sizes))


def categorical(categories: Sequence[int], concentration: ArrayLike = 1.0) -> Family:
    """Return the family of p variables x_j ~ theta_j, theta_j ~ Dirichlet(concentration_j).

    With a Dirichlet process this is the model of Dunson and Xing (2009, JASA 104, section 3), which
    can represent any joint distribution of the variables. Missing values are left out of the
    likelihood: whether a value is missing must not depend on the value itself.

    Rows are integers [n, p], 0..d_j - 1, or floats with these values; -1 or NaN is missing. The
    atoms are log-probabilities, one leaf [K, variables, d] for each number of categories d that
    occurs, in ascending order (`variables` restores the order of the columns), and the statistics
    are int32 counts of the same shapes.

    Args:
        categories: Number of categories of each variable, positive integers.
        concentration: Positive, of each category; a scalar, or [p] by variable.

    Raises:
        ValueError: An argument is out of range or does not fit.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax.dpm import families
        >>> family = families.categorical([2, 3])
        >>> rows = jnp.array([[0, 2], [1, -1]])
        >>> [round(float(x), 3) for x in jnp.exp(family.log_predictive(rows))]
        [0.167, 0.5]
        >>> [n.tolist() for n in family.statistics(rows, jnp.array([0, 0]), 1)]
        [[[[1, 1]]], [[[0, 0, 1]]]]
    """
    layout = _layout(categories)
    (alpha,) = arguments.promote(concentration=concentration)
    arguments.require("concentration", alpha, arguments.positive(alpha), "finite and positive")
    p = len(categories)
    if alpha.shape not in ((), (p,)):
        raise ValueError(f"concentration must be a scalar or [{p}]; it is {alpha.shape}")
    by_variable = jnp.broadcast_to(alpha, (p,))[layout.order]
    total = int(layout.sizes.sum())
    prior = layout.split(jnp.repeat(by_variable, layout.sizes, total_repeat_length=total))
    return Family(
        draw=bind(_draw, prior),
        statistics=bind(static(_statistics, layout=layout)),
        log_likelihood=bind(static(_log_likelihood, layout=layout)),
        log_predictive=bind(static(_log_predictive, layout=layout), prior),
        log_evidence=bind(_log_evidence, prior),
        check=bind(static(_check, layout=layout)),
        simplex=Simplex(prior, bind(as_floats, prior)),
        simulate=bind(static(_simulate, layout=layout)),
    )


def variables(categories: Sequence[int], tables: Tables) -> list[jax.Array]:
    """Return atoms or statistics of `categorical` by variable, [..., d_j], in their order.

    Example:
        >>> import jax.numpy as jnp
        >>> from simplex_jax.dpm import families
        >>> family = families.categorical([3, 2])
        >>> counts = family.statistics(jnp.array([[2, 0]]), jnp.array([0]), 1)
        >>> [n.tolist() for n in variables([3, 2], counts)]
        [[[0, 0, 1]], [[1, 0]]]
    """
    layout = _layout(categories)
    by_column = {
        column: table[..., place, :]
        for table, columns in zip(tables, layout.columns, strict=True)
        for place, column in enumerate(columns)
    }
    return [by_column[column] for column in range(len(by_column))]


def _draw(prior: Tables, key: jax.Array, statistics: Tables) -> Tables:
    keys = jax.random.split(by_native_code(key), len(prior))
    return tuple(
        draws.log_dirichlet(k, a + n) for k, a, n in zip(keys, prior, statistics, strict=True)
    )


def _simulate(key: jax.Array, atoms: Tables, lengths: Any, *, layout: _Layout) -> jax.Array:
    keys = jax.random.split(key, len(atoms))
    drawn = [jax.random.categorical(k, table) for k, table in zip(keys, atoms, strict=True)]
    return jnp.concatenate(drawn, axis=1)[:, np.argsort(layout.order)].astype(jnp.int32)


def _values(rows: jax.Array, layout: _Layout) -> jax.Array:
    """Return the values by variable, group after group, int32 [p, n].

    -1 is missing, and other values out of range stay out of range.
    """
    if jnp.issubdtype(rows.dtype, jnp.floating):
        rows = jnp.where(jnp.isnan(rows), -1, jnp.where(rows == jnp.floor(rows), rows, -2))
    return rows.T[layout.order].astype(jnp.int32)


def _statistics(
    rows: jax.Array, labels: jax.Array, num_clusters: int, *, layout: _Layout
) -> Tables:
    values = _values(rows, layout)
    sizes, offsets = layout.sizes[:, None], layout.offsets[:, None]
    inside = (values >= 0) & (values < sizes) & (labels >= 0)
    place = jnp.where(inside, values + offsets, int(sizes.sum()))
    flat = jnp.zeros((num_clusters, int(sizes.sum())), jnp.int32)
    return layout.split(flat.at[labels, place].add(1, mode="drop"))


def _look_up(values: jax.Array, table: jax.Array, layout: _Layout) -> jax.Array:
    """Return sums over the variables of rows of a table [sum d, K], [n, K]."""

    def add(total, variable):
        value, size, offset = variable
        rows = table.at[offset + value].get(mode="clip")
        missing, present = value == -1, (value >= 0) & (value < size)
        none = jnp.where(missing, 0, jnp.nan).astype(table.dtype)
        return total + jnp.where(present[:, None], rows, none[:, None]), None

    start = jnp.zeros((values.shape[1], table.shape[1]), table.dtype)
    each = (values, jnp.asarray(layout.sizes), jnp.asarray(layout.offsets))
    return lax.scan(add, start, each)[0]


def _log_likelihood(rows: jax.Array, atoms: Tables, *, layout: _Layout) -> jax.Array:
    return _look_up(_values(rows, layout), layout.join(atoms).T, layout)


def _log_predictive(prior: Tables, rows: jax.Array, *, layout: _Layout) -> jax.Array:
    means = tuple(jnp.log(a / jnp.sum(a, axis=-1, keepdims=True)) for a in prior)
    return _look_up(_values(rows, layout), layout.join(means)[:, None], layout)[:, 0]


def _log_evidence(prior: Tables, statistics: Tables, given: Tables | None = None) -> jax.Array:
    weights = prior if given is None else jax.tree.map(jnp.add, prior, given)

    groups = [
        jnp.sum(log_dirichlet_evidence(a, n.astype(a.dtype)), axis=-1)
        for a, n in zip(weights, statistics, strict=True)
    ]
    return jnp.sum(jnp.stack(groups), axis=0)


def _check(rows: jax.Array, *, layout: _Layout) -> None:
    p = len(layout.order)
    values = check_table(rows, p, np.number, "numbers of categories")
    if np.iscomplexobj(values):
        raise ValueError(f"rows must be numbers of categories, not {values.dtype}")
    sizes = np.empty(p, int)
    sizes[layout.order] = layout.sizes

    def bad(block: np.ndarray) -> np.ndarray:
        valid = (block >= -1) & (block < sizes) & (block == np.floor(block))
        return ~np.isnan(block) & ~valid

    if place := first_bad(values, bad):
        row, column = place
        raise ValueError(
            f"rows[{row}, {column}] is {values[row, column]}; variable {column} has categories 0 "
            f"to {sizes[column] - 1}, and -1 or NaN where it is missing"
        )

"""Products of families, for tables with groups of columns of different kinds."""

from collections.abc import Mapping
from functools import reduce
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from simplex_jax._src.base import PyTree, bind
from simplex_jax._src.models.dpm.families.family import Family, Missing, Simplex, component, size

Groups: TypeAlias = dict[str, Any]
"""A value for each group of columns, by name."""


def product(groups: Mapping[str, Family]) -> Family:
    """Return the family of several groups of columns, independent given the component.

    Rows are a dict with equally many rows of each family under its name; atoms and statistics are
    dicts likewise. Likelihood, predictive and evidence are products, without the factors that the
    families omit. The families handle missing cells: a row can lack all cells of a group.

    Atoms are on simplexes if those of all families are.

    Args:
        groups: A family for each name; at least one.

    Raises:
        ValueError: There is no group, or one is not a family.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax.dpm import families
        >>> family = families.product({
        ...     "size": families.diagonal_gaussian(jnp.zeros(1), 1.0),
        ...     "colour": families.categorical([3]),
        ... })
        >>> rows = {"size": jnp.array([[0.0], [jnp.nan]]), "colour": jnp.array([[2], [2]])}
        >>> [round(float(x), 3) for x in family.log_predictive(rows)]  # -0.798 - log 3; - log 3
        [-1.897, -1.099]
        >>> sorted(family.statistics(rows, jnp.array([0, 0]), 1))
        ['colour', 'size']
    """
    members = dict(groups)
    if not members:
        raise ValueError("groups must have at least one family")
    for name, family in members.items():
        if not isinstance(family, Family):
            raise ValueError(f"group {name!r} must be one of dpm.families; it is {family!r}")
    evident = all(family.log_evidence is not None for family in members.values())
    simplexes = {name: family.simplex for name, family in members.items()}
    alpha = {name: simplex.alpha for name, simplex in simplexes.items() if simplex is not None}
    drawn = any(family.missing is not None for family in members.values())
    simulated = all(family.simulate is not None for family in members.values())
    return Family(
        draw=bind(_draw, members),
        statistics=bind(_statistics, members),
        log_likelihood=bind(_log_likelihood, members),
        log_predictive=bind(_log_predictive, members),
        log_evidence=bind(_log_evidence, members) if evident else None,
        check=bind(_check, members),
        simplex=Simplex(alpha, bind(_counts, members)) if len(alpha) == len(members) else None,
        profile=bind(_profile, members),
        missing=Missing(bind(_mark, members), bind(_draw_missing, members)) if drawn else None,
        simulate=bind(_simulate, members) if simulated else None,
    )


def _draw(members: Groups, key: jax.Array, statistics: Groups) -> Groups:
    keys = dict(zip(sorted(members), jax.random.split(key, len(members)), strict=True))
    return {name: member.draw(keys[name], statistics[name]) for name, member in members.items()}


def _statistics(members: Groups, rows: Groups, labels: jax.Array, num_clusters: int) -> Groups:
    return {
        name: member.statistics(rows[name], labels, num_clusters)
        for name, member in members.items()
    }


def _log_likelihood(members: Groups, rows: Groups, atoms: Groups) -> jax.Array:
    each = [member.log_likelihood(rows[name], atoms[name]) for name, member in members.items()]
    return reduce(jnp.add, each)


def _log_predictive(members: Groups, rows: Groups) -> jax.Array:
    return reduce(jnp.add, [member.log_predictive(rows[name]) for name, member in members.items()])


def _log_evidence(members: Groups, statistics: Groups, given: Groups | None = None) -> jax.Array:
    each = [
        member.log_evidence(statistics[name], None if given is None else given[name])
        for name, member in members.items()
    ]
    return reduce(jnp.add, each)


def _profile(members: Groups, statistics: Groups, atoms: Groups) -> tuple[Groups, Groups]:
    both = {name: component(m, statistics[name], atoms[name]) for name, m in members.items()}
    return {name: pair[0] for name, pair in both.items()}, {
        name: pair[1] for name, pair in both.items()
    }


def _mark(members: Groups, rows: Groups) -> Groups:
    return {
        name: rows[name] if member.missing is None else member.missing.mark(rows[name])
        for name, member in members.items()
    }


def _draw_missing(
    members: Groups, keys: jax.Array, rows: Groups, atoms: Groups, labels: jax.Array
) -> Groups:
    complete = {}
    for place, (name, member) in enumerate(sorted(members.items())):
        own = jax.vmap(jax.random.fold_in, (0, None))(keys, place)
        draws = member.missing
        complete[name] = (
            rows[name] if draws is None else draws.draw(own, rows[name], atoms[name], labels)
        )
    return complete


def _simulate(members: Groups, key: jax.Array, atoms: Groups, lengths: Any) -> Groups:
    keys = dict(zip(sorted(members), jax.random.split(key, len(members)), strict=True))
    return {
        name: member.simulate(keys[name], atoms[name], lengths) for name, member in members.items()
    }


def _counts(members: Groups, statistics: Groups) -> Groups:
    return {name: member.simplex.counts(statistics[name]) for name, member in members.items()}


def _check(members: Groups, rows: PyTree) -> None:
    if not isinstance(rows, dict) or set(rows) != set(members):
        have = sorted(rows) if isinstance(rows, dict) else type(rows).__name__
        raise ValueError(f"rows must be a dict with the rows of {sorted(members)}; it has {have}")
    for name, member in members.items():
        try:
            member.check(rows[name])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    size(rows)

"""Components with a mixture of conjugate priors, which is conjugate."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.base import PyTree, as_pytree, bind
from simplex_jax._src.models.dpm.families.family import (
    Atoms,
    Family,
    Rows,
    Statistics,
    component,
    fill_means,
    size,
    take,
)

# Number of rows on which members are compared.
_SOME = 16
_ROUNDING = 64  # units in the last place by which their likelihoods may differ


def one_of(members: Sequence[Family], weights: ArrayLike | None = None) -> Family:
    """Return the family whose components each have the prior of one of several families.

    Use it if the width or concentration of clusters is unknown. A component independently has
    member s with probability `weights[s]`, and an atom from that member's prior. Given its rows,
    the probability of member s is proportional to `weights[s]` times their evidence, so the member
    of each cluster is inferred. Draws, predictive and evidence are exact; each costs one evidence
    per member. Likelihoods, which dominate an update, cost no more.

    Args:
        members: Families that differ only in hyperparameters of their priors, such as the scale of
            `gaussian` or the concentration of `multinomial`; all with a `log_evidence`.
        weights: Positive, [S], normalised to sum to 1; by default all equal.

    Raises:
        ValueError: There is no member, one has no evidence, they are of different kinds, or a
            weight is not positive. The check of rows raises one if the members differ in more than
            their priors, such as the mean of `gaussian`, about which it takes moments.

    Example:
        >>> import jax.numpy as jnp
        >>> from simplex_jax.dpm import families
        >>> scales = (0.01, 1.0)
        >>> family = families.one_of([families.gaussian([0.0], [[s]]) for s in scales])
        >>> tight = family.statistics(jnp.array([[0.1], [0.0], [-0.1]]), jnp.zeros(3, int), 1)
        >>> print(family.log_evidence(tight).round(2))  # 2.02 and -1.66 by one of them
        [1.35]
    """
    members = as_pytree(tuple(members))
    if not members:
        raise ValueError("members must have at least one family")
    for number, member in enumerate(members):
        if not isinstance(member, Family):
            raise ValueError(f"members[{number}] must be one of dpm.families; it is {member!r}")
        if member.log_evidence is None:
            raise ValueError(f"members[{number}] has no log_evidence")
        _check_alike(members[0], member, number)
    if weights is None:
        weights = jnp.ones(len(members))
    (weights,) = arguments.promote(weights=weights)
    if weights.shape != (len(members),):
        raise ValueError(f"weights must have shape [{len(members)}]; it is {weights.shape}")
    arguments.require("weights", weights, arguments.positive(weights), "finite and positive")
    log_weights = jnp.log(weights) - jnp.log(jnp.sum(weights))
    several = jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)
    first = members[0]
    return Family(
        draw=bind(_draw, several, log_weights),
        statistics=first.statistics,
        log_likelihood=first.log_likelihood,
        log_predictive=bind(_log_predictive, several, log_weights),
        log_evidence=bind(_log_evidence, several, log_weights),
        check=bind(_check, first, several),
        profile=bind(_profile, several, log_weights),
        missing=first.missing,
        simulate=first.simulate,
    )


def _check_alike(first: Family, member: Family, number: int) -> None:
    """Raise a ValueError unless families have the same functions but for hyperparameters."""
    (leaves, structure), (others, other) = map(jax.tree.flatten, (first, member))
    shapes = [[(jnp.shape(x), jnp.result_type(x)) for x in each] for each in (leaves, others)]
    if str(structure) != str(other) or shapes[0] != shapes[1]:
        raise ValueError(f"members[{number}] is not of the kind and size of members[0]")


def _check(first: Family, several: Family, rows: Rows) -> None:
    """Check rows, and by some of them that the members differ in their priors alone."""
    first.check(rows)
    # From all over: rows without observations, which may come together, tell nothing.
    some = take(rows, jnp.linspace(0, size(rows) - 1, _SOME).astype(jnp.int32))
    if first.missing is not None:
        some = fill_means(first.missing.mark(some))
    for name, same in zip(("statistics", "log_likelihood"), _alike(several, some), strict=True):
        if not same:
            raise ValueError(f"members differ in more than their priors: in {name}")


@jax.jit
def _alike(several: Family, rows: Rows) -> tuple[jax.Array, jax.Array]:
    """Return whether the members have the same statistics of rows, and the same likelihoods."""
    labels = jnp.zeros(size(rows), jnp.int32)
    statistics = jax.vmap(lambda member: member.statistics(rows, labels, 1))(several)
    own = jax.tree.map(lambda leaf: leaf[0], (several, statistics))
    atoms = own[0].draw(jax.random.key(0), own[1])
    log_f = jax.vmap(lambda member: member.log_likelihood(rows, atoms))(several)

    def constant(leaf: jax.Array, slack: ArrayLike = 0) -> jax.Array:
        return jnp.all((leaf == leaf[0]) | (jnp.abs(leaf - leaf[0]) <= slack) | jnp.isnan(leaf))

    each = [constant(leaf) for leaf in jax.tree.leaves(statistics)]
    # Likelihoods of `poisson` are relative to the prior mean, a quotient that is rounded.
    largest = jnp.max(jnp.where(jnp.isfinite(log_f), jnp.abs(log_f), 0))
    slack = _ROUNDING * jnp.finfo(log_f.dtype).eps * jnp.maximum(largest, 1)
    return jnp.all(jnp.array(each)), constant(log_f, slack)


def _evidences(several: Family, log_weights: jax.Array, statistics: Statistics) -> jax.Array:
    """Return the log of prior probability and evidence of each member, [K, S]."""
    each = jax.vmap(lambda member: member.log_evidence(statistics), out_axes=1)(several)
    return log_weights + each


def _draw(several: Family, log_weights: jax.Array, key: jax.Array, statistics: Statistics) -> Atoms:
    """Draw the member of each component, and its atom by that one."""
    key_member, key_atoms = jax.random.split(key)
    logits = _evidences(several, log_weights, statistics)
    chosen = jax.random.categorical(key_member, logits, axis=1)
    own = jax.tree.map(lambda leaf: leaf[chosen], several)

    def one(member: Family, key: jax.Array, statistics: Statistics) -> Atoms:
        atoms = member.draw(key, jax.tree.map(lambda leaf: leaf[None], statistics))
        return jax.tree.map(lambda leaf: leaf[0], atoms)

    return jax.vmap(one)(own, jax.random.split(key_atoms, chosen.shape[0]), statistics)


def _log_predictive(several: Family, log_weights: jax.Array, rows: Rows) -> jax.Array:
    each = jax.vmap(lambda member: member.log_predictive(rows), out_axes=1)(several)
    return jax.nn.logsumexp(log_weights + each, axis=1)


def _log_evidence(
    several: Family, log_weights: jax.Array, statistics: Statistics, given: Statistics | None = None
) -> jax.Array:
    if given is None:
        return jax.nn.logsumexp(_evidences(several, log_weights, statistics), axis=1)
    # The members given the other rows, and the rows by each: a difference of two evidences of all
    # rows would lose digits.
    before = jax.nn.log_softmax(_evidences(several, log_weights, given), axis=1)
    each = jax.vmap(lambda member: member.log_evidence(statistics, given), out_axes=1)(several)
    return jax.nn.logsumexp(before + each, axis=1)


def _profile(
    several: Family, log_weights: jax.Array, statistics: Statistics, atoms: Atoms
) -> tuple[PyTree, PyTree]:
    """Return mean and variance by the law of total variance over the members."""
    shares = jax.nn.softmax(_evidences(several, log_weights, statistics), axis=1)
    means, variances = jax.vmap(lambda member: component(member, statistics, atoms))(several)

    def average(leaf: jax.Array) -> jax.Array:
        return jnp.sum(shares.T.reshape(*shares.T.shape, *[1] * (leaf.ndim - 2)) * leaf, axis=0)

    mean = jax.tree.map(average, means)
    between = jax.tree.map(lambda each, centre: average((each - centre) ** 2), means, mean)
    return mean, jax.tree.map(jnp.add, jax.tree.map(average, variances), between)

"""The state of a Dirichlet-process mixture, and what the parts of its kernel share."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax.base import PyTree
from simplex_jax.models.dp_families import Family
from simplex_jax.schedules import StepSize

BLOCK = 16
"""Sticks that are drawn with one key: capacities are multiples of it."""


class Mixture(NamedTuple):
    """The sticks that a state holds: clusters in use, and draws from the prior.

    Attributes:
        log_weights: Log of the weight of every stick, [C].
        log_rest: Log of the weight of all sticks beyond these.
        atoms: The parameters of every stick's component, leaves [C, ...].
    """

    log_weights: jax.Array
    log_rest: jax.Array
    atoms: PyTree


class Totals(NamedTuple):
    """Running sums of sufficient statistics.

    Attributes:
        values: The sums, leaves [C, ...].
        lost: What rounding took from those that are floats, of the same shapes.
    """

    values: PyTree
    lost: PyTree


class State(NamedTuple):
    """State of the mixture, of capacity C, for N rows.

    Attributes:
        position: Weights and atoms.
        step: Number of updates done, int32.
        labels: Stick of every row, int32 [N].
        occupancy: Rows of every stick, int32 [C].
        sticks: Logs of v_j and 1 - v_j, [C, 2].
        alpha: Concentration of the process, a scalar.
        totals: Statistics of the rows of every stick; None with subsampled counts.
        needed: Sticks that the last update asked for, int32. Above C it was not done, and no other
            is until the state has grown.
    """

    position: Mixture
    step: jax.Array
    labels: jax.Array
    occupancy: jax.Array
    sticks: jax.Array
    alpha: jax.Array
    totals: Totals | None
    needed: jax.Array


class Info(NamedTuple):
    """What an update tells, scalars; zeros where it was not done.

    Attributes:
        occupied: Number of clusters with rows after it, int32.
        moved: Share of the rows of the batch that changed their cluster.
        swapped: Share of the label moves that were accepted.
        split_merged: Share of the split-merge moves that were accepted.
    """

    occupied: jax.Array
    moved: jax.Array
    swapped: jax.Array
    split_merged: jax.Array


class Gamma(NamedTuple):
    """A Gamma prior of the concentration.

    Attributes:
        shape: Its shape, positive.
        rate: Its rate, positive; the mean is shape / rate.
    """

    shape: float | jax.Array
    rate: float | jax.Array


class Model(NamedTuple):
    """What an update needs besides the state; a pytree.

    Attributes:
        rows: The data.
        family: The law of the components.
        prior: Of the concentration; None where it is known.
        atom_step_size: Step size of the sampler of the atoms.
        stick_step_size: Step size of the sampler of the sticks.
        decay: Ratio of neighbouring bounds of the "independent" variant.
    """

    rows: PyTree
    family: Family
    prior: Gamma | None
    atom_step_size: StepSize
    stick_step_size: StepSize
    decay: float | jax.Array


class Options(NamedTuple):
    """What decides the shape of an update; see `dp_mixture.build`.

    `refresh` is the number of updates after which sums of floats are made anew, 0 for never.
    """

    sampler: str
    counts: str
    variant: str
    alpha_update: str
    label_moves: bool
    split_merge: int
    refresh: int = 0


def capacity(state: State) -> int:
    """Return the number of sticks that a state, or one of several chains, has room for."""
    return state.occupancy.shape[-1]


def last_occupied(occupancy: jax.Array) -> jax.Array:
    """Return the number of sticks up to the last one with rows, int32."""
    number = jnp.arange(1, occupancy.shape[0] + 1, dtype=jnp.int32)
    return jnp.max(jnp.where(occupancy > 0, number, 0))


def later(counts: jax.Array) -> jax.Array:
    """Return the sums of the counts of all later sticks, [C]."""
    return jnp.cumsum(counts[::-1])[::-1] - counts


def mixture(sticks: jax.Array, atoms: PyTree) -> Mixture:
    """Return the position that sticks [C, 2] and atoms make."""
    log_v, log_left = sticks[:, 0], jnp.cumsum(sticks[:, 1])
    before = jnp.concatenate([jnp.zeros(1, log_left.dtype), log_left[:-1]])
    return Mixture(log_v + before, log_left[-1], atoms)


def by_blocks(draw: Callable, key: jax.Array, *trees: PyTree) -> PyTree:
    """Return `draw(key, *trees)` of all sticks, made in blocks of sticks with a key each.

    What is drawn for a stick then does not depend on how many there are: a state that has grown
    goes on as if it had been larger from the start.

    Args:
        draw: `(key, *trees) -> tree`, of leaves [BLOCK, ...].
        key: A PRNG key.
        trees: Leaves [C, ...].
    """
    blocks = jax.tree.map(lambda leaf: leaf.reshape(-1, BLOCK, *leaf.shape[1:]), trees)
    count = jax.tree.leaves(blocks)[0].shape[0]
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(count))
    drawn = lax.map(lambda block: draw(block[0], *block[1]), (keys, blocks))
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), drawn)


def where(condition: jax.Array, yes: PyTree, no: PyTree) -> PyTree:
    """Choose between two trees stick by stick: condition [C], leaves [C, ...]."""
    return jax.tree.map(
        lambda a, b: jnp.where(condition.reshape((-1,) + (1,) * (a.ndim - 1)), a, b), yes, no
    )

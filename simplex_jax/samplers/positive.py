"""What the kernels of positive numbers share: a state of logarithms, and the evidence of data."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax.base import Position, PyTree
from simplex_jax.draws import arguments
from simplex_jax.estimators import Estimator
from simplex_jax.geometry import simplex


class State(NamedTuple):
    """State of a kernel of positive numbers.

    Attributes:
        position: log theta, any tree of arrays.
        step: Number of updates done, int32.
        memory: What the estimator remembers.
    """

    position: Position
    step: jax.Array
    memory: PyTree


class Evidence(NamedTuple):
    """What data say of theta with a gamma prior: a likelihood theta^counts exp(-exposure theta).

    Of events counted at a rate theta: how many there were, and in how long a time. Of waiting times
    with rate theta: their number and sum. Of a normal sample of precision theta: half its size, and
    half the sum of squares. Negative values are taken as 0.

    Attributes:
        counts: Added to the shape, a tree that broadcasts to the position.
        exposure: Added to the rate, likewise.
    """

    counts: PyTree
    exposure: PyTree


class LogEvidence(NamedTuple):
    r"""What data say of theta with a lognormal prior: a normal likelihood of log theta.

    Of observations :math:`\log x_i \sim N(\log\theta, 1 / \tau_i)`: the sums of :math:`\tau_i \log
    x_i` and of :math:`\tau_i`.

    Attributes:
        weighted: Sum of the observations of log theta times their precisions, a tree that
            broadcasts to the position.
        precision: Sum of the precisions, likewise. Negative values are taken as 0.
    """

    weighted: PyTree
    precision: PyTree


def init(key: jax.Array, position: Position, *, estimator: Estimator) -> State:
    """Start from positive numbers theta, a tree of arrays of any shapes.

    Raises:
        ValueError: The position has no leaf, or an entry that is not finite and positive.
    """
    theta = arguments.tree("position", position)
    if not jax.tree.leaves(theta):
        raise ValueError("position must have at least one leaf")
    return State(
        position=jax.tree.map(jnp.log, theta),
        step=jnp.zeros((), jnp.int32),
        memory=estimator.init(key),
    )


def fitted(
    estimate: PyTree, kind: type[Evidence] | type[LogEvidence], position: Position
) -> list[list[jax.Array]]:
    """Return the leaves of both parts of an estimate, in the dtypes of the position.

    Raises:
        ValueError: The estimate is not of that kind, or does not fit the position.
    """
    if not isinstance(estimate, kind):
        raise ValueError(
            f"the estimator must return samplers.positive.{kind.__name__}; it returned "
            f"{type(estimate).__name__}"
        )
    parts = zip(estimate._fields, estimate, strict=True)
    return [simplex.like(f"the estimated {name}", part, position) for name, part in parts]

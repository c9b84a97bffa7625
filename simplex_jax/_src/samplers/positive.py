"""Shared code of kernels on positive numbers: a state of logarithms, and the evidence of data."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src import arguments
from simplex_jax._src.base import Batch, Position, PyTree
from simplex_jax._src.draws.keys import to_jax_key
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.geometry import simplex
from simplex_jax._src.samplers import expanded
from simplex_jax._src.samplers.euler import State


class Evidence(NamedTuple):
    """Evidence of data on theta with a gamma prior: a likelihood theta^counts exp(-exposure theta).

    For events with rate theta: their number and the length of time. For waiting times with rate
    theta: their number and sum. For a normal sample with precision theta: half its size and half
    its sum of squares. Negative values are set to 0.

    Attributes:
        counts: Added to the shape; a tree that broadcasts to the position.
        exposure: Added to the rate, likewise.
    """

    counts: PyTree
    exposure: PyTree


class LogEvidence(NamedTuple):
    r"""Evidence of data on theta with a lognormal prior: a normal likelihood of log theta.

    For observations :math:`\log x_i \sim N(\log\theta, 1 / \tau_i)`: the sums of :math:`\tau_i \log
    x_i` and of :math:`\tau_i`.

    Attributes:
        weighted: Sum of the observations of log theta times their precisions, a tree that
            broadcasts to the position.
        precision: Sum of the precisions, likewise. Negative values are set to 0.
    """

    weighted: PyTree
    precision: PyTree


def init(
    key: jax.Array,
    position: Position,
    *,
    estimator: Estimator,
    parameters: Mapping[str, PyTree] | None = None,
) -> State:
    """Start from positive numbers theta, a tree of arrays of any shapes.

    `parameters`, by name, are only checked against the position.

    Raises:
        ValueError: The position has no leaves or an entry that is not finite and positive, or a
            parameter does not broadcast to it.
    """
    theta = arguments.tree("position", position)
    if not jax.tree.leaves(theta):
        raise ValueError("position must have at least one leaf")
    for name, tree in (parameters or {}).items():
        simplex.like(name, tree, theta)
    return State(
        position=jax.tree.map(jnp.log, theta),
        step=jnp.zeros((), jnp.int32),
        memory=estimator.init(key),
    )


def move(
    key: jax.Array,
    state: State,
    batch: Batch,
    estimator: Estimator,
    kind: type[Evidence] | type[LogEvidence],
    parameters: dict[str, PyTree],
    transition: Callable[..., tuple[jax.Array, ...]],
) -> tuple[State, list[jax.Array], list[list[jax.Array]]]:
    """Estimate the evidence, and move each leaf by `transition(key, log_theta, *inputs)`.

    The inputs are the leaves of the parameters, which broadcast to the position, and of the
    evidence. A transition returns log theta' and other numbers. Returned are the new state, the
    means of those numbers, and the evidence.
    """
    key_estimate, key_move = jax.random.split(key)
    estimate, memory = estimator.estimate(
        to_jax_key(key_estimate), state.memory, state.position, batch
    )
    if not isinstance(estimate, kind):
        public = "cir.Evidence" if kind is Evidence else "gbm.LogEvidence"
        raise ValueError(
            f"the estimator must return samplers.{public}; it returned {type(estimate).__name__}"
        )
    fitted = [simplex.like(name, tree, state.position) for name, tree in parameters.items()]
    evidence = [
        simplex.like(f"the estimated {name}", part, state.position)
        for name, part in estimate._asdict().items()
    ]
    leaves, structure = jax.tree.flatten(state.position)
    keys = jax.random.split(key_move, len(leaves))
    moves = [transition(*inputs) for inputs in zip(keys, leaves, *fitted, *evidence, strict=True)]
    log_thetas, *numbers = zip(*moves, strict=True)
    state = State(jax.tree.unflatten(structure, log_thetas), state.step + 1, memory)
    return state, [expanded.mean(number) for number in numbers], evidence

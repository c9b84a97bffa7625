"""SCIR, the stochastic Cox-Ingersoll-Ross process (Baker, Fearnhead, Fox and Nemeth 2018)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.nn import logsumexp

from simplex_jax import draws, schedules
from simplex_jax.base import Batch, Kernel, Position, PyTree, bind, static
from simplex_jax.estimators import Estimator
from simplex_jax.geometry import simplex
from simplex_jax.samplers import total as totals
from simplex_jax.schedules import StepSize


class State(NamedTuple):
    """State of SCIR.

    Attributes:
        position: Log-probabilities log omega, leaves [..., K], normalised along the last axis.
        step: Number of updates done, int32.
        memory: What the estimator remembers.
        log_total: Log of the sum of theta, leaves [..., 1]; +inf until the first update draws it;
            None if the total is refreshed. theta itself is `exp(position + log_total)`.
    """

    position: Position
    step: jax.Array
    memory: PyTree
    log_total: PyTree


class Info(NamedTuple):
    """What an update of SCIR tells, all scalars.

    Attributes:
        step_size: The step size used.
        concentration: Sum of the estimated concentrations of a row, mean over rows.
        clamped: Fraction of estimated counts that were negative and taken as 0.
        smallest: Smallest log-probability.
    """

    step_size: jax.Array
    concentration: jax.Array
    clamped: jax.Array
    smallest: jax.Array


def init(
    key: jax.Array, position: Position, *, estimator: Estimator, total: str = "carried"
) -> State:
    """Start from probability vectors, leaves [..., K]; nonnegative weights are normalised.

    A carried total starts from its stationary law given the first batch, Gamma(sum a_hat, 1); to
    start from a theta of your own, replace `log_total`.

    Raises:
        ValueError: The position has a negative, NaN or infinite entry or an all-zero row.
    """
    log_omega = simplex.log_position(position)
    return State(
        position=log_omega,
        step=jnp.zeros((), jnp.int32),
        memory=estimator.init(key),
        log_total=totals.initial(log_omega, total),
    )


def update(
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    estimator: Estimator,
    alpha: PyTree,
    step_size: StepSize,
) -> tuple[State, Info]:
    """Estimate the counts from the batch and move every coordinate by its CIR transition."""
    key_estimate, key_total, key_move = jax.random.split(key, 3)
    h = schedules.at(step_size, state.step)
    estimate, memory = estimator.estimate(key_estimate, state.memory, state.position, batch)

    leaves, structure = jax.tree.flatten(state.position)
    counts = simplex.like("the estimated counts", estimate, state.position)
    priors = simplex.like("alpha", alpha, state.position)
    carried = [None] * len(leaves) if state.log_total is None else jax.tree.leaves(state.log_total)
    position, log_total, concentrations, negative = [], [], [], []
    for leaf, n_hat, prior, log_sum, key_leaf_total, key_leaf_move in zip(
        leaves,
        counts,
        priors,
        carried,
        jax.random.split(key_total, len(leaves)),
        jax.random.split(key_move, len(leaves)),
        strict=True,
    ):
        a_hat = jnp.broadcast_to(prior + jnp.maximum(n_hat, 0), leaf.shape)
        log_theta = leaf + totals.current(key_leaf_total, log_sum, a_hat)
        log_theta = draws.cir(key_leaf_move, log_theta, a_hat, h.astype(leaf.dtype))
        log_total.append(logsumexp(log_theta, axis=-1, keepdims=True))
        position.append(simplex.normalise(log_theta))
        concentrations.append(a_hat.sum(axis=-1).ravel())
        negative.append((n_hat < 0).ravel())

    info = Info(
        step_size=h,
        concentration=jnp.concatenate(concentrations).mean(),
        clamped=jnp.concatenate(negative).mean(),
        smallest=jnp.stack([leaf.min() for leaf in position]).min(),
    )
    state = State(
        position=jax.tree.unflatten(structure, position),
        step=state.step + 1,
        memory=memory,
        log_total=None if state.log_total is None else jax.tree.unflatten(structure, log_total),
    )
    return state, info


def build(
    estimator: Estimator, alpha: PyTree, step_size: StepSize, *, total: str = "carried"
) -> Kernel:
    r"""SCIR: the posterior of a Dirichlet by exact transitions of independent CIR processes.

    For every coordinate j, with counts :math:`\hat n` estimated from the batch,

    .. math::
        \hat a_j = \alpha_j + \hat n_j, \qquad
        \theta_j' \mid \theta_j \sim \frac{1 - e^{-h}}{2}\,
            \chi^2\Big(2 \hat a_j,\; 2 \theta_j \frac{e^{-h}}{1 - e^{-h}}\Big), \qquad
        \omega = \theta' / \textstyle\sum_j \theta_j'

    (Baker et al. 2018, equation 2.3 and Algorithm 1). There is no discretisation error: with exact
    counts any h leaves Dirichlet(alpha + n) invariant. An estimate with variance inflates the
    variance of theta by Var[a_hat] tanh(h / 2) and leaves its mean (Corollary 3.2). Larger h mixes
    faster; the autocorrelation of theta after one step is e^-h.

    Args:
        estimator: Estimates the full-data counts, see `simplex_jax.estimators`.
        alpha: Prior concentrations, finite and positive: an array that broadcasts to the leaves of
            the position, or a tree of them with the structure of the position.
        step_size: h, positive, or a schedule of the number of updates.
        total: "carried", as in the paper, or "refreshed", exact with latent assignments as well;
            see `simplex_jax.samplers.total`.

    Returns:
        A kernel over log-probabilities.

    Raises:
        ValueError: `alpha`, `step_size` or `total` is out of range.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import estimators
        >>> from simplex_jax.samplers import scir
        >>> kernel = scir.build(estimators.categorical(size=4), alpha=0.1, step_size=0.5)
        >>> state = kernel.init(jax.random.key(0), jnp.full(3, 1 / 3))
        >>> state, info = kernel.update(jax.random.key(1), state, jnp.array([0, 0, 0, 1]))
        >>> print(jnp.exp(state.position).sum().round(5), info.concentration.round(3))
        1.0 4.3
    """
    totals.check(total)
    schedules.check(step_size)
    return Kernel(
        init=bind(static(init, total=total), estimator=estimator),
        update=bind(
            update,
            estimator=estimator,
            alpha=simplex.concentration(alpha),
            step_size=step_size,
        ),
    )

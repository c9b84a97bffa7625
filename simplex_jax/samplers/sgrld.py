"""SGRLD, stochastic gradient Riemannian Langevin dynamics (Patterson and Teh 2013)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.nn import logsumexp

from simplex_jax import schedules
from simplex_jax.base import Batch, Kernel, Position, PyTree, bind, static
from simplex_jax.estimators import Estimator
from simplex_jax.geometry import simplex
from simplex_jax.samplers import total as totals
from simplex_jax.schedules import StepSize


class State(NamedTuple):
    """State of SGRLD.

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
    """What an update of SGRLD tells, all scalars.

    Attributes:
        step_size: The step size used.
        total: Sum of theta of a row, mean over rows; its stationary mean is the sum of alpha.
        reflected: Fraction of coordinates that were reflected at 0, where the bias comes from.
        smallest: Smallest log-probability.
    """

    step_size: jax.Array
    total: jax.Array
    reflected: jax.Array
    smallest: jax.Array


def init(
    key: jax.Array, position: Position, *, estimator: Estimator, total: str = "carried"
) -> State:
    """Start from probability vectors, leaves [..., K]; nonnegative weights are normalised.

    A carried total starts from its stationary law, Gamma(sum alpha, 1); to start from a theta of
    your own, replace `log_total`.

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
    """Estimate the counts from the batch and take one reflected Euler step."""
    key_estimate, key_total, key_noise = jax.random.split(key, 3)
    h = schedules.at(step_size, state.step)
    estimate, memory = estimator.estimate(key_estimate, state.memory, state.position, batch)

    leaves, structure = jax.tree.flatten(state.position)
    counts = simplex.like("the estimated counts", estimate, state.position)
    priors = simplex.like("alpha", alpha, state.position)
    carried = [None] * len(leaves) if state.log_total is None else jax.tree.leaves(state.log_total)
    position, log_total, reflected = [], [], []
    for leaf, n_hat, prior, log_sum, key_leaf_total, key_leaf_noise in zip(
        leaves,
        counts,
        priors,
        carried,
        jax.random.split(key_total, len(leaves)),
        jax.random.split(key_noise, len(leaves)),
        strict=True,
    ):
        prior = jnp.broadcast_to(prior, leaf.shape)
        n_hat = jnp.broadcast_to(n_hat, leaf.shape)
        theta = jnp.exp(leaf + totals.current(key_leaf_total, log_sum, prior))
        log_theta, negative = _step(key_leaf_noise, theta, leaf, prior, n_hat, h.astype(leaf.dtype))
        log_total.append(logsumexp(log_theta, axis=-1, keepdims=True))
        position.append(simplex.normalise(log_theta))
        reflected.append(negative.ravel())

    info = Info(
        step_size=h,
        total=jnp.exp(jnp.concatenate([leaf.ravel() for leaf in log_total])).mean(),
        reflected=jnp.concatenate(reflected).mean(),
        smallest=jnp.stack([leaf.min() for leaf in position]).min(),
    )
    state = State(
        position=jax.tree.unflatten(structure, position),
        step=state.step + 1,
        memory=memory,
        log_total=None if state.log_total is None else jax.tree.unflatten(structure, log_total),
    )
    return state, info


def _step(
    key: jax.Array,
    theta: jax.Array,
    log_omega: jax.Array,
    alpha: jax.Array,
    n_hat: jax.Array,
    h: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Return log theta' and where it was reflected."""
    drift = alpha - theta + n_hat - jnp.exp(log_omega) * n_hat.sum(axis=-1, keepdims=True)
    noise = jax.random.normal(key, theta.shape, theta.dtype)
    proposal = theta + h * drift + jnp.sqrt(2 * h * theta) * noise
    # The sum can cancel to exactly 0, which stands for a value below its rounding error; the
    # smallest normal number takes its place, so that the logarithm is finite.
    value = jnp.maximum(jnp.abs(proposal), jnp.finfo(theta.dtype).tiny)
    return jnp.log(value), proposal < 0


def build(
    estimator: Estimator, alpha: PyTree, step_size: StepSize, *, total: str = "carried"
) -> Kernel:
    r"""SGRLD: expanded-mean Riemannian Langevin dynamics of a Dirichlet posterior.

    For every coordinate j, with counts :math:`\hat n` estimated from the batch, of sum
    :math:`\hat n_\cdot`, and omega = theta / sum(theta),

    .. math::
        \theta_j' = \Big| \theta_j + h\,(\alpha_j - \theta_j + \hat n_j - \omega_j \hat n_\cdot)
            + \sqrt{2 h \theta_j}\; \xi_j \Big|, \qquad \xi_j \sim N(0, 1)

    (Patterson and Teh 2013, equation 10, whose step is epsilon = 2 h: drift epsilon / 2, noise
    variance epsilon theta. The constants published with their code, and those of Baker et al.
    2018, equation 1.2, are values of our h). The stationary law as h -> 0 is that of theta under
    independent Gamma(alpha_j, 1) priors: omega ~ Dirichlet(alpha + n), with a total of
    Gamma(sum alpha, 1). At h > 0 the step and its reflection are biased, badly so where
    alpha_j + n_j < 1; `samplers.scir` has no such error. Stability needs h well below
    sum(theta) / n.

    A value that is exactly 0 after the step is set to the smallest normal number of its dtype.

    Args:
        estimator: Estimates the full-data counts, see `simplex_jax.estimators`.
        alpha: Prior concentrations, finite and positive: an array that broadcasts to the leaves of
            the position, or a tree of them with the structure of the position.
        step_size: h, positive, or a schedule of the number of updates.
        total: "carried", as in the paper, or "refreshed", drawn from Gamma(sum alpha, 1) before
            every step; see `simplex_jax.samplers.total`.

    Returns:
        A kernel over log-probabilities.

    Raises:
        ValueError: `alpha`, `step_size` or `total` is out of range.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import estimators
        >>> from simplex_jax.samplers import sgrld
        >>> kernel = sgrld.build(estimators.categorical(size=4), alpha=0.1, step_size=0.01)
        >>> state = kernel.init(jax.random.key(0), jnp.full(3, 1 / 3))
        >>> state, info = kernel.update(jax.random.key(1), state, jnp.array([0, 0, 0, 1]))
        >>> print(jnp.exp(state.position).sum().round(5))
        1.0
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

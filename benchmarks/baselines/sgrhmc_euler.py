"""SGRHMC of the expanded mean as Ma, Chen and Fox (2015) have it, with Euler steps."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src import arguments, schedules
from simplex_jax._src.base import Batch, Kernel, Position, PyTree, freeze
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.geometry import simplex
from simplex_jax._src.samplers import expanded
from simplex_jax._src.schedules import StepSize


class State(NamedTuple):
    """State of SGRHMC with Euler steps."""

    position: Position  # log-probabilities, an array [..., K]
    step: jax.Array  # number of updates done, int32
    memory: PyTree  # the memory of the estimator
    log_total: jax.Array  # log of the sum of the weights, [..., 1]
    momentum: jax.Array  # r, [..., K], stationary law N(0, 1)


class Info(NamedTuple):
    """Diagnostics of one update, scalars."""

    step_size: jax.Array  # the step size used
    temperature: jax.Array  # mean square of the momenta, 1 for an exact chain
    reflected: jax.Array  # fraction of weights that were reflected at 0


def init(key: jax.Array, position: Position, *, estimator: Estimator) -> State:
    """Start from positive weights [..., K], whose sums are the first totals."""
    key_memory, key_momentum = jax.random.split(key)
    log_omega = simplex.log_probabilities(position)
    log_total = jnp.log(jnp.asarray(position, log_omega.dtype).sum(axis=-1, keepdims=True))
    momentum = jax.random.normal(key_momentum, log_omega.shape, log_omega.dtype)
    memory = estimator.init(key_memory)
    return State(log_omega, jnp.zeros((), jnp.int32), memory, log_total, momentum)


def update(
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    estimator: Estimator,
    alpha: PyTree,
    step_size: StepSize,
) -> tuple[State, Info]:
    """Estimate the counts from the batch, and move the momenta and then the weights."""
    key_estimate, key_noise = jax.random.split(key)
    h = schedules.evaluate(step_size, state.step).astype(state.position.dtype)
    counts, memory = estimator.estimate(key_estimate, state.memory, state.position, batch)
    theta = jnp.exp(state.position + state.log_total)
    root = jnp.sqrt(theta)
    each = counts.sum(axis=-1, keepdims=True) * jnp.exp(-state.log_total)
    slope = (alpha - 1 + counts) / root - (1 + each) * root  # of the log posterior, times the root
    correction = 0.5 / root
    noise = jnp.sqrt(2 * h) * root * jax.random.normal(key_noise, theta.shape, theta.dtype)
    r = state.momentum + h * (slope + correction - theta * state.momentum) + noise
    moved = theta + h * root * r
    log_theta = jnp.log(jnp.maximum(jnp.abs(moved), jnp.finfo(theta.dtype).tiny))
    r = jnp.where(moved < 0, -r, r)
    new = State(
        simplex.normalise(log_theta), state.step + 1, memory, expanded.log_sum(log_theta), r
    )
    return new, Info(h, jnp.mean(r**2), jnp.mean(moved < 0))


def build(estimator: Estimator, alpha: PyTree, step_size: StepSize) -> Kernel:
    r"""Return the kernel of SGRHMC with D = G^-1 and Euler steps, on the expanded mean.

    Weights theta have the prior Gamma(alpha, 1) and the metric G = diag(1 / theta) of Patterson and
    Teh (2013), and momenta r the law N(0, 1). With counts :math:`\hat n` estimated from the batch,

    .. math::
        r_j' = r_j + h \Big[ \frac{\alpha_j - 1 + \hat n_j}{\sqrt{\theta_j}}
            - \Big(1 + \frac{\hat n_\cdot}{\theta_\cdot}\Big) \sqrt{\theta_j}
            + \frac{1}{2 \sqrt{\theta_j}} - \theta_j\, r_j \Big]
            + \sqrt{2 h \theta_j}\; \xi_j, \qquad
        \theta_j' = \big| \theta_j + h \sqrt{\theta_j}\; r_j' \big| ,

    and r_j changes its sign where theta_j is reflected (Ma et al. 2015, section 4.3: D = G^-1 of
    the momenta, Q = G^-1/2; the term 1 / (2 sqrt(theta)) is the Gamma of their recipe). Momenta
    and weights take turns. Their estimate of the variance of the gradient is not published, and is
    0 here. As h -> 0 theta / theta. has the law Dirichlet(alpha + n).

    The force is unbounded at 0, next to which there is neither friction nor noise: where
    alpha + n < 1/2 the momenta heat up at steps of any practical size (to a mean square of 10 to
    20 at 0.1 and h = 0.01, where it should be 1). `samplers.sgrhmc` is made to avoid that.

    Args:
        estimator: Estimates the full-data counts, see `simplex_jax.estimators`.
        alpha: Prior concentrations, finite and positive, an array that broadcasts to the position.
        step_size: h, positive, or a schedule of the number of updates.

    Returns:
        A kernel over log-probabilities, whose `init` takes the first weights theta.

    Raises:
        ValueError: `alpha` or `step_size` is out of range.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from baselines import sgrhmc_euler
        >>> from simplex_jax import estimators
        >>> kernel = sgrhmc_euler.build(estimators.categorical(size=4), 2.0, 0.01)
        >>> state = kernel.init(jax.random.key(0), jnp.ones(3))
        >>> state, info = kernel.update(jax.random.key(1), state, jnp.array([0, 0, 0, 1]))
        >>> print(jnp.exp(state.position).sum().round(5))
        1.0
    """
    schedules.check(step_size)
    return freeze(
        init,
        update,
        {"estimator": estimator},
        alpha=arguments.tree("alpha", alpha),
        step_size=step_size,
    )

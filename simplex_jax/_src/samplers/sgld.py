"""SGLD, stochastic gradient Langevin dynamics (Welling and Teh 2011)."""

from typing import NamedTuple

import jax

from simplex_jax._src import arguments, schedules
from simplex_jax._src.base import Batch, Kernel, PyTree, freeze
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.samplers import euler
from simplex_jax._src.samplers.euler import State, init
from simplex_jax._src.schedules import StepSize

__all__ = ["Info", "State", "build", "init", "update"]


class Info(NamedTuple):
    """Diagnostics of one update of SGLD, all scalars.

    Attributes:
        step_size: The step size used.
        gradient_norm: Euclidean norm of the estimated gradient.
        drift: Root mean square of the drift in units of the injected noise. The step is accurate if
            this is far below 1.
    """

    step_size: jax.Array
    gradient_norm: jax.Array
    drift: jax.Array


def update(
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    estimator: Estimator,
    step_size: StepSize,
    preconditioner: PyTree,
) -> tuple[State, Info]:
    """Estimate the gradient from the batch and take one Euler step."""
    key_estimate, key_noise = jax.random.split(key)
    h = schedules.evaluate(step_size, state.step)
    slope, memory = euler.gradient(key_estimate, estimator, state.memory, state.position, batch)
    position, drift = euler.step(key_noise, state.position, slope, h, preconditioner)
    info = Info(step_size=h, gradient_norm=euler.norm(slope), drift=drift)
    return State(position, state.step + 1, memory), info


def build(estimator: Estimator, step_size: StepSize, *, preconditioner: PyTree = 1.0) -> Kernel:
    r"""SGLD: Langevin dynamics of any log density of real parameters.

    With a gradient :math:`\hat g` of the log posterior, estimated from the batch,

    .. math::
        x' = x + h M \hat g + \sqrt{2 h M}\; \xi, \qquad \xi \sim N(0, I)

    (Welling and Teh 2011, equation 4, whose step is epsilon = 2 h: drift epsilon / 2, noise
    variance epsilon; M is the constant diagonal preconditioner of their section 6.) Steps of
    constant size have a bias of O(h), and a gradient of variance V inflates the noise variance 2 h
    M by h^2 M^2 V, so h M V should be far below 2. Steps that decay as in
    `step_sizes.polynomial_decay` with 0.5 < kappa <= 1 are exact in the limit. On a normal of
    variance S, steps h M of 2 S or more diverge.

    Args:
        estimator: Estimates the gradient, see `simplex_jax.gradients`.
        step_size: h, positive, or a schedule of the number of updates.
        preconditioner: M, finite and positive: an array that broadcasts to the leaves of the
            position, or a tree of them with its structure. Variances from a rough fit work well.

    Returns:
        A kernel over trees of real arrays.

    Raises:
        ValueError: `step_size` or `preconditioner` is out of range.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches, gradients, run
        >>> from simplex_jax.samplers import sgld
        >>> estimator = gradients.density(lambda x: -(((x - 3) / 2) ** 2).sum() / 2)
        >>> kernel = sgld.build(estimator, step_size=0.5)
        >>> state = kernel.init(jax.random.key(0), jnp.zeros(1000))
        >>> state, _ = run(jax.random.key(1), kernel, state, batches.none, 50)
        >>> print(state.position.mean().round(), state.position.std().round())
        3.0 2.0
    """
    schedules.check(step_size)
    scales = arguments.tree("preconditioner", preconditioner)
    shared = {"estimator": estimator}
    return freeze(init, update, shared, step_size=step_size, preconditioner=scales)

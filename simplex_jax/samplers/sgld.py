"""SGLD, stochastic gradient Langevin dynamics (Welling and Teh 2011)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax import gradients, schedules
from simplex_jax.base import Batch, Kernel, Position, PyTree, bind
from simplex_jax.draws import arguments
from simplex_jax.estimators import Estimator
from simplex_jax.geometry import simplex
from simplex_jax.schedules import StepSize


class State(NamedTuple):
    """State of SGLD.

    Attributes:
        position: Any tree of real arrays.
        step: Number of updates done, int32.
        memory: What the estimator remembers.
    """

    position: Position
    step: jax.Array
    memory: PyTree


class Info(NamedTuple):
    """What an update of SGLD tells, all scalars.

    Attributes:
        step_size: The step size used.
        gradient_norm: Euclidean norm of the estimated gradient.
        drift: Root mean square of the drift in units of the injected noise. The step is accurate
            where it is far below 1.
    """

    step_size: jax.Array
    gradient_norm: jax.Array
    drift: jax.Array


def init(key: jax.Array, position: Position, *, estimator: Estimator) -> State:
    """Start from a tree of finite real numbers.

    Raises:
        ValueError: The position is not finite, or the log density of a `gradients.density` or its
            gradient is not finite there.
    """
    position = gradients.start(estimator, position)
    return State(position=position, step=jnp.zeros((), jnp.int32), memory=estimator.init(key))


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
    h = schedules.at(step_size, state.step)
    estimate, memory = estimator.estimate(key_estimate, state.memory, state.position, batch)
    leaves, structure = jax.tree.flatten(state.position)
    slopes = jax.tree.leaves(gradients.like("the estimated gradient", estimate, state.position))
    scales = simplex.like("preconditioner", preconditioner, state.position)

    moved, drifts, squares = [], [], []
    for x, g, m, key_leaf in zip(
        leaves, slopes, scales, jax.random.split(key_noise, len(leaves)), strict=True
    ):
        step = h.astype(x.dtype) * m
        noise = jax.random.normal(key_leaf, x.shape, x.dtype)
        moved.append(x + step * g + jnp.sqrt(2 * step) * noise)
        drifts.append(jnp.ravel(step / 2 * g**2))
        squares.append(jnp.sum(g**2))
    info = Info(
        step_size=h,
        gradient_norm=jnp.sqrt(sum(squares)),
        drift=jnp.sqrt(jnp.concatenate(drifts).mean()),
    )
    position = jax.tree.unflatten(structure, moved)
    return State(position=position, step=state.step + 1, memory=memory), info


def build(estimator: Estimator, step_size: StepSize, *, preconditioner: PyTree = 1.0) -> Kernel:
    r"""SGLD: Langevin dynamics of any log density of real parameters.

    With a gradient :math:`\hat g` of the log posterior, estimated from the batch,

    .. math::
        x' = x + h M \hat g + \sqrt{2 h M}\; \xi, \qquad \xi \sim N(0, I)

    (Welling and Teh 2011, equation 4, whose step is epsilon = 2 h: drift epsilon / 2, noise
    variance epsilon; M is the constant diagonal preconditioner of their section 6.) With an exact
    gradient it is the unadjusted Langevin algorithm. Steps of constant size have a bias of O(h),
    and the noise of the gradient adds to that of the step: a gradient of variance V inflates the
    noise variance 2 h M by h^2 M^2 V, so h M V should be far below 2. Steps that fall as in
    `schedules.polynomial_decay` with 0.5 < kappa <= 1 are exact in the limit. On a normal law of
    variance S a step h M of 2 S or more diverges.

    Args:
        estimator: Estimates the gradient, see `simplex_jax.gradients`.
        step_size: h, positive, or a schedule of the number of updates.
        preconditioner: M, finite and positive: an array that broadcasts to the leaves of the
            position, or a tree of them with its structure. Variances of a rough fit are a good
            choice.

    Returns:
        A kernel over trees of real arrays.

    Raises:
        ValueError: `step_size` or `preconditioner` is out of range.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches, gradients
        >>> from simplex_jax.runtime import driver
        >>> from simplex_jax.samplers import sgld
        >>> estimator = gradients.density(lambda x: -(((x - 3) / 2) ** 2).sum() / 2)
        >>> kernel = sgld.build(estimator, step_size=0.5)
        >>> state = kernel.init(jax.random.key(0), jnp.zeros(1000))
        >>> state, _ = driver.run(jax.random.key(1), kernel, state, batches.full(jnp.ones(1)), 50)
        >>> print(state.position.mean().round(), state.position.std().round())
        3.0 2.0
    """
    schedules.check(step_size)
    return Kernel(
        init=bind(init, estimator=estimator),
        update=bind(
            update,
            estimator=estimator,
            step_size=step_size,
            preconditioner=arguments.tree("preconditioner", preconditioner),
        ),
    )

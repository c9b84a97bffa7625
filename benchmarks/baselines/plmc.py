"""PLMC, projected Langevin Monte Carlo (Bubeck, Eldan and Lehec 2018)."""

from typing import NamedTuple

import jax

from baselines import convex
from baselines.convex import Projection
from simplex_jax._src import gradients, schedules
from simplex_jax._src.base import Batch, Kernel, Position, freeze
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.samplers import euler
from simplex_jax._src.samplers.euler import State
from simplex_jax._src.schedules import StepSize

__all__ = ["Info", "State", "build", "init", "update"]


class Info(NamedTuple):
    """Diagnostics of one update of PLMC, all scalars."""

    step_size: jax.Array  # the step size used
    distance: jax.Array  # Euclidean distance from the set before the projection


def init(
    key: jax.Array, position: Position, *, estimator: Estimator, projection: Projection
) -> State:
    """Start from a point of the set.

    Raises:
        ValueError: The position is not finite or not in the set, or the log density of a
            `gradients.density` or its gradient is not finite there.
    """
    state = euler.init(key, position, estimator=estimator)
    inside = convex.contains(projection, state.position)
    if not isinstance(inside, jax.core.Tracer) and not inside:
        raise ValueError("position must be in the set of the projection: project it first")
    return state


def update(
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    estimator: Estimator,
    projection: Projection,
    step_size: StepSize,
) -> tuple[State, Info]:
    """Estimate the gradient from the batch, take one Euler step and project it onto the set."""
    key_estimate, key_noise = jax.random.split(key)
    h = schedules.evaluate(step_size, state.step)
    slope, memory = euler.gradient(key_estimate, estimator, state.memory, state.position, batch)
    proposal, _ = euler.step(key_noise, state.position, slope, h)
    position = gradients.like("the projection", projection(proposal), proposal)
    info = Info(step_size=h, distance=convex.distance(lambda _: position, proposal))
    return State(position, state.step + 1, memory), info


def build(estimator: Estimator, projection: Projection, step_size: StepSize) -> Kernel:
    r"""PLMC: Langevin steps, each projected onto a convex set K.

    With a gradient :math:`\hat g` of the log posterior, estimated from the batch,

    .. math::
        x' = P_K\big( x + h \hat g + \sqrt{2 h}\; \xi \big), \qquad \xi \sim N(0, I)

    (Bubeck, Eldan and Lehec 2018, *Sampling from a log-concave distribution with projected Langevin
    Monte Carlo*, section 1, whose step is eta = 2 h). The gradient of the log density must be
    finite on all of K, including the boundary; for a Dirichlet with parameters other than 1 it is
    not, and the chain becomes NaN.

    **The bias is of order sqrt(h)** if the target has mass at the boundary, instead of order h.
    With c = 0.5826 = :math:`-\zeta(1/2) / \sqrt{2 \pi}`,

    .. math::
        E[\varphi(x)] - E_\pi[\varphi] = c \sqrt{2 h} \int_{\partial K} \pi(x)\,
            (\varphi(x) - E_\pi[\varphi])\, dS + O(h)

    as if every face were :math:`c \sqrt{2h}` further out (the weak order 1/2 and the constant are
    those of reflected Brownian motion: Asmussen, Glynn and Pitman 1995). A fraction :math:`\sqrt h
    \int_{\partial K} \pi\, dS` of the states lies exactly on the boundary. This is a baseline; to
    sample, use `samplers.mld` or, on the simplex, `samplers.scir`.

    Args:
        estimator: Estimates the gradient, see `simplex_jax.gradients`.
        projection: P_K, see `simplex_jax.geometry.convex`.
        step_size: h, positive, or a schedule of the number of updates.

    Returns:
        A kernel over trees of real arrays.

    Raises:
        ValueError: `step_size` is out of range.

    Example: an exponential density on the positive numbers, with mean 1 and bias -0.26.

        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches, gradients, run
        >>> from baselines import convex
        >>> from baselines import plmc
        >>> kernel = plmc.build(
        ...     gradients.density(lambda x: -x.sum()), convex.box(0.0, jnp.inf), step_size=0.1)
        >>> state = kernel.init(jax.random.key(0), jnp.ones(20_000))
        >>> state, _ = run(jax.random.key(1), kernel, state, batches.none, 200)
        >>> print(state.position.mean().round(1))
        0.8
    """
    schedules.check(step_size)
    shared = {"estimator": estimator, "projection": projection}
    return freeze(init, update, shared, step_size=step_size)

"""PLMC, projected Langevin Monte Carlo (Bubeck, Eldan and Lehec 2018)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax import gradients, schedules
from simplex_jax.base import Batch, Kernel, Position, PyTree, bind
from simplex_jax.estimators import Estimator
from simplex_jax.geometry import convex
from simplex_jax.geometry.convex import Projection
from simplex_jax.schedules import StepSize


class State(NamedTuple):
    """State of PLMC.

    Attributes:
        position: A point of the set, any tree of real arrays.
        step: Number of updates done, int32.
        memory: What the estimator remembers.
    """

    position: Position
    step: jax.Array
    memory: PyTree


class Info(NamedTuple):
    """What an update of PLMC tells, all scalars.

    Attributes:
        step_size: The step size used.
        distance: How far the step went out of the set, before the projection.
    """

    step_size: jax.Array
    distance: jax.Array


def init(
    key: jax.Array, position: Position, *, estimator: Estimator, projection: Projection
) -> State:
    """Start from a point of the set.

    Raises:
        ValueError: The position is not finite or not in the set, or the log density of a
            `gradients.density` or its gradient is not finite there.
    """
    position = gradients.start(estimator, position)
    inside = convex.contains(projection, position)
    if not isinstance(inside, jax.core.Tracer) and not inside:
        raise ValueError("position must be in the set of the projection: project it first")
    return State(position=position, step=jnp.zeros((), jnp.int32), memory=estimator.init(key))


def update(
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    estimator: Estimator,
    projection: Projection,
    step_size: StepSize,
) -> tuple[State, Info]:
    """Estimate the gradient from the batch, take one Euler step and project it on the set."""
    key_estimate, key_noise = jax.random.split(key)
    h = schedules.at(step_size, state.step)
    estimate, memory = estimator.estimate(key_estimate, state.memory, state.position, batch)
    leaves, structure = jax.tree.flatten(state.position)
    slopes = jax.tree.leaves(gradients.like("the estimated gradient", estimate, state.position))

    proposed = []
    for x, g, key_leaf in zip(
        leaves, slopes, jax.random.split(key_noise, len(leaves)), strict=True
    ):
        step = h.astype(x.dtype)
        noise = jax.random.normal(key_leaf, x.shape, x.dtype)
        proposed.append(x + step * g + jnp.sqrt(2 * step) * noise)
    proposal = jax.tree.unflatten(structure, proposed)
    position = gradients.like("the projection", projection(proposal), proposal)
    info = Info(step_size=h, distance=convex.distance(lambda _: position, proposal))
    return State(position=position, step=state.step + 1, memory=memory), info


def build(estimator: Estimator, projection: Projection, step_size: StepSize) -> Kernel:
    r"""PLMC: Langevin steps, each projected on a convex set K.

    With a gradient :math:`\hat g` of the log posterior, estimated from the batch,

    .. math::
        x' = P_K\big( x + h \hat g + \sqrt{2 h}\; \xi \big), \qquad \xi \sim N(0, I)

    (Bubeck, Eldan and Lehec 2018, *Sampling from a log-concave distribution with projected Langevin
    Monte Carlo*, section 1, whose step is eta = 2 h). The log density must have a finite gradient
    on all of K, boundary included, as chains sit there; a Dirichlet density of shapes other than 1
    has not, and the chain becomes NaN.

    **Its bias is of the order of the square root of h** wherever the target has mass at the
    boundary, while that of Langevin steps without a boundary is of order h. With a density
    :math:`\pi`, and c = 0.5826 = :math:`-\zeta(1/2) / \sqrt{2 \pi}`,

    .. math::
        E[\varphi(x)] - E_\pi[\varphi] = c \sqrt{2 h} \int_{\partial K} \pi(x)\,
            (\varphi(x) - E_\pi[\varphi])\, dS + O(h)

    as if every face stood :math:`c \sqrt{2h}` further out and what is beyond K were moved to the
    face. A share :math:`\sqrt h \int_{\partial K} \pi\, dS` of the states lies exactly on the
    boundary. (Euler steps of reflected Brownian motion have weak order 1/2: Asmussen, Glynn and
    Pitman 1995, whose constant this is; the formula follows as the boundary of a smooth K looks
    flat to a small step.) It is a comparator; to sample, use `samplers.mld` or, on the simplex,
    `samplers.scir`.

    Args:
        estimator: Estimates the gradient, see `simplex_jax.gradients`.
        projection: P_K, see `simplex_jax.geometry.convex`.
        step_size: h, positive, or a schedule of the number of updates.

    Returns:
        A kernel over trees of real arrays.

    Raises:
        ValueError: `step_size` is out of range.

    Example: an exponential density on the positive numbers, of mean 1 but for the bias of -0.26.

        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches, gradients
        >>> from simplex_jax.geometry import convex
        >>> from simplex_jax.runtime import driver
        >>> from simplex_jax.samplers import plmc
        >>> kernel = plmc.build(
        ...     gradients.density(lambda x: -x.sum()), convex.box(0.0, jnp.inf), step_size=0.1)
        >>> state = kernel.init(jax.random.key(0), jnp.ones(20_000))
        >>> state, _ = driver.run(jax.random.key(1), kernel, state, batches.full(jnp.ones(1)), 200)
        >>> print(state.position.mean().round(1))
        0.8
    """
    schedules.check(step_size)
    return Kernel(
        init=bind(init, estimator=estimator, projection=projection),
        update=bind(update, estimator=estimator, projection=projection, step_size=step_size),
    )

"""MYULA, the Moreau-Yosida unadjusted Langevin algorithm (Durmus, Moulines and Pereyra 2018)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from simplex_jax import gradients, schedules
from simplex_jax.base import Batch, Kernel, Position, PyTree, bind
from simplex_jax.estimators import Estimator
from simplex_jax.geometry import convex
from simplex_jax.geometry.convex import Projection
from simplex_jax.schedules import StepSize


class State(NamedTuple):
    """State of MYULA.

    Attributes:
        position: A point near the set and not always in it, any tree of real arrays.
        step: Number of updates done, int32.
        memory: What the estimator remembers.
    """

    position: Position
    step: jax.Array
    memory: PyTree


class Info(NamedTuple):
    """What an update of MYULA tells, all scalars.

    Attributes:
        step_size: The step size used.
        distance: Euclidean distance of the position from the set.
    """

    step_size: jax.Array
    distance: jax.Array


def init(key: jax.Array, position: Position, *, estimator: Estimator) -> State:
    """Start from a tree of finite real numbers, in the set or not.

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
    projection: Projection,
    step_size: StepSize,
    smoothing: jax.Array,
) -> tuple[State, Info]:
    """Estimate the gradient from the batch and take one Euler step of the smoothed density."""
    key_estimate, key_noise = jax.random.split(key)
    h = schedules.at(step_size, state.step)
    estimate, memory = estimator.estimate(key_estimate, state.memory, state.position, batch)
    leaves, structure = jax.tree.flatten(state.position)
    slopes = jax.tree.leaves(gradients.like("the estimated gradient", estimate, state.position))
    nearest = gradients.like("the projection", projection(state.position), state.position)

    moved = []
    for x, g, p, key_leaf in zip(
        leaves,
        slopes,
        jax.tree.leaves(nearest),
        jax.random.split(key_noise, len(leaves)),
        strict=True,
    ):
        step = h.astype(x.dtype)
        pull = (p - x) / smoothing.astype(x.dtype)
        noise = jax.random.normal(key_leaf, x.shape, x.dtype)
        moved.append(x + step * (g + pull) + jnp.sqrt(2 * step) * noise)
    position = jax.tree.unflatten(structure, moved)
    info = Info(step_size=h, distance=convex.distance(projection, position))
    return State(position=position, step=state.step + 1, memory=memory), info


def build(
    estimator: Estimator, projection: Projection, step_size: StepSize, *, smoothing: ArrayLike
) -> Kernel:
    r"""MYULA: Langevin steps of a density smoothed over the boundary of a convex set K.

    With a gradient :math:`\hat g` of the log posterior, estimated from the batch,

    .. math::
        x' = x + h \hat g + \frac{h}{\lambda} \big( P_K(x) - x \big) + \sqrt{2 h}\; \xi,
        \qquad \xi \sim N(0, I)

    (Brosse, Durmus, Moulines and Pereyra 2017, *Sampling from a log-concave distribution with
    compact support with proximal Langevin Monte Carlo*; Durmus, Moulines and Pereyra 2018.) The
    Moreau-Yosida envelope of the constraint is dist(x, K)^2 / (2 lambda), so as h -> 0 the law is
    proportional to :math:`\pi(x) e^{-\mathrm{dist}(x, K)^2 / (2 \lambda)}`: **positions lie outside
    K**, by about sqrt(lambda), and the log density must be defined there. Project what you keep if
    it has to be in K.

    **Its bias is of the order of the square root of lambda** wherever the target has mass at the
    boundary: with a density :math:`\pi`

    .. math::
        E[\varphi(x)] - E_\pi[\varphi] = c \sqrt \lambda \int_{\partial K} \pi(x)\,
            (\varphi(x) - E_\pi[\varphi])\, dS + O(\lambda + h)

    where c = 1.2533 = :math:`\sqrt{\pi / 2}` if h is far below lambda, and c = 0.8239 at h =
    lambda, where the projected chain is PLMC but for the point at which the gradient is taken. The
    step must not exceed lambda by far, and so the bias is of order sqrt(h) at best. It is a
    comparator; to sample, use `samplers.mld` or, on the simplex, `samplers.scir`.

    Args:
        estimator: Estimates the gradient, see `simplex_jax.gradients`.
        projection: P_K, see `simplex_jax.geometry.convex`.
        step_size: h, positive and below 2 lambda, from where on the step diverges outside K, or a
            schedule of the number of updates. With a log density of curvature L the papers take h
            at most lambda / (1 + lambda L).
        smoothing: lambda, finite and positive, a scalar.

    Returns:
        A kernel over trees of real arrays.

    Raises:
        ValueError: `step_size` or `smoothing` is out of range.

    Example: the uniform density on the unit interval.

        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches, gradients
        >>> from simplex_jax.geometry import convex
        >>> from simplex_jax.runtime import driver
        >>> from simplex_jax.samplers import myula
        >>> kernel = myula.build(
        ...     gradients.density(lambda x: 0 * x.sum()), convex.box(0.0, 1.0), step_size=0.005,
        ...     smoothing=0.01)
        >>> state = kernel.init(jax.random.key(0), jnp.full(20_000, 0.5))
        >>> state, _ = driver.run(jax.random.key(1), kernel, state, batches.full(jnp.ones(1)), 200)
        >>> outside = (state.position < 0) | (state.position > 1)
        >>> print(state.position.mean().round(1), outside.mean().round(1))
        0.5 0.2
    """
    smoothing = convex.positive("smoothing", smoothing)
    if smoothing.ndim:
        raise ValueError(f"smoothing must be a scalar; its shape is {smoothing.shape}")
    if isinstance(smoothing, jax.core.Tracer):
        schedules.check(step_size)
    else:
        schedules.check(
            step_size, below=2 * float(smoothing), because=" outside the set, at 2 smoothing"
        )
    return Kernel(
        init=bind(init, estimator=estimator),
        update=bind(
            update,
            estimator=estimator,
            projection=projection,
            step_size=step_size,
            smoothing=smoothing,
        ),
    )

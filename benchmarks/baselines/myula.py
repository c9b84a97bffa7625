"""MYULA, the Moreau-Yosida unadjusted Langevin algorithm (Durmus, Moulines and Pereyra 2018)."""

import math
from typing import NamedTuple

import jax
from jax.typing import ArrayLike

from baselines import convex
from baselines.convex import Projection
from simplex_jax._src import arguments, gradients, schedules
from simplex_jax._src.base import Batch, Kernel, freeze
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.samplers import euler
from simplex_jax._src.samplers.euler import State, init
from simplex_jax._src.schedules import StepSize

__all__ = ["Info", "State", "build", "init", "update"]


class Info(NamedTuple):
    """Diagnostics of one update of MYULA, all scalars."""

    step_size: jax.Array  # the step size used
    distance: jax.Array  # Euclidean distance of the position from the set


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
    h = schedules.evaluate(step_size, state.step)
    x = state.position
    slope, memory = euler.gradient(key_estimate, estimator, state.memory, x, batch)
    nearest = gradients.like("the projection", projection(x), x)
    drift = jax.tree.map(
        lambda g, p, leaf: g + (p - leaf) / smoothing.astype(leaf.dtype), slope, nearest, x
    )
    position, _ = euler.step(key_noise, x, drift, h)
    info = Info(step_size=h, distance=convex.distance(projection, position))
    return State(position, state.step + 1, memory), info


def build(
    estimator: Estimator, projection: Projection, step_size: StepSize, *, smoothing: ArrayLike
) -> Kernel:
    r"""MYULA: Langevin steps of a density smoothed over the boundary of a convex set K.

    With a gradient :math:`\hat g` of the log posterior, estimated from the batch,

    .. math::
        x' = x + h \hat g + \frac{h}{\lambda} \big( P_K(x) - x \big) + \sqrt{2 h}\; \xi,
        \qquad \xi \sim N(0, I)

    (Brosse et al. 2017, *Sampling from a log-concave distribution with compact support with
    proximal Langevin Monte Carlo*; Durmus, Moulines and Pereyra 2018.) As h -> 0 the law is
    proportional to :math:`\pi(x) e^{-\mathrm{dist}(x, K)^2 / (2 \lambda)}`: **positions can be
    outside K**, by about sqrt(lambda), and the log density must be defined there.

    **The bias is of order sqrt(lambda)** if the target has mass at the boundary:

    .. math::
        E[\varphi(x)] - E_\pi[\varphi] = c \sqrt \lambda \int_{\partial K} \pi(x)\,
            (\varphi(x) - E_\pi[\varphi])\, dS + O(\lambda + h)

    where c = 1.2533 = :math:`\sqrt{\pi / 2}` if h is far below lambda, and 0.8239 at h = lambda.
    The step must not exceed lambda by far, so the bias is of order sqrt(h) at best. This is a
    baseline; to sample, use `samplers.mld` or, on the simplex, `samplers.scir`.

    Args:
        estimator: Estimates the gradient, see `simplex_jax.gradients`.
        projection: P_K, see `simplex_jax.geometry.convex`.
        step_size: h, positive and below 2 lambda, where steps outside K start to diverge; or a
            schedule of the number of updates. The papers use h <= lambda / (1 + lambda L) for a log
            density of curvature L.
        smoothing: lambda, finite and positive, a scalar.

    Returns:
        A kernel over trees of real arrays.

    Raises:
        ValueError: `step_size` or `smoothing` is out of range.

    Example: the uniform density on the unit interval.

        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches, gradients, run
        >>> from baselines import convex
        >>> from baselines import myula
        >>> kernel = myula.build(
        ...     gradients.density(lambda x: 0 * x.sum()), convex.box(0.0, 1.0), step_size=0.005,
        ...     smoothing=0.01)
        >>> state = kernel.init(jax.random.key(0), jnp.full(20_000, 0.5))
        >>> state, _ = run(jax.random.key(1), kernel, state, batches.none, 200)
        >>> outside = (state.position < 0) | (state.position > 1)
        >>> print(state.position.mean().round(1), outside.mean().round(1))
        0.5 0.2
    """
    smoothing = arguments.scalar("smoothing", smoothing)
    limit = math.inf if isinstance(smoothing, jax.core.Tracer) else 2 * float(smoothing)
    schedules.check(step_size, below=limit, because=" outside the set, at 2 smoothing")
    options = {"projection": projection, "step_size": step_size, "smoothing": smoothing}
    return freeze(init, update, {"estimator": estimator}, **options)

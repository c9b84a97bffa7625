"""SGGMC, stochastic gradient geodesic Monte Carlo (Liu, Zhu and Song 2016)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src import gradients, schedules
from simplex_jax._src.base import Batch, Kernel, Position, PyTree
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.geometry.manifolds import Manifold
from simplex_jax._src.samplers import geodesic
from simplex_jax._src.samplers.geodesic import NoiseEstimate
from simplex_jax._src.schedules import StepSize

__all__ = ["Info", "State", "build", "init", "update"]


class State(NamedTuple):
    """State of SGGMC.

    Attributes:
        position: A point of the manifold, an array or a tree of arrays.
        step: Number of updates done, int32.
        memory: The memory of the estimator.
        velocity: A tangent vector at the position, a tree like it.
    """

    position: Position
    step: jax.Array
    memory: PyTree
    velocity: Position


class Info(NamedTuple):
    """Diagnostics of one update of SGGMC, all scalars.

    Attributes:
        step_size: The step size used.
        kinetic: Mean of |v|^2 / dimension over the inner steps; 1 on average for an exact chain.
            Gradient noise heats it: lower the step size, raise the friction, use larger batches, or
            give a `noise_estimate`.
        constraint_error: Largest violation of a manifold constraint.
        gradient_noise: Largest h V / (2 C), the fraction of the injected noise replaced by
            estimated gradient noise; None without a `noise_estimate`.
    """

    step_size: jax.Array
    kinetic: jax.Array
    constraint_error: jax.Array
    gradient_noise: jax.Array | None


def init(
    key: jax.Array,
    position: Position,
    *,
    estimator: Estimator,
    manifold: Manifold,
    friction: PyTree,
    noise_estimate: NoiseEstimate = None,
) -> State:
    """Start from a point of the manifold, with a standard normal velocity.

    Raises:
        ValueError: The position is not on the manifold, the friction or the noise estimate does not
            fit it, or the log density of a `gradients.density` or its gradient is not finite there.
    """
    position = gradients.start(estimator, geodesic.start(manifold, position))
    geodesic.check_fit(position, friction, noise_estimate)
    key_memory, key_velocity = jax.random.split(key)
    return State(
        position=position,
        step=jnp.zeros((), jnp.int32),
        memory=estimator.init(key_memory),
        velocity=geodesic.normal(key_velocity, manifold, position),
    )


def update(
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    estimator: Estimator,
    manifold: Manifold,
    step_size: StepSize,
    friction: PyTree,
    noise_estimate: NoiseEstimate = None,
    num_steps: int = 1,
) -> tuple[State, Info]:
    """Take the inner steps A, B, O, B, A, all with the same batch."""
    h = schedules.evaluate(step_size, state.step)
    start = (state.position, state.velocity, None, state.memory)
    (x, v, _, memory), kinetic, share = geodesic.integrate(
        key,
        start,
        batch,
        h,
        estimator=estimator,
        manifold=manifold,
        friction=friction,
        noise_estimate=noise_estimate,
        num_steps=num_steps,
    )
    info = Info(h, kinetic, manifold.error(x), share)
    return State(x, state.step + 1, memory, v), info


def build(
    estimator: Estimator,
    manifold: Manifold,
    step_size: StepSize,
    *,
    friction: PyTree = 1.0,
    num_steps: int = 1,
    noise_estimate: NoiseEstimate = None,
) -> Kernel:
    r"""SGGMC: underdamped Langevin dynamics along the geodesics of a manifold.

    With a gradient :math:`\hat g` of the log density, estimated from the batch, and the projection
    :math:`\Lambda(x)` onto the tangent space, an inner step is

    .. math::
        \mathrm{A}:\ & (x, v) \leftarrow \text{geodesic flow of } (x, v) \text{ for the time } h/2\\
        \mathrm{B}:\ & v \leftarrow e^{-\Lambda(x) C h / 2}\, v \\
        \mathrm{O}:\ & v \leftarrow v + \Lambda(x) \big[ h\, \hat g + N(0,\; (2 C - h V) h) \big] \\
        \mathrm{B}:\ & v \leftarrow e^{-\Lambda(x) C h / 2}\, v \\
        \mathrm{A}:\ & (x, v) \leftarrow \text{geodesic flow of } (x, v) \text{ for the time } h/2

    (Liu, Zhu and Song 2016, algorithm 1, whose potential is minus the log density; scalar C there).
    An update makes `num_steps` of them with one batch, and evaluates its gradient anew in each. V
    estimates the variance of the gradient, and the injected noise is reduced by it.

    With the exact gradient the bias is of order h^2 (the velocity itself has variance C h / sinh(C
    h)). Gradient noise of variance V that is not estimated heats the chain by a factor of 1 + h V /
    (2 C). On `geometry.manifolds.euclidean` this is SGHMC with a symmetric splitting.

    Args:
        estimator: Estimates the gradient of the log density with respect to the area of the
            manifold, in the coordinates of the embedding space, see `simplex_jax.gradients`; the
            kernel projects it.
        manifold: One of `geometry.manifolds`, or your own.
        step_size: h, positive, or a schedule of the number of updates; below 2 C / V.
        friction: C. A positive number; or an array that broadcasts to the position, which is
            diagonal; or a symmetric positive definite matrix [n, n] along the last axis [..., n] of
            the position (a matrix that broadcasts to the position is treated as diagonal); or a
            tree of these with the structure of the position. Velocities are forgotten within a time
            of 1 / C.
        num_steps: Number of inner steps L.
        noise_estimate: V, likewise, at least 0; or a function `(position, batch) -> V` such as
            `gradients.fisher` returns; None for 0. The chain becomes NaN if h V exceeds 2 C.

    Returns:
        A kernel over points of the manifold.

    Raises:
        ValueError: An argument is out of range.

    Example: a von Mises-Fisher distribution on the sphere in R^3, whose mean has length coth 3 -
    1/3 = 0.672.

        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches, gradients, run
        >>> from simplex_jax.geometry import manifolds
        >>> from simplex_jax.samplers import sggmc
        >>> estimator = gradients.density(lambda x: 3 * x[:, 2].sum())
        >>> kernel = sggmc.build(estimator, manifolds.sphere(), 0.2, friction=1.0)
        >>> start = manifolds.sphere().point(jax.random.key(0), jnp.zeros((5000, 3)))
        >>> state = kernel.init(jax.random.key(1), start)
        >>> state, _ = run(jax.random.key(2), kernel, state, batches.none, 100)
        >>> print(state.position[:, 2].mean().round(1))
        0.7
    """
    return geodesic.kernel(
        init,
        update,
        step_size,
        num_steps,
        friction=geodesic.checked_friction(friction),
        noise_estimate=noise_estimate,
        estimator=estimator,
        manifold=manifold,
    )

"""gSGNHT, geodesic stochastic gradient Nose-Hoover thermostats (Liu, Zhu and Song 2016)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from simplex_jax._src import arguments, schedules
from simplex_jax._src.base import Batch, Kernel, Position, PyTree
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.geometry.manifolds import Manifold
from simplex_jax._src.samplers import geodesic, sggmc
from simplex_jax._src.samplers.geodesic import NoiseEstimate
from simplex_jax._src.schedules import StepSize

__all__ = ["Info", "State", "build", "init", "update"]


class State(NamedTuple):
    """State of gSGNHT.

    Attributes:
        position: A point of the manifold, an array or a tree of arrays.
        step: Number of updates done, int32.
        memory: The memory of the estimator.
        velocity: A tangent vector at the position, a tree like it.
        thermostat: The friction xi, a scalar.
    """

    position: Position
    step: jax.Array
    memory: PyTree
    velocity: Position
    thermostat: jax.Array


class Info(NamedTuple):
    """Diagnostics of one update of gSGNHT, all scalars.

    Attributes:
        step_size: The step size used.
        kinetic: Mean of |v|^2 / dimension over the inner steps; once settled, the thermostat keeps
            its average at 1.
        thermostat: The friction xi. Gradient noise of variance V raises it above `friction` by h V
            / 2.
        constraint_error: Largest violation of a manifold constraint.
        gradient_noise: Largest h V / (2 C), the fraction of the injected noise replaced by
            estimated gradient noise; None without a `noise_estimate`.
    """

    step_size: jax.Array
    kinetic: jax.Array
    thermostat: jax.Array
    constraint_error: jax.Array
    gradient_noise: jax.Array | None


def init(
    key: jax.Array,
    position: Position,
    *,
    estimator: Estimator,
    manifold: Manifold,
    friction: ArrayLike,
    noise_estimate: NoiseEstimate = None,
) -> State:
    """Start from a point, with a standard normal velocity and xi = `friction`.

    Raises:
        ValueError: The position is not on the manifold, the noise estimate does not fit it, or the
            log density of a `gradients.density` or its gradient is not finite there.
    """
    start = sggmc.init(
        key,
        position,
        estimator=estimator,
        manifold=manifold,
        friction=friction,
        noise_estimate=noise_estimate,
    )
    xi = jnp.asarray(friction, jax.tree.leaves(start.position)[0].dtype)
    return State(*start, thermostat=xi)


def update(
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    estimator: Estimator,
    manifold: Manifold,
    step_size: StepSize,
    friction: ArrayLike,
    inertia: ArrayLike = 1.0,
    noise_estimate: NoiseEstimate = None,
    num_steps: int = 1,
) -> tuple[State, Info]:
    """Take the inner steps A, B, O, B, A, all with the same batch."""
    h = schedules.evaluate(step_size, state.step)
    start = (state.position, state.velocity, state.thermostat, state.memory)
    (x, v, xi, memory), kinetic, share = geodesic.integrate(
        key,
        start,
        batch,
        h,
        estimator=estimator,
        manifold=manifold,
        friction=friction,
        noise_estimate=noise_estimate,
        num_steps=num_steps,
        inertia=inertia,
    )
    info = Info(h, kinetic, xi, manifold.error(x), share)
    return State(x, state.step + 1, memory, v, xi), info


def build(
    estimator: Estimator,
    manifold: Manifold,
    step_size: StepSize,
    *,
    friction: float = 1.0,
    inertia: float = 1.0,
    num_steps: int = 1,
    noise_estimate: NoiseEstimate = None,
) -> Kernel:
    r"""gSGNHT: SGGMC whose friction adapts to unknown gradient noise.

    With the thermostat :math:`\xi`, its inertia :math:`\mu`, the dimension m of the manifold, and
    otherwise as in `samplers.sggmc`, an inner step is

    .. math::
        \mathrm{A}:\ & \xi \leftarrow \xi + \tfrac h{2 \mu} \big( |v|^2 / m - 1 \big), \quad
            (x, v) \leftarrow \text{geodesic flow of } (x, v) \text{ for the time } h/2 \\
        \mathrm{B}:\ & v \leftarrow e^{-\xi h / 2}\, v \\
        \mathrm{O}:\ & v \leftarrow v + \Lambda(x) \big[ h\, \hat g + N(0,\; (2 C - h V) h) \big]

    then B and A again (Liu, Zhu and Song 2016, algorithm 2, where :math:`\mu` is 1). At equilibrium
    :math:`\xi \sim N(C, 1 / (\mu m))`, independent of the position. Small deviations of the kinetic
    energy obey :math:`\ddot u + 2 C \dot u + (2 / \mu) u = 0`: they decay fastest, within a time of
    1 / C, at :math:`\mu = 2 / C^2`; with much larger inertia the thermostat takes a time of
    :math:`C \mu` to settle. With the exact gradient the bias is of order h^2. m counts the
    dimensions of all copies and parts of a product, which share one thermostat. For a sphere in R^n
    it is n - 1; the paper's released code uses n, which keeps the kinetic energy too high. The
    thermostat absorbs gradient noise of equal variance V in all directions: its mean becomes C + h
    V / 2. A variance that differs between directions, between copies or with x leaves a bias.

    Args:
        estimator: Estimates the gradient as in `samplers.sggmc`.
        manifold: One of `geometry.manifolds`, or your own.
        step_size: h, positive, or a schedule of the number of updates; below 2 C / V.
        friction: C, a positive number.
        inertia: mu of the thermostat, a positive number.
        num_steps: Number of inner steps L, all with one batch.
        noise_estimate: V as in `samplers.sggmc`, rarely needed here; None for 0.

    Returns:
        A kernel over points of the manifold.

    Raises:
        ValueError: An argument is out of range.

    Example: a von Mises-Fisher distribution on the sphere in R^3, whose mean has length coth 3 -
    1/3 = 0.672.

        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches, gradients, run
        >>> from simplex_jax.geometry import manifolds
        >>> from simplex_jax.samplers import gsgnht
        >>> estimator = gradients.density(lambda x: 3 * x[:, 2].sum())
        >>> kernel = gsgnht.build(estimator, manifolds.sphere(), 0.2, friction=1.0)
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
        friction=arguments.scalar("friction", friction),
        noise_estimate=noise_estimate,
        estimator=estimator,
        manifold=manifold,
        inertia=arguments.scalar("inertia", inertia),
    )

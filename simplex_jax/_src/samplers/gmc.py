"""GMC, geodesic Monte Carlo on embedded manifolds (Byrne and Girolami 2013)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax._src import arguments, schedules
from simplex_jax._src.base import Batch, Kernel, Position, freeze, static
from simplex_jax._src.geometry.manifolds import Manifold
from simplex_jax._src.gradients import LogDensity
from simplex_jax._src.samplers import geodesic, metropolis
from simplex_jax._src.samplers.metropolis import State
from simplex_jax._src.schedules import StepSize

__all__ = ["Info", "State", "build", "init", "update"]


class Info(NamedTuple):
    """Diagnostics of one update of GMC, all scalars.

    Attributes:
        step_size: The step size used.
        acceptance: The probability that the proposal is accepted.
        log_density: The log density of the position, after the test.
        energy_error: Energy of the proposal minus that of the start; infinite if the proposal has
            no density.
        kinetic: |v|^2 / dimension at the end of the trajectory, about 1.
        constraint_error: Largest violation of a manifold constraint by the position.
    """

    step_size: jax.Array
    acceptance: jax.Array
    log_density: jax.Array
    energy_error: jax.Array
    kinetic: jax.Array
    constraint_error: jax.Array


def init(
    key: jax.Array,
    position: Position,
    *,
    log_density: LogDensity,
    manifold: Manifold,
    needs_batch: bool = False,
) -> State:
    """Start from a point of the manifold, with rounding errors removed.

    Raises:
        ValueError: The position is not on the manifold, or the log density or its gradient is not
            finite there.
    """
    start = geodesic.start(manifold, position)
    return metropolis.init(key, start, log_density=log_density, needs_batch=needs_batch)


def update(
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    log_density: LogDensity,
    manifold: Manifold,
    step_size: StepSize,
    num_steps: int = 10,
    needs_batch: bool = False,
) -> tuple[State, Info]:
    """Draw a velocity, take geodesic leapfrog steps, and accept or reject the end point."""
    key_velocity, key_accept = jax.random.split(key)
    h = schedules.evaluate(step_size, state.step)
    value_and_slope = metropolis.value_and_slope_of(log_density, batch, needs_batch)

    def kick(x: Position, v: Position, slope: Position) -> Position:
        velocity = jax.tree.map(lambda a, g: a + (h / 2).astype(a.dtype) * g, v, slope)
        return manifold.project(x, velocity)

    def leap(loop: tuple, _: None) -> tuple[tuple, None]:
        x, v, _, slope = loop
        x, v = manifold.flow(x, kick(x, v, slope), h)
        value, slope = value_and_slope(x)
        return (x, kick(x, v, slope), value, slope), None

    x = state.position
    v = geodesic.normal(key_velocity, manifold, x)
    value, slope = value_and_slope(x)
    (end, v_end, value_end, _), _ = lax.scan(leap, (x, v, value, slope), None, length=num_steps)

    error = value - value_end + (geodesic.square(v_end) - geodesic.square(v)) / 2
    # A trajectory that left the support is rejected.
    error = jnp.where(jnp.isnan(error), jnp.inf, error)
    acceptance, choose = metropolis.decide(key_accept, -error, value, h)
    position = choose(end, x)
    info = Info(
        step_size=h,
        acceptance=acceptance,
        log_density=choose(value_end, value),
        energy_error=error,
        kinetic=geodesic.square(v_end) / manifold.dimension(x),
        constraint_error=manifold.error(position),
    )
    return State(position=position, step=state.step + 1), info


def build(
    log_density: LogDensity,
    manifold: Manifold,
    step_size: StepSize,
    *,
    num_steps: int = 10,
    needs_batch: bool = False,
) -> Kernel:
    r"""GMC: exact Hamiltonian Monte Carlo along the geodesics of a manifold.

    A velocity is drawn from the standard normal distribution on the tangent space. With the
    projection :math:`\Lambda(x)` onto that space, repeat `num_steps` times

    .. math::
        v \leftarrow \Lambda(x) \big( v + \tfrac h2 \nabla \log \pi(x) \big), \qquad
        (x, v) \leftarrow \text{geodesic flow of } (x, v) \text{ for the time } h, \qquad
        v \leftarrow \Lambda(x) \big( v + \tfrac h2 \nabla \log \pi(x) \big),

    and accept the end with probability :math:`\min(1, e^{-\Delta H})`, where :math:`H = -\log
    \pi(x) + |v|^2 / 2` (Byrne and Girolami 2013, algorithm 1). The stationary distribution is exact
    at every step size; a trajectory into a region without density is rejected. All copies and parts
    of a product are accepted or rejected together: for many independent copies use
    `simplex_jax.chains`.

    Args:
        log_density: `(position) -> scalar`, log of a density with respect to area on the manifold
            (see `geometry.manifolds`), as a function on the embedding space; only its tangential
            gradient matters.
        manifold: One of `geometry.manifolds`, or your own.
        step_size: h, positive, or a schedule of the number of updates. An acceptance of 0.6 to 0.9
            is efficient.
        num_steps: Number of leapfrog steps in a trajectory.
        needs_batch: The log density is `(position, batch) -> scalar`; batches are the full data, or
            whatever else the density is conditional on.

    Returns:
        A kernel over points of the manifold.

    Raises:
        ValueError: `step_size` or `num_steps` is out of range.

    Example: a von Mises-Fisher distribution on the sphere in R^3, whose mean has length coth 3 -
    1/3 = 0.672.

        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches, run
        >>> from simplex_jax.geometry import manifolds
        >>> from simplex_jax.samplers import gmc
        >>> kernel = gmc.build(lambda x: 3 * x[2], manifolds.sphere(), 0.3)
        >>> state = kernel.init(jax.random.key(0), jnp.array([1.0, 0.0, 0.0]))
        >>> state, x = run(jax.random.key(1), kernel, state, batches.none, 4000)
        >>> print(x[:, 2].mean().round(1))
        0.7
    """
    schedules.check(step_size)
    options = {"needs_batch": needs_batch}
    num_steps = arguments.at_least("num_steps", num_steps, 1)
    return freeze(
        static(init, **options),
        static(update, num_steps=num_steps, **options),
        {"log_density": log_density, "manifold": manifold},
        step_size=step_size,
    )

"""SGNHT, the stochastic gradient Nose-Hoover thermostat (Ding et al. 2014)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from simplex_jax._src import arguments, schedules
from simplex_jax._src.base import Batch, Kernel, Position, bind, freeze
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.samplers import recipe, sghmc
from simplex_jax._src.samplers.dynamics import Dynamics, Variables
from simplex_jax._src.samplers.recipe import State
from simplex_jax._src.schedules import StepSize

__all__ = ["Info", "State", "build", "init", "update"]


class Info(NamedTuple):
    """Diagnostics of one update of SGNHT, all scalars.

    Attributes:
        step_size: The step size used.
        temperature: Mean of r^2, kept at 1 on average by the thermostat.
        thermostat: The friction xi. The further it stays above `friction`, the larger the gradient
            noise.
        gradient_norm: Euclidean norm of the estimated gradient.
    """

    step_size: jax.Array
    temperature: jax.Array
    thermostat: jax.Array
    gradient_norm: jax.Array


def init(
    key: jax.Array, position: Position, *, estimator: Estimator, friction: ArrayLike = 1.0
) -> State:
    """Start from a tree of finite real numbers, with a momentum drawn from N(0, I).

    The auxiliary variables of the state are the momentum, a tree like the position, and the
    thermostat, a scalar that starts at `friction`.

    Raises:
        ValueError: The position is not finite, or the log density of a `gradients.density` or its
            gradient is not finite there.
    """
    state = sghmc.init(key, position, estimator=estimator)
    xi = jnp.asarray(friction, jax.tree.leaves(state.position)[0].dtype)
    return state._replace(auxiliary=(*state.auxiliary, xi))


def update(
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    estimator: Estimator,
    step_size: StepSize,
    friction: ArrayLike = 1.0,
) -> tuple[State, Info]:
    """Estimate the gradient from the batch; move the momentum, the thermostat and the position."""
    state, info = recipe.update(
        key,
        state,
        batch,
        estimator=estimator,
        dynamics=Dynamics(bind(_diffusion, friction), _curl, bind(_kinetic, friction)),
        step_size=step_size,
        coordinatewise=True,
    )
    momentum, xi = state.auxiliary
    temperature = _square(momentum) / _size(momentum)
    return state, Info(info.step_size, temperature, xi, info.gradient_norm)


def _diffusion(friction: ArrayLike, z: Variables, v: Variables) -> Variables:
    position, momentum, xi = v
    damped = jax.tree.map(lambda r: friction * r, momentum)
    return jax.tree.map(jnp.zeros_like, position), damped, jnp.zeros_like(xi)


def _curl(z: Variables, v: Variables) -> Variables:
    _, momentum, _ = z
    d = _size(momentum)
    v_position, v_momentum, v_xi = v
    rotated = jax.tree.map(lambda a, r: a + r * v_xi / d, v_position, momentum)
    products = jax.tree.map(lambda r, a: jnp.sum(r * a), momentum, v_momentum)
    heat = sum(jax.tree.leaves(products))
    return jax.tree.map(jnp.negative, v_momentum), rotated, -heat / d


def _kinetic(friction: ArrayLike, z: Variables) -> jax.Array:
    _, momentum, xi = z
    return _square(momentum) / 2 + _size(momentum) * (xi - friction) ** 2 / 2


def _square(momentum: Position) -> jax.Array:
    return sum((jnp.sum(r**2) for r in jax.tree.leaves(momentum)), jnp.zeros(()))


def _size(momentum: Position) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(momentum))


def build(estimator: Estimator, step_size: StepSize, *, friction: float = 1.0) -> Kernel:
    r"""SGNHT: Hamiltonian dynamics whose friction adapts to unknown gradient noise.

    With a gradient :math:`\hat g` of the log posterior, estimated from the batch, d momenta r, a
    thermostat :math:`\xi` and a diffusion A,

    .. math::
        r' = r + h\,\hat g - h\, \xi\, r + N(0,\; 2 h A), \qquad
        \xi' = \xi + h\,\Big(\frac{r'^\top r'}{d} - 1\Big), \qquad x' = x + h\, r'

    (Ding et al. 2014, algorithm 2, whose friction is this thermostat; `samplers.recipe` with H =
    -log posterior + r^2 / 2 + d (xi - A)^2 / 2, D = (0, A, 0) and a Q with entries r / d between r
    and xi (Ma, Chen and Fox 2015), whose correction is the -1.) The bias is of order h. The
    thermostat absorbs gradient noise of constant variance V in all coordinates: its mean becomes A
    + h V / 2. Any other noise leaves a bias, as one thermostat serves all coordinates. In one or
    two dimensions the chain may not be ergodic unless A is large.

    Args:
        estimator: Estimates the gradient, see `simplex_jax.gradients`.
        step_size: h, positive, or a schedule of the number of updates.
        friction: A, a positive number.

    Returns:
        A kernel over trees of real arrays.

    Raises:
        ValueError: `step_size` or `friction` is out of range.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches, gradients, run
        >>> from simplex_jax.samplers import sgnht
        >>> estimator = gradients.density(lambda x: -(((x - 3) / 2) ** 2).sum() / 2)
        >>> kernel = sgnht.build(estimator, step_size=0.1)
        >>> state = kernel.init(jax.random.key(0), jnp.zeros(2000))
        >>> state, _ = run(jax.random.key(1), kernel, state, batches.none, 300)
        >>> print(state.position.mean().round(), state.position.std().round())
        3.0 2.0
    """
    schedules.check(step_size)
    shared = {"estimator": estimator, "friction": arguments.scalar("friction", friction)}
    return freeze(init, update, shared, step_size=step_size)

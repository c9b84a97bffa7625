"""SGHMC, stochastic gradient Hamiltonian Monte Carlo (Chen, Fox and Guestrin 2014)."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from simplex_jax._src import arguments, gradients, schedules
from simplex_jax._src.base import Batch, Kernel, Position, PyTree, bind, freeze
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.geometry import simplex
from simplex_jax._src.samplers import euler, recipe
from simplex_jax._src.samplers.dynamics import Dynamics, Variables
from simplex_jax._src.samplers.recipe import State
from simplex_jax._src.schedules import StepSize

__all__ = ["Info", "State", "build", "init", "update"]


class Info(NamedTuple):
    """Diagnostics of one update of SGHMC, all scalars.

    Attributes:
        step_size: The step size used.
        temperature: Mean of r^2 / mass, 1 for an exact chain. Gradient noise heats it: lower the
            step size, raise the friction, or give a `noise_estimate`.
        gradient_norm: Euclidean norm of the estimated gradient.
    """

    step_size: jax.Array
    temperature: jax.Array
    gradient_norm: jax.Array


def init(key: jax.Array, position: Position, *, estimator: Estimator, mass: PyTree = 1.0) -> State:
    """Start from a tree of finite real numbers, with a momentum drawn from N(0, mass).

    The momentum, a tree like the position, is the only auxiliary variable of the state.

    Raises:
        ValueError: The position is not finite, or the log density of a `gradients.density` or its
            gradient is not finite there.
    """
    position = gradients.start(estimator, position)
    key_memory, key_momentum = jax.random.split(key)
    masses = jax.tree.unflatten(jax.tree.structure(position), simplex.like("mass", mass, position))
    noise = euler.normal_like(key_momentum, position)
    momentum = jax.tree.map(lambda m, z: jnp.sqrt(m) * z, masses, noise)
    return State(position, jnp.zeros((), jnp.int32), estimator.init(key_memory), (momentum,))


def update(
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    estimator: Estimator,
    step_size: StepSize,
    friction: ArrayLike = 1.0,
    mass: PyTree = 1.0,
    noise_estimate: PyTree = None,
) -> tuple[State, Info]:
    """Estimate the gradient from the batch, then move the momentum and the position."""
    state, info = recipe.update(
        key,
        state,
        batch,
        estimator=estimator,
        dynamics=Dynamics(bind(_diffusion, friction, mass), _curl, bind(_kinetic, mass)),
        step_size=step_size,
        noise_estimate=noise_estimate,
        coordinatewise=True,
    )
    size = sum(leaf.size for leaf in jax.tree.leaves(state.position))
    return state, Info(info.step_size, 2 * info.kinetic / size, info.gradient_norm)


def _diffusion(friction: ArrayLike, mass: PyTree, z: Variables, v: Variables) -> Variables:
    position, momentum = v
    leaves, structure = jax.tree.flatten(momentum)
    masses = simplex.like("mass", mass, z[0])
    damped = [friction * m * r for m, r in zip(masses, leaves, strict=True)]
    return jax.tree.map(jnp.zeros_like, position), jax.tree.unflatten(structure, damped)


def _curl(z: Variables, v: Variables) -> Variables:
    position, momentum = v
    return jax.tree.map(jnp.negative, momentum), position


def _kinetic(mass: PyTree, z: Variables) -> jax.Array:
    masses = simplex.like("mass", mass, z[0])
    momenta = jax.tree.leaves(z[1])
    return sum((jnp.sum(r**2 / m) / 2 for r, m in zip(momenta, masses, strict=True)), jnp.zeros(()))


def build(
    estimator: Estimator,
    step_size: StepSize,
    *,
    friction: float = 1.0,
    mass: PyTree = 1.0,
    noise_estimate: PyTree = None,
) -> Kernel:
    r"""SGHMC: underdamped Langevin dynamics of any log density of real parameters.

    With a gradient :math:`\hat g` of the log posterior, estimated from the batch, momenta r, masses
    M and a friction c,

    .. math::
        r' = r + h\,\hat g - h c\, r + N(0,\; 2 h c M - h^2 V), \qquad x' = x + h\, M^{-1} r'

    (Chen, Fox and Guestrin 2014, equation 13, whose C is c M and whose :math:`\hat B` is h V / 2;
    their x moves first, which is the same chain half a step later. It is `samplers.recipe` with H =
    -log posterior + r^2 / (2 M), D = (0, c M) and the canonical Q.) V estimates the variance of the
    gradient, and the injected noise is reduced by it.

    The chain is exact as h -> 0. At h > 0 the temperature is about 1 + h c / 2, and a gradient
    variance V that is not estimated adds h V / (2 c M). On a normal of variance S the step diverges
    at h near 2 sqrt(M S); friction of about 2 / sqrt(M S) mixes best.

    Args:
        estimator: Estimates the gradient, see `simplex_jax.gradients`.
        step_size: h, positive and below 2 / friction, where momenta start to diverge; or a schedule
            of the number of updates.
        friction: c, a positive number: momenta are forgotten within a time of 1 / c.
        mass: M, finite and positive: an array that broadcasts to the leaves of the position, or a
            tree of them with its structure; inverse variances from a rough fit are best.
        noise_estimate: V, nonnegative, likewise; None for 0. It must be below 2 c M / h, or the
            chain becomes NaN. See `gradients.variance`.

    Returns:
        A kernel over trees of real arrays.

    Raises:
        ValueError: An argument is out of range.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches, gradients, run
        >>> from simplex_jax.samplers import sghmc
        >>> estimator = gradients.density(lambda x: -(((x - 3) / 2) ** 2).sum() / 2)
        >>> kernel = sghmc.build(estimator, step_size=0.2)
        >>> state = kernel.init(jax.random.key(0), jnp.zeros(2000))
        >>> state, _ = run(jax.random.key(1), kernel, state, batches.none, 100)
        >>> print(state.position.mean().round(), state.position.std().round())
        3.0 2.0
    """
    c = arguments.scalar("friction", friction)
    limit = math.inf if isinstance(c, jax.core.Tracer) else 2 / float(c)
    schedules.check(step_size, below=limit, because=": momenta are multiplied by 1 - h friction")
    masses = arguments.tree("mass", mass)
    noise_estimate = arguments.tree("noise_estimate", noise_estimate, "nonnegative")
    shared = {"estimator": estimator, "mass": masses}
    options = {"step_size": step_size, "friction": c, "noise_estimate": noise_estimate}
    return freeze(init, update, shared, **options)

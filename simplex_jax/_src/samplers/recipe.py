"""Samplers by the complete recipe of stochastic gradient MCMC (Ma, Chen and Fox 2015)."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src import arguments, gradients, schedules
from simplex_jax._src.base import Batch, Kernel, Position, PyTree, freeze, static
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.samplers import euler
from simplex_jax._src.samplers.dynamics import (
    Dynamics,
    Operator,
    Variables,
    check,
    correction,
    drift,
    noise,
)
from simplex_jax._src.schedules import StepSize

__all__ = ["Info", "State", "build", "init", "update"]


class State(NamedTuple):
    """State of a sampler built by the recipe.

    Attributes:
        position: Any tree of real arrays.
        step: Number of updates done, int32.
        memory: The memory of the estimator.
        auxiliary: The auxiliary variables, a tuple of trees; () if there are none.
    """

    position: Position
    step: jax.Array
    memory: PyTree
    auxiliary: Variables


class Info(NamedTuple):
    """Diagnostics of one update, all scalars.

    Attributes:
        step_size: The step size used.
        kinetic: The kinetic part of H after the update. For d momenta of unit mass its stationary
            mean is d / 2; a higher value shows heating by gradient noise.
        gradient_norm: Euclidean norm of the estimated gradient.
    """

    step_size: jax.Array
    kinetic: jax.Array
    gradient_norm: jax.Array


def init(
    key: jax.Array,
    position: Position,
    *,
    estimator: Estimator,
    dynamics: Dynamics,
    auxiliary: Callable[[jax.Array, Position], Variables],
    coordinatewise: bool = False,
) -> State:
    """Start from a tree of finite real numbers, and check the dynamics there.

    Raises:
        ValueError: The position, or a `gradients.density` there, is not finite, or `diffusion` or
            `curl` does not meet the recipe's conditions.
    """
    position = gradients.start(estimator, position)
    key_memory, key_auxiliary, key_check = jax.random.split(key, 3)
    variables = jax.tree.map(jnp.asarray, auxiliary(key_auxiliary, position))
    if not isinstance(variables, tuple):
        raise ValueError("auxiliary must return a tuple, of one or more trees")
    check(dynamics, key_check, (position, *variables), coordinatewise)
    memory = estimator.init(key_memory)
    return State(position, jnp.zeros((), jnp.int32), memory, variables)


def update(
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    estimator: Estimator,
    dynamics: Dynamics,
    step_size: StepSize,
    fold: Callable[[Variables], Variables] | None = None,
    noise_estimate: PyTree = None,
    coordinatewise: bool = False,
) -> tuple[State, Info]:
    """Estimate the gradient from the batch and take one Euler step of the dynamics."""
    key_estimate, key_noise = jax.random.split(key)
    h = schedules.evaluate(step_size, state.step)
    slope, memory = euler.gradient(key_estimate, estimator, state.memory, state.position, batch)

    start: Variables = (state.position, *state.auxiliary)
    injected = noise(dynamics, key_noise, start, h, noise_estimate, coordinatewise)
    z = start
    for i in (*range(1, len(start)), 0):
        force = drift(dynamics, z, slope, correction(dynamics, z, coordinatewise))
        moved = jax.tree.map(
            lambda x, f, e: x + h.astype(x.dtype) * f + e, start[i], force[i], injected[i]
        )
        z = (*z[:i], moved, *z[i + 1 :])
    position, *auxiliary = z if fold is None else fold(z)
    info = Info(
        step_size=h,
        kinetic=jnp.asarray(dynamics.kinetic((position, *auxiliary))),
        gradient_norm=euler.norm(slope),
    )
    return State(position, state.step + 1, memory, tuple(auxiliary)), info


def build(
    estimator: Estimator,
    step_size: StepSize,
    *,
    diffusion: Operator,
    curl: Operator | None = None,
    kinetic: Callable[[Variables], jax.Array] | None = None,
    auxiliary: Callable[[jax.Array, Position], Variables] | None = None,
    fold: Callable[[Variables], Variables] | None = None,
    noise_estimate: PyTree = None,
    coordinatewise: bool = False,
) -> Kernel:
    r"""A sampler from its diffusion matrix D(z) and its curl matrix Q(z).

    With z = (x, auxiliary variables) and H(z) = -log posterior(x) + kinetic(z), whose marginal
    distribution of x must be the posterior, the diffusion

    .. math::
        dz = [-(D + Q)\, \nabla H + \Gamma]\, dt + \sqrt{2 D}\; dW, \qquad
        \Gamma_i = \sum_j \frac{\partial}{\partial z_j} (D_{ij} + Q_{ij})

    leaves exp(-H) invariant for every positive semidefinite D(z) and skew-symmetric Q(z), and every
    continuous Markov process that does so is of this form (Ma, Chen and Fox 2015, theorems 1 and
    2). :math:`\Gamma` is computed by automatic differentiation. One update is an Euler step with
    injected noise N(0, 2 h D - h^2 B), where :math:`B = (D + Q) V (D + Q)^T` uses an estimate V of
    the variance of the stochastic gradient. The bias is of order h. Unlike in the paper, the
    variables move in turn, each given the newest values of the others: first the auxiliary ones,
    from left to right, then the position. For momenta this is the symplectic Euler step of Chen,
    Fox and Guestrin (2014), which is stable where the plain one is not.

    Vectors are tuples like z: `diffusion(z, v)` returns D(z) v. By default :math:`\Gamma` needs a
    directional derivative per coordinate of z, and the noise an eigendecomposition. For large z set
    `coordinatewise` if D is diagonal and, within each array of z, column j of D + Q depends on no
    coordinate of that array but the j-th. This holds for all samplers of this library, and costs
    one derivative per array of z. `init` checks it, and the symmetry of D and Q. With a noise
    estimate only the diagonal of B is then used, and a row of D + Q must have at most one entry in
    each array of the position, which is not checked.

    Args:
        estimator: Estimates the gradient of the log posterior, see `simplex_jax.gradients`.
        step_size: h, positive, or a schedule of the number of updates.
        diffusion: `(z, v) -> D(z) v`.
        curl: `(z, v) -> Q(z) v`; None for 0.
        kinetic: `(z) -> scalar`, H without the negative log posterior; None for 0.
        auxiliary: `(key, position) -> tuple` of the initial auxiliary variables, trees; None for
            ().
        fold: `(z) -> z` applied after every step: if x is bounded, the reflection at the bound.
        noise_estimate: V, an array or a tree that broadcasts to the position, nonnegative; None for
            0. If 2 D - h B is not positive semidefinite the chain becomes NaN: use a smaller step.
            See `gradients.variance`.
        coordinatewise: See above.

    Returns:
        A kernel over trees of real arrays.

    Raises:
        ValueError: `step_size` or `noise_estimate` is out of range.

    Example: SGLD, Riemannian dynamics of positive numbers (SGRLD's), and SGHMC with friction 2.

        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches, gradients, run
        >>> from simplex_jax.samplers import recipe
        >>> target = gradients.density(lambda x: (4 * jnp.log(x) - 2 * x).sum())  # Gamma(5, 2)
        >>> def positive(z):  # reflect the position, and what moves it
        ...     return (jnp.abs(z[0]), *[r * jnp.sign(z[0]) for r in z[1:]])
        >>> sgld = recipe.build(target, 0.01, diffusion=lambda z, v: v, fold=positive)
        >>> sgrld = recipe.build(
        ...     target, 0.01, diffusion=lambda z, v: (z[0] * v[0],), fold=positive,
        ...     coordinatewise=True)
        >>> sghmc = recipe.build(
        ...     target, 0.05, diffusion=lambda z, v: (0, 2 * v[1]),
        ...     curl=lambda z, v: (-v[1], v[0]), kinetic=lambda z: (z[1] ** 2).sum() / 2,
        ...     auxiliary=lambda key, x: (jax.random.normal(key, x.shape),), fold=positive,
        ...     coordinatewise=True)
        >>> state = sghmc.init(jax.random.key(0), jnp.ones(2000))
        >>> state, _ = run(jax.random.key(1), sghmc, state, batches.none, 200)
        >>> print(state.position.mean().round(1))
        2.5
    """
    schedules.check(step_size)
    # None is a tree without leaves.
    noise_estimate = arguments.tree("noise_estimate", noise_estimate, "nonnegative")
    dynamics = Dynamics(diffusion, curl or _zero, kinetic or _no_energy)
    options = {"coordinatewise": coordinatewise}
    return freeze(
        static(init, **options),
        static(update, **options),
        {"estimator": estimator, "dynamics": dynamics},
        of_init={"auxiliary": auxiliary or _nothing},
        step_size=step_size,
        fold=fold,
        noise_estimate=noise_estimate,
    )


def _no_energy(z: Variables) -> jax.Array:
    return jnp.zeros(())


def _nothing(key: jax.Array, position: Position) -> Variables:
    return ()


def _zero(z: Variables, v: Variables) -> Variables:
    return jax.tree.map(jnp.zeros_like, v)

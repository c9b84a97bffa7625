"""MAMLA, the Metropolis-adjusted mirror Langevin algorithm (Srinivasan et al. 2024)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src import gradients, schedules
from simplex_jax._src.base import Batch, Kernel, Position, PyTree, freeze, static
from simplex_jax._src.geometry import mirror as mirrors
from simplex_jax._src.geometry.mirror import MirrorMap
from simplex_jax._src.gradients import LogDensity
from simplex_jax._src.samplers import euler, metropolis
from simplex_jax._src.samplers.metropolis import Info
from simplex_jax._src.schedules import StepSize

__all__ = ["Info", "State", "build", "init", "update"]


class State(NamedTuple):
    """State of MAMLA.

    Attributes:
        position: A point x of the constrained space, any tree of real arrays [..., n].
        step: Number of updates done, int32.
        dual: y = grad h(x), leaves [..., d].
    """

    position: Position
    step: jax.Array
    dual: PyTree


def init(
    key: jax.Array,
    position: Position,
    *,
    log_density: LogDensity,
    mirror: MirrorMap,
    needs_batch: bool = False,
) -> State:
    """Start from a point inside; on the simplex, positive weights are normalised.

    Raises:
        ValueError: The position is not where the mirror map's h is finite and strictly convex, or
            the log density or its gradient is not finite there.
    """
    position, dual = mirrors.start(mirror, position)
    gradients.start(gradients.density(log_density, needs_batch=needs_batch), position)
    return State(position, jnp.zeros((), jnp.int32), dual)


def update(
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    log_density: LogDensity,
    mirror: MirrorMap,
    step_size: StepSize,
    needs_batch: bool = False,
) -> tuple[State, Info]:
    """Propose a step of the dual variable, and accept or reject it."""
    key_noise, key_accept = jax.random.split(key)
    h = schedules.evaluate(step_size, state.step)
    value_and_slope = metropolis.value_and_slope_of(log_density, batch, needs_batch)

    def mean(x: jax.Array, y: jax.Array, slope: jax.Array) -> jax.Array:
        # The gradient in the d coordinates of y; on the simplex, slope has one more.
        return y + h.astype(y.dtype) * mirror.hessian(x, y, mirror.inverse_hessian(x, y, slope))

    def spread(x: jax.Array, y: jax.Array, xi: jax.Array) -> jax.Array:
        return jnp.sqrt(2 * h).astype(y.dtype) * mirror.hessian(x, y, mirror.noise(x, y, xi))

    def log_density_of_dual(
        x: jax.Array, y: jax.Array, center: jax.Array, other: jax.Array
    ) -> jax.Array:
        # log of the target's density of y times that of proposing `other` from there, without the
        # target's density of x.
        return jnp.sum(-1.5 * mirror.log_det(x, y) - mirror.square(x, y, other - center) / (4 * h))

    x, y = state.position, state.dual
    value, slope = value_and_slope(x)
    center = jax.tree.map(mean, x, y, slope)
    end_y = jax.tree.map(
        lambda m, x, y, xi: m + spread(x, y, xi), center, x, y, euler.normal_like(key_noise, x)
    )
    end_x = jax.tree.map(mirror.primal, end_y, x)
    value_end, slope_end = value_and_slope(end_x)
    reverse_center = jax.tree.map(mean, end_x, end_y, slope_end)
    gains = jax.tree.map(
        lambda x, y, m, x_end, y_end, m_end: (
            log_density_of_dual(x_end, y_end, m_end, y) - log_density_of_dual(x, y, m, y_end)
        ),
        *(x, y, center, end_x, end_y, reverse_center),
    )
    log_ratio = value_end - value + sum(jax.tree.leaves(gains))
    acceptance, choose = metropolis.decide(key_accept, log_ratio, value, h)
    position, dual = choose((end_x, end_y), (x, y))
    info = Info(step_size=h, acceptance=acceptance, log_density=choose(value_end, value))
    return State(position, state.step + 1, dual), info


def build(
    log_density: LogDensity, mirror: MirrorMap, step_size: StepSize, *, needs_batch: bool = False
) -> Kernel:
    r"""MAMLA: mirror Langevin steps in a convex set with a Metropolis correction: exact.

    With the dual variable y = grad h(x) of a mirror map (the h under the nabla), a step

    .. math::
        y' = y + h\, \nabla \log \pi(x) + \sqrt{2 h}\; \nabla^2 h(x)^{1/2} \xi, \qquad
        x' = \nabla h^*(y'), \qquad \xi \sim N(0, I)

    is proposed, and accepted with probability :math:`\min(1, \pi(x') q(x \mid x') / \pi(x) q(x'
    \mid x))`,

    .. math::
        \log q(x' \mid x) = \log \det \nabla^2 h(x') - \tfrac12 \log \det \nabla^2 h(x)
            - \tfrac1{4 h} \big\| y' - y - h \nabla \log \pi(x) \big\|^2_{\nabla^2 h(x)^{-1}} + c

    (Srinivasan, Wibisono and Wilson 2024, *Fast sampling from constrained spaces using the
    Metropolis-adjusted mirror Langevin algorithm*, algorithm 1). The stationary distribution is
    exact at every step size, and no proposal leaves the set. The noise of y depends on x, unlike
    that of `samplers.mld`: two processes with the same stationary distribution. All rows and leaves
    are accepted or rejected together: use `simplex_jax.chains` for many independent chains.

    For a Dirichlet posterior, with the entropic map, this is Riemannian Langevin dynamics in the
    natural parameters, with a Metropolis test.

    Args:
        log_density: `(position) -> scalar`, the log of a density with respect to volume; on the
            simplex, any function of all K coordinates that agrees with it there.
        mirror: The mirror map, for every leaf of the position: see `simplex_jax.geometry.mirror`.
        step_size: h, positive, or a schedule of the number of updates. An acceptance of about 0.6
            is efficient.
        needs_batch: The log density is `(position, batch) -> scalar`; batches are the full data, or
            whatever else the density is conditional on.

    Returns:
        A kernel over trees of real arrays [..., n], inside the set of the mirror map.

    Raises:
        ValueError: `step_size` is out of range.

    Example: the density proportional to e^x between -1 and 1, whose mean is coth(1) - 1 = 0.313.

        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches, chains, run
        >>> from simplex_jax.geometry import mirror
        >>> from simplex_jax.samplers import mamla
        >>> kernel = chains(mamla.build(jnp.sum, mirror.hypercube(), step_size=0.5), 4000)
        >>> state = kernel.init(jax.random.key(0), jnp.zeros(1))
        >>> state, _ = run(jax.random.key(1), kernel, state, batches.none, 50)
        >>> print(state.position.mean().round(1))
        0.3
    """
    schedules.check(step_size)
    options = {"needs_batch": needs_batch}
    shared = {"log_density": log_density, "mirror": mirror}
    return freeze(static(init, **options), static(update, **options), shared, step_size=step_size)

"""MLD, mirrored Langevin dynamics with any convex mirror map (Hsieh et al. 2018)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src import arguments, gradients, schedules
from simplex_jax._src.base import Batch, Kernel, Position, PyTree, freeze, static
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.geometry import mirror as mirrors
from simplex_jax._src.geometry.mirror import MirrorMap
from simplex_jax._src.samplers import euler
from simplex_jax._src.schedules import StepSize

__all__ = ["Info", "State", "build", "init", "update"]

_FORMS = ("primal", "dual")


class State(NamedTuple):
    """State of MLD.

    Attributes:
        position: A point x of the constrained space, any tree of real arrays [..., n].
        step: Number of updates done, int32.
        memory: The memory of the estimator.
        dual: y = grad h(x), leaves [..., d].
    """

    position: Position
    step: jax.Array
    memory: PyTree
    dual: PyTree


class Info(NamedTuple):
    """Diagnostics of one update of MLD, all scalars.

    Attributes:
        step_size: The step size used.
        drift: Root mean square of the drift of y in units of the injected noise. The step is
            accurate if this is far below 1.
    """

    step_size: jax.Array
    drift: jax.Array


def init(
    key: jax.Array,
    position: Position,
    *,
    estimator: Estimator,
    mirror: MirrorMap,
    form: str = "primal",
) -> State:
    """Start from a point inside; on the simplex, positive weights are normalised.

    Raises:
        ValueError: The position is not where the mirror map's h is finite and strictly convex, or
            the log density of a `gradients.density` or its gradient is not finite there.
    """
    position, dual = mirrors.start(mirror, position)
    gradients.start(estimator, dual if form == "dual" else position)
    return State(position, jnp.zeros((), jnp.int32), estimator.init(key), dual)


def update(
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    estimator: Estimator,
    mirror: MirrorMap,
    step_size: StepSize,
    form: str = "primal",
) -> tuple[State, Info]:
    """Estimate the gradient from the batch and take one Euler step of the dual variable."""
    key_estimate, key_noise = jax.random.split(key)
    h = schedules.evaluate(step_size, state.step)
    point = state.dual if form == "dual" else state.position
    slope, memory = euler.gradient(key_estimate, estimator, state.memory, point, batch)
    drift = slope
    if form == "primal":
        drift = jax.tree.map(
            lambda x, y, g: mirror.inverse_hessian(x, y, g) + mirror.correction(x, y),
            state.position,
            state.dual,
            slope,
        )
    dual, ratio = euler.step(key_noise, state.dual, drift, h)
    position = jax.tree.map(mirror.primal, dual, state.position)
    return State(position, state.step + 1, memory, dual), Info(step_size=h, drift=ratio)


def build(
    estimator: Estimator, mirror: MirrorMap, step_size: StepSize, *, form: str = "primal"
) -> Kernel:
    r"""MLD: unconstrained Langevin dynamics of y = grad h(x), for x in a convex set.

    With a gradient :math:`\hat g` estimated from the batch (all the data: MLD; fewer: SMLD) and
    :math:`\xi \sim N(0, I)`,

    .. math::
        y' = y + h\, \nabla^2 h(x)^{-1} \big( \hat g - \nabla \log \det \nabla^2 h(x) \big)
            + \sqrt{2 h}\; \xi, \qquad x' = \nabla h^*(y')

    in the "primal" form, where :math:`\hat g` is the gradient of the log density of x, and

    .. math::
        y' = y + h\, \hat g + \sqrt{2 h}\; \xi, \qquad x' = \nabla h^*(y')

    in the "dual" form, where it is that of the log density -W of y (Hsieh et al. 2018, equation 3.3
    with step beta = h; the h under the nabla is the mirror map). The two are the same process. Use
    the dual form if W has a simple formula, or if the target has a pole at the boundary, where x is
    rounded and y is not: -W is the log density of x = `mirror.primal(y, near)` minus the sum of
    `mirror.log_det(x, y)`. The bias is that of Langevin steps, of order h: if W has curvature m,
    the variance of y is too large by a factor of about 1 / (1 - h m / 2), and steps above 2 / m
    diverge. For a Dirichlet, `samplers.smld` is this kernel on counts and log-probabilities.

    Args:
        estimator: Estimates the gradient of the log density, at x in the primal form and at y in
            the dual form; see `simplex_jax.gradients`.
        mirror: The mirror map, for every leaf of the position: see `simplex_jax.geometry.mirror`.
            For several spaces combine kernels with `simplex_jax.product`.
        step_size: h, positive, or a schedule of the number of updates.
        form: "primal" or "dual".

    Returns:
        A kernel over trees of real arrays [..., n], inside the set of the mirror map.

    Raises:
        ValueError: `step_size` is out of range or `form` is unknown.

    Example: the density proportional to e^x between -1 and 1, whose mean is coth(1) - 1 = 0.313.

        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches, gradients, run
        >>> from simplex_jax.geometry import mirror
        >>> from simplex_jax.samplers import mld
        >>> kernel = mld.build(gradients.density(jnp.sum), mirror.hypercube(), step_size=0.05)
        >>> state = kernel.init(jax.random.key(0), jnp.zeros(20_000))
        >>> state, _ = run(jax.random.key(1), kernel, state, batches.none, 100)
        >>> print(state.position.mean().round(1))
        0.3
    """
    schedules.check(step_size)
    arguments.choice("form", form, _FORMS)
    shared = {"estimator": estimator, "mirror": mirror}
    return freeze(static(init, form=form), static(update, form=form), shared, step_size=step_size)

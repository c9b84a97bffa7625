"""MAPLA, the Metropolis-adjusted preconditioned Langevin algorithm (Srinivasan et al. 2024)."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular

from simplex_jax._src import arguments, schedules
from simplex_jax._src.base import Batch, Kernel, Position, freeze, static
from simplex_jax._src.geometry.metrics import Metric
from simplex_jax._src.gradients import LogDensity
from simplex_jax._src.precision import full_precision
from simplex_jax._src.samplers import euler, metropolis
from simplex_jax._src.samplers.metropolis import Info, State
from simplex_jax._src.schedules import StepSize

__all__ = ["Info", "State", "build", "init", "update"]


def init(
    key: jax.Array,
    position: Position,
    *,
    log_density: LogDensity,
    metric: Metric,
    needs_batch: bool = False,
) -> State:
    """Start from a point inside the set.

    Raises:
        ValueError: The metric is not positive definite at the position, or the log density or its
            gradient is not finite there.
    """
    state = metropolis.init(key, position, log_density=log_density, needs_batch=needs_batch)
    for path, leaf in jax.tree.leaves_with_path(state.position):
        name = "position" + jax.tree_util.keystr(path)
        if leaf.ndim == 0:
            raise ValueError(f"{name} must have a last axis of coordinates; it is a scalar")
        # The factor of a matrix that is not positive definite is NaN.
        definite = jnp.isfinite(_factor(metric, leaf)).all(axis=(-2, -1))
        arguments.require(name, leaf, definite, "where the metric is positive definite")
    return state


def update(
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    log_density: LogDensity,
    metric: Metric,
    step_size: StepSize,
    needs_batch: bool = False,
) -> tuple[State, Info]:
    """Propose a step preconditioned by the metric, and accept or reject it."""
    key_noise, key_accept = jax.random.split(key)
    h = schedules.evaluate(step_size, state.step)
    value_and_slope = metropolis.value_and_slope_of(log_density, batch, needs_batch)

    def mean(x: jax.Array, factor: jax.Array, slope: jax.Array) -> jax.Array:
        return x + h.astype(x.dtype) * _by_rows(_solve, "(d,d),(d)->(d)", factor, slope)

    def spread(factor: jax.Array, xi: jax.Array) -> jax.Array:
        return jnp.sqrt(2 * h).astype(xi.dtype) * _by_rows(_color, "(d,d),(d)->(d)", factor, xi)

    def log_proposal(factor: jax.Array, center: jax.Array, other: jax.Array) -> jax.Array:
        square = _by_rows(_square, "(d,d),(d)->()", factor, other - center)
        return jnp.sum(_log_root(factor) - square / (4 * h))

    x = state.position
    value, slope = value_and_slope(x)
    factor = jax.tree.map(lambda x: _factor(metric, x), x)
    center = jax.tree.map(mean, x, factor, slope)
    noise = jax.tree.map(spread, factor, euler.normal_like(key_noise, x))
    end = jax.tree.map(jnp.add, center, noise)
    value_end, slope_end = value_and_slope(end)
    factor_end = jax.tree.map(lambda x: _factor(metric, x), end)
    reverse_center = jax.tree.map(mean, end, factor_end, slope_end)
    gains = jax.tree.map(
        lambda x, root, m, x_end, root_end, m_end: (
            log_proposal(root_end, m_end, x) - log_proposal(root, m, x_end)
        ),
        *(x, factor, center, end, factor_end, reverse_center),
    )
    log_ratio = value_end - value + sum(jax.tree.leaves(gains))
    acceptance, choose = metropolis.decide(key_accept, log_ratio, value, h)
    info = Info(step_size=h, acceptance=acceptance, log_density=choose(value_end, value))
    return State(choose(end, x), state.step + 1), info


def _by_rows(function: Callable, signature: str, *arrays: jax.Array) -> jax.Array:
    return jnp.vectorize(function, signature=signature)(*arrays)


def _factor(metric: Metric, x: jax.Array) -> jax.Array:
    """Return the Cholesky factor of the metric of every row, [..., d, d]."""
    d = x.shape[-1]
    shape = jax.eval_shape(metric, jax.ShapeDtypeStruct((d,), x.dtype)).shape
    if shape != (d, d):
        raise ValueError(
            f"metric must return a matrix [{d}, {d}]; it returned one of shape {shape}"
        )
    return jnp.linalg.cholesky(_by_rows(metric, "(d)->(d,d)", x))


def _log_root(factor: jax.Array) -> jax.Array:
    """Return half the log determinant of the metric."""
    return jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)).sum(axis=-1)


def _solve(factor: jax.Array, v: jax.Array) -> jax.Array:
    return cho_solve((factor, True), v)


def _color(factor: jax.Array, xi: jax.Array) -> jax.Array:
    return solve_triangular(factor, xi, lower=True, trans="T")


@full_precision
def _square(factor: jax.Array, v: jax.Array) -> jax.Array:
    return jnp.sum((factor.T @ v) ** 2)


def build(
    log_density: LogDensity, metric: Metric, step_size: StepSize, *, needs_batch: bool = False
) -> Kernel:
    r"""MAPLA: Langevin steps in any Riemannian metric with a Metropolis correction: exact.

    In a convex set of R^d with a metric G whose balls stay inside, such as the second derivative of
    a barrier, the proposal is

    .. math::
        x' = x + h\, G(x)^{-1} \nabla \log \pi(x) + \sqrt{2 h}\; G(x)^{-1/2}\, \xi,
        \qquad \xi \sim N(0, I) ,

    without the derivatives of G in a discretised Riemannian diffusion, since the Metropolis
    correction replaces them. It is accepted with probability :math:`\min(1, \pi(x') q(x \mid x') /
    \pi(x) q(x' \mid x))`,

    .. math::
        \log q(x' \mid x) = \tfrac12 \log \det G(x) - \tfrac1{4 h}
            \big\| x' - x - h\, G(x)^{-1} \nabla \log \pi(x) \big\|^2_{G(x)} + c

    (Srinivasan, Wibisono and Wilson 2024, *High-accuracy sampling from constrained spaces with the
    Metropolis-adjusted preconditioned Langevin algorithm*), and rejected outside the set, so the
    stationary distribution is exact at every step size. Unlike `samplers.mamla` it needs no inverse
    of a gradient, and its metric need not be a second derivative. A step computes two matrices, at
    O(d^3) each. All rows and leaves are accepted or rejected together: use `simplex_jax.chains` for
    many independent chains.

    Args:
        log_density: `(position) -> scalar`, the log of a density with respect to volume; it must be
            -inf or NaN outside the set.
        metric: `(x [d]) -> G(x) [d, d]`, symmetric and positive definite inside the set, such as
            `geometry.hessian_metric` of a barrier. It is mapped over the leading axes of every
            leaf: avoid `jax.hessian`, which jax 0.10 may compile wrongly there.
        step_size: h, positive, or a schedule of the number of updates. An acceptance of about 0.6
            is efficient.
        needs_batch: The log density is `(position, batch) -> scalar`; batches are the full data, or
            whatever else the density is conditional on.

    Returns:
        A kernel over trees of real arrays [..., d].

    Raises:
        ValueError: `step_size` is out of range; when used, the metric is not a matrix.

    Example: a standard exponential, in the metric of the barrier -log x.

        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches, chains, geometry, run
        >>> from simplex_jax.samplers import mapla
        >>> def log_density(x):
        ...     return jnp.where(x > 0, -x, -jnp.inf).sum()
        >>> metric = geometry.hessian_metric(lambda x: -jnp.log(x).sum())
        >>> kernel = chains(mapla.build(log_density, metric, step_size=0.3), 4000)
        >>> state = kernel.init(jax.random.key(0), jnp.ones(1))
        >>> state, _ = run(jax.random.key(1), kernel, state, batches.none, 100)
        >>> print(state.position.mean().round(1))
        1.0
    """
    schedules.check(step_size)
    options = {"needs_batch": needs_batch}
    shared = {"log_density": log_density, "metric": metric}
    return freeze(static(init, **options), static(update, **options), shared, step_size=step_size)

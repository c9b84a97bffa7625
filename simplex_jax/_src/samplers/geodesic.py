"""Shared code of kernels on manifolds: starts, velocities, friction, noise and inner steps."""

import math
from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from simplex_jax._src import arguments, schedules
from simplex_jax._src.base import Batch, Kernel, Position, PyTree, freeze, static
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.geometry import simplex
from simplex_jax._src.geometry.manifolds import Manifold
from simplex_jax._src.samplers import euler
from simplex_jax._src.schedules import StepSize

NoiseEstimate: TypeAlias = PyTree | Callable[[Position, Batch], PyTree] | None
"""V(x), the variance of the estimated gradient: an array or a tree, a function, or None for 0."""

_START_ERROR = 1e-3


def start(manifold: Manifold, position: Position) -> Position:
    """Return a position retracted onto the manifold to remove rounding errors.

    Raises:
        ValueError: The position has an entry that is not finite, or is off the manifold by more
            than 1e-3.
    """
    position = arguments.tree("position", position, "finite")
    manifold.dimension(position)
    error = manifold.error(position)
    if not isinstance(error, jax.core.Tracer) and not float(error) <= _START_ERROR:
        raise ValueError(
            f"position must be on the manifold; it violates a constraint by {float(error):.3g}: "
            "apply the manifold's retract, or start from a random point of it"
        )
    return manifold.retract(position)


def normal(key: jax.Array, manifold: Manifold, position: Position) -> Position:
    """Draw from the standard normal distribution on the tangent space at the position."""
    return manifold.project(position, euler.normal_like(key, position))


def square(velocity: Position) -> jax.Array:
    """Return the squared norm of a velocity."""
    return jnp.sum(jnp.stack([jnp.sum(leaf**2) for leaf in jax.tree.leaves(velocity)]))


def like(name: str, tree: PyTree, position: Position) -> PyTree:
    """Return a tree like `position` with an operator for each leaf.

    An array that broadcasts to its leaf [..., n] is a diagonal operator; otherwise one of shape [n,
    n] is a matrix along the last axis.
    """
    leaves, structure = jax.tree.flatten(position)
    arrays = simplex.leaves_like(name, tree, position)
    fitted = []
    for array, leaf in zip(arrays, leaves, strict=True):
        array = jnp.asarray(array, leaf.dtype)
        if _is_diagonal(array, leaf):
            array = arguments.with_rank(array, leaf.ndim)
        elif array.shape != leaf.shape[-1:] * 2:
            raise ValueError(
                f"{name} of shape {array.shape} neither broadcasts to the position's {leaf.shape} "
                "nor is a matrix along its last axis"
            )
        fitted.append(array)
    return jax.tree.unflatten(structure, fitted)


def _is_diagonal(operator: jax.Array, leaf: jax.Array) -> bool:
    try:
        return jnp.broadcast_shapes(operator.shape, leaf.shape) == leaf.shape
    except ValueError:
        return False


def checked_friction(friction: PyTree) -> PyTree:
    """Return friction with positive arrays as leaves; `check_fit` checks matrices."""
    friction = arguments.tree("friction", friction, "finite")
    for path, c in jax.tree.leaves_with_path(friction):
        if c.ndim != 2:
            name = "friction" + jax.tree_util.keystr(path)
            arguments.require(name, c, arguments.positive(c), "finite and positive")
    return friction


def check_fit(position: Position, friction: PyTree, estimate: NoiseEstimate) -> None:
    """Raise a ValueError unless friction and noise estimate fit a position."""
    for c, leaf in zip(
        jax.tree.leaves(like("friction", friction, position)),
        jax.tree.leaves(position),
        strict=True,
    ):
        if _is_diagonal(c, leaf):
            arguments.require("friction", c, arguments.positive(c), "finite and positive")
            continue
        # Up to rounding, as in the inverse of a covariance matrix.
        rounding = 1e3 * jnp.finfo(c.dtype).eps * jnp.abs(c).max()
        symmetric = jnp.abs(c - c.T) <= rounding
        arguments.require("friction", c, symmetric, "symmetric where it is a matrix")
        least = jnp.linalg.eigvalsh(c)[0]
        arguments.require("the least eigenvalue of friction", least, least > 0, "positive")
    if estimate is None or callable(estimate):
        return
    for v, leaf in zip(
        jax.tree.leaves(like("noise_estimate", estimate, position)),
        jax.tree.leaves(position),
        strict=True,
    ):
        entries = v if _is_diagonal(v, leaf) else jnp.diagonal(v)
        arguments.require("noise_estimate", entries, arguments.nonnegative(entries), "at least 0")


def apply(operator: PyTree, v: Position) -> Position:
    """Apply the operators of `like` to a vector of the embedding space."""

    def one(c: jax.Array, leaf: jax.Array) -> jax.Array:
        if _is_diagonal(c, leaf):
            return c * leaf
        return jnp.matmul(leaf, c.T, precision=lax.Precision.HIGHEST)

    return jax.tree.map(one, operator, v)


def damp(manifold: Manifold, x: Position, v: Position, friction: PyTree, t: jax.Array) -> Position:
    r"""Return :math:`\exp(-t \Lambda C) v`, the B of Liu, Zhu and Song (2016).

    Unless the friction C is a scalar, the exponential is a Taylor series, over parts of t short
    enough for full precision: O(1 + t |C|) products with C.
    """
    if _is_array(friction) and jnp.ndim(friction) == 0:
        return jax.tree.map(lambda leaf: jnp.exp(-t * friction).astype(leaf.dtype) * leaf, v)
    operator = like("friction", friction, x)
    terms = 10 if all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(v)) else 18
    norm = jnp.max(jnp.stack(jax.tree.leaves(jax.tree.map(_norm, operator, v))))
    parts = jnp.maximum(jnp.ceil(t * norm), 1)
    parts = jnp.where(jnp.isfinite(parts), parts, 1)

    def add(k: jax.Array, series: tuple[Position, Position]) -> tuple[Position, Position]:
        total, term = series
        product = manifold.project(x, apply(operator, term))
        term = jax.tree.map(lambda leaf: -(t / parts / k).astype(leaf.dtype) * leaf, product)
        return jax.tree.map(jnp.add, total, term), term

    def part(i: jax.Array, vector: Position) -> Position:
        return lax.fori_loop(1, terms + 1, add, (vector, vector))[0]

    return lax.fori_loop(0, parts.astype(jnp.int32), part, v)


def _is_array(tree: PyTree) -> bool:
    return jax.tree_util.treedef_is_leaf(jax.tree.structure(tree))


def _norm(operator: jax.Array, leaf: jax.Array) -> jax.Array:
    """Return an upper bound on the norm of an operator."""
    if _is_diagonal(operator, leaf):
        return jnp.max(jnp.abs(operator))
    return jnp.max(jnp.sum(jnp.abs(operator), axis=-1))


def noise(
    key: jax.Array, position: Position, friction: PyTree, variance: PyTree | None, h: jax.Array
) -> Position:
    r"""Draw from :math:`N(0, (2 C - h V) h)` in the embedding space; NaN where 2 C < h V."""
    normals = euler.normal_like(key, position)
    operator = like("friction", friction, position)
    estimate = like("noise_estimate", jnp.zeros(()) if variance is None else variance, position)

    def scale(c: jax.Array, v: jax.Array, z: jax.Array) -> jax.Array:
        t = h.astype(z.dtype)
        if _is_diagonal(c, z) and _is_diagonal(v, z):
            return jnp.sqrt(t * (2 * c - t * v)) * z
        factor = jnp.linalg.cholesky(t * (2 * _dense(c, z) - t * _dense(v, z)))
        return jnp.einsum("...ij,...j->...i", factor, z, precision=lax.Precision.HIGHEST)

    return jax.tree.map(scale, operator, estimate, normals)


def _dense(operator: jax.Array, leaf: jax.Array) -> jax.Array:
    """Return the matrices [..., n, n] of an operator."""
    if not _is_diagonal(operator, leaf):
        return operator
    eye = jnp.eye(leaf.shape[-1], dtype=leaf.dtype)
    return jnp.broadcast_to(operator, leaf.shape)[..., None] * eye


def noise_share(
    position: Position, friction: PyTree, variance: PyTree | None, h: jax.Array
) -> jax.Array | None:
    """Return the largest h V / (2 C) over the coordinates, or None without an estimate V."""
    if variance is None:
        return None

    def share(c: jax.Array, v: jax.Array, leaf: jax.Array) -> jax.Array:
        return jnp.max(h * _diagonal(v, leaf) / (2 * _diagonal(c, leaf)))

    shares = jax.tree.map(
        share,
        like("friction", friction, position),
        like("noise_estimate", variance, position),
        position,
    )
    return jnp.max(jnp.stack(jax.tree.leaves(shares)))


def _diagonal(operator: jax.Array, leaf: jax.Array) -> jax.Array:
    return operator if _is_diagonal(operator, leaf) else jnp.diagonal(operator)


def push(
    key: jax.Array,
    manifold: Manifold,
    x: Position,
    v: Position,
    slope: Position,
    friction: PyTree,
    variance: PyTree | None,
    h: jax.Array,
) -> Position:
    r"""Return :math:`v + \Lambda [h \hat g + N(0, (2 C - h V) h)]`, the O of Liu et al. (2016)."""
    pushed = jax.tree.map(
        lambda g, n: h.astype(n.dtype) * g + n, slope, noise(key, x, friction, variance, h)
    )
    return jax.tree.map(jnp.add, v, manifold.project(x, pushed))


def integrate(
    key: jax.Array,
    start: tuple,
    batch: Batch,
    h: jax.Array,
    *,
    estimator: Estimator,
    manifold: Manifold,
    friction: PyTree,
    noise_estimate: NoiseEstimate,
    num_steps: int,
    inertia: ArrayLike = 1.0,
) -> tuple[tuple, jax.Array, jax.Array | None]:
    """Take inner steps A, B, O, B, A from (x, v, thermostat or None, memory) with one batch.

    Returns:
        The final state, the mean of |v|^2 / dimension, and the largest h V / (2 C), None without V.
    """
    dimension = manifold.dimension(start[0])

    def flow(
        x: Position, v: Position, xi: jax.Array | None
    ) -> tuple[Position, Position, jax.Array | None]:
        if xi is not None:
            xi = xi + (h / (2 * inertia) * (square(v) / dimension - 1)).astype(xi.dtype)
        return *manifold.flow(x, v, h / 2), xi

    def step(loop: tuple, key_step: jax.Array) -> tuple[tuple, tuple]:
        x, v, xi, memory = loop
        key_estimate, key_noise = jax.random.split(key_step)
        x, v, xi = flow(x, v, xi)
        damping = friction if xi is None else xi
        v = damp(manifold, x, v, damping, h / 2)
        slope, memory = euler.gradient(key_estimate, estimator, memory, x, batch)
        variance = noise_estimate(x, batch) if callable(noise_estimate) else noise_estimate
        v = push(key_noise, manifold, x, v, slope, friction, variance, h)
        v = damp(manifold, x, v, damping, h / 2)
        x, v, xi = flow(x, v, xi)
        return (x, v, xi, memory), (square(v), noise_share(x, friction, variance, h))

    end, (squares, shares) = lax.scan(step, start, jax.random.split(key, num_steps))
    return end, jnp.mean(squares) / dimension, None if shares is None else jnp.max(shares)


def kernel(
    init: Callable,
    update: Callable,
    step_size: StepSize,
    num_steps: int,
    *,
    friction: PyTree,
    noise_estimate: NoiseEstimate,
    estimator: Estimator,
    manifold: Manifold,
    **parameters: jax.Array,
) -> Kernel:
    """Check the arguments and return a kernel of inner steps; `parameters` go to `update`."""
    noise_estimate = _checked_noise(noise_estimate)
    schedules.check(
        step_size,
        below=_largest_step(friction, noise_estimate),
        because=": the injected noise is 2 friction - step_size noise_estimate",
    )
    num_steps = arguments.at_least("num_steps", num_steps, 1)
    shared = {
        "estimator": estimator,
        "manifold": manifold,
        "friction": friction,
        "noise_estimate": noise_estimate,
    }
    update = static(update, num_steps=num_steps)
    return freeze(init, update, shared, step_size=step_size, **parameters)


def _checked_noise(estimate: NoiseEstimate) -> NoiseEstimate:
    """Return a noise estimate with nonnegative arrays as leaves, or raise a ValueError."""
    if estimate is None or callable(estimate):
        return estimate
    estimate = arguments.tree("noise_estimate", estimate, "finite")
    for path, v in jax.tree.leaves_with_path(estimate):
        if v.ndim != 2:
            name = "noise_estimate" + jax.tree_util.keystr(path)
            arguments.require(name, v, arguments.nonnegative(v), "finite and at least 0")
    return estimate


def _largest_step(friction: PyTree, estimate: NoiseEstimate) -> float:
    """Return the step size 2 C / V at which no noise is left to inject; inf if unknown."""
    if estimate is None or callable(estimate) or not (_is_array(friction) and _is_array(estimate)):
        return math.inf
    c, v = jnp.asarray(friction), jnp.asarray(estimate)
    if isinstance(c, jax.core.Tracer) or isinstance(v, jax.core.Tracer) or c.ndim + v.ndim > 0:
        return math.inf
    return float(2 * c / v) if v > 0 else math.inf

"""The mirror map of a user's convex function, by automatic differentiation."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import cho_solve, solve_triangular

from simplex_jax._src.base import bind, static
from simplex_jax._src.geometry import metrics
from simplex_jax._src.geometry.metrics import Potential
from simplex_jax._src.geometry.mirror.maps import MirrorMap
from simplex_jax._src.precision import full_precision

_MOST_EVALUATIONS = 100


def from_convex(h: Potential) -> MirrorMap:
    """Return the mirror map of a convex function of your own, by automatic differentiation.

    The gradient of h must map the interior of the set onto all of R^d, as for a barrier, and
    outside it h must be infinite, NaN or not convex. The inverse of the gradient is found by
    Newton's method, with steps halved until h decreases enough; it is NaN if 100 evaluations of h
    do not find it. An evaluation costs a Hessian and O(d^3).

    Args:
        h: `(x [d]) -> scalar`, convex and three times differentiable; mapped over leading axes.

    Raises:
        ValueError: When used: h does not return a scalar.

    Example: the positive numbers.

        >>> import jax.numpy as jnp
        >>> from simplex_jax.geometry import mirror
        >>> entropy = mirror.from_convex(lambda x: (x * jnp.log(x) - x).sum())
        >>> y = jnp.log(jnp.array([0.5, 4.0]))
        >>> print(entropy.primal(y, jnp.ones(2)).round(3))
        [0.5 4. ]
    """
    return MirrorMap(
        dual=_rows(metrics.gradient, "(d)->(d)", h),
        primal=_rows(_inverse_gradient, "(d),(d)->(d)", h),
        inverse_hessian=_rows(_inverse_hessian, "(d),(d),(d)->(d)", h),
        log_det=_rows(_log_det, "(d),(d)->()", h),
        correction=_rows(_correction, "(d),(d)->(d)", h),
        inside=_rows(_inside, "(d)->()", h),
        hessian=_rows(_hessian, "(d),(d),(d)->(d)", h),
        noise=_rows(_noise, "(d),(d),(d)->(d)", h),
        square=_rows(_square, "(d),(d),(d)->()", h),
    )


def _rows(function: Callable, signature: str, h: Potential) -> Callable:
    return bind(static(_apply, to_row=function, signature=signature), h)


# Compiled as a whole: op by op, a first call outside jit takes seconds.
@functools.partial(jax.jit, static_argnames=("to_row", "signature"))
def _apply(h: Potential, *points: jax.Array, to_row: Callable, signature: str) -> jax.Array:
    """Apply `to_row(h, *points)` to the rows of points."""
    return jnp.vectorize(functools.partial(to_row, h), signature=signature)(*points)


def _inverse_hessian(h: Potential, x: jax.Array, y: jax.Array, v: jax.Array) -> jax.Array:
    del y
    return cho_solve((_factor(h, x), True), v)


def _log_det(h: Potential, x: jax.Array, y: jax.Array) -> jax.Array:
    del y
    return 2 * jnp.log(jnp.diagonal(_factor(h, x))).sum()


def _correction(h: Potential, x: jax.Array, y: jax.Array) -> jax.Array:
    return -_inverse_hessian(h, x, y, jax.grad(_log_det, argnums=1)(h, x, y))


def _inside(h: Potential, x: jax.Array) -> jax.Array:
    return _proper(_look(h, x))


@full_precision
def _hessian(h: Potential, x: jax.Array, y: jax.Array, u: jax.Array) -> jax.Array:
    del y
    factor = _factor(h, x)
    return factor @ (factor.T @ u)


def _noise(h: Potential, x: jax.Array, y: jax.Array, xi: jax.Array) -> jax.Array:
    del y
    return solve_triangular(_factor(h, x), xi, lower=True, trans="T")


def _square(h: Potential, x: jax.Array, y: jax.Array, w: jax.Array) -> jax.Array:
    del y
    return jnp.sum(solve_triangular(_factor(h, x), w, lower=True) ** 2)


def _inverse_gradient(h: Potential, y: jax.Array, near: jax.Array) -> jax.Array:
    """Return the x with grad h(x) = y; its derivatives in y are those of the exact inverse."""

    def solve(residual: Callable, start: jax.Array) -> jax.Array:
        del residual
        return _newton(h, y, start)

    def tangent_solve(product: Callable, b: jax.Array) -> jax.Array:
        return jnp.linalg.solve(jax.jacobian(product)(b), b)

    return lax.custom_root(lambda x: jax.grad(h)(x) - y, near, solve, tangent_solve)


class _Point(NamedTuple):
    """h at a point, with its gradient and the Cholesky factor of its Hessian."""

    x: jax.Array
    value: jax.Array
    slope: jax.Array
    factor: jax.Array


def _newton(h: Potential, y: jax.Array, near: jax.Array) -> jax.Array:
    """Minimise h(x) - x.y with steps halved until Armijo's condition holds, up to rounding."""
    eps = jnp.finfo(y.dtype).eps

    def searching(loop: tuple) -> jax.Array:
        _, _, converged, count = loop
        return ~converged & (count < _MOST_EVALUATIONS)

    def search(loop: tuple) -> tuple:
        point, length, _, count = loop
        residual = y - point.slope
        direction = cho_solve((point.factor, True), residual)
        decrement = jnp.sum(direction * residual)
        # Newton's method squares the error: after a step of decrement eps only rounding is left.
        converged = (decrement <= eps) | (jnp.abs(direction) <= 4 * eps * jnp.abs(point.x)).all()
        trial = _look(h, point.x + length * direction)
        change = trial.value - point.value - length * jnp.sum(direction * y)
        rounding = 16 * eps * (jnp.abs(point.value) + jnp.sum(jnp.abs(point.x * y)))
        accepted = _proper(trial) & (change <= rounding - length * decrement / 4)
        point = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), trial, point)
        length = jnp.where(accepted, jnp.minimum(1, 2 * length), length / 2)
        return point, length, converged, count + 1

    start = (_look(h, near), jnp.ones((), y.dtype), jnp.zeros((), bool), jnp.zeros((), jnp.int32))
    point, _, converged, _ = lax.while_loop(searching, search, start)
    return jnp.where(converged, point.x, jnp.nan)


def _look(h: Potential, x: jax.Array) -> _Point:
    value, slope = jax.value_and_grad(h)(x)
    return _Point(x=x, value=value, slope=slope, factor=_factor(h, x))


def _factor(h: Potential, x: jax.Array) -> jax.Array:
    return jnp.linalg.cholesky(metrics.hessian_metric(h)(x))


def _proper(point: _Point) -> jax.Array:
    """Return whether h is finite and strictly convex at the point."""
    finite = jnp.stack([jnp.isfinite(leaf).all() for leaf in point]).all()
    return finite & (jnp.diagonal(point.factor) > 0).all()

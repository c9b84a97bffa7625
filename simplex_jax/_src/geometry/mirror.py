r"""Mirror maps: convex functions h whose gradient maps a convex set onto all of R^d.

In the dual variable y = grad h(x) there is no constraint. A density :math:`\pi(x)` becomes
:math:`\pi(x(y)) / \det \nabla^2 h(x(y))` (Hsieh et al. 2018, equation 2.2). The functions here take
both x and y of a pair, because it depends on the formula which of the two is accurate near the
boundary.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import cho_solve, solve_triangular
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.base import Position, PyTree, bind, static
from simplex_jax._src.geometry import metrics
from simplex_jax._src.geometry.metrics import Potential
from simplex_jax._src.precision import full_precision

__all__ = ["MirrorMap", "ball", "from_convex", "hypercube", "simplex"]


class MirrorMap(NamedTuple):
    """A mirror map h, as functions of arrays whose last axis indexes coordinates.

    Attributes:
        dual: `(x [..., n]) -> y = grad h(x) [..., d]`, with d = n except for the simplex.
        primal: `(y, near) -> x = grad h*(y)`. Without a formula, the search starts at `near`, a
            point [..., n] inside the set.
        inverse_hessian: `(x, y, v [..., n]) -> hess h(x)^-1 v [..., d]`, which turns a gradient v
            with respect to x into one with respect to y.
        log_det: `(x, y) -> log det hess h(x) [...]`.
        correction: `(x, y) -> -hess h(x)^-1 grad log det hess h(x) [..., d]`, the gradient of
            -log_det with respect to y.
        inside: `(x) -> whether h is finite and strictly convex at x [...]`.
        hessian: `(x, y, u [..., d]) -> hess h(x) u [..., d]`.
        noise: `(x, y, xi [..., n]) -> u [..., d]`, normal with covariance hess h(x)^-1 for standard
            normal xi.
        square: `(x, y, w [..., d]) -> w^T hess h(x)^-1 w [...]`.
    """

    dual: Callable[[jax.Array], jax.Array]
    primal: Callable[[jax.Array, jax.Array], jax.Array]
    inverse_hessian: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
    log_det: Callable[[jax.Array, jax.Array], jax.Array]
    correction: Callable[[jax.Array, jax.Array], jax.Array]
    inside: Callable[[jax.Array], jax.Array]
    hessian: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
    noise: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
    square: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]


def of_methods(shape: Any) -> MirrorMap:
    """Return the mirror map of a pytree whose class defines the functions as methods."""
    return MirrorMap(*(bind(getattr(type(shape), name), shape) for name in MirrorMap._fields))


def start(mirror: MirrorMap, position: Position) -> tuple[Position, PyTree]:
    """Return a position as points inside the set, leaves [..., n], and their dual variables.

    Traced points outside are NaN.

    Raises:
        ValueError: A leaf is a scalar, or h is not finite and strictly convex there.
    """
    leaves, structure = jax.tree.flatten_with_path(position, is_leaf=arguments.is_numbers)
    points, duals = [], []
    for path, leaf in leaves:
        name = "position" + jax.tree_util.keystr(path)
        x = arguments.as_float(name, leaf)
        if x.ndim == 0:
            raise ValueError(f"{name} must have a last axis of coordinates; it is a scalar")
        inside = mirror.inside(x)
        needs = "inside, where the h of the mirror map is finite and strictly convex"
        arguments.require(name, x, inside, needs)
        if isinstance(inside, jax.core.Tracer):  # outside, some maps have a point elsewhere
            x = jnp.where(inside[..., None], x, jnp.nan)
        y = mirror.dual(x)
        duals.append(y)
        points.append(mirror.primal(y, x))
    return jax.tree.unflatten(structure, points), jax.tree.unflatten(structure, duals)


# A mirror map of the hypercube.


def hypercube(lower: ArrayLike = -1.0, upper: ArrayLike = 1.0) -> MirrorMap:
    r"""Return the mirror map of the box of coordinates between `lower` and `upper` [..., d].

    With the middle m and half-width w, :math:`x_j = m + w \tanh(y_j / w)`, from :math:`h(x) = w^2
    \sum_j h_1((x_j - m) / w)`, with h_1 for (-1, 1) as in Hsieh et al. (2018, appendix B.1;
    1-strongly convex at any width):

    .. math::
        \nabla^2 h^{-1} = \mathrm{diag}\; \mathrm{sech}^2(y_j / w), \qquad
        \log \det \nabla^2 h = -\sum_j \log \mathrm{sech}^2(y_j / w), \qquad
        -\nabla^2 h^{-1} \nabla \log \det \nabla^2 h = -\tfrac2w \tanh(y_j / w) .

    (The sign inside the logarithm of their middle line for W is wrong; the last line is right.)
    Next to a bound other than 0, x is rounded to the nearest number inside, in float32 for |y|
    above 9 w: write a density with a pole at such a bound in terms of y. Next to a bound of 0, x is
    accurate down to 4e-29 in float32.

    Args:
        lower: Lower bounds, finite.
        upper: Upper bounds, finite and above the lower ones.

    Raises:
        ValueError: A bound is not finite, or a lower bound is not below its upper one.

    Example:
        >>> import jax.numpy as jnp
        >>> from simplex_jax.geometry import mirror
        >>> unit = mirror.hypercube(0.0, 1.0)
        >>> y = unit.dual(jnp.array([0.1, 0.5]))
        >>> print(unit.primal(y, None).round(3))
        [0.1 0.5]
    """
    low, high = arguments.bounds(lower, upper)
    for name, bound in {"lower": low, "upper": high}.items():
        arguments.require(name, bound, jnp.isfinite(bound), "finite")
    return of_methods(_Box(low, high))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Box:
    low: jax.Array
    high: jax.Array

    def dual(self, x: jax.Array) -> jax.Array:
        middle, width = self._shape(x)
        u = (x - middle) / width
        inner = jnp.abs(u) < 0.5
        # Close to a bound u rounds to 1, where arctanh(u) and its slope are infinite.
        low, high = self._bounds(x)
        ends = 0.5 * jnp.log((x - low) / (high - x))
        return width * jnp.where(inner, jnp.arctanh(jnp.where(inner, u, 0)), ends)

    def primal(self, y: jax.Array, near: jax.Array) -> jax.Array:
        (low, high), (_, width) = self._bounds(y), self._shape(y)
        # Measured from the nearer bound: numbers near a bound of 0 are small.
        from_low = low + 2 * width * jax.nn.sigmoid(2 * y / width)
        from_high = high - 2 * width * jax.nn.sigmoid(-2 * y / width)
        return jnp.clip(jnp.where(y < 0, from_low, from_high), *self._ends(y))

    def inverse_hessian(self, x: jax.Array, y: jax.Array, v: jax.Array) -> jax.Array:
        return jnp.exp(_log_sech_squared(y / self._shape(y)[1])) * v

    def log_det(self, x: jax.Array, y: jax.Array) -> jax.Array:
        return -_log_sech_squared(y / self._shape(y)[1]).sum(axis=-1)

    def correction(self, x: jax.Array, y: jax.Array) -> jax.Array:
        width = self._shape(y)[1]
        return -2 / width * jnp.tanh(y / width)

    def inside(self, x: jax.Array) -> jax.Array:
        first, last = self._ends(x)
        return ((x >= first) & (x <= last)).all(axis=-1)

    def hessian(self, x: jax.Array, y: jax.Array, u: jax.Array) -> jax.Array:
        return jnp.exp(-_log_sech_squared(y / self._shape(y)[1])) * u

    def noise(self, x: jax.Array, y: jax.Array, xi: jax.Array) -> jax.Array:
        return jnp.exp(_log_sech_squared(y / self._shape(y)[1]) / 2) * xi

    def square(self, x: jax.Array, y: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.sum(self.noise(x, y, w) ** 2, axis=-1)

    def _bounds(self, x: jax.Array) -> list[jax.Array]:
        return [arguments.with_rank(b.astype(x.dtype), x.ndim) for b in (self.low, self.high)]

    def _shape(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the middle and half the width."""
        low, high = self._bounds(x)
        return (low + high) / 2, (high - low) / 2

    def _ends(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the first and the last number inside."""
        low, high = self._bounds(x)
        # XLA treats subnormal numbers as 0. As in `entropic`, the floor leaves room for 1 / x.
        floor = float(jnp.finfo(x.dtype).tiny) ** 0.75
        first = jnp.where(low == 0, floor, jnp.nextafter(low, high))
        return first, jnp.where(high == 0, -floor, jnp.nextafter(high, low))


def _log_sech_squared(u: jax.Array) -> jax.Array:
    return 2 * (math.log(2) - jnp.abs(u) - jnp.log1p(jnp.exp(-2 * jnp.abs(u))))


# The entropic mirror map of the probability simplex.


def simplex(reference: int = -1) -> MirrorMap:
    r"""Return the entropic mirror map of probability vectors [..., K], K > 1.

    :math:`h(x) = \sum_j x_j \log x_j`, with the category r = `reference` eliminated, so the dual
    variable is :math:`y_j = \log(x_j / x_r)` for the K - 1 others (equation 3.4). Gradients may
    come from any function of all K coordinates that equals the target on the simplex; densities are
    with respect to the volume of the K - 1:

    .. math::
        (\nabla^2 h^{-1} v)_j = x_j \Big( v_j - \sum_k x_k v_k \Big), \qquad
        \log \det \nabla^2 h = -\sum_k \log x_k, \qquad
        -\nabla^2 h^{-1} \nabla \log \det \nabla^2 h = 1 - K x_j .

    In float32, probabilities are at least 4e-29; y and the drift of a Dirichlet stay accurate where
    they would be smaller. For log-probabilities, use `samplers.smld`.

    Args:
        reference: The category left out of y, preferably one of large probability.

    Raises:
        ValueError: The reference is not an integer; when used, it is not a category.

    Example:
        >>> import jax.numpy as jnp
        >>> from simplex_jax.geometry import mirror
        >>> entropic = mirror.simplex()
        >>> y = entropic.dual(jnp.array([0.5, 0.25, 0.25]))
        >>> print(y.round(2), entropic.primal(y, None))
        [0.69 0.  ] [0.5  0.25 0.25]
    """
    return of_methods(_Entropic(arguments.integer("reference", reference)))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Entropic:
    reference: int = field(metadata={"static": True})

    def dual(self, x: jax.Array) -> jax.Array:
        if x.ndim == 0 or x.shape[-1] < 2:
            raise ValueError(f"a simplex has at least 2 categories; the shape of x is {x.shape}")
        if not -x.shape[-1] <= self.reference < x.shape[-1]:
            raise ValueError(f"reference {self.reference} is not one of {x.shape[-1]} categories")
        log_x = jnp.log(x)
        return self._others(log_x - jnp.take(log_x, jnp.array([self.reference]), axis=-1))

    def primal(self, y: jax.Array, near: jax.Array) -> jax.Array:
        # The floor leaves room for the gradient of a Dirichlet density, a count over x.
        floor = float(jnp.finfo(y.dtype).tiny) ** 0.75
        return jnp.maximum(jax.nn.softmax(self._logits(y), axis=-1), floor)

    def inverse_hessian(self, x: jax.Array, y: jax.Array, v: jax.Array) -> jax.Array:
        return self._others(x * (v - jnp.sum(x * v, axis=-1, keepdims=True)))

    def log_det(self, x: jax.Array, y: jax.Array) -> jax.Array:
        return -jax.nn.log_softmax(self._logits(y), axis=-1).sum(axis=-1)

    def correction(self, x: jax.Array, y: jax.Array) -> jax.Array:
        return 1 - x.shape[-1] * self._others(x)

    def inside(self, x: jax.Array) -> jax.Array:
        return arguments.positive(x).all(axis=-1)

    def hessian(self, x: jax.Array, y: jax.Array, u: jax.Array) -> jax.Array:
        reference = jnp.take(x, jnp.array([self.reference]), axis=-1)
        return u / self._others(x) + u.sum(axis=-1, keepdims=True) / reference

    def noise(self, x: jax.Array, y: jax.Array, xi: jax.Array) -> jax.Array:
        z = jnp.sqrt(x) * xi
        return self._others(z - x * z.sum(axis=-1, keepdims=True))

    def square(self, x: jax.Array, y: jax.Array, w: jax.Array) -> jax.Array:
        full = self._logits(w)
        return jnp.sum(x * (full - jnp.sum(x * full, axis=-1, keepdims=True)) ** 2, axis=-1)

    def _logits(self, y: jax.Array) -> jax.Array:
        return jnp.insert(y, self.reference % (y.shape[-1] + 1), 0, axis=-1)

    def _others(self, full: jax.Array) -> jax.Array:
        return jnp.delete(full, self.reference % full.shape[-1], axis=-1)


# A mirror map of the Euclidean ball.


def ball(radius: ArrayLike = 1.0) -> MirrorMap:
    r"""Return a mirror map of the Euclidean ball about the origin, along the last axis [..., d].

    :math:`h(x) = R^2 h_1(x / R)` with :math:`h_1(u) = -\log(1 - |u|) - |u|` (appendix B.2): with
    :math:`s = |y| / R`, :math:`x = y / (1 + s)` and

    .. math::
        \nabla^2 h^{-1} v = \frac1{1 + s} \Big( v - \frac{(y \cdot v)\, x}{|y| R} \Big), \qquad
        \log \det \nabla^2 h = (d + 1) \log(1 + s), \qquad
        -\nabla^2 h^{-1} \nabla \log \det \nabla^2 h = -\frac{d + 1}{R (1 + s)} \frac{y}{|y|} .

    The correction jumps at the centre, where it is set to 0.

    Args:
        radius: R, finite and positive; broadcasts to the leading axes.

    Raises:
        ValueError: `radius` is not positive.

    Example:
        >>> import jax.numpy as jnp
        >>> from simplex_jax.geometry import mirror
        >>> unit = mirror.ball()
        >>> print(unit.primal(jnp.array([3.0, 0.0]), None))
        [0.75 0.  ]
    """
    return of_methods(_Ball(arguments.positives("radius", radius)))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Ball:
    radius: jax.Array

    def dual(self, x: jax.Array) -> jax.Array:
        return x / (1 - _norms(x) / self._radii(x))

    def primal(self, y: jax.Array, near: jax.Array) -> jax.Array:
        s = _norms(y) / self._radii(y)
        return y * jnp.minimum(1 / (1 + s), _inside_share(y) / s)

    def inverse_hessian(self, x: jax.Array, y: jax.Array, v: jax.Array) -> jax.Array:
        r, norm = self._radii(y), _norms(y)
        return (v - jnp.sum(y * v, axis=-1, keepdims=True) / norm * x / r) / (1 + norm / r)

    def log_det(self, x: jax.Array, y: jax.Array) -> jax.Array:
        return (y.shape[-1] + 1) * jnp.log1p(_norms(y) / self._radii(y))[..., 0]

    def correction(self, x: jax.Array, y: jax.Array) -> jax.Array:
        norm = _norms(y)
        return -(y.shape[-1] + 1) / (self._radii(y) + norm) * y / norm

    def inside(self, x: jax.Array) -> jax.Array:
        return (_norms(x) <= _inside_share(x) * self._radii(x))[..., 0]

    def hessian(self, x: jax.Array, y: jax.Array, u: jax.Array) -> jax.Array:
        s, along = self._split(y, u)
        return (1 + s) * (u + s * along)

    def noise(self, x: jax.Array, y: jax.Array, xi: jax.Array) -> jax.Array:
        s, along = self._split(y, xi)
        return (xi - along + along / jnp.sqrt(1 + s)) / jnp.sqrt(1 + s)

    def square(self, x: jax.Array, y: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.sum(self.noise(x, y, w) ** 2, axis=-1)

    def _split(self, y: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return s = |y| / R, and the component of v along y."""
        norm = _norms(y)
        return norm / self._radii(y), jnp.sum(y * v, axis=-1, keepdims=True) / norm * y / norm

    def _radii(self, x: jax.Array) -> jax.Array:
        return arguments.with_rank(self.radius.astype(x.dtype)[..., None], x.ndim)


def _norms(y: jax.Array) -> jax.Array:
    """Return the norms [..., 1], with a derivative of 0 at 0."""
    least = float(jnp.finfo(y.dtype).tiny) ** 0.5
    return jnp.sqrt(jnp.sum(y**2, axis=-1, keepdims=True) + least)


def _inside_share(x: jax.Array) -> float:
    """Return the largest fraction of the radius that is inside despite rounding."""
    return 1 - 4 * float(jnp.finfo(x.dtype).eps)


# The mirror map of a user's convex function, by automatic differentiation.

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
    return cho_solve((_factor(h, x), True), v)


def _log_det(h: Potential, x: jax.Array, y: jax.Array) -> jax.Array:
    return 2 * jnp.log(jnp.diagonal(_factor(h, x))).sum()


def _correction(h: Potential, x: jax.Array, y: jax.Array) -> jax.Array:
    return -_inverse_hessian(h, x, y, jax.grad(_log_det, argnums=1)(h, x, y))


def _inside(h: Potential, x: jax.Array) -> jax.Array:
    return _proper(_look(h, x))


@full_precision
def _hessian(h: Potential, x: jax.Array, y: jax.Array, u: jax.Array) -> jax.Array:
    factor = _factor(h, x)
    return factor @ (factor.T @ u)


def _noise(h: Potential, x: jax.Array, y: jax.Array, xi: jax.Array) -> jax.Array:
    return solve_triangular(_factor(h, x), xi, lower=True, trans="T")


def _square(h: Potential, x: jax.Array, y: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.sum(solve_triangular(_factor(h, x), w, lower=True) ** 2)


def _inverse_gradient(h: Potential, y: jax.Array, near: jax.Array) -> jax.Array:
    """Return the x with grad h(x) = y; its derivatives in y are those of the exact inverse."""

    def solve(residual: Callable, start: jax.Array) -> jax.Array:
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

"""The Stiefel manifold: matrices with orthonormal columns."""

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax._src import arguments
from simplex_jax._src.geometry.manifolds.manifold import Manifold
from simplex_jax._src.precision import full_precision

_MOST_SHOTS = 100


def stiefel() -> Manifold:
    r"""Return the matrices X [..., n, p] with X^T X = I, n >= p, with the metric of R^{n x p}.

    With :math:`A = X^\top V` and :math:`S = V^\top V`, constant along a geodesic up to the last
    factor,

    .. math::
        \big( X(t)\; V(t) \big) = \big( X\; V \big)
            \exp\Big( t \begin{pmatrix} A & -S \\ I & A \end{pmatrix} \Big)
            \begin{pmatrix} e^{-t A} & 0 \\ 0 & e^{-t A} \end{pmatrix}

    (Edelman, Arias and Smith 1998, equation 2.14; Byrne and Girolami 2013, section 5.4). The flow
    costs exponentials of a 2p x 2p and a p x p matrix. With p = 1 it is the sphere. With p = n it
    is the orthogonal group, and a chain stays in the component (of determinant 1 or -1) in which it
    starts.

    `distance` finds the geodesic by shooting. One shorter than pi is the shortest (Zimmermann and
    Stoye 2025); if none is found, the distance is NaN.

    Raises:
        ValueError: When used: an array does not contain matrices with n >= p.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax.geometry import manifolds
        >>> frames = manifolds.stiefel()
        >>> x = frames.point(jax.random.key(0), jnp.zeros((5, 2)))
        >>> v = frames.project(x, jnp.ones((5, 2)))
        >>> moved, _ = frames.flow(x, v, 0.3)
        >>> print(frames.dimension(x), (moved.T @ moved).round(5) + 0)
        7 [[1. 0.]
         [0. 1.]]
    """
    return Manifold(_project, _flow, _point, _distance, _retract, _error, _dimension)


@full_precision
def _project(x: jax.Array, v: jax.Array) -> jax.Array:
    product = x.mT @ v
    return v - x @ ((product + product.mT) / 2)


@full_precision
def _flow(x: jax.Array, v: jax.Array, t: jax.Array) -> tuple[jax.Array, jax.Array]:
    p = x.shape[-1]
    speed = _norm(v)
    unit = v / jnp.where(speed == 0, 1, speed)
    # At unit speed all blocks of the exponent have similar norms.
    length = speed * jnp.asarray(t, x.dtype)
    a = x.mT @ unit
    a = (a - a.mT) / 2
    eye = jnp.broadcast_to(jnp.eye(p, dtype=x.dtype), a.shape)
    block = jnp.block([[a, -(unit.mT @ unit)], [eye, a]])
    rotation = _exponential(-length * a)
    transported = jnp.concatenate([x, unit], axis=-1) @ _exponential(length * block)
    end = _orthonormal(transported[..., :p] @ rotation)
    unit = _project(end, transported[..., p:] @ rotation)
    length = _norm(unit)
    return end, unit * jnp.where(length == 0, 1, speed / jnp.where(length == 0, 1, length))


@full_precision
def _exponential(matrix: jax.Array) -> jax.Array:
    """Return the exponential of matrices, by a Taylor series at scale 2^-s and s squarings.

    Unlike `jax.scipy.linalg.expm`, it solves no linear system and compiles quickly.
    """
    terms = 9 if matrix.dtype == jnp.float32 else 15
    norm = jnp.max(jnp.sum(jnp.abs(matrix), axis=-1))
    halvings = jnp.ceil(jnp.log2(jnp.maximum(norm, 0.5))) + 1
    halvings = jnp.where(jnp.isfinite(halvings), halvings, 0)
    part = matrix * 2.0**-halvings
    eye = jnp.broadcast_to(jnp.eye(matrix.shape[-1], dtype=matrix.dtype), matrix.shape)

    def horner(i: jax.Array, series: jax.Array) -> jax.Array:
        return eye + part @ series / (terms - i)

    def square(i: jax.Array, power: jax.Array) -> jax.Array:
        return power @ power

    series = lax.fori_loop(0, terms, horner, eye)
    return lax.fori_loop(0, halvings.astype(jnp.int32), square, series)


def _norm(v: jax.Array) -> jax.Array:
    """Return the norms of matrices, [..., 1, 1]."""
    return jnp.sqrt(jnp.sum(v**2, axis=(-2, -1), keepdims=True))


def _eye(x: jax.Array) -> jax.Array:
    """Return the identity that the products of matrices with themselves are compared with."""
    return arguments.with_rank(jnp.eye(x.shape[-1], dtype=x.dtype), x.ndim)


@full_precision
def _orthonormal(x: jax.Array) -> jax.Array:
    """Return the polar factor of a matrix, orthonormal up to rounding, by one Newton step."""
    return x + x @ (_eye(x) - x.mT @ x) / 2


@full_precision
def _point(key: jax.Array, like: jax.Array) -> jax.Array:
    _dimension(like)
    return _retract(jax.random.normal(key, like.shape, like.dtype))


@full_precision
def _retract(x: jax.Array) -> jax.Array:
    left, _, right = jnp.linalg.svd(x, full_matrices=False)
    return _orthonormal(left @ right)


@full_precision
def _error(x: jax.Array) -> jax.Array:
    return jnp.max(jnp.abs(x.mT @ x - _eye(x)))


def _distance(x: jax.Array, y: jax.Array) -> jax.Array:
    """Find the velocity from x to y in unit time, by adding the miss of each shot to it."""
    near = 8 * x.shape[-2] * float(jnp.finfo(x.dtype).eps)

    def missing(v: jax.Array) -> jax.Array:
        return y - _flow(x, v, jnp.ones((), x.dtype))[0]

    def searching(loop: tuple) -> jax.Array:
        return (_norm(loop[1]) > near).any() & (loop[2] < _MOST_SHOTS)

    def shoot(loop: tuple) -> tuple:
        v, miss, count = loop
        v = v + _project(x, miss)
        return v, missing(v), count + 1

    v = _project(x, y - x)
    v, miss, _ = lax.while_loop(searching, shoot, (v, missing(v), 0))
    length = _norm(v)
    return jnp.where((_norm(miss) <= near) & (length < jnp.pi), length, jnp.nan)[..., 0, 0]


def _dimension(x: jax.Array) -> int:
    if x.ndim < 2 or not x.shape[-2] >= x.shape[-1] > 0:
        raise ValueError(
            f"a Stiefel manifold needs matrices [n, p] with n at least p, not shape {x.shape}"
        )
    n, p = x.shape[-2:]
    return x.size // (n * p) * (n * p - p * (p + 1) // 2)

"""The continuous dynamics of the complete recipe: drift, correction and noise, from D(z) and Q(z).

A state z is a tuple: the position first, then the auxiliary variables. Matrices are functions that
multiply a vector, a tuple like z.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from simplex_jax._src import arguments, gradients
from simplex_jax._src.base import PyTree, as_pytree
from simplex_jax._src.geometry import simplex
from simplex_jax._src.precision import full_precision
from simplex_jax._src.samplers import euler

Variables: TypeAlias = tuple[PyTree, ...]
"""The position and the auxiliary variables; or a vector with the same components."""

Operator: TypeAlias = Callable[[Variables, Variables], Variables]
"""`(z, v) -> M(z) v`, linear in v; components may be anything that broadcasts to those of v."""


class Dynamics(NamedTuple):
    """The matrices of the recipe, and the part of H other than the negative log posterior."""

    diffusion: Operator  # D(z), symmetric and positive semidefinite
    curl: Operator  # Q(z), skew-symmetric
    kinetic: Callable[[Variables], jax.Array]


def apply(name: str, operator: Operator, z: Variables, v: Variables) -> Variables:
    """Return M(z) v with the structure, shapes and dtypes of v; errors call M `name`."""
    result = operator(z, v)
    if not isinstance(result, tuple) or len(result) != len(v):
        raise ValueError(f"{name} must return a tuple of {len(v)} components, like its arguments")
    fitted = []
    for i, (part, like) in enumerate(zip(result, v, strict=True)):
        leaves = simplex.broadcast(f"component {i} of {name}", part, like)
        fitted.append(jax.tree.unflatten(jax.tree.structure(like), leaves))
    return tuple(fitted)


def both(dynamics: Dynamics, z: Variables, v: Variables) -> Variables:
    """Return (D(z) + Q(z)) v."""
    return jax.tree.map(
        jnp.add, apply("diffusion", dynamics.diffusion, z, v), apply("curl", dynamics.curl, z, v)
    )


def drift(dynamics: Dynamics, z: Variables, slope: PyTree, gamma: Variables) -> Variables:
    """Return -(D + Q) grad H + Gamma, of the gradient of the log posterior at the position."""
    gradient = gradients.gradient_of("kinetic", dynamics.kinetic)(z)
    first = jax.tree.map(jnp.subtract, gradient[0], slope)
    force = both(dynamics, z, (first, *gradient[1:]))
    return jax.tree.map(jnp.subtract, gamma, force)


def correction(dynamics: Dynamics, z: Variables, coordinatewise: bool) -> Variables:
    """Return Gamma_i = sum_j d(D_ij + Q_ij) / dz_j, by automatic differentiation.

    It takes one directional derivative per coordinate of z, or per array if `coordinatewise`.
    """
    if coordinatewise:
        return _correction_along(dynamics, z, jax.tree.map(jnp.ones_like, z))
    flat, unravel = ravel_pytree(z)
    rows = jax.vmap(lambda e: _derivative(dynamics, z, unravel(e)))(
        jnp.eye(flat.size, dtype=flat.dtype)
    )
    return jax.tree.map(lambda leaf: leaf.sum(axis=0), rows)


def _correction_along(dynamics: Dynamics, z: Variables, signs: Variables) -> Variables:
    total = jax.tree.map(jnp.zeros_like, z)
    for direction in _by_leaf(signs):
        total = jax.tree.map(jnp.add, total, _derivative(dynamics, z, direction))
    return total


def _derivative(dynamics: Dynamics, z: Variables, v: Variables) -> Variables:
    """Return the derivative along v of (D(z) + Q(z)) v, v held fixed."""
    return jax.jvp(lambda at: both(dynamics, at, v), (z,), (v,))[1]


def _by_leaf(v: PyTree) -> list[PyTree]:
    """Return, for each array of v, a copy of v with all other arrays set to zero."""
    leaves, structure = jax.tree.flatten(v)
    return [
        jax.tree.unflatten(
            structure, [leaf if i == j else jnp.zeros_like(leaf) for j, leaf in enumerate(leaves)]
        )
        for i in range(len(leaves))
    ]


@full_precision
def noise(
    dynamics: Dynamics,
    key: jax.Array,
    z: Variables,
    h: jax.Array,
    variance: PyTree,
    coordinatewise: bool,
) -> Variables:
    """Draw from N(0, 2 h D - h^2 B), where B is the covariance of the drift's error.

    B is (D + Q) V (D + Q)^T, or its diagonal if `coordinatewise`. V is the variance of the
    estimated gradient: an array or a tree that broadcasts to the position, or None for 0.
    """
    if coordinatewise:
        return _coordinatewise_noise(dynamics, key, z, h, variance)
    flat, unravel = ravel_pytree(z)
    h = h.astype(flat.dtype)

    def columns(operator: Operator) -> jax.Array:
        rows = jax.vmap(lambda e: ravel_pytree(operator(z, unravel(e)))[0])
        return rows(jnp.eye(flat.size, dtype=flat.dtype)).T

    injected = 2 * h * columns(functools.partial(apply, "diffusion", dynamics.diffusion))
    covariance = injected
    if variance is not None:
        spread = ravel_pytree(_error(z, variance))[0]
        propagated = columns(functools.partial(both, dynamics)) * jnp.sqrt(spread)[None]
        covariance = covariance - h**2 * propagated @ propagated.T
    # Each coordinate has its own unit; otherwise large ones would round small ones away.
    square = jnp.diagonal(injected)
    square = jnp.where(square > 0, square, jnp.abs(jnp.diagonal(covariance)))
    unit = jnp.sqrt(jnp.where(square == 0, 1, square))
    covariance = covariance / jnp.outer(unit, unit)
    scale, directions = jnp.linalg.eigh((covariance + covariance.T) / 2)
    # Rounding can make zero eigenvalues slightly negative; truly negative ones give NaN.
    slack = flat.size * jnp.finfo(flat.dtype).eps * jnp.abs(scale).max()
    scale = jnp.where(jnp.abs(scale) <= slack, 0, scale)
    draw = jax.random.normal(key, flat.shape, flat.dtype)
    return unravel(unit * (directions @ (jnp.sqrt(scale) * draw)))


def _coordinatewise_noise(
    dynamics: Dynamics, key: jax.Array, z: Variables, h: jax.Array, variance: PyTree
) -> Variables:
    ones = jax.tree.map(jnp.ones_like, z)
    diagonal = apply("diffusion", dynamics.diffusion, z, ones)
    square = jax.tree.map(lambda d: 2 * h.astype(d.dtype) * d, diagonal)
    if variance is not None:
        for spread in _by_leaf(_error(z, variance)):
            propagated = both(dynamics, z, jax.tree.map(jnp.sqrt, spread))
            square = jax.tree.map(lambda s, b: s - (h.astype(s.dtype) * b) ** 2, square, propagated)
    return jax.tree.map(lambda s, z: jnp.sqrt(s) * z, square, euler.normal_like(key, square))


def _error(z: Variables, variance: PyTree) -> Variables:
    """Return the variances of the estimated gradient of H: `variance` for the position, else 0."""
    position, *auxiliary = z
    leaves = simplex.broadcast("noise_estimate", variance, position)
    first = jax.tree.unflatten(jax.tree.structure(position), leaves)
    return (first, *jax.tree.map(jnp.zeros_like, auxiliary))


def check(dynamics: Dynamics, key: jax.Array, z: Variables, coordinatewise: bool) -> None:
    """Raise a ValueError unless D(z) and Q(z) meet the recipe's conditions; no-op when traced.

    Its theorem needs D positive semidefinite and Q skew-symmetric: with a wrong sign the chain
    samples another distribution. Random vectors reveal this, but only at this z.
    """
    skew, symmetric, smallest, diagonal, separate = _defects(
        as_pytree(dynamics), key, z, coordinatewise
    )
    small = jnp.finfo(skew.dtype).eps ** 0.5
    needs = "skew-symmetric: v . curl(z, v) = 0 for every v"
    arguments.require("curl", skew, jnp.abs(skew) <= small, needs)
    needs = "symmetric: w . diffusion(z, v) = v . diffusion(z, w)"
    arguments.require("diffusion", symmetric, jnp.abs(symmetric) <= small, needs)
    needs = "positive semidefinite, or for coordinatewise dynamics diagonal and nonnegative"
    arguments.require("diffusion", smallest, smallest >= -small, needs)
    needs = "diagonal where the dynamics are coordinatewise"
    arguments.require("diffusion", diagonal, diagonal <= small, needs)
    needs = "differentiable coordinate by coordinate in each array; leave out coordinatewise"
    arguments.require("diffusion + curl", separate, separate <= small, needs)


@functools.partial(jax.jit, static_argnames="coordinatewise")
@full_precision
def _defects(
    dynamics: Dynamics, key: jax.Array, z: Variables, coordinatewise: bool
) -> tuple[jax.Array, ...]:
    """Return five relative defects that should be 0; the third, an eigenvalue, at least 0."""
    flat, unravel = ravel_pytree(z)
    v, w = jax.random.normal(key, (2, flat.size), flat.dtype)

    def d(x: jax.Array) -> jax.Array:
        return ravel_pytree(apply("diffusion", dynamics.diffusion, z, unravel(x)))[0]

    rotated = ravel_pytree(apply("curl", dynamics.curl, z, unravel(v)))[0]
    dv, dw = d(v), d(w)
    skew = _relative(v @ rotated, jnp.linalg.norm(v) * jnp.linalg.norm(rotated))
    size = jnp.linalg.norm(v) * jnp.linalg.norm(dw) + jnp.linalg.norm(w) * jnp.linalg.norm(dv)
    symmetric = _relative(w @ dv - v @ dw, size)
    if not coordinatewise:
        spectrum = jnp.linalg.eigvalsh(jax.vmap(d)(jnp.eye(flat.size, dtype=flat.dtype)))
        smallest = _relative(spectrum.min(), jnp.abs(spectrum).max())
        return skew, symmetric, smallest, jnp.zeros(()), jnp.zeros(())
    diagonal = d(jnp.ones_like(flat))
    smallest = _relative(diagonal.min(), jnp.abs(diagonal).max())
    off_diagonal = _relative(jnp.linalg.norm(dv - diagonal * v), jnp.linalg.norm(dv))
    derivatives = [
        ravel_pytree(_derivative(dynamics, z, direction))[0]
        for direction in _by_leaf(jax.tree.map(jnp.ones_like, z))
    ]
    signs = ravel_pytree(_correction_along(dynamics, z, unravel(jnp.sign(v))))[0]
    size = sum(map(jnp.linalg.norm, derivatives), jnp.linalg.norm(signs))
    return (
        skew,
        symmetric,
        smallest,
        off_diagonal,
        _relative(jnp.linalg.norm(sum(derivatives) - signs), size),
    )


def _relative(value: jax.Array, size: jax.Array | float) -> jax.Array:
    return value / jnp.maximum(size, jnp.finfo(value.dtype).tiny)

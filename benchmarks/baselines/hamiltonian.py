"""Integrators of Hamiltonian dynamics on the sphere in R^3: of GMC, CHMC and RMHMC.

Each takes a point x, a tangent velocity v and a step size h, follows the energy -log p(x) + |v|^2 /
2, p a density with respect to area, and returns the next point and velocity. All are symmetric and
of second order. CHMC and RMHMC solve equations by a fixed number of iterations; where those have
not converged, or there is no solution, the point stays and the velocity is reversed.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax._src.geometry import manifolds

SPHERE = manifolds.sphere()
ITERATIONS, TOLERANCE = 20, 1e-4

LogDensity = Callable[[jax.Array], jax.Array]
Phase = tuple[jax.Array, jax.Array]


def geodesic(log_density: LogDensity, x: jax.Array, v: jax.Array, h: jax.Array) -> Phase:
    """Take the step of GMC (Byrne and Girolami 2013): half a push, a geodesic, half a push."""
    slope = jax.grad(log_density)
    x, v = SPHERE.flow(x, v + h / 2 * SPHERE.project(x, slope(x)), h)
    return x, v + h / 2 * SPHERE.project(x, slope(x))


def constrained(log_density: LogDensity, x: jax.Array, v: jax.Array, h: jax.Array) -> Phase:
    """Take the step of CHMC (Brubaker, Salzmann and Urtasun 2012), RATTLE with |x|^2 = 1.

    A straight line along v - m x, for whose multiplier m Newton's method is used.
    """
    slope = jax.grad(log_density)
    pushed = v + h / 2 * slope(x)

    def line(m: jax.Array) -> jax.Array:
        return x + h * (pushed - m * x)

    def newton(_: int, m: jax.Array) -> jax.Array:
        end = line(m)
        return m + (end @ end - 1) / (2 * h * (x @ end))

    m = lax.fori_loop(0, ITERATIONS, newton, jnp.zeros((), x.dtype))
    end = line(m)
    moved = SPHERE.project(end, pushed - m * x + h / 2 * slope(end))
    return _or_back(jnp.abs(end @ end - 1), (x, v), (end, moved))


def generalised(log_density: LogDensity, x: jax.Array, v: jax.Array, h: jax.Array) -> Phase:
    """Take the step of RMHMC (Girolami and Calderhead 2011), the generalised leapfrog.

    Its coordinates q are stereographic, from the pole that is farther from x, with the metric
    4 / (1 + |q|^2)^2: the sphere has no coordinates for all of it.
    """
    side = jnp.where(x[2] >= 0, 1, -1).astype(x.dtype)

    def point(q: jax.Array) -> jax.Array:
        square = q @ q
        return jnp.append(2 * q, side * (1 - square)) / (1 + square)

    def coordinates(x: jax.Array) -> jax.Array:
        return x[:2] / (1 + side * x[2])

    def energy(q: jax.Array, p: jax.Array) -> jax.Array:
        return (1 + q @ q) ** 2 / 8 * (p @ p) - log_density(point(q))

    force, rate = jax.grad(energy, 0), jax.grad(energy, 1)
    q, speed = jax.jvp(coordinates, (x,), (v,))
    p = 4 / (1 + q @ q) ** 2 * speed
    half, error = _solved(lambda half: p - h / 2 * force(q, half), p)
    begun = rate(q, half)
    end, error_of_end = _solved(lambda end: q + h / 2 * (begun + rate(end, half)), q)
    p = half - h / 2 * force(end, half)
    reached = jax.jvp(point, (end,), (rate(end, p),))
    return _or_back(error + error_of_end, (x, v), reached)


def _solved(step: Callable[[jax.Array], jax.Array], start: jax.Array) -> Phase:
    """Return the fixed point of a function, and how far it still moved."""
    found = lax.fori_loop(0, ITERATIONS, lambda _, value: step(value), start)
    end = step(found)
    return end, jnp.sum(jnp.abs(end - found))  # the largest one might not be NaN


def _or_back(error: jax.Array, start: Phase, end: Phase) -> Phase:
    (x, v), good = start, error < TOLERANCE  # False for NaN
    return jnp.where(good, end[0], x), jnp.where(good, end[1], -v)

"""Integrators of the sphere keep to it, run backwards, and are of second order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from baselines import hamiltonian

PULL = jnp.array([1.5, -0.5, 1.0])


def log_density(x):
    return x @ PULL - x[0] * x[1] + x[2] ** 2 / 2


def energy(x, v):
    return (v @ v) / 2 - log_density(x)


def starts(seed):
    key_x, key_v = jax.random.split(jax.random.key(seed))
    # Within a hemisphere: `generalised` changes its chart at the equator.
    x = jax.random.normal(key_x, (50, 3)).at[:, 2].set(2.0)
    x = x / jnp.linalg.norm(x, axis=1, keepdims=True)
    v = 0.5 * jax.vmap(hamiltonian.SPHERE.project)(x, jax.random.normal(key_v, (50, 3)))
    return x, v


def path(integrator, x, v, h, steps):
    step = jax.jit(jax.vmap(lambda x, v: integrator(log_density, x, v, jnp.float32(h))))
    for _ in range(steps):
        x, v = step(x, v)
    return x, v


def order(integrator, seed):
    """Return the slope of the energy error after a time 0.4 on the step size."""
    x, v = starts(seed)
    errors = []
    for steps in (2, 4):
        end = path(integrator, x, v, 0.4 / steps, steps)
        change = jax.vmap(energy)(*end) - jax.vmap(energy)(x, v)
        errors.append(np.sqrt(np.mean(np.square(change))))
    return np.log2(errors[0] / errors[1])


INTEGRATORS = (hamiltonian.geodesic, hamiltonian.constrained, hamiltonian.generalised)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_step_stays_on_the_sphere_and_goes_back(integrator, seed):
    x, v = starts(seed)
    end, speed = path(integrator, x, v, 0.1, 1)
    assert float(jnp.abs(end - x).max()) > 0.01
    np.testing.assert_allclose(jnp.sum(end**2, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(jnp.sum(end * speed, axis=1), 0, atol=1e-5)
    back, reversed_speed = path(integrator, end, -speed, 0.1, 1)
    np.testing.assert_allclose(back, x, atol=1e-5)
    np.testing.assert_allclose(reversed_speed, -v, atol=1e-4)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_the_order_is_two(integrator, seed):
    assert order(integrator, seed) > 1.6

    def unsymmetric(log_density, x, v, h):
        """One whole push before, none after: first order."""
        x, v = integrator(lambda x: 0 * x[0], x, v, h)
        return x, v + h * hamiltonian.SPHERE.project(x, jax.grad(log_density)(x))

    assert order(unsymmetric, seed) < 1.4


def test_without_a_solution_the_point_stays():
    x, v = jnp.array([0.0, 0.0, 1.0]), jnp.array([100.0, 0.0, 0.0])
    for integrator in (hamiltonian.constrained, hamiltonian.generalised):
        end, speed = integrator(log_density, x, v, jnp.float32(0.5))
        np.testing.assert_array_equal(end, x)
        np.testing.assert_array_equal(speed, -v)

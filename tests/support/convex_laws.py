"""Distributions on convex sets, their exact draws and checks, and a kernel run from such draws."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special, stats

from simplex_jax._src import base
from support import statistics_checks as checks

ROWS, SAMPLES, UPDATES = 20_000, 40_000, 6
RATES = np.array([1.0, -3.0])
SHAPES = np.array([2.0, 3.5, 1.5])


def tilted(x):
    """Log density of exponentials truncated at 1, on the unit square; -inf outside."""
    inside = ((x > 0) & (x < 1)).all()
    return jnp.where(inside, -(x * RATES.astype(np.float32)).sum(), -jnp.inf)


def tilted_draws(rng, rows):
    u = rng.uniform(size=(rows, 2))
    return -np.log1p(u * np.expm1(-RATES)) / RATES


def tilted_checks(x):
    u = np.expm1(-RATES * x) / np.expm1(-RATES)
    result = {j: checks.dkwm(u[:, j], stats.uniform.cdf, resolution=1e-6) for j in range(2)}
    return result | {"both": checks.mean_z(np.prod(u - 0.5, axis=1), 0, 1 / 144)}


def dirichlet(x):
    return ((SHAPES.astype(np.float32) - 1) * jnp.log(x)).sum()


def dirichlet_draws(rng, rows):
    return rng.dirichlet(SHAPES, rows)


def dirichlet_checks(x):
    total = SHAPES.sum()
    return {
        j: checks.dkwm(special.betainc(a, total - a, x[:, j]), stats.uniform.cdf, resolution=1e-5)
        for j, a in enumerate(SHAPES)
    }


def dirichlet_of_two(x):
    """The same as a function of the first two coordinates."""
    return dirichlet(jnp.append(x, 1 - x.sum()))


def barrier(x):
    """Log barrier of the triangle x_1 > 0, x_2 > 0, x_1 + x_2 < 1."""
    return -jnp.log(x).sum() - jnp.log(1 - x.sum())


def two_draws(rng, rows):
    return dirichlet_draws(rng, rows)[:, :2]


def two_checks(x):
    return dirichlet_checks(np.column_stack([x, 1 - x.sum(axis=1)]))


def uniform(x):
    """Log density of the unit ball of R^3: 0 inside."""
    return jnp.where((x**2).sum() < 1, 0 * x.sum(), -jnp.inf)


def ball_draws(rng, rows):
    x = rng.normal(size=(rows, 3))
    radius = 0.999999 * rng.uniform(size=(rows, 1)) ** (1 / 3)
    return radius * x / np.linalg.norm(x, axis=1, keepdims=True)


def ball_checks(x):
    radius = np.linalg.norm(x, axis=1)
    direction = x[:, 0] / radius
    return {
        "radius": checks.dkwm(radius**3, stats.uniform.cdf, resolution=1e-5),
        "direction": checks.dkwm((1 + direction) / 2, stats.uniform.cdf, resolution=1e-5),
    }


@functools.partial(jax.jit, static_argnames="rows")
def _push(kernel, key, points, *, rows):
    chains = base.chains(kernel, rows, position_axis=0)
    state = chains.init(key, points)

    def move(state, k):
        state, info = chains.update(k, state, None)
        return state, info.acceptance.mean()

    state, acceptance = jax.lax.scan(move, state, jax.random.split(key, UPDATES))
    return state.position, acceptance.mean()


def sampler(kernel, draws, check, seed, accepted):
    """`(number of samples) -> p-values`: exact draws in float32 after some updates."""
    rng = np.random.default_rng(seed)

    def sample(n):
        result = []
        for _ in range(-(-n // ROWS)):
            points = jnp.asarray(draws(rng, ROWS), jnp.float32)
            points, acceptance = _push(
                kernel, jax.random.key(rng.integers(2**31)), points, rows=ROWS
            )
            assert accepted[0] <= float(acceptance) <= accepted[1], acceptance
            result.append(np.asarray(points, np.float64))
        return check(np.concatenate(result))

    return sample


def dual_log_density(mirror, log_density, y, near):
    """Return the log density -W of y = grad h(x) of Hsieh et al. (2018, equation 2.2)."""
    x = mirror.primal(y, near)
    return log_density(x) - jnp.sum(mirror.log_det(x, y))

"""SGGMC, Table 1: bias against step size of samplers on the sphere, and its order.

    python benchmarks/papers/sggmc_order.py [--quick] [--out FOLDER] [--seed N]

The target is a Fisher-Bingham distribution on the sphere in R^3, without symmetries, whose moments
are known by quadrature; the gradient is exact. As in `bias.py`, which defines the bias and its
slope, chains start at exact draws, run for 6 relaxation times and average the point and its square
over 14 more, at step sizes that fall by the root of 2. Besides the library's kernels (the splitting
A, B, O, B, A of Liu, Zhu and Song 2016) there are two others with the same dynamics:

- A, B, O once each, over the whole step: the same parts without the symmetry, first order.
- the step of SGHMC and SGNHT: Euler's rule for all of the velocity and for the thermostat, and then
  the geodesic. Its velocities are first order. Its positions are second order in SGGMC, because
  they are those of a symmetric splitting seen half a step later; but a thermostat that sees
  velocities which are too hot passes the error on to the positions.

GMC, CHMC and RMHMC, which Table 1 has too, are for exact gradients. Their integrators
(`baselines.hamiltonian`) run without the Metropolis correction, which would hide the bias. After
each step the velocity is damped and refreshed exactly, with the friction of the others.
"""

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bias
import bias_targets
import click
import common
import jax
import jax.numpy as jnp
import numpy as np
from baselines import hamiltonian
from bias_cases import Case
from bias_charts import itself
from tables import markdown

from simplex_jax._src import base, batches, gradients, schedules
from simplex_jax._src.base import Batch, Kernel
from simplex_jax._src.geometry import manifolds
from simplex_jax._src.samplers import geodesic, gsgnht, sggmc

PULL = np.array([1.5, -0.5, 1.0])
SHAPE = np.array([[2.0, 0.8, -0.4], [0.8, -1.5, 0.6], [-0.4, 0.6, -0.5]])
FRICTION = 1.0
LARGEST, RELAXATION = 0.4, 2.0
SPHERE = manifolds.sphere()


def log_density(x: jax.Array) -> jax.Array:
    pull, shape = jnp.asarray(PULL, x.dtype), jnp.asarray(SHAPE, x.dtype)
    return x @ pull + x @ shape @ x


ESTIMATOR = gradients.density(log_density)


@click.command(help=__doc__.splitlines()[0])
@common.options("sggmc_order")
@click.option("--chains", type=int, help="Chains of a kernel: 150,000 (--quick: 15,000).")
def main(quick: bool, out: Path, seed: int, chains: int | None) -> None:
    started = time.perf_counter()
    chains = chains or (15_000 if quick else 150_000)
    levels = 3 if quick else 5
    truth = LAW.statistics()
    start = LAW.draws(np.random.default_rng(seed), chains)
    result, rows = {}, []
    for name in QUICK if quick else KERNELS:
        build = KERNELS[name]
        case = Case(build, batches.full(jnp.zeros(1)), start, itself, truth, LARGEST, RELAXATION)
        points = [
            bias.measure(common.key_of(seed, name), case, LARGEST / 2 ** (level / 2))
            for level in range(levels)
        ]
        result[name] = points
        rows.append({"kernel": name, **bias.summary(points)})
        click.echo(markdown(rows[-1:]).splitlines()[-1])
    settings = {
        "seed": seed,
        "chains": chains,
        "friction": FRICTION,
        "points": {name: [point._asdict() for point in points] for name, points in result.items()},
    }
    common.write(out, rows, bias.drawn({"Fisher-Bingham law": result}), settings, started)


def energy(x: np.ndarray) -> np.ndarray:
    """Return the log density of points [..., 3]."""
    return x @ PULL + np.einsum("...i,ij,...j->...", x, SHAPE, x)


LAW = bias_targets.on_sphere(energy, np.linalg.norm(PULL) + np.linalg.eigvalsh(SHAPE)[-1])


def unsymmetric(key: jax.Array, state: Any, batch: Batch, *, step_size: float) -> tuple[Any, dict]:
    """Take a step A, B, O, with or without a thermostat."""
    key_estimate, key_noise = jax.random.split(key)
    h = schedules.evaluate(step_size, state.step)
    damping = getattr(state, "thermostat", FRICTION)
    if hasattr(state, "thermostat"):
        damping = damping + h * heat(state)
        state = state._replace(thermostat=damping)
    x, v = SPHERE.flow(state.position, state.velocity, h)
    v = geodesic.damp(SPHERE, x, v, damping, h)
    slope, _ = ESTIMATOR.estimate(key_estimate, state.memory, x, batch)
    v = geodesic.push(key_noise, SPHERE, x, v, slope, FRICTION, None, h)
    return state._replace(position=x, velocity=v, step=state.step + 1), {}


def euler(key: jax.Array, state: Any, batch: Batch, *, step_size: float) -> tuple[Any, dict]:
    """Take the step of SGHMC or SGNHT, with a geodesic in place of the straight line."""
    key_estimate, key_noise = jax.random.split(key)
    h = schedules.evaluate(step_size, state.step)
    x = state.position
    slope, _ = ESTIMATOR.estimate(key_estimate, state.memory, x, batch)
    damping = getattr(state, "thermostat", FRICTION)
    v = (1 - h * damping) * state.velocity
    v = geodesic.push(key_noise, SPHERE, x, v, slope, FRICTION, None, h)
    state = state._replace(velocity=v)
    if hasattr(state, "thermostat"):
        state = state._replace(thermostat=damping + h * heat(state))
    x, v = SPHERE.flow(x, v, h)
    return state._replace(position=x, velocity=v, step=state.step + 1), {}


def refreshed(
    key: jax.Array, state: Any, batch: Batch, *, integrator: Callable, step_size: float
) -> tuple[Any, dict]:
    """Take a step of Hamiltonian dynamics, then damp the velocity and add its noise exactly."""
    del batch
    h = schedules.evaluate(step_size, state.step)
    x, v = integrator(log_density, state.position, state.velocity, h)
    kept = jnp.exp(-FRICTION * h)
    noise = jnp.sqrt(1 - kept**2) * geodesic.normal(key, SPHERE, x)
    v = SPHERE.project(x, kept * v + noise)
    return state._replace(position=x, velocity=v, step=state.step + 1), {}


def heat(state: Any) -> jax.Array:
    return geodesic.square(state.velocity) / SPHERE.dimension(state.position) - 1


def other(module: Any, step: Callable, h: float) -> Kernel:
    """Return the kernel of a step that starts like the library's."""
    start = module.build(ESTIMATOR, SPHERE, h, friction=FRICTION).init
    return Kernel(init=start, update=base.bind(step, step_size=h))


def uncorrected(integrator: Callable, h: float) -> Kernel:
    return other(sggmc, base.static(refreshed, integrator=integrator), h)


def symmetric(module: Any, h: float) -> Kernel:
    return module.build(ESTIMATOR, SPHERE, h, friction=FRICTION)


KERNELS: dict[str, Callable[[float], Kernel]] = {
    "SGGMC": functools.partial(symmetric, sggmc),
    "SGGMC, A B O": functools.partial(other, sggmc, unsymmetric),
    "SGGMC, the step of SGHMC": functools.partial(other, sggmc, euler),
    "gSGNHT": functools.partial(symmetric, gsgnht),
    "gSGNHT, A B O": functools.partial(other, gsgnht, unsymmetric),
    "gSGNHT, the step of SGNHT": functools.partial(other, gsgnht, euler),
    "GMC": functools.partial(uncorrected, hamiltonian.geodesic),
    "CHMC": functools.partial(uncorrected, hamiltonian.constrained),
    "RMHMC": functools.partial(uncorrected, hamiltonian.generalised),
}
QUICK = ("SGGMC", "RMHMC")


if __name__ == "__main__":
    main()

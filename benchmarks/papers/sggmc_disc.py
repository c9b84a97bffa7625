"""The mean of Gaussian data, known to be in the unit disc; see `sggmc_applications`."""

from typing import Any

import common
import jax
import jax.numpy as jnp
import numpy as np
import sggmc_common

from simplex_jax._src import batches, gradients
from simplex_jax._src.geometry import manifolds
from simplex_jax._src.samplers import gmc, sggmc

NAME = "truncated Gaussian"
SIZE, BATCH = 200, 20
SPREAD = np.array([[4.0, 2.4], [2.4, 9.0]])
CENTRE = np.array([0.9, 0.6])  # outside the disc
CELLS, FINE = 40, 10
STEP, FRICTION = 5e-3, 40.0


def run(axis: Any, quick: bool, seed: int) -> tuple[list[dict], dict]:
    """Plot the result, and return its rows and settings."""
    chains, kept, burn_in, thin = (2, 1_500, 200, 20) if quick else (8, 20_000, 1_000, 40)
    generator = np.random.default_rng(seed)
    data = jnp.asarray(generator.multivariate_normal(CENTRE, SPREAD, SIZE), jnp.float32)
    truth = _truth(np.asarray(data, np.float64))
    cells = sggmc_common.coarse(truth, FINE)
    edges = np.linspace(-1, 1, CELLS + 1)
    estimator = gradients.posterior(_log_jacobian, _log_likelihood, SIZE)
    sphere = manifolds.sphere()
    runs = {
        "GMC": (gmc.build(_target, sphere, 0.1, num_steps=5, needs_batch=True), data, 1),
        "SGGMC": (sggmc.build(estimator, sphere, STEP, friction=FRICTION), None, thin),
    }
    start = jnp.broadcast_to(jnp.array([0.6, 0.0, 0.8]), (chains, 3))
    rows = []
    for name, (kernel, whole, every) in runs.items():
        stream = batches.uniform(data, BATCH) if whole is None else batches.full(whole)
        position, kinetic = sggmc_common.chains(
            common.key_of(seed, f"{NAME}, {name}"),
            kernel,
            start,
            stream,
            burn_in=every * burn_in,
            kept=kept,
            thin=every,
            collect=lambda state, info: (state.position, info.kinetic),
        )
        x = position[..., :2].reshape(-1, 2)
        counts = np.histogram2d(*x.T, bins=(edges, edges))[0]
        energy = np.nan if whole is not None else float(kinetic.mean())
        rows.append(_row(name, counts, cells, energy))
    exact = generator.multinomial(chains * kept, cells.ravel()).reshape(cells.shape)
    rows.append(_row("exact draws", exact, cells, float("nan")))
    axis.pcolormesh(edges, edges, counts.T / counts.sum(), cmap="Blues")
    levels = cells.max() * np.array([0.1, 0.3, 0.6, 0.9])
    middle = (edges[:-1] + edges[1:]) / 2
    axis.contour(middle, middle, cells.T, levels=levels, colors="k", linewidths=0.8)
    around = np.linspace(0, 2 * np.pi, 200)
    axis.plot(np.cos(around), np.sin(around), color=common.COLOURS[1], lw=1)
    axis.set(title="Gaussian mean in a disc: SGGMC; lines: truth", aspect="equal")
    return rows, {"chains": chains, "kept": kept, "batch": BATCH, "step_size": STEP}


def _row(name: str, counts: np.ndarray, cells: np.ndarray, kinetic: float) -> dict:
    middle = (np.arange(CELLS) + 0.5) / CELLS * 2 - 1
    distance = sggmc_common.total_variation
    return {
        "application": NAME,
        "method": name,
        "measure": "total variation; mean of x_1",
        "value": distance(counts, cells),
        "second": float(counts.sum(axis=1) @ middle / counts.sum()),
        "true second": float(cells.sum(axis=1) @ middle),
        "kinetic energy": kinetic,
    }


def _log_likelihood(y: jax.Array, data: jax.Array) -> jax.Array:
    away = data - y[:2]
    return -jnp.sum((away @ jnp.asarray(np.linalg.inv(SPREAD), y.dtype)) * away) / 2


def _log_jacobian(y: jax.Array) -> jax.Array:
    return jnp.log(jnp.abs(y[2]))


def _target(y: jax.Array, data: jax.Array) -> jax.Array:
    return _log_jacobian(y) + _log_likelihood(y, data)


def _truth(data: np.ndarray) -> np.ndarray:
    """Return the masses of the cells of a fine grid."""
    fine = (np.arange(CELLS * FINE) + 0.5) / (CELLS * FINE) * 2 - 1
    x = np.stack(np.meshgrid(fine, fine, indexing="ij"), axis=-1)
    away = data.mean(axis=0) - x
    log_p = -len(data) / 2 * np.einsum("ijk,kl,ijl->ij", away, np.linalg.inv(SPREAD), away)
    return sggmc_common.masses(np.where((x**2).sum(axis=-1) < 1, log_p, -np.inf))

"""Bayesian matrix completion on Stiefel manifolds; see `sggmc_applications`."""

from typing import Any

import common
import jax
import jax.numpy as jnp
import numpy as np
import sggmc_common

from simplex_jax._src import batches, gradients
from simplex_jax._src.geometry import manifolds
from simplex_jax._src.samplers import gmc, sggmc

NAME = "matrix completion"
SHAPE, RANK, TRUE_RANK = (40, 30), 5, 3
SEEN, NOISE = 0.33, 0.5
BATCH = 40
STEP, FRICTION = 1.5e-3, 100.0
# Prior standard deviation of the singular values over the root of the number of entries.
SCALE = 1.0

SPACE = manifolds.product(
    {"left": manifolds.stiefel(), "right": manifolds.stiefel(), "values": manifolds.euclidean()}
)


def run(axis: Any, quick: bool, seed: int) -> tuple[list[dict], dict]:
    """Plot the result, and return its rows and settings."""
    kept, burn_in, thin = (100, 100, 20) if quick else (1_000, 300, 100)
    generator = np.random.default_rng(seed)
    truth = generator.normal(size=(SHAPE[0], TRUE_RANK)) @ generator.normal(
        size=(TRUE_RANK, SHAPE[1])
    )
    truth /= truth.std()
    seen = generator.random(SHAPE) < SEEN
    places = np.argwhere(seen)
    noisy = truth[seen] + NOISE * generator.normal(size=len(places))
    data = {"row": places[:, 0], "column": places[:, 1], "value": noisy}
    data = {
        name: jnp.asarray(x, jnp.float32 if name == "value" else jnp.int32)
        for name, x in data.items()
    }
    estimator = gradients.posterior(_log_prior, _log_likelihood, len(places))
    runs = {
        "GMC": (gmc.build(_target, SPACE, 0.012, num_steps=10, needs_batch=True), None),
        "SGGMC": (sggmc.build(estimator, SPACE, STEP, friction=FRICTION), BATCH),
    }
    start = _start(common.key_of(seed, NAME))
    rows, shown = [], {}
    for name, (kernel, batch) in runs.items():
        stream = batches.full(data) if batch is None else batches.uniform(data, batch)
        every = max(1, thin // 10) if batch is None else thin
        matrix, kinetic = sggmc_common.chains(
            common.key_of(seed, f"{NAME}, {name}"),
            kernel,
            jax.tree.map(lambda leaf: leaf[None], start),
            stream,
            burn_in=every * burn_in,
            kept=kept,
            thin=every,
            collect=lambda state, info: (_matrix(state.position), info.kinetic),
        )
        away = matrix[0] - truth
        running = np.cumsum(matrix[0], axis=0) / np.arange(1, kept + 1)[:, None, None] - truth
        shown[name] = _error(running, seen)
        spread = matrix[0].std(axis=0)[~seen]
        inside = np.abs(away.mean(axis=0)[~seen]) < 1.96 * spread
        energy = np.nan if batch is None else float(kinetic.mean())
        rows.append(_row(name, shown[name][-1], float(inside.mean()), energy))
    best = min(
        (_error(_shrunk(seen, noisy, lam) - truth, seen), lam) for lam in np.geomspace(0.3, 10, 12)
    )
    rows.append(_row(f"shrunk singular values ({best[1]:.2g})", best[0]))
    rows.append(_row("mean of the entries seen", _error(noisy.mean() - truth, seen)))
    for (name, error), colour in zip(shown.items(), common.COLOURS, strict=False):
        axis.plot(error, color=colour, label=f"{name}, mean so far")
    axis.axhline(best[0], color=common.COLOURS[2], ls="--", label="shrunk singular values")
    axis.set(xlabel="samples", ylabel="error of unseen entries", title="matrix completion")
    axis.legend(fontsize=7, frameon=False)
    told = {"kept": kept, "thin": thin, "batch": BATCH, "step_size": STEP, "seen": len(places)}
    return rows, told


def _row(name: str, error: float, inside: float = np.nan, kinetic: float = np.nan) -> dict:
    return {
        "application": NAME,
        "method": name,
        "measure": "error of unseen entries; share within 95%",
        "value": float(error),
        "second": inside,
        "true second": 0.95,
        "kinetic energy": kinetic,
    }


def _start(key: jax.Array) -> dict[str, jax.Array]:
    like = {"left": jnp.zeros((SHAPE[0], RANK)), "right": jnp.zeros((SHAPE[1], RANK))}
    frames = manifolds.product({"left": manifolds.stiefel(), "right": manifolds.stiefel()})
    return {**frames.point(key, like), "values": jnp.full(RANK, 0.1)}


def _matrix(x: dict[str, jax.Array]) -> jax.Array:
    scale = np.sqrt(SHAPE[0] * SHAPE[1])
    return scale * (x["left"] * x["values"]) @ x["right"].T


def _log_prior(x: dict[str, jax.Array]) -> jax.Array:
    return -jnp.sum((x["values"] / SCALE) ** 2) / 2


def _log_likelihood(x: dict[str, jax.Array], data: dict[str, jax.Array]) -> jax.Array:
    scale = np.sqrt(SHAPE[0] * SHAPE[1])
    left = x["left"][data["row"]] * x["values"]
    entries = scale * jnp.sum(left * x["right"][data["column"]], axis=-1)
    return -jnp.sum((data["value"] - entries) ** 2) / (2 * NOISE**2)


def _target(x: dict[str, jax.Array], data: dict[str, jax.Array]) -> jax.Array:
    return _log_prior(x) + _log_likelihood(x, data)


def _error(away: np.ndarray, seen: np.ndarray) -> np.ndarray:
    return np.sqrt((np.broadcast_to(away, (*away.shape[:-2], *SHAPE))[..., ~seen] ** 2).mean(-1))


def _shrunk(seen: np.ndarray, values: np.ndarray, by: float) -> np.ndarray:
    """Return the matrix of the least squares of seen entries / 2 + `by` times its nuclear norm."""
    matrix = np.zeros(SHAPE)
    for _ in range(500):
        filled = matrix.copy()
        filled[seen] = values
        left, singular, right = np.linalg.svd(filled, full_matrices=False)
        matrix = (left * np.maximum(singular - by, 0)) @ right
    return matrix

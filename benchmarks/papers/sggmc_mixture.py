"""A mixture of von Mises-Fisher laws; see `sggmc_applications`."""

import itertools
from typing import Any

import common
import jax
import jax.numpy as jnp
import numpy as np
import sggmc_common

from simplex_jax._src import batches, draws, gradients
from simplex_jax._src.geometry import manifolds
from simplex_jax._src.geometry import von_mises_fisher as vmf
from simplex_jax._src.samplers import gmc, sggmc

NAME = "mixture of vMF"
DIMENSION, SIZE, BATCH = 5, 1_000, 50
WEIGHTS = np.array([0.5, 0.3, 0.2])
CONCENTRATIONS = np.array([10.0, 20.0, 40.0])
STEP, FRICTION = 7e-4, 700.0

SPACE = manifolds.product(
    {
        "means": manifolds.sphere(),
        "log_concentrations": manifolds.euclidean(),
        "weights": manifolds.simplex_flat(),
    }
)


def run(axis: Any, quick: bool, seed: int) -> tuple[list[dict], dict]:
    """Plot the result, and return its rows and settings."""
    kept, burn_in, thin = (150, 50, 20) if quick else (4_000, 200, 50)
    means, data = _data(seed)
    estimator = gradients.posterior(_log_prior, _log_likelihood, SIZE)
    runs = {
        "GMC": (gmc.build(_target, SPACE, 0.012, num_steps=8, needs_batch=True), None),
        "SGGMC": (sggmc.build(estimator, SPACE, STEP, friction=FRICTION), BATCH),
    }
    start = {
        "means": _spread_out(data),
        "log_concentrations": jnp.full(3, np.log(5.0), jnp.float32),
        "weights": jnp.full(3, 1 / 3, jnp.float32),
    }
    truth = {
        "means": means,
        "log_concentrations": np.log(CONCENTRATIONS),
        "weights": WEIGHTS,
    }
    rows, result = [], {}
    for name, (kernel, batch) in runs.items():
        stream = batches.full(data) if batch is None else batches.uniform(data, batch)
        every = 1 if batch is None else thin
        samples, kinetic = sggmc_common.chains(
            common.key_of(seed, f"{NAME}, {name}"),
            kernel,
            jax.tree.map(lambda leaf: leaf[None], start),
            stream,
            burn_in=every * burn_in,
            kept=kept,
            thin=every,
            collect=lambda state, info: (state.position, info.kinetic),
        )
        samples = jax.tree.map(lambda leaf: leaf[0], samples)
        order = _order(samples["means"].mean(axis=0), means)
        result[name] = {key: leaf[:, order] for key, leaf in samples.items()}
        centre = {key: leaf.mean(axis=0) for key, leaf in result[name].items()}
        rows += _rows(name, centre, truth, np.nan if batch is None else float(kinetic.mean()))
    fitted = _em(np.asarray(data, np.float64), np.asarray(start["means"], np.float64))
    order = _order(fitted["means"], means)
    rows += _rows("EM", {key: leaf[order] for key, leaf in fitted.items()}, truth)
    for k, colour in enumerate(common.COLOURS[:3]):
        for name, style in (("GMC", "--"), ("SGGMC", "-")):
            values = np.exp(result[name]["log_concentrations"][:, k])
            label = f"{name}, component {k + 1}"
            axis.hist(
                values, 40, density=True, histtype="step", color=colour, ls=style, label=label
            )
        axis.axvline(CONCENTRATIONS[k], color="k", lw=0.8, ls=":")
    axis.set(xlabel="concentration; dotted: true", ylabel="posterior", title=NAME)
    axis.legend(fontsize=6, frameon=False)
    return rows, {"kept": kept, "thin": thin, "batch": BATCH, "step_size": STEP, "data": SIZE}


def _data(seed: int) -> tuple[np.ndarray, jax.Array]:
    """Return the means and the data."""
    key_means, key_which, key_data = jax.random.split(common.key_of(seed, NAME), 3)
    means = manifolds.sphere().point(key_means, jnp.zeros((3, DIMENSION)))
    which = jax.random.choice(key_which, 3, (SIZE,), p=jnp.asarray(WEIGHTS))
    concentration = jnp.asarray(CONCENTRATIONS, jnp.float32)[which]
    return np.asarray(means), draws.von_mises_fisher(key_data, means[which], concentration)


def _spread_out(data: jax.Array) -> jax.Array:
    """Return three data, each as far as possible from those before."""
    chosen = [data[0]]
    while len(chosen) < 3:
        nearest = jnp.max(data @ jnp.stack(chosen).T, axis=1)
        chosen.append(data[jnp.argmin(nearest)])
    return jnp.stack(chosen)


def _log_prior(x: dict[str, jax.Array]) -> jax.Array:
    """Uniform means, weights Dirichlet(2, ...), log concentrations N(2, 2^2)."""
    away = (x["log_concentrations"] - 2) / 2
    return jnp.sum(jnp.log(x["weights"])) - jnp.sum(away**2) / 2


def _log_likelihood(x: dict[str, jax.Array], data: jax.Array) -> jax.Array:
    concentration = jnp.exp(x["log_concentrations"])
    each = jnp.log(x["weights"]) + vmf.log_normaliser(DIMENSION, concentration)
    return jnp.sum(jax.nn.logsumexp(each + concentration * (data @ x["means"].T), axis=-1))


def _target(x: dict[str, jax.Array], data: jax.Array) -> jax.Array:
    return _log_prior(x) + _log_likelihood(x, data)


def _order(result: np.ndarray, means: np.ndarray) -> list[int]:
    """Return the matching of found to true components."""
    orders = itertools.permutations(range(3))
    return list(max(orders, key=lambda o: float(np.sum(result[list(o)] * means))))


def _rows(name: str, result: dict, truth: dict, kinetic: float = np.nan) -> list[dict]:
    cosine = np.sum(result["means"] * truth["means"], axis=1) / np.linalg.norm(
        result["means"], axis=1
    )
    measures = {
        "largest angle to a mean": (np.arccos(np.clip(cosine, -1, 1)).max(), 0.0),
        "third concentration": (np.exp(result["log_concentrations"][2]), CONCENTRATIONS[2]),
        "third weight": (result["weights"][2], WEIGHTS[2]),
    }
    return [
        {
            "application": NAME,
            "method": name,
            "measure": measure,
            "value": float(value),
            "second": np.nan,
            "true second": float(true),
            "kinetic energy": kinetic,
        }
        for measure, (value, true) in measures.items()
    ]


def _em(data: np.ndarray, means: np.ndarray) -> dict[str, np.ndarray]:
    """Return the EM estimate."""
    weights, concentrations = np.full(3, 1 / 3), np.full(3, 5.0)
    normaliser = jax.jit(lambda k: vmf.log_normaliser(DIMENSION, k))
    fit = jax.jit(lambda length: vmf.fit(DIMENSION, length))
    for _ in range(200):
        each = np.log(weights) + np.asarray(normaliser(jnp.asarray(concentrations)))
        each = each + concentrations * (data @ means.T)
        share = np.exp(each - each.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        total = share.T @ data
        length = np.linalg.norm(total, axis=1)
        weights, means = share.mean(axis=0), total / length[:, None]
        concentrations = np.asarray(fit(jnp.asarray(length / share.sum(axis=0))), np.float64)
    return {"means": means, "log_concentrations": np.log(concentrations), "weights": weights}

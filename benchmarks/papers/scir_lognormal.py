"""Lognormal posteriors by minibatches: geometric Brownian motion with mean reversion and without.

    python benchmarks/papers/scir_lognormal.py [--quick] [--out FOLDER] [--seed N]

Baker, Fearnhead, Fox and Nemeth (2018, section 2.3) propose geometric Brownian motion for lognormal
posteriors on (0, inf), and show no experiment. Here ten independent scales theta_j with the prior
log theta_j ~ N(0, 10^2) have N = 1000 measurements each,

    log x_ij ~ N(log theta_j, 1 / tau_i),   tau_i known,

of which an update sees n, drawn with replacement. "even" data have tau_i = 1, and a batch estimates
only the mean of log theta; "uneven" ones have tau_i ~ Gamma(0.2, 0.2), and it estimates the
precision as well. With the posterior N(m, 1 / p) of log theta and s = h / N, the methods are

    mean-reverting GBM  the exact transition in a time s of `samplers.gbm`,
                        d theta = (1 + p (m - log theta)) theta dt + sqrt(2) theta dW
    reflected Euler     theta' = |theta + s (1 + p (m - log theta)) theta + sqrt(2 s) theta xi|
    SGLD of logs        x' = x + s p (m - x) + sqrt(2 s) xi,   x = log theta
    reflected SGLD      theta' = |theta + s (p (m - log theta) - 1) / theta + sqrt(2 s) xi|
    the paper's GBM     x' = x + sqrt(2 s) xi

with estimates in place of m and p. Geometric Brownian motion has no stationary distribution,
whatever its drift; the one here keeps the mean of log theta, the best that a constant drift can do.
Chains start at the true m, run 1000 updates and then 1000 that are kept; the step size minimises
the Kolmogorov-Smirnov distance over unreported seeds and data. "KS, later" is the distance of the
1000 updates after another 3000, which is larger if there is no stationary distribution. The paper's
process sees no data, so one batch size is enough.

The distribution of the mean-reverting process is known: its moments over independent batches solve
two linear equations (`predicted`). With an exact p they are the right mean and a variance larger by
Var[m_hat] tanh(s p / 2).
"""

import functools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import common
import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats
from scir_rates import draw_distances

from simplex_jax._src import batches, estimators
from simplex_jax._src.base import Batch, Kernel, Position, PyTree, bind
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.samplers import gbm, recipe, sgld
from simplex_jax._src.samplers.positive import LogEvidence

SIZE, NUMBER = 1000, 10
PRECISION = 0.01  # of the prior, whose mean is 0
CASES = {"even": None, "uneven": 0.2}
"""Shape of the gamma distribution of tau, of mean 1; None if tau is 1."""
BATCH_SIZES = (1, 10, 100, 1000)
LATER = 3  # times the kept updates, between those and the later ones


def evidence_of(key: jax.Array, log_theta: jax.Array, rows: jax.Array) -> LogEvidence:
    """Return the evidence of rows of log x and tau, [n, J + 1]."""
    del key
    tau = rows[:, -1:]
    precision = jnp.broadcast_to(tau.sum(), log_theta.shape)
    return LogEvidence((tau * rows[:, :-1]).sum(axis=0), precision)


EVIDENCE = estimators.subsampled(evidence_of, SIZE)


def _of_logs(key: jax.Array, memory: PyTree, x: Position, batch: Batch) -> tuple[Position, PyTree]:
    (weighted, precision), memory = EVIDENCE.estimate(key, memory, x, batch)
    return weighted - (PRECISION + precision) * x, memory


def _of_numbers(
    key: jax.Array, memory: PyTree, theta: Position, batch: Batch
) -> tuple[Position, PyTree]:
    slope, memory = _of_logs(key, memory, jnp.log(theta), batch)
    return (slope - 1) / theta, memory


def _none(key: jax.Array, memory: PyTree, x: Position, batch: Batch) -> tuple[Position, PyTree]:
    del key, batch
    return jnp.zeros_like(x), memory


def _estimator(estimate: Callable) -> Estimator:
    return Estimator(estimators.no_memory, bind(estimate))


def _positive(z: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    return (jnp.maximum(jnp.abs(z[0]), 1e-30),)


def _square(z: tuple[jax.Array, ...], v: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    return (z[0] ** 2 * v[0],)


def _constant(z: tuple[jax.Array, ...], v: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    del z
    return v


def _numbers(diffusion: Callable, h: Any) -> Kernel:
    options = {"diffusion": diffusion, "fold": _positive, "coordinatewise": True}
    return recipe.build(_estimator(_of_numbers), h / SIZE, **options)


class Method(NamedTuple):
    """A sampler.

    Attributes:
        build: `step size -> Kernel`.
        logs: Whether its position is log theta.
        starts_in_logs: Whether its `init` takes that.
    """

    build: Callable[[Any], Kernel]
    logs: bool
    starts_in_logs: bool


BLIND = "the paper's GBM"
METHODS = {
    "mean-reverting GBM": Method(
        lambda h: gbm.build(EVIDENCE, 0.0, PRECISION, h / SIZE), True, False
    ),
    "reflected Euler": Method(functools.partial(_numbers, _square), False, False),
    "SGLD of logs": Method(lambda h: sgld.build(_estimator(_of_logs), h / SIZE), True, True),
    "reflected SGLD": Method(functools.partial(_numbers, _constant), False, False),
    BLIND: Method(lambda h: sgld.build(_estimator(_none), h / SIZE), True, True),
}
STEP_SIZES = tuple(float(f"{h:.2g}") for h in np.geomspace(10, 1e-4, 11))


class Data(NamedTuple):
    """Data sets, one per seed.

    Attributes:
        rows: log x and tau, [seeds, N, J + 1].
        mean: Of log theta in the exact posterior, [seeds, J].
        precision: Likewise.
    """

    rows: np.ndarray
    mean: np.ndarray
    precision: np.ndarray


def data(case: str, seeds: Sequence[int]) -> Data:
    """Return the data sets of a case."""
    rows = np.stack([_rows(CASES[case], np.random.default_rng(seed)) for seed in seeds])
    tau = rows[..., -1:]
    precision = np.broadcast_to(PRECISION + tau.sum(axis=1), (len(seeds), NUMBER))
    return Data(rows, (tau * rows[..., :-1]).sum(axis=1) / precision, precision)


def _rows(shape: float | None, generator: np.random.Generator) -> np.ndarray:
    # A precision of 0 in float32 would be a measurement that says nothing.
    tau = np.ones(SIZE) if shape is None else generator.gamma(shape, 1 / shape, SIZE) + 1e-6
    noise = generator.standard_normal((SIZE, NUMBER)) / np.sqrt(tau)[:, None]
    return np.column_stack([np.log(np.linspace(0.5, 5, NUMBER)) + noise, tau])


def sample(
    seeds: Sequence[int], method: Method, data: Data, batch_size: int, **lengths: int
) -> np.ndarray:
    """Return log theta [step sizes, seeds, kept, J] of parallel chains; N is all data."""
    rows = data.rows
    if batch_size == SIZE:  # one row with the same evidence
        tau = rows[..., -1:]
        mean = (tau * rows[..., :-1]).sum(axis=1) / tau.sum(axis=1)
        rows = np.concatenate([mean, tau.mean(axis=1)], axis=-1)[:, None]
    return np.asarray(
        _sample(
            jnp.stack([jax.random.key(seed) for seed in seeds]),
            jnp.asarray(STEP_SIZES, jnp.float32),
            jnp.asarray(rows, jnp.float32),
            jnp.asarray(data.mean, jnp.float32),
            method=method,
            batch_size=batch_size,
            **lengths,
        ),
        np.float64,
    )


@functools.partial(jax.jit, static_argnames=("method", "batch_size", "burn_in", "kept"))
def _sample(
    keys: jax.Array,
    step_sizes: jax.Array,
    rows: jax.Array,
    means: jax.Array,
    *,
    method: Method,
    batch_size: int,
    **lengths: int,
) -> jax.Array:
    def chain(key: jax.Array, h: jax.Array, rows: jax.Array, mean: jax.Array) -> jax.Array:
        key_init, key_run = jax.random.split(key)
        kernel = method.build(h)
        state = kernel.init(key_init, mean if method.starts_in_logs else jnp.exp(mean))
        whole = batch_size == SIZE
        stream = batches.full(rows) if whole else batches.uniform(rows, batch_size)
        kept = common.trace(key_run, kernel, state, stream, **lengths)
        return kept if method.logs else jnp.log(kept)

    over_seeds = jax.vmap(chain, in_axes=(0, None, 0, 0))
    return jax.vmap(over_seeds, in_axes=(None, 0, None, None))(keys, step_sizes, rows, means)


def distance(log_theta: np.ndarray, data: Data) -> np.ndarray:
    """Return mean Kolmogorov-Smirnov distances [...] of [..., seeds, kept, J]; 1 if not finite."""
    z = (log_theta - data.mean[:, None]) * np.sqrt(data.precision)[:, None]
    u = np.sort(stats.norm.cdf(z), axis=-2)
    n = u.shape[-2]
    rank = np.arange(1, n + 1)[:, None]
    result = np.maximum(rank / n - u, u - (rank - 1) / n).max(axis=-2).mean(axis=-1)
    return np.where(np.isfinite(log_theta).all(axis=(-2, -1)), result, 1)


def predicted(
    weighted: np.ndarray, precisions: np.ndarray, time: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of a stationary mean-reverting chain of log theta.

    Over draws of m_hat p_hat and p_hat, [M, ...], with e = exp(-p_hat time): a step has the mean
    e x + (1 - e) m_hat and the variance (1 - e^2) / p_hat.
    """
    e = np.exp(-precisions * time)
    pull = (1 - e) * weighted / precisions
    mean = pull.mean(axis=0) / (1 - e.mean(axis=0))
    constant = pull**2 + (1 - e**2) / precisions
    square = 2 * (e * pull).mean(axis=0) * mean + constant.mean(axis=0)
    return mean, square / (1 - (e**2).mean(axis=0)) - mean**2


def predicted_moments(data: Data, batch_size: int, h: float, seed: int) -> dict[str, float]:
    """Return `predicted` like `moments`, with 20,000 batches per data set."""
    if batch_size == SIZE:
        return {"predicted bias": 0.0, "predicted sd": 1.0}
    generator = np.random.default_rng([seed, batch_size])
    bias, ratio = [], []
    for rows, exact, precision in zip(*data, strict=True):
        each = rows.copy()
        each[:, :-1] *= each[:, -1:]
        chosen = (generator.integers(0, SIZE, (200, batch_size)) for _ in range(100))
        totals = SIZE * np.concatenate([each[i].mean(axis=1) for i in chosen])
        mean, variance = predicted(totals[:, :-1], PRECISION + totals[:, -1:], h / SIZE)
        bias.append((mean - exact) * np.sqrt(precision))
        ratio.append(np.sqrt(variance * precision))
    return {"predicted bias": float(np.mean(bias)), "predicted sd": float(np.mean(ratio))}


def moments(log_theta: np.ndarray, data: Data) -> dict[str, float]:
    """Return the error of the mean, in standard deviations, and the ratio of these."""
    root = np.sqrt(data.precision)
    bias = (log_theta.mean(axis=1) - data.mean) * root
    return {"bias": float(bias.mean()), "sd": float((log_theta.std(axis=1) * root).mean())}


@click.command(help=__doc__.splitlines()[0])
@common.options("scir_lognormal")
@click.option("--seeds", "number", default=10, show_default=True, help="Chains that are averaged.")
def main(quick: bool, out: Path, seed: int, number: int) -> None:
    started = time.perf_counter()
    cases = ("even",) if quick else tuple(CASES)
    batch_sizes = (10,) if quick else BATCH_SIZES
    number = 2 if quick else number
    n = 500 if quick else 1000
    lengths = {"burn_in": n, "kept": (LATER + 2) * n}
    seeds = range(seed + 5, seed + 5 + number)
    tuning_seeds = range(seed + common.TUNING, seed + common.TUNING + number)
    every = [*tuning_seeds, *seeds]
    rows: list[dict[str, Any]] = []
    curves: dict[tuple[str, str], list[np.ndarray]] = {}
    for case in cases:
        whole = data(case, every)
        judged = Data(*(part[number:] for part in whole))
        for batch_size in batch_sizes:
            for name, method in METHODS.items():
                if name == BLIND and batch_size != batch_sizes[0]:
                    continue
                log_theta = sample(every, method, whole, batch_size, **lengths)
                ks = distance(log_theta[:, :, :n], whole)
                best = int(ks[:, :number].mean(axis=1).argmin())
                result = ks[best, number:]
                later = distance(log_theta[best, number:, -n:], judged)
                row = {
                    "case": case,
                    "method": name,
                    "batch size": batch_size,
                    "step size": STEP_SIZES[best],
                    "KS mean": float(result.mean()),
                    "KS sd": float(result.std(ddof=1)),
                    "KS, later": float(later.mean()),
                    **moments(log_theta[best, number:, n:], judged),
                    "predicted bias": float("nan"),
                    "predicted sd": float("nan"),
                }
                if name == "mean-reverting GBM":
                    row |= predicted_moments(judged, batch_size, row["step size"], seed)
                rows.append(row)
                curves.setdefault((case, name), []).append(result)
                click.echo(row)
    settings = {
        "seeds": list(seeds),
        "tuning_seeds": list(tuning_seeds),
        "data": SIZE,
        "numbers": NUMBER,
        "batch_sizes": batch_sizes,
        "step_sizes": STEP_SIZES,
        **lengths,
    }
    common.write(out, rows, draw_distances(curves, tuple(METHODS), batch_sizes), settings, started)


if __name__ == "__main__":
    main()

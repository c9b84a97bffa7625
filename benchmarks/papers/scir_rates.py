"""Rates and precisions by minibatches: SCIR beyond the simplex, and its competitors on (0, inf).

    python benchmarks/papers/scir_rates.py [--quick] [--out FOLDER] [--seed N]

Baker, Fearnhead, Fox and Nemeth (2018, section 2.3, and their poster, section 5) claim that SCIR
also samples gamma posteriors on (0, inf), which are "common for inference of variances", where SGLD
is biased at the boundary; they show no experiment. Here every target is ten independent

    theta_j | data ~ Gamma(a_j, b_j),   a_j = shape + counts_j,   b_j = rate + exposure_j

with the prior Gamma(0.1, 1), and either counts or exposure are estimated from a batch of n of N =
1000 data, drawn with replacement:

    rates       y_ij ~ Poisson(theta_j):    counts = (N / n) sum of y_ij,   exposure = N
    precisions  x_ij ~ N(0, 1 / theta_j):   counts = N / 2,   exposure = (N / n) sum of x_ij^2 / 2

"rates" are between 0.5 and 5; "few events" are rates with 1 to 3 events in all data; "no events"
have none, and hence the shape 0.1 and no noise. The steps of the four methods are

    CIR              the exact transition of d theta = (a - b theta) dt + sqrt(2 theta) dW
    reflected Euler  theta' = |theta + h (a - b theta) + sqrt(2 h theta) xi|
    SGLD of logs     x' = x + h (a - b exp(x)) + sqrt(2 h) xi,   x = log theta
    reflected SGLD   theta' = |theta + h ((a - 1) / theta - b) + sqrt(2 h) xi|

with estimates in place of a and b. Chains start at the posterior mean, run 1000 updates and then
1000 that are kept; the step size minimises the Kolmogorov-Smirnov distance over unreported seeds
and data.

CIR's distribution is known: given estimates it is the same transition, so the moments of the
stationary chain over independent batches solve two linear equations (`predicted`). If only the
shape is estimated, that is Corollary 3.2 of the paper: the mean is right, and the variance larger
by Var[a_hat] tanh(s / 2) / b^2, `transitions.stationary_inflation`. If the rate is estimated, the
mean is off as well.
"""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import common
import jax
import jax.numpy as jnp
import numpy as np
from baselines import transitions
from matplotlib.figure import Figure
from scipy import stats

from simplex_jax._src import batches, estimators
from simplex_jax._src.base import Batch, Kernel, Position, PyTree, bind
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.samplers import cir, recipe, sgld
from simplex_jax._src.samplers.positive import Evidence

SIZE, NUMBER = 1000, 10
SHAPE, RATE = 0.1, 1.0
CASES = ("rates", "few events", "no events", "precisions")
BATCH_SIZES = (1, 10, 100, 1000)
SIGMA = (2 / SIZE) ** 0.5
"""With it CIR's step size counts relaxation times, up to the ratio of b and N."""
SMALLEST = 1e-30  # of theta, where (a - 1) / theta is still a float32


def evidence_of_counts(key: jax.Array, log_theta: jax.Array, counts: jax.Array) -> Evidence:
    """Return the evidence of a batch of counts [n, J] about their rates."""
    del key
    return Evidence(counts.sum(axis=0), jnp.full_like(log_theta, len(counts)))


def evidence_of_normals(key: jax.Array, log_theta: jax.Array, x: jax.Array) -> Evidence:
    """Return the evidence of a batch of centred normals [n, J] about their precisions."""
    del key
    return Evidence(jnp.full_like(log_theta, len(x) / 2), (x**2).sum(axis=0) / 2)


EVIDENCE: dict[str, Callable[..., Evidence]] = dict.fromkeys(CASES, evidence_of_counts)
EVIDENCE["precisions"] = evidence_of_normals


def evidence_of(case: str) -> Estimator:
    """Return the estimate of the evidence of all data."""
    return estimators.subsampled(EVIDENCE[case], SIZE)


def gradient(case: str, of: str) -> Estimator:
    """Return the estimated gradient of the log density of theta, or of its logarithm."""
    estimator = evidence_of(case)
    return Estimator(estimators.no_memory, bind(_GRADIENTS[of], estimator.estimate))


def _gradient_of_logs(
    estimate: Callable, key: jax.Array, memory: PyTree, x: Position, batch: Batch
) -> tuple[Position, PyTree]:
    (counts, exposure), memory = estimate(key, memory, x, batch)
    return SHAPE + counts - (RATE + exposure) * jnp.exp(x), memory


def _gradient_of_numbers(
    estimate: Callable, key: jax.Array, memory: PyTree, theta: Position, batch: Batch
) -> tuple[Position, PyTree]:
    (counts, exposure), memory = estimate(key, memory, theta, batch)
    return (SHAPE + counts - 1) / theta - (RATE + exposure), memory


_GRADIENTS = {"logs": _gradient_of_logs, "numbers": _gradient_of_numbers}


def _positive(z: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    return (jnp.maximum(jnp.abs(z[0]), SMALLEST),)


def _of_theta(z: tuple[jax.Array, ...], v: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    return (z[0] * v[0],)


def _constant(z: tuple[jax.Array, ...], v: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    del z
    return v


class Method(NamedTuple):
    """A sampler, and its grid of step sizes.

    Attributes:
        build: `(case, step size) -> Kernel`.
        step_sizes: The grid, in decreasing order.
        logs: Whether its position is log theta.
    """

    build: Callable[[str, Any], Kernel]
    step_sizes: Sequence[float]
    logs: bool


def _cir(case: str, step_size: Any) -> Kernel:
    return cir.build(evidence_of(case), SHAPE, RATE, step_size, sigma=SIGMA)


def _reflected(case: str, step_size: Any) -> Kernel:
    return recipe.build(
        gradient(case, "numbers"),
        step_size / SIZE,  # in the time of CIR
        diffusion=_of_theta,
        fold=_positive,
        coordinatewise=True,
    )


def _sgld_of_logs(case: str, step_size: Any) -> Kernel:
    return sgld.build(gradient(case, "logs"), step_size)


def _reflected_sgld(case: str, step_size: Any) -> Kernel:
    return recipe.build(
        gradient(case, "numbers"),
        step_size,
        diffusion=_constant,
        fold=_positive,
        coordinatewise=True,
    )


def _grid(largest: float, smallest: float) -> tuple[float, ...]:
    """Return powers of 10 and halves of them."""
    number = round(2 * np.log10(largest / smallest)) + 1
    return tuple(float(f"{step:.2g}") for step in np.geomspace(largest, smallest, number))


METHODS = {
    "CIR": Method(_cir, _grid(10, 0.001), True),
    "reflected Euler": Method(_reflected, _grid(1, 1e-4), False),
    "SGLD of logs": Method(_sgld_of_logs, _grid(10, 1e-6), True),
    "reflected SGLD": Method(_reflected_sgld, _grid(1e-1, 1e-12), False),
}


class Data(NamedTuple):
    """Data sets, one per seed.

    Attributes:
        values: Counts or normal numbers, [seeds, N, J].
        shape: Of the exact posterior, [seeds, J].
        rate: Likewise.
    """

    values: np.ndarray
    shape: np.ndarray
    rate: np.ndarray


def data(case: str, seeds: Sequence[int]) -> Data:
    """Return the data sets of a case."""
    values = np.stack([_values(case, np.random.default_rng(seed)) for seed in seeds])
    if case == "precisions":
        shape = np.full((len(seeds), NUMBER), SHAPE + SIZE / 2)
        return Data(values, shape, RATE + (values**2).sum(axis=1) / 2)
    return Data(values, SHAPE + values.sum(axis=1), np.full((len(seeds), NUMBER), RATE + SIZE))


def _values(case: str, generator: np.random.Generator) -> np.ndarray:
    theta = np.linspace(0.5, 5, NUMBER)
    if case == "rates":
        return generator.poisson(theta, (SIZE, NUMBER)).astype(float)
    if case == "precisions":
        return generator.standard_normal((SIZE, NUMBER)) / np.sqrt(theta)
    values = np.zeros((SIZE, NUMBER))
    if case == "few events":
        for j in range(NUMBER):
            values[generator.choice(SIZE, 1 + j % 3, replace=False), j] = 1
    return values


def sample(
    seeds: Sequence[int],
    case: str,
    method: Method,
    data: Data,
    batch_size: int,
    *,
    burn_in: int,
    kept: int,
) -> np.ndarray:
    """Return theta [step sizes, seeds, kept, J] of parallel chains; N is all data in order."""
    result = _sample(
        jnp.stack([jax.random.key(seed) for seed in seeds]),
        jnp.asarray(method.step_sizes, jnp.float32),
        jnp.asarray(data.values, jnp.float32),
        jnp.asarray(data.shape / data.rate, jnp.float32),
        case=case,
        method=method,
        batch_size=batch_size,
        burn_in=burn_in,
        kept=kept,
    )
    result = np.asarray(result, np.float64)
    return np.exp(result) if method.logs else result


@functools.partial(jax.jit, static_argnames=("case", "method", "batch_size", "burn_in", "kept"))
def _sample(
    keys: jax.Array,
    step_sizes: jax.Array,
    values: jax.Array,
    starts: jax.Array,
    *,
    case: str,
    method: Method,
    batch_size: int,
    **lengths: Any,
) -> jax.Array:
    def chain(
        key: jax.Array, step_size: jax.Array, values: jax.Array, start: jax.Array
    ) -> jax.Array:
        key_init, key_run = jax.random.split(key)
        kernel = method.build(case, step_size)
        # CIR's `init` accepts theta and stores its logarithm; SGLD's does not.
        start = jnp.log(start) if method.build is _sgld_of_logs else start
        state = kernel.init(key_init, start)
        whole = batch_size == SIZE
        stream = batches.full(values) if whole else batches.uniform(values, batch_size)
        return common.trace(key_run, kernel, state, stream, **lengths)

    over_seeds = jax.vmap(chain, in_axes=(0, None, 0, 0))
    return jax.vmap(over_seeds, in_axes=(None, 0, None, None))(keys, step_sizes, values, starts)


def distance(theta: np.ndarray, shape: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """Return mean Kolmogorov-Smirnov distances [...] of theta [..., kept, J]; 1 if not finite."""
    u = np.sort(stats.gamma.cdf(theta * rate[..., None, :], shape[..., None, :]), axis=-2)
    n = u.shape[-2]
    rank = np.arange(1, n + 1)[:, None]
    result = np.maximum(rank / n - u, u - (rank - 1) / n).max(axis=-2).mean(axis=-1)
    return np.where(np.isfinite(theta).all(axis=(-2, -1)), result, 1)


def predicted(
    shapes: np.ndarray, rates: np.ndarray, step_size: float, *, sigma: float = SIGMA
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of a stationary CIR chain over draws of its estimates [M, ...].

    With s = sigma^2 b h / 2 and e = exp(-s), a step has the mean theta e + a (1 - e) / b and the
    variance (2 theta e (1 - e) + a (1 - e)^2 / b) / b: the first two moments of theta after a step
    are linear in those before it.
    """
    e = np.exp(-(sigma**2) * rates * step_size / 2)
    settled = shapes * (1 - e) / rates  # the part of the mean independent of theta
    mean = settled.mean(axis=0) / (1 - e.mean(axis=0))
    slope = 2 * e * settled + 2 * e * (1 - e) / rates
    constant = settled**2 + settled * (1 - e) / rates
    square = (slope.mean(axis=0) * mean + constant.mean(axis=0)) / (1 - (e**2).mean(axis=0))
    return mean, square - mean**2


def predicted_moments(
    case: str, data: Data, batch_size: int, step_size: float, seed: int
) -> dict[str, float]:
    """Return `predicted` for CIR, like `moments`, with 20,000 batches per data set."""
    if batch_size == SIZE:
        return {"predicted bias": 0.0, "predicted sd": 1.0}
    generator = np.random.default_rng([seed, batch_size])
    bias, ratio = [], []
    for values, shape, rate in zip(*data, strict=True):
        totals = _totals(generator, values**2 / 2 if case == "precisions" else values, batch_size)
        exact, variance = shape / rate, shape / rate**2
        if case == "precisions":
            shapes, rates = np.broadcast_to(shape, totals.shape), RATE + totals
            mean, result = predicted(shapes, rates, step_size)
        else:
            noise = totals.var(axis=0)  # the paper's formula, by the library
            added = transitions.stationary_inflation(noise, step_size, rate=rate, sigma=SIGMA)
            mean, result = exact, variance + np.asarray(added, np.float64)
        bias.append((mean - exact) / np.sqrt(variance))
        ratio.append(np.sqrt(result / variance))
    return {"predicted bias": float(np.mean(bias)), "predicted sd": float(np.mean(ratio))}


def _totals(generator: np.random.Generator, values: np.ndarray, batch_size: int) -> np.ndarray:
    """Draw 20,000 batches; return the scaled sums of values [N, J] in them."""
    return np.stack(
        [
            SIZE * values[generator.integers(0, SIZE, (200, batch_size))].mean(axis=1)
            for _ in range(100)
        ]
    ).reshape(-1, NUMBER)


def moments(theta: np.ndarray, data: Data) -> dict[str, float]:
    """Return the error of the mean, in standard deviations, and the ratio of these.

    Of chains [seeds, kept, J], both are means over seeds and numbers.
    """
    sd = np.sqrt(data.shape) / data.rate
    bias = (theta.mean(axis=1) - data.shape / data.rate) / sd
    return {"bias": float(np.mean(bias)), "sd": float(np.mean(theta.std(axis=1) / sd))}


@click.command(help=__doc__.splitlines()[0])
@common.options("scir_rates")
@click.option("--seeds", "number", default=10, show_default=True, help="Chains that are averaged.")
def main(quick: bool, out: Path, seed: int, number: int) -> None:
    started = time.perf_counter()
    cases = ("no events", "precisions") if quick else CASES
    batch_sizes = (10,) if quick else BATCH_SIZES
    number = 2 if quick else number
    lengths = {"burn_in": 500 if quick else 1000, "kept": 500 if quick else 1000}
    seeds = range(seed + 5, seed + 5 + number)
    tuning_seeds = range(seed + common.TUNING, seed + common.TUNING + number)
    rows: list[dict[str, Any]] = []
    curves: dict[tuple[str, str], list[np.ndarray]] = {}
    for case in cases:
        every = data(case, [*tuning_seeds, *seeds])
        judged = Data(*(part[number:] for part in every))
        # With no events all batches are alike, so one size is enough.
        sizes = (10,) if case == "no events" else batch_sizes
        for batch_size in sizes:
            for name, method in METHODS.items():
                theta = sample([*tuning_seeds, *seeds], case, method, every, batch_size, **lengths)
                ks = distance(theta, every.shape, every.rate)
                best = int(ks[:, :number].mean(axis=1).argmin())
                step, result = method.step_sizes[best], ks[best, number:]
                row = {
                    "case": case,
                    "method": name,
                    "batch size": batch_size,
                    "step size": step,
                    **_spread(result),
                    **moments(theta[best, number:], judged),
                    "predicted bias": float("nan"),
                    "predicted sd": float("nan"),
                }
                if name == "CIR":
                    row |= predicted_moments(case, judged, batch_size, step, seed)
                rows.append(row)
                curves.setdefault((case, name), []).append(result)
                click.echo(row)
        generator = np.random.default_rng([seed, 1])
        shape = (number, lengths["kept"], NUMBER)
        draws = generator.gamma(judged.shape[:, None], size=shape) / judged.rate[:, None]
        result = distance(draws, judged.shape, judged.rate)
        blank = {"batch size": "", "step size": ""}
        rows.append(
            {"case": case, "method": "exact draws", **blank}
            | {**_spread(result), **moments(draws, judged)}
        )
        curves[case, "exact draws"] = [result] * len(sizes)
    settings = {
        "seeds": list(seeds),
        "tuning_seeds": list(tuning_seeds),
        "data": SIZE,
        "numbers": NUMBER,
        "prior": (SHAPE, RATE),
        "batch_sizes": batch_sizes,
        "step_sizes": {name: method.step_sizes for name, method in METHODS.items()},
        **lengths,
    }
    figure = draw_distances(curves, (*METHODS, "exact draws"), batch_sizes)
    common.write(out, rows, figure, settings, started)


def _spread(ks: np.ndarray) -> dict[str, float]:
    sd = float(ks.std(ddof=1)) if len(ks) > 1 else float("nan")
    return {"KS mean": float(ks.mean()), "KS sd": sd}


def draw_distances(
    curves: Mapping[tuple[str, str], Sequence[np.ndarray]],
    methods: Sequence[str],
    sizes: Sequence[int],
) -> Figure:
    """Draw distances over batch sizes, with their range over chains, a panel for each case."""
    cases = list(dict.fromkeys(case for case, _ in curves))
    figure, axes = common.figure(len(cases), width=3.2, sharey=True)
    for ax, case in zip(axes, cases, strict=True):
        for colour, name in zip(common.COLOURS, methods, strict=False):
            ks = np.array(curves[case, name])
            if len(ks) < len(sizes):
                ks = np.repeat(ks, len(sizes), axis=0)
            ax.fill_between(sizes, ks.min(axis=1), ks.max(axis=1), color=colour, alpha=0.15)
            ax.plot(sizes, ks.mean(axis=1), ".-", color=colour, label=name)
        ax.set(xscale="log", yscale="log", xlabel=f"batch size (of {SIZE} data)", title=case)
    axes[0].set(ylabel="Kolmogorov-Smirnov distance")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


if __name__ == "__main__":
    main()

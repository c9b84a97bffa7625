"""SCIR with control variates: their effect on the variance of counts, and on the samples.

    python benchmarks/papers/scir_variates.py [--quick] [--out FOLDER] [--seed N]

Baker, Fearnhead, Fox and Nemeth (2018, sections 3 and 5) leave control variates to others; Barile
and Nemeth (2024) add them. Only the abstract of the latter was available, so the experiment uses

    a_hat = alpha + n(reference) + (N / n) sum over the batch of (z_i(omega) - z_i(reference))

with expected labels z_i and the reference where the drift is 0, which is the mode in the
coordinates log omega. SCIR replaces a negative estimate of a count by 0. A control variate of the
derivatives by omega (`estimators.control_variate` has both) estimates counts / omega: it is
unbiased too, and its noise goes to 0 with omega.

If labels are observed, as in Figure 2 of Baker et al., z_i does not depend on omega, and a control
variate gives the exact counts; so the labels of those posteriors (see `scir_methods`) are blurred
here. A datum is one of ten symbols, that of its category with probability 0.64. Chains run 1000
updates, then 1000 that are kept. Their distance is the mean over categories of the
Kolmogorov-Smirnov distance of log omega_j to Gibbs draws of all data; the step size minimises it
over other seeds.
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
import scir_methods
from scipy import special, stats
from scir_methods import ALPHA, CATEGORIES, SIZE

from simplex_jax._src import batches, draws, estimators
from simplex_jax._src.base import Kernel
from simplex_jax._src.batches import Indexed
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.samplers import scir

CASES = ("sparse", "dense")
BATCH_SIZES = (10, 100)
STEPS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)
LIKELIHOOD = np.full((CATEGORIES, CATEGORIES), 0.04) + 0.6 * np.eye(CATEGORIES)
"""Probability of a symbol given the category, [symbols, categories]."""


class Problem(NamedTuple):
    """Inputs of an estimator of counts."""

    symbols: jax.Array  # the data, [N]
    reference: jax.Array  # log omega where the drift of all data is 0, [K]
    counts: jax.Array  # expected counts of all data there, [K]


class Method(NamedTuple):
    """Counts and their grid of step sizes; drawn labels need a refreshed total."""

    estimator: Callable[[Problem], Estimator]
    steps: Sequence[float] = STEPS
    total: str = "carried"
    replace: bool = True  # memoised labels need distinct data in a batch


def likelihood(symbols: jax.Array) -> jax.Array:
    """Return the probability of every category, [n, K]."""
    return jnp.asarray(LIKELIHOOD, jnp.float32)[symbols]


def expected(key: jax.Array, log_omega: jax.Array, symbols: Indexed) -> jax.Array:
    """Return the expected counts of a batch."""
    del key
    logits = log_omega + jnp.log(likelihood(symbols.data))
    return jax.nn.softmax(logits).sum(axis=0)


def assign(key: jax.Array, log_omega: jax.Array, symbols: jax.Array, old: jax.Array) -> jax.Array:
    """Draw the category of every datum."""
    del old
    return draws.categorical(key, jnp.exp(log_omega) * likelihood(symbols))


def count(categories: jax.Array, symbols: jax.Array) -> jax.Array:
    """Count labels."""
    del symbols
    return jax.nn.one_hot(categories, CATEGORIES).sum(axis=0)


def drawn(key: jax.Array, log_omega: jax.Array, symbols: Indexed) -> jax.Array:
    """Return counts of drawn labels of a batch."""
    return count(assign(key, log_omega, symbols.data, symbols.data), symbols.data)


def variate(of: str) -> Callable[[Problem], Estimator]:
    """Return the control variate of the counts, or of the derivatives by omega."""

    def made(problem: Problem) -> Estimator:
        return estimators.control_variate(expected, SIZE, problem.reference, problem.counts, of=of)

    return made


METHODS = {
    "expected labels, subsampled": Method(lambda problem: estimators.subsampled(expected, SIZE)),
    "expected labels, control variate": Method(variate("counts")),
    "expected labels, control variate of derivatives": Method(variate("derivatives")),
    "drawn labels, subsampled": Method(
        lambda problem: estimators.subsampled(drawn, SIZE), total="refreshed"
    ),
    "drawn labels, memoised": Method(
        # The first labels are the symbols.
        lambda problem: estimators.memoised(
            assign, count, problem.symbols, count(problem.symbols, problem.symbols)
        ),
        steps=(5.0, 1.0),
        total="refreshed",
        replace=False,
    ),
}


@click.command(help=__doc__.splitlines()[0])
@common.options("scir_variates")
@click.option("--seeds", "number", default=5, show_default=True, help="Chains that are averaged.")
def main(quick: bool, out: Path, seed: int, number: int) -> None:
    started = time.perf_counter()
    cases, batch_sizes = (CASES[:1], (10,)) if quick else (CASES, BATCH_SIZES)
    number = 1 if quick else number
    lengths = {"burn_in": 200, "kept": 200} if quick else {"burn_in": 1000, "kept": 1000}
    sweeps = 200 if quick else 1000
    seeds = [
        *range(seed + common.TUNING, seed + common.TUNING + number),
        *range(seed + 5, seed + 5 + number),
    ]
    rows, curves = [], {}
    for case in cases:
        problems = [blurred(case, s) for s in seeds]
        truth = [gibbs(np.random.default_rng([s, 2]), problem, sweeps) for problem, s in problems]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(p for p, _ in problems))
        for name, method in METHODS.items():
            for n in batch_sizes:
                omega = sample(seeds, stacked, name, n, method.steps, **lengths)
                ks = np.array(
                    [[distance(*pair) for pair in zip(o, truth, strict=True)] for o in omega]
                )
                best = int(ks[:, :number].mean(axis=1).argmin())
                result = ks[best, number:]
                curves.setdefault((case, name), []).append(result)
                rows.append(
                    {
                        "case": case,
                        "counts": name,
                        "batch size": n,
                        "step size": method.steps[best],
                        "KS mean": float(result.mean()),
                        "KS sd": float(result.std(ddof=1)) if number > 1 else float("nan"),
                        **variance(seed, stacked, truth, name, n),
                    }
                )
                click.echo(rows[-1])
    settings = {"seeds": seeds, "data": SIZE, "alpha": ALPHA, "sweeps": sweeps, **lengths}
    common.write(out, rows, _drawn(curves, batch_sizes), settings, started)


def blurred(case: str, seed: int) -> tuple[Problem, int]:
    """Return blurred labels of a posterior of `scir_methods`, and the reference."""
    labels = scir_methods.data(case, [seed]).labels[0]
    uniform = np.random.default_rng([seed, 1]).uniform(size=(SIZE, 1))
    symbols = (uniform > LIKELIHOOD.T[labels].cumsum(axis=1)).sum(axis=1)
    frequency = np.bincount(symbols, minlength=CATEGORIES)
    omega = np.full(CATEGORIES, 1 / CATEGORIES)
    for _ in range(5000):
        joint = omega * LIKELIHOOD
        counts = frequency @ (joint / joint.sum(axis=1, keepdims=True))
        omega = (ALPHA + counts) / (ALPHA * CATEGORIES + SIZE)
    parts = (np.log(omega).astype(np.float32), counts.astype(np.float32))
    return Problem(jnp.asarray(symbols), *map(jnp.asarray, parts)), seed


def gibbs(generator: np.random.Generator, problem: Problem, sweeps: int) -> np.ndarray:
    """Return draws of log omega [draws, K] given all data, every tenth of 100 chains."""
    frequency = np.bincount(problem.symbols, minlength=CATEGORIES)
    log_omega = np.tile(np.asarray(problem.reference, np.float64), (100, 1))
    kept = []
    for sweep in range(sweeps):
        joint = np.exp(log_omega)[:, None] * LIKELIHOOD
        shares = joint / joint.sum(axis=-1, keepdims=True)
        a = ALPHA + generator.multinomial(frequency, shares).sum(axis=1)
        log_theta = np.log(generator.gamma(a + 1)) + np.log(generator.uniform(size=a.shape)) / a
        log_omega = special.log_softmax(log_theta, axis=-1)
        if sweep >= sweeps // 4 and sweep % 10 == 0:
            kept.append(log_omega)
    return np.concatenate(kept)


def distance(log_omega: np.ndarray, truth: np.ndarray) -> float:
    """Return the mean over categories of the distance of two samples [., K]."""
    pairs = zip(log_omega.T, truth.T, strict=True)
    return float(np.mean([stats.ks_2samp(*pair, method="asymp").statistic for pair in pairs]))


def sample(
    seeds: Sequence[int],
    problems: Problem,
    name: str,
    batch_size: int,
    steps: Sequence[float],
    **lengths: int,
) -> np.ndarray:
    """Return log omega [steps, seeds, kept, K] of parallel chains."""
    keys = jnp.stack([jax.random.key(s) for s in seeds])
    grid = jnp.asarray(steps, jnp.float32)
    kept = _sample(keys, grid, problems, name=name, batch_size=batch_size, **lengths)
    return np.asarray(kept, np.float64)


@functools.partial(jax.jit, static_argnames=("name", "batch_size", "burn_in", "kept"))
def _sample(
    keys: jax.Array,
    steps: jax.Array,
    problems: Problem,
    *,
    name: str,
    batch_size: int,
    **lengths: Any,
) -> jax.Array:
    method = METHODS[name]

    def chain(key: jax.Array, step_size: jax.Array, problem: Problem) -> jax.Array:
        key_init, key_run = jax.random.split(key)
        kernel: Kernel = scir.build(method.estimator(problem), ALPHA, step_size, total=method.total)
        state = kernel.init(key_init, jnp.exp(problem.reference))
        if method.total == "carried":
            total = jnp.full(1, SIZE + ALPHA * CATEGORIES, jnp.float32)
            state = state._replace(log_total=jnp.log(total))
        stream = batches.uniform(batches.indexed(problem.symbols), batch_size, method.replace)
        return common.trace(key_run, kernel, state, stream, **lengths)

    over_seeds = jax.vmap(chain, in_axes=(0, None, 0))
    return jax.vmap(over_seeds, in_axes=(None, 0, None))(keys, steps, problems)


def variance(
    seed: int, problems: Problem, truth: Sequence[np.ndarray], name: str, batch_size: int
) -> dict[str, float]:
    """Return the noise of an estimate at posterior draws of the first problem.

    The root of its variance summed over categories, and the counts that SCIR adds by replacing
    negative ones by 0. Neither applies to memoised labels, which are not an estimate.
    """
    if name == "drawn labels, memoised":
        return {"noise of the counts": float("nan"), "added": float("nan")}
    problem = jax.tree.map(lambda leaf: leaf[0], problems)
    points = np.random.default_rng(seed).choice(truth[0], 100)
    key = common.key_of(seed, f"variance {name}")
    noise, added = _variance(
        key, jnp.asarray(points, jnp.float32), problem, name=name, batch_size=batch_size
    )
    return {"noise of the counts": float(noise), "added": float(added)}


@functools.partial(jax.jit, static_argnames=("name", "batch_size"))
def _variance(
    key: jax.Array, points: jax.Array, problem: Problem, *, name: str, batch_size: int
) -> tuple[jax.Array, jax.Array]:
    estimator = METHODS[name].estimator(problem)
    stream = batches.uniform(batches.indexed(problem.symbols), batch_size)

    def counts(key: jax.Array, log_omega: jax.Array) -> jax.Array:
        key_batch, key_draw = jax.random.split(key)
        batch = stream(key_batch, jnp.int32(0))
        return estimator.estimate(key_draw, (), log_omega, batch)[0]

    keys = jax.random.split(key, (len(points), 200))
    result = jax.vmap(jax.vmap(counts, (0, None)))(keys, points)
    noise = jnp.sqrt(result.var(axis=1).sum(axis=-1).mean())
    return noise, jnp.maximum(-result, 0).sum(axis=-1).mean()


def _drawn(curves: dict, batch_sizes: Sequence[int]) -> Any:
    cases = list(dict.fromkeys(case for case, _ in curves))
    figure, axes = common.figure(len(cases), sharey=True)
    for ax, case in zip(axes, cases, strict=True):
        for colour, name in zip(common.COLOURS, METHODS, strict=False):
            ks = np.array(curves[case, name])
            ax.fill_between(batch_sizes, ks.min(axis=1), ks.max(axis=1), color=colour, alpha=0.15)
            ax.plot(batch_sizes, ks.mean(axis=1), ".-", color=colour, label=name)
        ax.set(xscale="log", xlabel="batch size (of 1000 data)", title=f"{case} posterior")
    axes[0].set(ylabel="Kolmogorov-Smirnov distance", ylim=(0, None))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


if __name__ == "__main__":
    main()

"""MLD where the paper has no experiment: variants of SMLD-approximate, and the ball.

    python benchmarks/papers/mld_variants.py [--quick] [--out FOLDER] [--seed N]

Hsieh, Kavis, Rolland and Cevher (2018), footnote 4: SMLD-approximate replaces exp(y) by max(0, 1 +
y); a Taylor series of higher order, or a threshold of epsilon in place of 0, "do not make a huge
impact on the performance". Appendix B.2 gives a mirror map of the ball, and no experiment.

"variants": the distribution of each approximation's samples on two known posteriors, by 2,000
chains at a step size of 0.005 for 30 units of time from exact draws: Dirichlet(2.5, 4, 6.5) and
Dirichlet(8.1, 2.1, 0.1), with the densest category as the reference and exact counts. And LDA on
the Associated Press articles: K = 20, alpha = 0.1, beta = 0.05, batches of 100, 12 passes of 10
sweeps, with the most frequent word as the reference. Step sizes are chosen by half a run on
unreported documents with an unreported seed. A second-order series does not go below 1/2; its y
starts where it gives the initial weights, or nearest to them. (SMLD itself is the exponential.)

"ball": biases as in `bias.py`, on the unit ball in 2 and in 10 dimensions, of MLD with the paper's
map, its Metropolis-adjusted form, PLMC and MYULA (smoothing = step). The targets are a normal
distribution of standard deviation 1/2 about a point 1.2 from the centre, truncated at the sphere,
and one like a Dirichlet, (1 - |x|^2) exp(2 x_1), whose gradient is infinite on the sphere, where
only MLD works. Moments are by quadrature over x_1 and the distance from its axis. Statistics are
x_1, |x|^2 and their squares.
"""

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import bias
import bias_targets
import click
import common
import jax
import jax.numpy as jnp
import lda_common
import numpy as np
import scipy.sparse as sp
from baselines import convex, myula, plmc
from baselines.hybrid import Local
from bias_cases import Case
from bias_points import Point, clear, told_slope
from bias_targets import Posterior, Statistics
from lda_common import Method, Problem, Step
from matplotlib.ticker import NullLocator
from scipy import special

from simplex_jax._src import arguments, batches, corpus, estimators, gradients, schedules
from simplex_jax._src.base import Batch, Kernel, PyTree, freeze, static
from simplex_jax._src.corpus import device, embedded_corpus
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.geometry import mirror, simplex
from simplex_jax._src.runtime import driver
from simplex_jax._src.samplers import mamla, mld
from simplex_jax._src.schedules import StepSize

FLOOR = 0.01
STEP, UNITS, CHAINS = 0.005, 30, 2_000


class Approximation(NamedTuple):
    """An approximation of exp(y), and its inverse where the weights are positive."""

    of: Callable[[jax.Array], jax.Array]
    inverse: Callable[[jax.Array], jax.Array]


def _second(y: jax.Array) -> jax.Array:
    return (1 + (1 + y) ** 2) / 2


def _third(y: jax.Array) -> jax.Array:
    return jnp.maximum(0, 1 + y + y**2 / 2 + y**3 / 6)


def _inverse_of_second(weight: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.maximum(2 * weight - 1, 0)) - 1


def _inverse_of_third(weight: jax.Array) -> jax.Array:
    # u = y + 1 solves u^3 + 3 u = 6 weight - 2, and 4 sinh(t)^3 + 3 sinh(t) = sinh(3 t).
    return 2 * jnp.sinh(jnp.arcsinh(3 * weight - 1) / 3) - 1


APPROXIMATIONS = {
    "exp(y)": Approximation(jnp.exp, jnp.log),
    "max(0, 1 + y), as the paper": Approximation(lambda y: jnp.maximum(0, 1 + y), lambda w: w - 1),
    f"max({FLOOR:g}, 1 + y)": Approximation(lambda y: jnp.maximum(FLOOR, 1 + y), lambda w: w - 1),
    "second order": Approximation(_second, _inverse_of_second),
    "third order": Approximation(_third, _inverse_of_third),
}


class State(NamedTuple):
    """State of SMLD with an approximation; the last category is the reference."""

    position: jax.Array  # log-probabilities, [..., K]
    step: jax.Array  # number of updates done, int32
    memory: PyTree  # the memory of the estimator
    dual: jax.Array  # y, [..., K], 0 for the reference


def _init(
    key: jax.Array, position: jax.Array, *, estimator: Estimator, approximation: Approximation
) -> State:
    log_omega = simplex.log_probabilities(position)
    dual = approximation.inverse(jnp.exp(log_omega - log_omega[..., -1:]))
    step = jnp.zeros((), jnp.int32)
    return State(_position(approximation, dual), step, estimator.init(key), dual)


def _position(approximation: Approximation, dual: jax.Array) -> jax.Array:
    weights = jnp.maximum(approximation.of(dual), jnp.finfo(dual.dtype).tiny)
    return simplex.normalise(jnp.log(weights))


def _update(
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    estimator: Estimator,
    alpha: PyTree,
    step_size: StepSize,
    approximation: Approximation,
) -> tuple[State, tuple]:
    key_estimate, key_noise = jax.random.split(key)
    h = schedules.evaluate(step_size, state.step)
    counts, memory = estimator.estimate(key_estimate, state.memory, state.position, batch)
    a = jnp.broadcast_to(alpha + counts, state.dual.shape)
    noise = jnp.sqrt(2 * h) * jax.random.normal(key_noise, a.shape, a.dtype)
    change = h * (a - a.sum(axis=-1, keepdims=True) * jnp.exp(state.position)) + noise
    dual = state.dual + change.at[..., -1].set(0)
    return State(_position(approximation, dual), state.step + 1, memory, dual), ()


def approximate(name: str, estimator: Estimator, alpha: Any, step_size: StepSize) -> Kernel:
    """Return SMLD with an approximation of exp(y); the last category is the reference."""
    approximation = APPROXIMATIONS[name]
    return freeze(
        static(_init, approximation=approximation),
        static(_update, approximation=approximation),
        {"estimator": estimator},
        alpha=arguments.tree("alpha", alpha),
        step_size=step_size,
    )


@click.command(help=__doc__.splitlines()[0])
@common.options("mld_variants")
@click.option("--data", type=click.Path(path_type=Path), default=common.DATA, show_default=True)
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True)
def main(quick: bool, out: Path, seed: int, data: Path, seeds: int) -> None:
    started = time.perf_counter()
    names = list(APPROXIMATIONS)[:2] if quick else list(APPROXIMATIONS)
    rows: list[dict[str, Any]] = []
    perplexities = _lda(names, quick, seed, data, 1 if quick else seeds)
    for name in names:
        row: dict[str, Any] = {"part": "variants", "name": name}
        for target, law in (("dense", bias_targets.DENSE), ("sparse", bias_targets.SPARSE)):
            row |= _law(name, target, law, seed, quick)
        rows.append(row | perplexities[name])
    curves: dict[str, dict[str, list[Point]]] = {}
    for target, cases in ball_cases(seed, 100 if quick else 4_000).items():
        if quick and "normal, 2" not in target:
            continue
        curves[target] = bias.measured(seed, target, cases, levels=2 if quick else 4)
        for name, points in curves[target].items():
            rows += [
                {
                    "part": "ball",
                    "name": name,
                    "target": target,
                    "slope": told_slope(points),
                    "exact": cases[name].exact,
                    **point._asdict(),
                }
                for point in points
            ]
            click.echo(f"{target}, {name}: {points}")
    columns = {name: "" for row in rows for name in row}
    settings = {"seed": seed, "seeds": seeds, "chains": CHAINS, "floor": FLOOR}
    shown = [{name: row.get(name, "") for name in columns} for row in rows]
    common.write(out, shown, _figure(rows, curves), settings, started)


def _law(name: str, target: str, law: Posterior, seed: int, quick: bool) -> dict[str, float]:
    """Return the errors on a posterior whose densest category comes last."""
    order = np.argsort(law.shapes[0])
    shapes, alpha = law.shapes[0][order], law.alpha[order]
    counts = jnp.asarray(shapes - alpha, jnp.float32)
    key_init, key_run = jax.random.split(common.key_of(seed, f"{name} {target}"))
    chains, steps = (100, 100) if quick else (CHAINS, int(UNITS / STEP))
    start = np.maximum(np.random.default_rng(seed).dirichlet(shapes, chains), 1e-30)
    kernel = approximate(name, estimators.multinomial(1), jnp.asarray(alpha, jnp.float32), STEP)
    state = kernel.init(key_init, jnp.asarray(start, jnp.float32))
    stream = batches.full(jnp.broadcast_to(counts, (1, chains, len(shapes))))
    # The final distribution, of all chains at ten times, one time unit apart.
    _, omega = driver.run(
        key_run, kernel, state, stream, steps, thin=max(1, steps // 30), collect=_probabilities
    )
    omega = np.asarray(omega, np.float64)[-10:].reshape(-1, len(shapes))
    mean = shapes / shapes.sum()
    variance = mean * (1 - mean) / (shapes.sum() + 1)
    ratio = omega.var(axis=0) / variance
    return {
        f"{target}, mean": float(np.max(np.abs(omega.mean(axis=0) - mean) / np.sqrt(variance))),
        f"{target}, least variance": float(ratio.min()),
        f"{target}, largest variance": float(ratio.max()),
    }


def _probabilities(state: State, info: tuple) -> jax.Array:
    del info
    return jnp.exp(state.position)


def _lda(
    names: list[str], quick: bool, seed: int, data: Path, seeds: int
) -> dict[str, dict[str, Any]]:
    """Return the perplexities of LDA by approximation."""
    if quick:
        texts = embedded_corpus().counts[:60]
        judged, num_topics, batch_size, passes, sweeps = 10, 5, 20, 4, 2
    else:
        texts = corpus.read(data / "ap" / "ap.dat", vocabulary=data / "ap" / "vocab.txt").counts
        judged, num_topics, batch_size, passes, sweeps = 200, 20, 100, 12, 10
    frequent = np.argsort(np.asarray(texts.sum(axis=0)).ravel(), kind="stable")
    texts = sp.csr_array(texts[:, frequent])
    order = np.random.default_rng(0).permutation(texts.shape[0])
    train = device.to_device(sp.csr_array(texts[order[2 * judged :]]))
    scored, chosen = (
        lda_common.completion_of(sp.csr_array(texts[rows]), 0.5, 0)[1]
        for rows in (order[:judged], order[judged : 2 * judged])
    )
    problem = Problem(train, (num_topics, texts.shape[1]), scored, alpha=0.1, beta=0.05)
    options: dict[str, Any] = {
        "local_step": Local("collapsed", sweeps=sweeps, burn_in=sweeps // 2),
        "batch_size": batch_size,
    }
    updates = passes * -(-device.size(train) // batch_size)
    steps = tuple(Step(a, 1000, 0.6) for a in ((0.01,) if quick else (1e-3, 0.01, 0.03, 0.1)))
    table = {}
    for name in names:
        method = Method(lda_common.moved_by(functools.partial(approximate, name)), steps)
        tuning = problem._replace(heldout=chosen)
        step, tried = lda_common.tuned(tuning, method, updates=max(4, updates // 2), **options)
        runs = [
            lda_common.scores(
                problem, method, step, updates=updates, evaluations=10, seed=s, **options
            )[-1]
            for s in range(seed, seed + seeds)
        ]
        averages = [record["average"] for record in runs]
        table[name] = {
            "step": str(step),
            "one sample": float(np.mean([record["sample"] for record in runs])),
            "averaged": float(np.mean(averages)),
            "least": min(averages),
            "most": max(averages),
        }
        click.echo(f"{name}: {table[name]}, {[round(p) for p in tried if np.isfinite(p)]}")
    return table


CENTRE, WIDTH, PULL = 1.2, 0.5, 2.0


def _log_normal(x: jax.Array) -> jax.Array:
    return -(jnp.sum(x**2) - 2 * CENTRE * x[0]) / (2 * WIDTH**2)


def _log_like_dirichlet(x: jax.Array) -> jax.Array:
    return jnp.log1p(-jnp.sum(x**2)) + PULL * x[0]


LAWS = {"normal": _log_normal, "like a Dirichlet": _log_like_dirichlet}


class Quadrature(NamedTuple):
    """Points of the ball up to rotation about the first axis, and their probabilities."""

    height: np.ndarray  # x_1
    ring: np.ndarray  # distance from the axis
    mass: np.ndarray


def quadrature(law: str, dimension: int) -> Quadrature:
    """Return nodes of x_1 = t and of the distance sqrt(1 - t^2) s from its axis, 0 < s < 1."""
    nodes, weights = special.roots_legendre(160)
    t, s = (grid.ravel() for grid in np.meshgrid(nodes, (nodes + 1) / 2, indexing="ij"))
    rest = 1 - t**2
    square = t**2 + rest * s**2
    if law == "normal":
        log_p = -(square - 2 * CENTRE * t) / (2 * WIDTH**2)
    else:
        log_p = np.log(rest) + np.log1p(-(s**2)) + PULL * t
    log_p += (dimension - 1) / 2 * np.log(rest) + (dimension - 2) * np.log(s)
    mass = np.outer(weights, weights).ravel() * np.exp(log_p - log_p.max())
    return Quadrature(t, np.sqrt(rest) * s, mass / mass.sum())


def _read(x: jax.Array) -> jax.Array:
    return jnp.stack([x[0], jnp.sum(x**2)])


def ball_cases(seed: int, chains: int) -> dict[str, dict[str, Case]]:
    """Return the chains on the ball, which start at draws of the quadrature."""
    generator = np.random.default_rng(seed)
    result: dict[str, dict[str, Case]] = {}
    for law, log_density in LAWS.items():
        for dimension in (2, 10):
            rule = quadrature(law, dimension)
            point = np.stack([rule.height, rule.height**2 + rule.ring**2], axis=1)
            moments = (rule.mass @ point**order for order in (1, 2, 4))
            truth = bias_targets.statistics(*moments)
            place = generator.choice(len(rule.mass), chains, p=rule.mass)
            around = generator.standard_normal((chains, dimension - 1))
            around /= np.linalg.norm(around, axis=1, keepdims=True)
            start = np.hstack([rule.height[place, None], rule.ring[place, None] * around])
            result[f"{law}, {dimension} dimensions"] = _cases(
                log_density, start, truth, dimension, law == "normal"
            )
    return result


def _cases(
    log_density: Callable, start: np.ndarray, truth: Statistics, dimension: int, smooth: bool
) -> dict[str, Case]:
    estimator, space, onto = gradients.density(log_density), mirror.ball(), convex.ball()
    stream = batches.full(jnp.zeros(1))
    # The dual variable is about 1 / (1 - |x|), which is large in 10 dimensions.
    largest, relaxation = (0.8, 20.0) if dimension == 2 else (3.2, 300.0)
    case = functools.partial(Case, stream=stream, start=start, read=_read, truth=truth)
    cases = {
        "MLD": case(
            lambda h: mld.build(estimator, space, h), largest=largest, relaxation=relaxation
        ),
        "MLD, Metropolis-adjusted": case(
            lambda h: mamla.build(log_density, space, h),
            largest=largest,
            relaxation=relaxation,
            exact=True,
        ),
    }
    if smooth:
        cases["PLMC"] = case(
            lambda h: plmc.build(estimator, onto, h), largest=0.02, relaxation=0.25
        )
        cases["MYULA"] = case(
            lambda h: myula.build(estimator, onto, h, smoothing=h), largest=0.02, relaxation=1.0
        )
    return cases


def _figure(rows: list[dict[str, Any]], curves: dict[str, dict[str, list[Point]]]) -> Any:
    figure, axes = common.figure(1 + len(curves), width=3.6, height=3.4)
    variants = [row for row in rows if row["part"] == "variants"]
    for i, row in enumerate(variants):
        axes[0].bar(i, row["averaged"], color=common.COLOURS[i], label=row["name"])
        axes[0].plot([i, i], [row["least"], row["most"]], color="k", lw=1)
    lowest = min(row["least"] for row in variants)
    axes[0].set(
        ylabel="perplexity, LDA on AP", ylim=(0.9 * lowest, None), title="variants", xticks=[]
    )
    axes[0].legend(fontsize=6, frameon=False)
    for ax, (target, result) in zip(axes[1:], curves.items(), strict=True):
        for colour, (name, points) in zip(common.COLOURS, result.items(), strict=False):
            h = np.array([point.step_size for point in points])
            shown = np.array([max(point.bias, point.noise) for point in points])
            seen = np.array([clear(point) for point in points])
            ax.plot(h, shown, color=colour, lw=1, label=name)
            ax.plot(h[seen], shown[seen], ".", color=colour)
            ax.plot(h[~seen], shown[~seen], "o", mfc="none", ms=4, color=colour)
        steps = sorted({point.step_size for points in result.values() for point in points})
        ax.set(xscale="log", yscale="log", xlabel="step size", title=target)
        ax.set_xticks(steps[:: max(1, len(steps) // 4)])
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_locator(NullLocator())
        ax.legend(fontsize=6, frameon=False)
    if curves:
        axes[1].set(ylabel="bias, in standard deviations")
    return figure


if __name__ == "__main__":
    main()

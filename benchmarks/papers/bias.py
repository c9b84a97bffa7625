"""Bias against step size, and against cost, of every kernel, on targets with known moments.

    python benchmarks/papers/bias.py [--quick] [--out FOLDER] [--seed N]

For each kernel and target, chains start at exact draws, run for 6 relaxation times and then average
the point and its square over 14 more, at 4 step sizes that halve each time. The bias is the root
mean square over these statistics of |mean - exact mean| / exact standard deviation; its noise, the
standard error, is subtracted. The slope, of log bias on log step, is fitted to the smallest steps,
three or two, whose bias is at least 3 times its noise. Hollow points of the figure are below that,
drawn no lower than their noise. A nan is a chain that diverged.

The cost is the processor time per effective sample: the number of steps of one chain that bring the
standard error of the slowest statistic to its exact standard deviation, by the variance between
chains, times the time of a step. The step is that of one of thousands of chains in a compiled loop,
which counts arithmetic but not the launch of operations; it includes the chain's keys and averages.
Kernels alternate, and the cost uses the minimum time of a step over the step sizes.

The targets: a dense Dirichlet posterior of shapes (2.5, 4, 6.5); a sparse one, (8.1, 2.1, 0.1); the
weights of a mixture of three known components, with its labels drawn or summed out; a correlated
normal distribution truncated to the unit square, with its centre outside; a von Mises-Fisher
distribution on the sphere in R^3; and the mixture again from batches of 2 of its 6 data. `gbm` is
exact for lognormal distributions, which are not among them.
"""

import functools
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import common
import jax
import jax.numpy as jnp
import numpy as np
from bias_cases import TARGETS, Case
from bias_points import Point, clear, costs, told_slope
from bias_targets import point_and_square
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tables import markdown

from simplex_jax._src import base
from simplex_jax._src.base import Kernel, PyTree, State
from simplex_jax._src.batches import Stream

BURN_IN, KEPT = 6, 14  # in relaxation times
LEVELS = 4
QUICK = ("smld", "gmc")


@click.command(help=__doc__.splitlines()[0])
@common.options("bias")
@click.option("--chains", type=int, help="Chains of a kernel: 4,000 (--quick: 200).")
@click.option(
    "--only", multiple=True, help="Only targets and kernels whose 'target: kernel' contains this."
)
def main(quick: bool, out: Path, seed: int, chains: int | None, only: tuple[str, ...]) -> None:
    started = time.perf_counter()
    chains = chains or (200 if quick else 4_000)
    result: dict[str, dict[str, list[Point]]] = {}
    rows, shown = [], []
    for target, cases_of in TARGETS.items():
        cases = {
            name: case
            for name, case in cases_of(chains, np.random.default_rng(seed)).items()
            if (
                any(text in f"{target}: {name}" for text in only)
                if only
                else name in QUICK or not quick
            )
        }
        if cases:
            result[target] = measured(seed, target, cases, levels=2 if quick else LEVELS)
        for name, case in cases.items():
            about = {"target": target, "kernel": name, "exact": case.exact}
            rows += [about | point._asdict() for point in result[target][name]]
            shown.append(about | summary(result[target][name]))
            click.echo(markdown(shown[-1:]).splitlines()[-1])
    settings = {"seed": seed, "chains": chains, "burn_in": BURN_IN, "kept": KEPT}
    common.write(out, rows, drawn(result), settings, started, shown)


def measured(seed: int, target: str, cases: dict[str, Case], levels: int) -> dict[str, list[Point]]:
    """Run the kernels of a target in turns, one step size after the other."""
    result: dict[str, list[Point]] = {name: [] for name in cases}
    for level in range(levels):
        for name, case in cases.items():
            key = common.key_of(seed, f"{target} {name}")
            result[name].append(measure(key, case, case.largest / 2**level))
    return result


def measure(key: jax.Array, case: Case, h: float) -> Point:
    """Run the chains at one step size."""
    chains = len(case.start)
    key_init, key_run = jax.random.split(key)
    kernel = base.chains(case.build(h), chains, position_axis=0, batch_axis=0)
    state = kernel.init(key_init, jnp.asarray(case.start, jnp.float32))
    burn_in, kept = (int(np.ceil(n * case.relaxation / h)) for n in (BURN_IN, KEPT))
    run = functools.partial(averages, key_run, kernel, case.stream, state, read=case.read)
    run(0, 1).block_until_ready()  # compiles, for the first step size
    before = time.process_time()
    sums = run(burn_in, kept).block_until_ready()
    seconds = (time.process_time() - before) / (chains * (burn_in + kept))
    z = (np.asarray(sums, np.float64) / kept - case.truth.mean) / case.truth.sd
    mean, variance = z.mean(axis=0), z.var(axis=0, ddof=1)
    noise = np.mean(variance) / chains
    return Point(
        step_size=h,
        bias=float(np.sqrt(np.maximum(np.mean(mean**2) - noise, 0))),
        noise=float(np.sqrt(noise)),
        worst=float(np.max(np.abs(mean) / np.sqrt(variance / chains))),
        steps=float(kept * variance.max()),
        seconds=seconds,
    )


@functools.partial(jax.jit, static_argnames="read")
def averages(
    key: jax.Array,
    kernel: Kernel,
    stream: Stream,
    state: State,
    burn_in: int,
    kept: int,
    *,
    read: Callable[[PyTree], jax.Array],
) -> jax.Array:
    """Return the sums over the kept steps of each chain's statistics, [chains, statistics]."""
    key_update, key_stream = jax.random.split(key)
    point = jax.vmap(lambda position: point_and_square(read(position)))
    keys = jax.random.split(key_stream, len(jax.tree.leaves(state.position)[0]))

    def body(i: int, carry: tuple[State, jax.Array]) -> tuple[State, jax.Array]:
        state, sums = carry
        batch = jax.vmap(lambda key: stream(key, i))(keys)
        state = kernel.update(jax.random.fold_in(key_update, i), state, batch)[0]
        return state, sums + jnp.where(i >= burn_in, point(state.position), 0)

    sums = jnp.zeros_like(point(state.position))
    return jax.lax.fori_loop(0, burn_in + kept, body, (state, sums))[1]


def summary(points: Sequence[Point]) -> dict[str, object]:
    """Return the biases at the ends of the grid, and the slope with its standard error."""
    first, last = points[0], points[-1]
    return {
        "slope": told_slope(points),
        "largest step": first.step_size,
        "bias there": first.bias,
        "smallest step": last.step_size,
        "bias at the smallest": last.bias,
        "noise": float(np.nanmax([point.noise for point in points])),
    }


def drawn(result: dict[str, dict[str, list[Point]]]) -> Figure:
    """Draw the bias over the step size, and below over the cost, a column per target."""
    wide = min(len(result), 3)
    figure, axes = common.figure(wide, 2 * -(-len(result) // wide))
    names = list(dict.fromkeys(name for curves in result.values() for name in curves))
    styles = {
        name: {"color": common.COLOURS[i % 14], "ls": ("-", "--")[i // 14], "lw": 1, "label": name}
        for i, name in enumerate(names)
    }
    for i, (target, curves) in enumerate(result.items()):
        over_step = axes[2 * wide * (i // wide) + i % wide]
        over_cost = axes[2 * wide * (i // wide) + wide + i % wide]
        for name, points in curves.items():
            steps = np.array([point.step_size for point in points])
            _curve(over_step, steps, points, styles[name])
            _curve(over_cost, costs(points), points, styles[name])
        over_step.set(title=target, xlabel="step size")
        over_cost.set(xlabel="µs of processor for an effective sample")
    for ax in axes:
        ax.set(xscale="log", yscale="log")
    for ax in axes[::wide]:
        ax.set(ylabel="bias, in standard deviations")
    handles = {}
    for ax in axes:
        handles |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles, loc="outside lower center", fontsize=7, ncols=8)
    return figure


def _curve(ax: Axes, x: np.ndarray, points: Sequence[Point], style: dict) -> None:
    shown = np.array([max(point.bias, point.noise) for point in points])
    seen = np.array([clear(point) for point in points])
    ax.plot(x, shown, **style)
    ax.plot(x[seen], shown[seen], ".", color=style["color"])
    ax.plot(x[~seen], shown[~seen], "o", mfc="none", ms=4, color=style["color"])


if __name__ == "__main__":
    main()

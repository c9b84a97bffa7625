"""Bias against step size of every stochastic kernel, on targets whose moments are known.

    python benchmarks/papers/bias.py [--quick] [--out FOLDER] [--seed N]

Of each kernel and target, chains start at exact draws, run for 10 relaxation times and then
average the point and its square over 40 more, at 5 step sizes that halve each time. The bias is the
root mean square over these statistics of |mean - exact mean| / exact standard deviation; its noise,
the standard error, is subtracted. The slope is that of log bias on log step, fitted to the smallest
steps, three or two, at which the bias is at least 3 times its noise; where fewer are, the bias
cannot be told from 0. Hollow points of the figure are below that, at their noise at least. A nan is
a chain that diverged.

The targets: a dense Dirichlet posterior of shapes (2.5, 4, 6.5); a sparse one, (8.1, 2.1, 0.1); the
dense one from batches of 2 of its 10 data; the weights of a mixture of three known components,
which is not conjugate; exponential laws on the unit square; gamma laws of shapes 0.1 and 2.5, and
lognormal ones, by their logarithms.
"""

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import click
import common
import jax
import jax.numpy as jnp
import numpy as np
from bias_cases import TARGETS, Case
from bias_targets import omega_and_square
from matplotlib.figure import Figure
from tables import markdown

from simplex_jax import base
from simplex_jax.base import Kernel, PyTree, State
from simplex_jax.batches import Stream

BURN_IN, KEPT = 10, 40  # in relaxation times
LEVELS = 5
SIGNIFICANT = 3.0


class Point(NamedTuple):
    """A measured bias: the step size, the bias and its noise."""

    step_size: float
    bias: float
    noise: float


@click.command(help=__doc__.splitlines()[0])
@common.options("bias")
@click.option("--chains", type=int, help="Chains of a kernel: 8,000 (--quick: 200).")
@click.option("--only", help="Only the targets and kernels whose 'target: kernel' contains this.")
def main(quick: bool, out: Path, seed: int, chains: int | None, only: str | None) -> None:
    started = time.perf_counter()
    chains = chains or (200 if quick else 8_000)
    levels = 3 if quick else LEVELS
    if quick:
        only = only or "dense Dirichlet: SMLD"
    found: dict[str, dict[str, list[Point]]] = {}
    rows = []
    for target, cases_of in TARGETS.items():
        for name, case in cases_of(chains, np.random.default_rng(seed)).items():
            if only and only not in f"{target}: {name}":
                continue
            points = [
                measure(common.key_of(seed, f"{target} {name}"), case, case.largest / 2**level)
                for level in range(levels)
            ]
            found.setdefault(target, {})[name] = points
            rows.append({"target": target, "kernel": name, **summary(points)})
            click.echo(markdown(rows[-1:]).splitlines()[-1])

    figure = drawn(found)
    settings = {
        "seed": seed,
        "chains": chains,
        "burn_in": BURN_IN,
        "kept": KEPT,
        "points": {
            target: {name: [point._asdict() for point in points] for name, points in curves.items()}
            for target, curves in found.items()
        },
    }
    common.write(out, rows, figure, settings, started)


def drawn(found: dict[str, dict[str, list[Point]]]) -> Figure:
    """Draw the bias over step size, a panel a target."""
    figure, axes = common.figure(
        3 if len(found) > 1 else 1, 2 if len(found) > 3 else 1, sharey=True
    )
    for ax in axes:
        ax.set_axis_off()
    for ax, (target, curves) in zip(axes, found.items(), strict=False):
        ax.set_axis_on()
        for i, (name, points) in enumerate(curves.items()):
            h, bias, noise = np.array(points).T
            style = {"color": common.COLOURS[i % 8], "ls": "-" if i < 8 else "--", "lw": 1}
            shown, clear = np.maximum(bias, noise), bias >= SIGNIFICANT * noise
            ax.plot(h, shown, label=name, **style)
            ax.plot(h[clear], shown[clear], ".", color=style["color"])
            ax.plot(h[~clear], shown[~clear], "o", mfc="none", ms=4, color=style["color"])
        ax.set(xscale="log", yscale="log", xlabel="step size", title=target)
        ax.legend(fontsize=6, ncols=2, loc="upper left")
    axes[0].set(ylabel="bias, in standard deviations", ylim=(None, 60))  # room for the legends
    return figure


def measure(key: jax.Array, case: Case, h: float) -> Point:
    """Run the chains at one step size."""
    chains = len(case.start)
    key_init, key_run = jax.random.split(key)
    kernel = base.chains(case.build(h), chains, position_axis=0, batch_axis=0)
    state = kernel.init(key_init, jnp.asarray(case.start, jnp.float32))
    burn_in, kept = (int(np.ceil(n * case.relaxation / h)) for n in (BURN_IN, KEPT))
    means = averages(key_run, kernel, case.stream, state, burn_in, kept, read=case.read)
    means = np.asarray(means, np.float64) / kept
    z = (means - case.truth.mean) / case.truth.sd
    error = z.std(axis=0, ddof=1) / np.sqrt(chains)
    square, noise = np.mean(z.mean(axis=0) ** 2), np.mean(error**2)
    return Point(h, float(np.sqrt(np.maximum(square - noise, 0))), float(np.sqrt(noise)))


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
    """Return the sums over the kept steps of what is read of each chain, [chains, statistics]."""
    key_update, key_stream = jax.random.split(key)
    point = jax.vmap(lambda position: omega_and_square(read(position)))
    keys = jax.random.split(key_stream, len(jax.tree.leaves(state.position)[0]))

    def body(i: int, carry: tuple[State, jax.Array]) -> tuple[State, jax.Array]:
        state, sums = carry
        batch = jax.vmap(lambda key: stream(key, i))(keys)
        state = kernel.update(jax.random.fold_in(key_update, i), state, batch)[0]
        return state, sums + jnp.where(i >= burn_in, point(state.position), 0)

    sums = jnp.zeros_like(point(state.position))
    return jax.lax.fori_loop(0, burn_in + kept, body, (state, sums))[1]


def summary(points: list[Point]) -> dict[str, object]:
    """Return the biases at the ends of the grid and the slope, with its standard error."""
    first, last = points[0], points[-1]
    slope, error = slope_of(points)
    return {
        "slope": f"{slope:.2f} ± {error:.2f}" if np.isfinite(slope) else "no bias seen",
        "largest step": first.step_size,
        "bias there": first.bias,
        "smallest step": last.step_size,
        "bias at the smallest": last.bias,
        "noise": float(np.nanmax([point.noise for point in points])),
    }


def slope_of(points: list[Point]) -> tuple[float, float]:
    """Return the slope of log bias on log step, and its standard error; NaN if no bias is seen."""
    clear = [point for point in points if point.bias >= SIGNIFICANT * point.noise]
    if len(clear) < 2:
        return np.nan, np.nan
    h, bias, noise = np.array(clear[-3:]).T
    x, y, weight = np.log(h), np.log(bias), (bias / noise) ** 2
    x = x - np.average(x, weights=weight)
    spread = (weight * x**2).sum()
    return float((weight * x * y).sum() / spread), float(spread**-0.5)


if __name__ == "__main__":
    main()

"""MLD, Figures 1(a) and 1(c): total variation to a sparse Dirichlet posterior over iterations.

    python benchmarks/papers/mld_figure1.py [--quick] [--out FOLDER] [--seed N]

Hsieh, Kavis, Rolland and Cevher (2018), Section 5.1 and Appendix H.1: 11 categories with counts
10000, 10, 10 and eight zeros, alpha = 0.1, exact gradients. Chains start at the uniform vector, and
the distribution of a component over many chains is compared with the truth over bins of equal
probability. Panels show components 1 (Figure 1a), 2 and 8 (Figure 1c).

The paper does not say which category is MLD's reference, so there are three variants: the dense
one, a sparse one (the last), and none, the symmetric form. Each method is shown at the best three
step sizes of a grid: lowest total variation, averaged over the three components and over iterations
equally spaced in log time, on other and fewer chains. `exact CIR` is SCIR with all data; `SGRLD,
given total` starts at a theta of total N, not at a draw from its stationary distribution.

`floor` is the total variation of as many exact draws.
"""

import functools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import click
import common
import jax
import jax.numpy as jnp
import numpy as np
from baselines import reflected_cir
from scipy import special, stats

from simplex_jax._src import batches, estimators
from simplex_jax._src.base import Kernel, State
from simplex_jax._src.runtime import driver
from simplex_jax._src.samplers import scir, sgrld, smld

COUNTS = np.array([10_000, 10, 10, 0, 0, 0, 0, 0, 0, 0, 0])
ALPHA = 0.1
COMPONENTS = (0, 1, 7)
BINS = 60
BEST = 3
# The full-data counts are the batch.
EXACT = estimators.multinomial(size=1)


class Method(NamedTuple):
    """A sampler: how to build it, its grid of step sizes, and whether theta starts at total N."""

    build: Callable[..., Kernel]
    step_sizes: Sequence[float]
    given_total: bool = False


MLD_STEPS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 3e-4)
METHODS = {
    "MLD, dense reference": Method(functools.partial(smld.build, reference=0), MLD_STEPS),
    "MLD, sparse reference": Method(functools.partial(smld.build, reference=10), MLD_STEPS),
    "MLD, symmetric": Method(smld.build, MLD_STEPS),
    "SGRLD": Method(sgrld.build, (0.1, 0.03, 0.01, 0.003, 0.001, 1e-4, 1e-5, 1e-6)),
    "SGRLD, given total": Method(sgrld.build, (0.1, 0.03, 0.01, 0.005, 0.003, 0.001), True),
    "reflected Euler": Method(reflected_cir.build, (0.5, 0.2, 0.1, 0.05, 0.02)),
    "exact CIR": Method(scir.build, (3.0, 1.0, 0.3, 0.1)),
}
QUICK = ("MLD, dense reference", "SGRLD", "exact CIR")


@click.command(help=__doc__.splitlines()[0])
@common.options("mld_figure1")
@click.option("--chains", type=int, help="Chains of the figure: 100,000 (--quick: 1,000).")
def main(quick: bool, out: Path, seed: int, chains: int | None) -> None:
    started = time.perf_counter()
    chains = chains or (1_000 if quick else 100_000)
    tuning_chains = min(chains, 20_000)
    names = QUICK if quick else tuple(METHODS)
    last = 50 if quick else 1000
    times = np.geomspace(1, last, 5 if quick else 25).round().astype(int)
    times = np.unique([*times, 10, last])
    edges = bin_edges()

    rows, curves = [], {}
    for name in names:
        method = METHODS[name]
        steps = method.step_sizes[1:3] if quick else method.step_sizes
        distance = {
            h: distances(seed + common.TUNING, method, h, tuning_chains, times, edges)
            for h in steps
        }
        ranked = sorted(steps, key=lambda h: np.nan_to_num(distance[h], nan=1.0).mean())
        for h in ranked[:BEST]:
            curves[name, h] = distances(seed, method, h, chains, times, edges)
            for mark in (10, 50, 100, 1000):
                if mark in times:
                    result = curves[name, h][list(times).index(mark)]
                    rows.append(
                        {"method": name, "step size": h, "iterations": mark, **_row(result)}
                    )
    floor = 0.5 * np.sqrt(2 * BINS / (np.pi * chains))
    rows.append({"method": "floor", "step size": "", "iterations": "", **_row([floor] * 3)})

    figure, axes = common.figure(len(COMPONENTS), width=3.4, sharey=True)
    styles = ("-", "--", ":")
    for panel, (ax, component) in enumerate(zip(axes, COMPONENTS, strict=True)):
        for colour, name in zip(common.COLOURS, names, strict=False):
            own = [(h, curve) for (other, h), curve in curves.items() if other == name]
            for style, (_, curve) in zip(styles, own, strict=False):
                label = name if style == "-" else None
                ax.plot(times, curve[:, panel], style, color=colour, label=label, lw=1.2)
        ax.axhline(floor, color="0.6", lw=0.7)
        ax.set(xscale="log", yscale="log", xlabel="iteration", title=f"component {component + 1}")
    axes[0].set(ylabel="total variation")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    settings = {
        "seed": seed,
        "counts": COUNTS.tolist(),
        "alpha": ALPHA,
        "components": [component + 1 for component in COMPONENTS],
        "bins": BINS,
        "chains": chains,
        "tuning_chains": tuning_chains,
        "iterations": times.tolist(),
        "step_sizes": {name: METHODS[name].step_sizes for name in names},
        "best": {name: [h for other, h in curves if other == name] for name in names},
    }
    common.write(out, rows, figure, settings, started)


def _row(distance: Sequence[float]) -> dict[str, float]:
    return {
        f"TV, component {component + 1}": float(value)
        for component, value in zip(COMPONENTS, distance, strict=True)
    }


def bin_edges() -> np.ndarray:
    """Return the logs of the inner edges of bins of equal probability, [components, BINS - 1]."""
    a = COUNTS + ALPHA
    level = np.arange(1, BINS) / BINS
    edges = []
    for j in COMPONENTS:
        x = stats.beta.ppf(level, a[j], a.sum() - a[j])
        # Near 1, take the logarithm of the complement, which keeps its digits.
        rest = special.betaincinv(a.sum() - a[j], a[j], 1 - level)
        edges.append(np.where(x < 0.5, np.log(x), np.log1p(-np.where(x < 0.5, 0, rest))))
    return np.array(edges)


def distances(
    seed: int, method: Method, h: float, chains: int, times: np.ndarray, edges: np.ndarray
) -> np.ndarray:
    """Return the total variation of each component at each time, [times, components]."""
    key_init, key_run = jax.random.split(common.key_of(seed, repr(h)))
    kernel = method.build(EXACT, ALPHA, h)
    state = kernel.init(key_init, jnp.ones((chains, len(COUNTS))))
    if method.given_total:
        total = jnp.log(COUNTS.sum() + ALPHA * len(COUNTS))
        state = state._replace(log_total=jnp.full((chains, 1), total, jnp.float32))
    counts = jnp.broadcast_to(jnp.asarray(COUNTS, jnp.float32), (1, chains, len(COUNTS)))
    stream = batches.full(counts)
    result = []
    for duration in np.diff(times, prepend=0):
        state, _ = driver.run(
            key_run, kernel, state, stream, int(duration), collect=_nothing, chunk=1000
        )
        result.append(total_variation(state.position, jnp.asarray(edges, jnp.float32)))
    return np.array(result)


def _nothing(state: State, info: object) -> tuple:
    return ()


@jax.jit
def total_variation(log_omega: jax.Array, edges: jax.Array) -> jax.Array:
    """Return the distance of each component's histogram to equal probabilities; NaN gives NaN."""
    result = []
    for j, row in zip(COMPONENTS, edges, strict=True):
        place = jnp.searchsorted(row, log_omega[:, j])
        share = jnp.bincount(place, length=BINS) / len(log_omega)
        distance = jnp.abs(share - 1 / BINS).sum() / 2
        result.append(jnp.where(jnp.isnan(log_omega[:, j]).any(), jnp.nan, distance))
    return jnp.stack(result)


if __name__ == "__main__":
    main()

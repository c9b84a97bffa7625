"""SGRLD, Figure 1: effective sample size over step size, and traces, in four coordinate systems.

    python benchmarks/papers/sgrld_figure1.py [--quick] [--out FOLDER] [--seed N]

Patterson and Teh (2013), Section 3: 10 categories with counts 90, 5, 5 and seven zeros, alpha =
0.1, Metropolis-corrected Langevin dynamics with exact counts. Chains run 10,000 updates, then
100,000, of which every 100th is kept. The paper shows three of the eight combinations of
coordinates and metric, and says that the others do not work. All eight run here, the paper's
favourite also without the Metropolis correction, as in SGRLD, and exact CIR (SCIR with all data).
Step sizes are our h; the paper's epsilon is 2 h (for Riemannian dynamics in reduced coordinates 2 n
h).

The effective sample size is that of the 1000 kept values: of the probabilities themselves, as in
the paper, and of their ranks ("bulk", Vehtari et al. 2021), which reflects the sparse components
better; its mean and median over components, averaged over chains. It does not detect bias, nor
chains that stand still most of the time. `KS` does: the Kolmogorov-Smirnov distance of a chain's
kept values to the posterior, see `common.ks_distance`; that of 1000 independent draws is about
0.03. The table has each sampler's step size with the smallest distance; `table.csv` has all.

The traces are Figure 1(b): the kept values of one chain at the paper's step size 0.1, h = 0.05, of
the paper's three samplers and of its favourite without the correction. "Least" is the logarithm to
base 10 of the smallest kept probability of a chain, the median over chains.
"""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import common
import jax
import jax.numpy as jnp
import numpy as np
from arviz_stats.base import array_stats
from baselines import rld
from baselines.parameterisations import (
    EXPANDED_MEAN,
    EXPANDED_NATURAL,
    REDUCED_MEAN,
    REDUCED_NATURAL,
)
from matplotlib.figure import Figure

from simplex_jax._src import batches, estimators
from simplex_jax._src.base import Info, Kernel, State
from simplex_jax._src.samplers import scir

COUNTS = np.array([90, 5, 5, 0, 0, 0, 0, 0, 0, 0])
ALPHA = 0.1
STEP_SIZES = (
    1e-5,
    2e-5,
    5e-5,
    1e-4,
    2e-4,
    5e-4,
    0.001,
    0.002,
    0.005,
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1.0,
)
TRACED, TRACED_AT = 4, 0.05  # the number of samplers, the first ones, and the step size
# The full-data counts are the one row of the data.
EXACT = estimators.multinomial(size=1)


def langevin(
    parameterisation: Any, riemannian: bool, metropolis: int | None = 1
) -> Callable[[jax.Array], Kernel]:
    """Return `(step_size) -> Kernel`, Metropolis-corrected unless `metropolis` is None."""
    options = {"riemannian": riemannian, "metropolis": metropolis}
    return functools.partial(_langevin, parameterisation=parameterisation, **options)


def _langevin(step_size: jax.Array, **options: Any) -> Kernel:
    return rld.build(EXACT, ALPHA, step_size, **options)


def _exact_cir(step_size: jax.Array) -> Kernel:
    return scir.build(EXACT, ALPHA, step_size)


SHOWN = {
    "Riemannian, expanded mean": langevin(EXPANDED_MEAN, True),
    "Langevin, expanded natural": langevin(EXPANDED_NATURAL, False),
    "Langevin, reduced natural": langevin(REDUCED_NATURAL, False),
    "Riemannian, expanded mean, uncorrected": langevin(EXPANDED_MEAN, True, None),
    "exact CIR": _exact_cir,
}
QUICK = ("Riemannian, expanded mean", "Langevin, reduced natural", "exact CIR")
OTHERS = {
    "Langevin, expanded mean": langevin(EXPANDED_MEAN, False),
    "Langevin, reduced mean": langevin(REDUCED_MEAN, False),
    "Riemannian, reduced mean": langevin(REDUCED_MEAN, True),
    "Riemannian, expanded natural": langevin(EXPANDED_NATURAL, True),
    "Riemannian, reduced natural": langevin(REDUCED_NATURAL, True),
}


@click.command(help=__doc__.splitlines()[0])
@common.options("sgrld_figure1")
@click.option("--chains", type=int, help="Chains that are averaged: 5 (--quick: 2).")
def main(quick: bool, out: Path, seed: int, chains: int | None) -> None:
    started = time.perf_counter()
    chains = chains or (2 if quick else 5)
    step_sizes = (0.01, 0.1) if quick else STEP_SIZES
    methods = SHOWN | OTHERS
    if quick:
        methods = {name: SHOWN[name] for name in QUICK}
    lengths = (
        {"burn_in": 200, "kept": 200, "thin": 10}
        if quick
        else {"burn_in": 10_000, "kept": 1000, "thin": 100}
    )
    at = min(step_sizes, key=lambda h: abs(h - TRACED_AT))
    rows: list[dict] = []
    traces: dict[str, np.ndarray] = {}
    for name, build in methods.items():
        log_omega, acceptance = sample(
            common.key_of(seed, name), jnp.asarray(step_sizes), build, chains, **lengths
        )
        for h, chain, accepted in zip(step_sizes, log_omega, acceptance, strict=True):
            raw, bulk = (effective_sizes(chain, kind) for kind in ("mean", "bulk"))
            rows.append(
                {
                    "sampler": name,
                    "step size": h,
                    "ESS mean": raw.mean(),
                    "ESS median": np.median(raw),
                    "bulk ESS mean": bulk.mean(),
                    "bulk ESS median": np.median(bulk),
                    "KS": common.ks_distance(chain, COUNTS + ALPHA).mean(),
                    "acceptance": accepted.mean(),
                    "least": least(chain),
                }
            )
            if h == at and len(traces) < TRACED:
                traces[name] = chain[0] / np.log(10)
        click.echo(f"{name}: {time.perf_counter() - started:.0f} s")

    best = [
        min((row for row in rows if row["sampler"] == name), key=lambda row: row["KS"])
        for name in methods
    ]
    exact = common.log_dirichlet_draws(
        np.random.default_rng(seed), COUNTS + ALPHA, chains * lengths["kept"]
    )
    settings = {
        "seed": seed,
        "chains": chains,
        "counts": COUNTS.tolist(),
        "alpha": ALPHA,
        "step_sizes": step_sizes,
        "traced_at": at,
        "least_of_exact_draws": least(exact.reshape(chains, -1, len(COUNTS))),
        **lengths,
    }
    common.write(out, rows, drawn(rows, traces, at), settings, started, shown=best)


def least(chains: np.ndarray) -> float:
    """Return log10 of the smallest probability of chains [chains, kept, K], their median."""
    return float(np.median(chains.min(axis=(1, 2))) / np.log(10))


def drawn(rows: Sequence[dict], traces: Mapping[str, np.ndarray], at: float) -> Figure:
    """Draw effective sizes over step sizes, and traces of log10 probabilities [kept, K]."""
    figure, axes = common.figure(3, 2, width=3.8)
    names = list(dict.fromkeys(row["sampler"] for row in rows))
    for ax, kind in zip(axes, ("ESS", "bulk ESS"), strict=False):
        for i, name in enumerate(names):
            own = [row for row in rows if row["sampler"] == name]
            style = {"color": common.COLOURS[i % 8], "lw": 1.5 if name in SHOWN else 0.7}
            h = [row["step size"] for row in own]
            ax.plot(h, [row[f"{kind} mean"] for row in own], label=name, **style)
            ax.plot(h, [row[f"{kind} median"] for row in own], ":", **style)
        title = "of probabilities" if kind == "ESS" else "of ranks"
        ax.set(xscale="log", xlabel="step size", title=f"{title} (mean; dotted: median)")
        ax.set(ylim=(0, 1050))
    axes[0].set(ylabel="effective size of 1000 samples")
    for ax, (name, trace) in zip(axes[2:], traces.items(), strict=False):
        for j in np.argsort(COUNTS):  # the categories with counts on top
            colour = common.COLOURS[1 if COUNTS[j] else 0]
            ax.plot(trace[:, j], color=colour, lw=0.4)
        ax.set(title=f"{name}, h = {at:g}", xlabel="kept sample")
        ax.title.set_fontsize(8)
    axes[2].set(ylabel="log10 of the probabilities")
    axes[3].set(ylabel="log10 of the probabilities")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def sample(
    key: jax.Array,
    step_sizes: jax.Array,
    build: Callable[[jax.Array], Kernel],
    chains: int,
    **lengths: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return log-probabilities and acceptances, [steps, chains, kept, K] and [steps, chains]."""
    log_omega, acceptance = _sample(
        jax.random.split(key, chains), step_sizes, build=build, **lengths
    )
    return np.asarray(log_omega, np.float64), np.asarray(acceptance, np.float64)


@functools.partial(jax.jit, static_argnames=("build", "burn_in", "kept", "thin"))
def _sample(
    keys: jax.Array, step_sizes: jax.Array, *, build: Callable, **lengths: int
) -> tuple[jax.Array, jax.Array]:
    stream = batches.full(jnp.asarray(COUNTS, jnp.float32)[None])

    def chain(key: jax.Array, step_size: jax.Array) -> tuple[jax.Array, jax.Array]:
        key_init, key_run = jax.random.split(key)
        kernel = build(step_size)
        state = kernel.init(key_init, jnp.ones(len(COUNTS)))
        kept = common.trace(key_run, kernel, state, stream, collect=_collect, **lengths)
        return kept[0], kept[1].mean()

    return jax.vmap(jax.vmap(chain, in_axes=(0, None)), in_axes=(None, 0))(keys, step_sizes)


def _collect(state: State, info: Info) -> tuple[jax.Array, jax.Array]:
    return state.position, getattr(info, "acceptance", jnp.ones(()))


def effective_sizes(log_omega: np.ndarray, method: str) -> np.ndarray:
    """Return the effective sample size of each component, averaged over chains, [K]."""
    omega = np.exp(log_omega)
    sizes = np.array(
        [
            [array_stats.ess(x[None], chain_axis=0, draw_axis=1, method=method) for x in chain.T]
            for chain in omega
        ]
    )
    # A component that never moved has no effective sample size.
    still = (omega == omega[:, :1]).all(axis=1)
    return np.where(still, 1.0, sizes).mean(axis=0)


if __name__ == "__main__":
    main()

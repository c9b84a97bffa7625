"""SCIR, Figure 1: boxplots of the fifth component of a sparse Dirichlet posterior.

    python benchmarks/papers/scir_figure1.py [--quick] [--out FOLDER] [--seed N]

Baker, Fearnhead, Fox and Nemeth (2018), Sections 1.3 and 2.2; see `scir_methods` for the posterior.
Every method runs 1000 updates, then 1000 that are kept, with batches of 10. The figure shows one
chain of each method; the table has that chain's quantiles and, to show how they vary, the smallest
and largest median of 5 chains. Step sizes minimise the Kolmogorov-Smirnov distance over 5 other
seeds.
"""

import time
from pathlib import Path

import click
import common
import numpy as np
import scir_methods
from scipy import stats
from scir_methods import METHODS

BATCH_SIZE, COMPONENT = 10, 4
SEEDS = 5
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@click.command(help=__doc__.splitlines()[0])
@common.options("scir_figure1")
def main(quick: bool, out: Path, seed: int) -> None:
    started = time.perf_counter()
    names = ("SCIR", "SGRLD", "SMLD") if quick else tuple(METHODS)
    lengths = {"burn_in": 500 if quick else 1000, "kept": 500 if quick else 1000}
    seeds = range(seed + 11, seed + 11 + SEEDS)
    tuning_seeds = range(seed + common.TUNING, seed + common.TUNING + SEEDS)
    data = scir_methods.data("sparse", [*tuning_seeds, *seeds])
    posterior = data.posterior[SEEDS]

    shown, rows = {}, []
    for name in names:
        method = METHODS[name]
        every = [*tuning_seeds, *seeds]
        omega = scir_methods.sample(every, method, method.step_sizes, data, BATCH_SIZE, **lengths)
        best = scir_methods.tuned(omega[:, :SEEDS], data.posterior[:SEEDS])
        chains = omega[best, SEEDS:, :, COMPONENT] / np.log(10)
        shown[name] = chains[0]
        rows.append(_row(name, method.step_sizes[best], chains))
    draws = scir_methods.exact(seeds, data.posterior[SEEDS:], lengths["kept"])[..., COMPONENT]
    shown["exact"] = draws[0] / np.log(10)
    rows.append(_row("exact draws", "", draws / np.log(10)))
    # The marginal is Beta(0.1, 1000.9), whose small quantiles keep their digits.
    a = posterior[COMPONENT]
    truth = np.log10(stats.beta.ppf(QUANTILES, a, posterior.sum() - a))
    rows.append({"method": "true quantiles", **_quantiles(truth)})

    figure, (ax,) = common.figure(1, width=1.3 * len(shown))
    boxes = ax.boxplot(list(shown.values()), patch_artist=True, flierprops={"markersize": 2})
    for colour, box in zip(common.COLOURS, boxes["boxes"], strict=False):
        box.set(facecolor=colour, alpha=0.4)
    for value in truth[1:4]:
        ax.axhline(value, color="0.5", lw=0.7, ls=":")
    ax.set_xticks(range(1, len(shown) + 1), [name.replace(", ", ",\n") for name in shown])
    ax.set(ylabel=r"$\log_{10}\,\omega_5$; dotted: true quartiles")
    settings = {
        "seeds": list(seeds),
        "tuning_seeds": list(tuning_seeds),
        "categories": scir_methods.CATEGORIES,
        "data": scir_methods.SIZE,
        "alpha": scir_methods.ALPHA,
        "counts": scir_methods.SPARSE_COUNTS,
        "batch_size": BATCH_SIZE,
        "component": COMPONENT + 1,
        "step_sizes": {name: METHODS[name].step_sizes for name in names},
        **lengths,
    }
    common.write(out, rows, figure, settings, started)


def _row(name: str, step_size: object, chains: np.ndarray) -> dict:
    medians = np.median(chains, axis=-1)
    return {
        "method": name,
        **_quantiles(np.quantile(chains[0], QUANTILES)),
        "least median": float(medians.min()),
        "largest median": float(medians.max()),
        "step size": step_size,
    }


def _quantiles(values: np.ndarray) -> dict[str, float]:
    return {
        f"log10 quantile {q:g}": float(value) for q, value in zip(QUANTILES, values, strict=True)
    }


if __name__ == "__main__":
    main()

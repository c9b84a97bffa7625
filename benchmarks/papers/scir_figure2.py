"""SCIR, Figure 2: distance to a sparse and a dense Dirichlet posterior over batch sizes.

    python benchmarks/papers/scir_figure2.py [--quick] [--out FOLDER] [--seed N]

Baker, Fearnhead, Fox and Nemeth (2018), Section 2.2; see `scir_methods` for the posteriors. Every
method runs 1000 updates, then 1000 that are kept. Its step size at a batch size minimises the mean
Kolmogorov-Smirnov distance over some seeds; the distance shown is that of as many other seeds. The
exact sampler draws 1000 independent points.
"""

import time
from pathlib import Path

import click
import common
import numpy as np
import scir_methods
from scir_methods import METHODS

CASES = ("sparse", "dense")
BATCH_SIZES = (1, 10, 50, 100, 500)


@click.command(help=__doc__.splitlines()[0])
@common.options("scir_figure2")
@click.option("--seeds", "number", default=5, show_default=True, help="Chains that are averaged.")
def main(quick: bool, out: Path, seed: int, number: int) -> None:
    started = time.perf_counter()
    batch_sizes = (10,) if quick else BATCH_SIZES
    cases = CASES[:1] if quick else CASES
    names = ("SCIR", "SGRLD", "SMLD") if quick else tuple(METHODS)
    lengths = {"burn_in": 500 if quick else 1000, "kept": 500 if quick else 1000}
    seeds = range(seed + 5, seed + 5 + number)
    tuning_seeds = range(seed + common.TUNING, seed + common.TUNING + number)

    rows, curves = [], {}
    for case in cases:
        # One call runs both sets of seeds; only the tuning seeds choose the step size.
        data = scir_methods.data(case, [*tuning_seeds, *seeds])
        for name in names:
            method = METHODS[name]
            for batch_size in batch_sizes:
                omega = scir_methods.sample(
                    [*tuning_seeds, *seeds],
                    method,
                    method.step_sizes,
                    data,
                    batch_size,
                    **lengths,
                )
                best = scir_methods.tuned(omega[:, :number], data.posterior[:number])
                ks = common.ks_distance(omega[best, number:], data.posterior[number:])
                rows.append(_row(case, name, batch_size, method.step_sizes[best], ks))
                curves.setdefault((case, name), []).append(ks)
        draws = scir_methods.exact(seeds, data.posterior[number:], lengths["kept"])
        ks = common.ks_distance(draws, data.posterior[number:])
        rows.append(_row(case, "exact", "", "", ks))
        curves[case, "exact"] = [ks] * len(batch_sizes)

    figure, axes = common.figure(len(cases), sharey=True)
    for ax, case in zip(axes, cases, strict=True):
        for colour, name in zip(common.COLOURS, (*names, "exact"), strict=False):
            ks = np.array(curves[case, name])
            ax.fill_between(batch_sizes, ks.min(axis=1), ks.max(axis=1), color=colour, alpha=0.15)
            ax.plot(batch_sizes, ks.mean(axis=1), ".-", color=colour, label=name)
        ax.set(xscale="log", xlabel="batch size (of 1000 data)", title=f"{case} posterior")
    axes[0].set(ylabel="Kolmogorov-Smirnov distance", ylim=(0, None))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    settings = {
        "seeds": list(seeds),
        "tuning_seeds": list(tuning_seeds),
        "categories": scir_methods.CATEGORIES,
        "data": scir_methods.SIZE,
        "alpha": scir_methods.ALPHA,
        "sparse_counts": scir_methods.SPARSE_COUNTS,
        "batch_sizes": batch_sizes,
        "step_sizes": {name: METHODS[name].step_sizes for name in names},
        **lengths,
    }
    common.write(out, rows, figure, settings, started)


def _row(case: str, method: str, batch_size: object, step_size: object, ks: np.ndarray) -> dict:
    return {
        "case": case,
        "method": method,
        "batch size": batch_size,
        "step size": step_size,
        "KS mean": float(ks.mean()),
        "KS min": float(ks.min()),
        "KS max": float(ks.max()),
    }


if __name__ == "__main__":
    main()

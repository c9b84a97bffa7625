"""Dirichlet-process mixture with known truth: six groups of users over sixty pages.

    python benchmarks/papers/dpm_synthetic.py

5,000 training users and 1,000 to score. Scores are as in `dpm_msweb`, with those of the true
distribution and of a single cluster.
"""

from pathlib import Path

import click
import common
import dpm_common
import numpy as np
import scipy.sparse as sp
from dpm_common import METHODS, Problem
from scipy.special import logsumexp


@click.command(help=__doc__)
@common.options("dpm_synthetic")
@click.option("--updates", type=click.IntRange(25), default=600, show_default=True)
@click.option("--seeds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--methods", multiple=True, type=click.Choice(list(METHODS)), default=list(METHODS))
def main(
    quick: bool, out: Path, seed: int, updates: int, seeds: int, methods: tuple[str, ...]
) -> None:
    """Run the experiment."""
    if quick:
        updates, seeds, methods = 25, 1, ("memoised SCIR", "exact slice sampler")
    counts, weights, atoms = dpm_common.synthetic(6_000)
    problem = Problem(*(sp.csr_array(part) for part in (counts[:5_000], counts[5_000:])))
    log_atoms = np.log(np.maximum(atoms, 1e-300))
    truth = -logsumexp(np.log(weights) + problem.test @ log_atoms.T, axis=1).mean()
    one = counts[:5_000].sum(axis=0) + 0.5
    single = -(problem.test @ np.log(one / one.sum())).mean()
    about = {"users": 5_000, "truth": truth, "one cluster": single, "batch": dpm_common.BATCH}
    print(f"truth {truth:.3f}, one cluster {single:.3f}", flush=True)
    dpm_common.experiment(
        problem,
        methods,
        updates=updates,
        sweeps=updates,
        seeds=range(seed, seed + seeds),
        out=out,
        about=about,
        truth=float(truth),
    )


if __name__ == "__main__":
    main()

"""Dirichlet-process mixture of web users: Baker et al. (2018), Figure 3(b).

    python benchmarks/papers/dpm_msweb.py [--methods M ...]

The Microsoft web data: 32,711 training users and 5,000 to score, 294 pages, batches of 1,000.
"Published" has the base measure, steps, initial labels and carried totals of the released code,
which however updated clusters with the pages of the wrong users. The initial weights are not known;
here they are exact draws given the initial labels. "Total refreshed" draws the total anew before
every step. "Tuned" has step sizes chosen on unreported users, with SCIR's base measure. Scores are
minus the mean log predictive density of a user, without the multinomial coefficient and with the
mass of the sticks that are not instantiated, which the paper drops; "averaged" is the log of the
mean density over the second half of the run.
"""

from pathlib import Path

import click
import common
import dpm_common
import msweb
import scipy.sparse as sp
from dpm_common import METHODS, REMARKS, Problem

from simplex_jax._src.corpus import to_vocabulary

DATA = common.DATA / "msweb"


@click.command(help=__doc__)
@common.options("dpm_msweb")
@click.option("--data", type=click.Path(path_type=Path), default=DATA, show_default=True)
@click.option("--updates", type=click.IntRange(25), default=1000, show_default=True)
@click.option("--sweeps", type=click.IntRange(25), default=500, show_default=True)
@click.option("--seeds", type=click.IntRange(1), default=5, show_default=True)
@click.option(
    "--methods", multiple=True, type=click.Choice([*METHODS, *REMARKS]), default=list(METHODS)
)
def main(
    quick: bool,
    out: Path,
    seed: int,
    data: Path,
    updates: int,
    sweeps: int,
    seeds: int,
    methods: tuple[str, ...],
) -> None:
    """Run the experiment."""
    if quick:
        updates, sweeps, seeds = 25, 25, 1
        methods = ("SCIR, published", "exact slice sampler")
        counts = sp.csr_array(dpm_common.synthetic(1_000).counts)
        problem = Problem(counts[:500], counts[500:])
    else:
        train = msweb.read(data / "anonymous-msweb.data")
        test = msweb.read(data / "anonymous-msweb.test")
        problem = Problem(train.counts, to_vocabulary(test, train.vocabulary).corpus.counts)
    about = {
        "users": problem.train.shape[0],
        "pages": problem.train.shape[1],
        "batch": dpm_common.BATCH,
    }
    dpm_common.experiment(
        problem,
        methods,
        updates=updates,
        sweeps=sweeps,
        seeds=range(seed, seed + seeds),
        out=out,
        about=about,
    )


if __name__ == "__main__":
    main()

"""SAM on 20News-different: figure 5(a) of the SGGMC paper, log-perplexity against time.

    python benchmarks/papers/sam_20news.py [--seconds 300] [--methods M ...] [--settings S ...]

Liu, Zhu and Song (2016), section 5.3; their data, K = 20, batches of 50. Every method runs once
with the settings of the released code (steps, frictions, lengths, thermostat inertia 1, V = 0, and
least-squares starts of the proportions with fixed steps; but the code pools up to 8,000 samples
over hours, and its thermostat counts K V dimensions instead of the actual K (V - 1)) and once with
those of the library, which keep the kinetic energy of the topics at equilibrium. Variational
inference is `models.sam.variational`, with the concentration xi of its topics fixed as published,
and learned. Held-out log-perplexities are estimated by importance sampling and, as in the paper,
from 200 prior draws; the columns are means over the second half of the evaluations, and the last 10
samples pooled. Every method is kept in `runs/` of the folder as it ends; the table and the figure
show all that are there.
"""

from pathlib import Path

import click
import common
import sam_common
import sam_data
from sam_common import Published

DATA = common.DATA / "20news-different"
PUBLISHED = Published(
    gamma=1e-2,
    rho=1e-2,
    steps=(10, 1, 1),
    apprmh=(1e-4, 1, 15, 10),
    gibbs=(2e-5, 5, 15),
    decay=0.8,
)
MODEL = {"alpha": 10.0, "sigma": 1e4, "kappa0": 1e4, "kappa1": 3e4}


@click.command(help=__doc__)
@sam_common.options("sam_20news")
@click.option("--data", type=click.Path(path_type=Path), default=DATA, show_default=True)
def main(
    quick: bool,
    out: Path,
    seed: int,
    seconds: float,
    methods: tuple[str, ...],
    settings: tuple[str, ...],
    start: str,
    data: Path,
) -> None:
    """Run the experiment."""
    if quick:
        problem, seconds, methods = sam_common.synthetic(seed), 1.0, ("SGGMC", "VI")
        settings = ("equilibrium",)
    else:
        train, test = (
            sam_data.read(data / f"diff.{part}.tfidf1.data").values for part in ("train", "test")
        )
        problem = sam_common.problem_of(train, test, 20, 50, PUBLISHED, **MODEL)
    about = {"topics": problem.shape[0], "words": problem.shape[1], **MODEL, "batch": 50}
    sam_common.experiment(problem, methods, settings, seconds, start, seed, out, about)


if __name__ == "__main__":
    main()

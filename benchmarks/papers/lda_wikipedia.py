"""LDA on Wikipedia in batches of 50 documents: the figures of three papers in one run.

Baker et al. (2018), Figure 3(a): SCIR and SGRLD; Patterson and Teh (2013), Figure 2(b): online VB,
hybrid and SGRLD; Hsieh et al. (2018), Figures 1(b) and, with `--topics 50 --updates 200`, 1(d):
SMLD and SGRLD, and what they say of SGRHMC. All methods see the same documents, held-out words and
evaluation, once with common alpha and beta and once with the alpha, beta, steps and sweeps of their
own papers, where given. These differ from the papers: the corpus and its size, which scales the
counts; the number of updates (Patterson and Teh 3,000, Hsieh et al. 2,000); evaluations, 20 in all;
and SGRHMC, which is the library's own, and also Ma, Chen and Fox's (2015), as far as published.
With common values, step sizes are chosen on validation documents with an unreported seed, and with
`--settings grid` alpha and beta too, from `GRID`, as Patterson and Teh did. Each seed has another
split of the test documents. With `--seconds`, each method makes the updates that fit in them, by
the time of 40 of its updates, in place of equally many. Runs are kept in `runs/` of the folder as
they end, and the table and the figure show all runs there, so the experiment can run in parts.

Collapsed Gibbs sampling, which the SCIR paper names, is for whole passes: `--methods 'collapsed
Gibbs' --methods 'memoised SCIR' --settings common --batch 141379 --updates 40` makes 40 of them.
"""

import itertools
import json
import time
from pathlib import Path
from typing import NamedTuple

import click
import common
import lda_common
import numpy as np
import scipy.sparse as sp
from baselines.hybrid import Local
from lda_common import METHODS, Method, Problem, Step

from simplex_jax._src import corpus
from simplex_jax._src.corpus import device, embedded_corpus

DATA = common.DATA / "wikipedia"
GIBBS = "collapsed Gibbs"
COMPARED = tuple(name for name in METHODS if name not in (GIBBS, "SMLD", "memoised SCIR, tenths"))
TITLES = {
    "common": "common alpha and beta",
    "own": "each with its paper's",
    "grid": "each with its best",
}
SETTINGS = tuple(TITLES)
COMMON = (0.1, 0.05)
GRID = tuple(itertools.product((0.01, 0.1), (1e-4, 0.01, 0.05, 1.0)))
"""Values of alpha and beta."""
VALIDATION = 500


class Own(NamedTuple):
    """Settings of a method's paper: alpha, beta, sweeps, and the step size if given."""

    alpha: float
    beta: float
    sweeps: int
    step: Step | None = None


def own_settings(num_topics: int) -> dict[str, Own]:
    """Return each method's settings published with the papers or their code."""
    hoffman = 1 / num_topics
    sgrld = Own(0.01, 1e-4, 200, Step(0.01, 1000, 0.6))  # as the authors of SCIR ran it
    scir = Own(0.005, 1.0, 200, Step(0.5, 10, 0.33))
    return {
        "online VB": Own(hoffman, hoffman, 100, lda_common.HOFFMAN),  # at most this many iterations
        "hybrid": Own(hoffman, hoffman, 50, lda_common.HOFFMAN),
        "SGRLD": sgrld,
        "SGRLD, total refreshed": sgrld,
        "SGRHMC": Own(0.01, 1e-4, 50),
        "SGRHMC, Ma et al.": Own(0.01, 1e-4, 50),
        "SMLD-approximate": Own(0.01, 1e-4, 50),
        "SCIR": scir,
        "SCIR, total refreshed": scir,
    }


@click.command(help=__doc__)
@common.options("lda_wikipedia")
@click.option("--data", type=click.Path(path_type=Path), default=DATA, show_default=True)
@click.option("--topics", "num_topics", type=click.IntRange(2), default=100, show_default=True)
@click.option("--updates", type=click.IntRange(40), default=1000, show_default=True)
@click.option("--seconds", type=click.FloatRange(0, min_open=True), help="In place of --updates.")
@click.option("--sweeps", type=click.IntRange(2), help="30, or each paper's of its own settings.")
@click.option("--seeds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--batch", "batch_size", type=click.IntRange(1), default=50, show_default=True)
@click.option("--methods", multiple=True, type=click.Choice((GIBBS, *COMPARED)), default=COMPARED)
@click.option("--settings", multiple=True, type=click.Choice(SETTINGS), default=SETTINGS[:2])
def main(
    quick: bool,
    out: Path,
    seed: int,
    data: Path,
    num_topics: int,
    updates: int,
    seconds: float | None,
    sweeps: int | None,
    seeds: int,
    batch_size: int,
    methods: tuple[str, ...],
    settings: tuple[str, ...],
) -> None:
    """Run the experiment; its table and figure show all runs in the folder so far."""
    started = time.perf_counter()
    if quick:
        counts = embedded_corpus().counts[:300]
        train, test, validation = counts[:200], counts[200:250], counts[250:]
        num_topics, updates, seconds, sweeps, seeds, batch_size = 5, 40, None, 4, 1, 20
        methods = (GIBBS, "SGRLD")
    else:
        train, test, validation = _wikipedia(data)
    scored = {s: lda_common.completion_of(test, 0.1, s)[1] for s in range(seed, seed + seeds)}
    _, chosen = lda_common.completion_of(validation, 0.1, 0)
    documents = device.to_device(train)
    shape = (num_topics, train.shape[1])
    own = own_settings(num_topics)
    scored_with = {
        "training documents": train.shape[0],
        "test documents": test.shape[0],
        "words": train.shape[1],
        "topics": num_topics,
        **({"updates": updates} if seconds is None else {"seconds": seconds}),
        "batch": batch_size,
        "seeds": [seed, seeds],
    }
    for setting in settings:
        for name in methods:
            if setting == "own" and name not in own:
                continue
            method: Method = METHODS[name]
            alpha, beta = own[name][:2] if setting == "own" else COMMON
            tuning = Problem(documents, shape, chosen, alpha, beta)
            step = own[name].step if setting == "own" else None
            taken = sweeps or (own[name].sweeps if setting == "own" else 30)
            # As in the papers. Blocked sweeps from no labels do not converge at their small alpha.
            local_step = Local("collapsed", sweeps=taken, burn_in=taken // 2)
            options = {"local_step": local_step, "batch_size": batch_size}
            if seconds is not None:
                updates = _updates_within(seconds, tuning, method, step, options)
            if setting == "grid":
                tuning, step = _on_grid(tuning, method, max(4, updates // 4), options)
            elif step is None:
                step, tried = lda_common.tuned(
                    tuning, method, updates=max(4, updates // 4), **options
                )
                if tried:
                    click.echo(f"{name}: {[round(p) for p in tried if np.isfinite(p)]}")
            runs = [
                lda_common.scores(
                    tuning._replace(heldout=heldout),
                    *(method, step),
                    updates=updates,
                    evaluations=20,
                    seed=s,
                    **options,
                )
                for s, heldout in scored.items()
            ]
            row = {
                "settings": setting,
                "method": name,
                "alpha": tuning.alpha,
                "beta": tuning.beta,
                "sweeps": taken if method.sweeps else "",
                "step size": "" if len(method.steps) == 1 else str(step),
                "updates": updates,
                **_summary([records[-1] for records in runs]),
            }
            click.echo(row)
            (out / "runs").mkdir(parents=True, exist_ok=True)
            (out / "runs" / f"{setting}, {name}.json").write_text(
                json.dumps({"row": row, "runs": runs}), encoding="utf-8"
            )
            _write(out, scored_with, started)


def _on_grid(problem: Problem, method: Method, updates: int, options: dict) -> tuple[Problem, Step]:
    """Return the problem with the alpha and beta, and the step size, that are best together."""
    best = (np.inf, problem, method.steps[0])
    for (alpha, beta), step in itertools.product(GRID, method.steps):
        at = problem._replace(alpha=alpha, beta=beta)
        last = lda_common.scores(
            *(at, method, step),
            updates=updates,
            evaluations=4,
            seed=lda_common.TUNING_SEED,
            **options,
        )[-1]
        click.echo(f"alpha {alpha:g}, beta {beta:g}, step {step}: {last['average']:.0f}")
        best = min(best, (last["average"], at, step), key=lambda found: found[0])
    return best[1:]


def _updates_within(
    seconds: float, problem: Problem, method: Method, step: Step | None, options: dict
) -> int:
    """Return the number of updates that take so long, by the later half of 80."""
    records = lda_common.scores(
        *(problem, method, step or method.steps[0]),
        updates=80,
        evaluations=2,
        seed=lda_common.TUNING_SEED,
        **options,
    )
    if len(records) < 2 or not np.isfinite(records[-1]["sample"]):
        raise RuntimeError("the run that times updates diverged")
    return max(40, round(seconds * 40 / (records[1]["seconds"] - records[0]["seconds"])))


def _summary(last: list[dict[str, float]]) -> dict[str, float]:
    """Return final results as means over seeds, and the range of their averages."""
    averages = [record["average"] for record in last]
    return {
        "seconds": float(np.mean([record["seconds"] for record in last])),
        "perplexity": round(float(np.mean([record["sample"] for record in last])), 1),
        "running": round(float(np.mean([record["running"] for record in last])), 1),
        "averaged": round(float(np.mean(averages)), 1),
        "least": round(min(averages), 1),
        "most": round(max(averages), 1),
    }


def _write(out: Path, scored_with: dict, started: float) -> None:
    """Write the table and the figure of all runs in the folder, those of earlier calls too."""
    result = [
        json.loads(path.read_text(encoding="utf-8")) for path in sorted((out / "runs").iterdir())
    ]
    result.sort(key=lambda one: (one["row"]["settings"], list(METHODS).index(one["row"]["method"])))
    figure, axes = common.figure(len(TITLES), width=4.4, height=3.6, sharey=True)
    colours = dict(zip((*COMPARED, GIBBS), common.COLOURS, strict=False))
    for axis, (setting, title) in zip(axes, TITLES.items(), strict=True):
        for one in result:
            name = one["row"]["method"]
            if one["row"]["settings"] != setting:
                continue
            for number, records in enumerate(one["runs"]):
                axis.plot(
                    [record["documents"] for record in records],
                    [record["running"] for record in records],
                    color=colours[name],
                    linewidth=0.9,
                    label=name if number == 0 else None,
                )
        axis.set(title=title, xlabel="documents seen", yscale="log")
        if axis.lines:  # a quick run may have scored nothing in a half
            axis.legend(fontsize=7, frameon=False)
    axes[0].set_ylabel("perplexity, running average")
    common.write(out, [one["row"] for one in result], figure, scored_with, started)


def _wikipedia(data: Path) -> tuple[sp.csr_array, sp.csr_array, sp.csr_array]:
    """Return training, test and validation documents."""
    train, test = (
        corpus.read(
            data / f"docword.wikipedia.{part}.txt.gz", vocabulary=data / "vocab.wikipedia.txt"
        ).counts
        for part in ("train", "test")
    )
    validation = np.arange(VALIDATION)  # the documents are in random order
    return lda_common.without(train, validation), test, sp.csr_array(train[validation])


if __name__ == "__main__":
    main()

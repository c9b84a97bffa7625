"""LDA on the NIPS papers with all documents in every update: Patterson and Teh (2013), Figure 2(a).

Each document is split 80/20; topics are learned from the first parts of all, and the second parts
of 300 are scored, of other ones for each seed. Every method makes the same number of sweeps over
the documents, as 1, 5 or 10 per topic update; samplers with estimated counts drop the first half of
them. Step sizes are chosen by a run of a quarter of the length with another seed and another split.
(Their 2,483 papers are not available: these are the 1,740 of volumes 0-12.) Rows are kept in
`rows/` of the folder as they finish, and the table and the figure show all rows there, so the
experiment can run in parts.
"""

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import common
import jax
import lda_common
import numpy as np
import scipy.sparse as sp
from baselines.hybrid import Local
from lda_common import METHODS, Problem, Step
from lda_corpora import nips

from simplex_jax._src.corpus import device, embedded_corpus, split_tokens
from simplex_jax._src.models.topics import evaluation

SPLIT_SEED, TUNING_SPLIT_SEED = 0, 1
SCORED = 300
"""Documents whose second parts are scored: shares of all would cost more than training."""


def problems(
    counts: sp.csr_array, num_topics: int, concentration: float, split: int, seeds: Iterable[int]
) -> list[Problem]:
    """Split the documents and put them on the device; score some, others for each seed."""
    observed, target = split_tokens(counts, split, share=0.2)
    shape = (num_topics, counts.shape[1])
    corpus = device.to_device(observed)

    def scoring(seed: int) -> Problem:
        scored = np.random.default_rng(seed).permutation(counts.shape[0])[:SCORED]
        parts = (sp.csr_array(part[scored]) for part in (observed, target))
        heldout = evaluation.completion(*parts)
        return Problem(corpus, shape, heldout, alpha=concentration, beta=concentration)

    return [scoring(seed) for seed in seeds]


@click.command(help=__doc__)
@common.options("lda_nips")
@click.option("--data", type=click.Path(path_type=Path), default=common.DATA, show_default=True)
@click.option("--passes", type=click.IntRange(20), default=200, show_default=True)
@click.option("--seeds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--methods", multiple=True, type=click.Choice(list(METHODS)), default=list(METHODS))
def main(
    quick: bool, out: Path, seed: int, data: Path, passes: int, seeds: int, methods: tuple[str, ...]
) -> None:
    """Run the experiment."""
    started = time.perf_counter()
    concentration, num_topics, updates_of = 0.01, 50, (1, 5, 10)
    if quick:
        counts, num_topics, passes, updates_of = embedded_corpus().counts[:60], 5, 20, (5,)
        methods, seeds = ("online VB", "memoised SCIR"), 1
    else:
        counts = nips(data / "nips0-12.tar.xz").counts
    of_seeds = range(seed, seed + seeds)
    reported = problems(counts, num_topics, concentration, SPLIT_SEED, of_seeds)
    # Another split has other shapes, so everything compiles twice: not in a quick run.
    split = SPLIT_SEED if quick else TUNING_SPLIT_SEED
    (tuning,) = problems(counts, num_topics, concentration, split, [TUNING_SPLIT_SEED])
    size = counts.shape[0]

    (out / "rows").mkdir(parents=True, exist_ok=True)
    for name in methods:
        method = METHODS[name]
        if name in ("online VB", "hybrid"):
            # With all documents in a batch, the full step is a fixed-point iteration.
            method = method._replace(steps=(Step(1.0), *method.steps))
        for sweeps in updates_of if method.sweeps else (1,):
            local_step = Local(sweeps=sweeps, burn_in=sweeps // 2)
            options = {"local_step": local_step, "batch_size": size}
            updates = max(4, passes // sweeps)
            updates *= 10 if name.endswith("tenths") else 1
            step, _ = lda_common.tuned(tuning, method, updates=max(4, updates // 4), **options)
            runs = [
                lda_common.scores(
                    problem, method, step, updates=updates, evaluations=10, seed=s, **options
                )
                for s, problem in zip(of_seeds, reported, strict=True)
            ]
            last = [records[-1] for records in runs]
            averages = [r["average"] for r in last]
            row = {
                "method": name,
                "sweeps an update": sweeps,
                "step size": "" if len(method.steps) == 1 else str(step),
                "passes": passes // sweeps * sweeps,
                "seconds": float(np.mean([r["seconds"] for r in last])),
                "perplexity": round(float(np.mean([r["sample"] for r in last])), 1),
                "averaged": round(float(np.mean(averages)), 1),
                "least": round(min(averages), 1),
                "most": round(max(averages), 1),
            }
            click.echo(row)
            (out / "rows" / f"{name}, {sweeps}.json").write_text(
                json.dumps({"row": row, "run": runs[0]}), encoding="utf-8"
            )
            jax.clear_caches()  # or the programs of all methods exceed the memory maps of a process

    done = [json.loads(path.read_text("utf-8")) for path in (out / "rows").iterdir()]
    done.sort(key=lambda one: (list(METHODS).index(one["row"]["method"]), _sweeps(one)))
    figure, (axis,) = common.figure(1, width=7, height=3.6)
    for name, colour in zip(
        dict.fromkeys(one["row"]["method"] for one in done), common.COLOURS * 2, strict=False
    ):
        of_method = [one for one in done if one["row"]["method"] == name]
        records = min(of_method, key=lambda one: one["row"]["averaged"])["run"]
        # Evaluations are equally spaced, the last at the end.
        place = np.linspace(0, passes, len(records) + 1)[1:]
        axis.plot(place, [record["sample"] for record in records], color=colour, label=name)
    axis.set(xlabel="sweeps over the documents", ylabel="perplexity, one sample", yscale="log")
    figure.legend(fontsize=7, frameon=False, loc="outside right upper")
    rows = [one["row"] for one in done]
    settings = {
        "documents": size,
        "words": counts.shape[1],
        "training tokens": int(reported[0].corpus.tokens.shape[0]),
        "topics": num_topics,
        "alpha and beta": concentration,
        "seeds": [seed, seeds],
    }
    common.write(out, rows, figure, settings, started)


def _sweeps(one: dict[str, Any]) -> int:
    return one["row"]["sweeps an update"]


if __name__ == "__main__":
    main()

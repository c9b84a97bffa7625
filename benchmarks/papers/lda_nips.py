"""LDA on the NIPS papers with all documents in every update: Patterson and Teh (2013), Figure 2(a).

Each document is split 80/20; topics are learned from the first parts of all, and the second parts
of 300 are scored. Every method gets the same number of sweeps over the documents, as 1, 5 or 10 a
topic update, of which the samplers with estimated counts drop the first half. Step sizes are chosen
by a run of a quarter of the length with another seed and another split. (Their 2,483 papers are not
to be had: these are the 1,740 of volumes 0-12.)
"""

import time
from pathlib import Path

import click
import common
import lda_common
import numpy as np
import scipy.sparse as sp
from lda_common import METHODS, Problem, Step
from lda_corpora import nips

from simplex_jax.corpus import device, embedded_corpus, split_tokens
from simplex_jax.models.lda.counts import Local
from simplex_jax.models.topics import perplexity

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
SPLIT_SEED, TUNING_SPLIT_SEED = 0, 1
SCORED = 300
"""Documents whose second parts are scored: shares of all of them would cost more than training."""


def problem(counts: sp.csr_array, num_topics: int, concentration: float, seed: int) -> Problem:
    """Split the documents and put them on the device; score some."""
    observed, target = split_tokens(counts, seed, share=0.2)
    scored = np.random.default_rng(seed).permutation(counts.shape[0])[:SCORED]
    heldout = perplexity.completion(*(sp.csr_array(part[scored]) for part in (observed, target)))
    shape = (num_topics, counts.shape[1])
    corpus = device.to_device(observed)
    return Problem(corpus, shape, heldout, alpha=concentration, beta=concentration)


@click.command(help=__doc__)
@common.options("lda_nips")
@click.option("--data", type=click.Path(path_type=Path), default=DATA, show_default=True)
@click.option("--passes", type=click.IntRange(20), default=200, show_default=True)
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True)
@click.option("--methods", multiple=True, type=click.Choice(list(METHODS)), default=list(METHODS))
def main(
    quick: bool, out: Path, seed: int, data: Path, passes: int, seeds: int, methods: tuple[str, ...]
) -> None:
    """Run the experiment."""
    started = time.perf_counter()
    concentration, num_topics, updates_of = 0.01, 50, (1, 5, 10)
    if quick:
        counts, num_topics, passes, updates_of = embedded_corpus().counts[:60], 5, 20, (5,)
        methods = ("online VB", "memoised SCIR")
    else:
        counts = nips(data / "nips0-12.tar.xz").counts
    reported = problem(counts, num_topics, concentration, SPLIT_SEED)
    # Another split has other shapes, and so everything compiles twice: not in a quick run.
    tuning = problem(counts, num_topics, concentration, SPLIT_SEED if quick else TUNING_SPLIT_SEED)
    size = counts.shape[0]

    rows, curves = [], {}
    for name in methods:
        method = METHODS[name]
        if name in ("online VB", "hybrid"):
            # With all documents in a batch the whole step is the method of fixed points.
            method = method._replace(steps=(Step(1.0), *method.steps))
        for sweeps in updates_of if method.sweeps else (1,):
            local_step = Local(sweeps=sweeps, burn_in=sweeps // 2)
            options = {"local_step": local_step, "batch_size": size}
            updates = max(4, passes // sweeps)
            updates *= 10 if name.endswith("tenths") else 1
            step, _ = lda_common.tuned(tuning, method, updates=max(4, updates // 4), **options)
            runs = [
                lda_common.scores(
                    reported, method, step, updates=updates, evaluations=10, seed=s, **options
                )
                for s in range(seed, seed + seeds)
            ]
            last = [records[-1] for records in runs]
            rows.append(
                {
                    "method": name,
                    "sweeps an update": sweeps,
                    "step size": "" if len(method.steps) == 1 else str(step),
                    "passes": passes // sweeps * sweeps,
                    "seconds": float(np.mean([r["seconds"] for r in last])),
                    "perplexity": round(float(np.mean([r["sample"] for r in last])), 1),
                    "averaged": round(float(np.mean([r["average"] for r in last])), 1),
                }
            )
            click.echo(rows[-1])
            best = curves.get(name)
            if best is None or last[0]["average"] < best[1][-1]["average"]:
                curves[name] = (sweeps, runs[0])

    figure, (axis,) = common.figure(1, width=5.5, height=3.6)
    for colour, (name, (_, records)) in zip(common.COLOURS, curves.items(), strict=False):
        # Evaluations are at equal distances, and the last is at the end.
        done = np.linspace(0, passes, len(records) + 1)[1:]
        axis.plot(done, [record["sample"] for record in records], color=colour, label=name)
    axis.set(xlabel="sweeps over the documents", ylabel="perplexity, one sample", yscale="log")
    axis.legend(fontsize=7, frameon=False)
    settings = {
        "documents": size,
        "words": counts.shape[1],
        "training tokens": int(reported.corpus.tokens.shape[0]),
        "topics": num_topics,
        "alpha and beta": concentration,
        "seeds": [seed, seeds],
    }
    common.write(out, rows, figure, settings, started)


if __name__ == "__main__":
    main()

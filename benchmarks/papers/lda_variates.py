"""LDA by SCIR with three estimates of the counts: subsampled, with a control variate, memoised.

    python benchmarks/papers/lda_variates.py [--quick] [--out FOLDER] [--seed N]

The Associated Press articles of Blei, Ng and Jordan (2003), in batches of 100. An estimate makes
ten collapsed sweeps of the batch from no labels, of which five count. A control variate makes as
many at its reference, with the same random numbers, and once an epoch a pass over all documents,
which moves the reference to the current topics. Memoised labels make one sweep from those of the
last visit, so another row has twice the passes, which takes about as long as control variates. Step
sizes are chosen on unreported documents with an unreported seed. The noise is the root of an
estimate's variance, summed over topics and words, at a run's final topics; the reference is the
topics of one epoch before.
"""

import time
from pathlib import Path
from typing import Any

import click
import common
import jax
import jax.numpy as jnp
import lda_common
import numpy as np
import scipy.sparse as sp
from baselines import control_variate
from baselines.hybrid import Local
from lda_common import Method, Problem, Step

from simplex_jax._src import batches, corpus, gradient_noise
from simplex_jax._src.corpus import device, embedded_corpus
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.models.lda import kernel as lda_kernel
from simplex_jax._src.models.lda import model as lda
from simplex_jax._src.runtime.driver import run

JUDGED = 200  # documents to score, and as many to choose steps by
REPEATS = 30  # batches for measuring the noise
METHODS = {
    "subsampled": Method(lda_common.sampled("scir"), lda_common.SCIR),
    "control variate": Method(lda_common.controlled, lda_common.SCIR),
    "memoised": lda_common.METHODS["memoised SCIR"],
    "memoised, twice the passes": lda_common.METHODS["memoised SCIR"],
}


@click.command(help=__doc__.splitlines()[0])
@common.options("lda_variates")
@click.option("--data", type=click.Path(path_type=Path), default=common.DATA, show_default=True)
@click.option("--passes", type=click.IntRange(4), default=12, show_default=True)
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True)
def main(quick: bool, out: Path, seed: int, data: Path, passes: int, seeds: int) -> None:
    started = time.perf_counter()
    if quick:
        texts = embedded_corpus().counts[:60]
        judged, num_topics, passes, seeds, batch_size, sweeps = 10, 5, 4, 1, 20, 2
    else:
        texts = corpus.read(data / "ap" / "ap.dat", vocabulary=data / "ap" / "vocab.txt").counts
        judged, num_topics, batch_size, sweeps = JUDGED, 20, 100, 10
    order = np.random.default_rng(0).permutation(texts.shape[0])
    train = device.to_device(sp.csr_array(texts[order[2 * judged :]]))
    scored, chosen = (
        lda_common.completion_of(sp.csr_array(texts[rows]), 0.5, 0)[1]
        for rows in (order[:judged], order[judged : 2 * judged])
    )
    problem = Problem(train, (num_topics, texts.shape[1]), scored, alpha=0.1, beta=0.05)
    options: dict[str, Any] = {
        "local_step": Local("collapsed", sweeps=sweeps, burn_in=sweeps // 2),
        "batch_size": batch_size,
    }
    epoch = -(-device.size(train) // batch_size)
    rows, curves = [], {}
    for name, method in METHODS.items():
        updates = passes * epoch * (2 if name.endswith("twice the passes") else 1)
        step, _ = lda_common.tuned(
            problem._replace(heldout=chosen), method, updates=max(4, updates // 4), **options
        )
        runs = [
            lda_common.scores(
                problem, method, step, updates=updates, evaluations=10, seed=s, **options
            )
            for s in range(seed, seed + seeds)
        ]
        ends = [records[-1] for records in runs]
        rows.append(
            {
                "counts": name,
                "step size": "" if len(method.steps) == 1 else str(step),
                "updates": updates,
                "seconds": float(np.mean([end["seconds"] for end in ends])),
                "perplexity": float(np.mean([end["sample"] for end in ends])),
                "averaged": float(np.mean([end["average"] for end in ends])),
                "least": min(end["average"] for end in ends),
                "most": max(end["average"] for end in ends),
            }
        )
        curves[name] = runs
        click.echo(rows[-1])
    noise = measured_noise(seed, problem, METHODS["subsampled"], passes * epoch, epoch, **options)
    rows = [row | {"noise of the counts": noise.get(row["counts"], np.nan)} for row in rows]
    settings = {
        "documents": device.size(train),
        "words": texts.shape[1],
        "tokens": int(train.tokens.shape[0]),
        "topics": num_topics,
        "batch": batch_size,
        "passes": passes,
        "seeds": [seed, seeds],
    }
    common.write(out, rows, _drawn(curves), settings, started)


def measured_noise(
    seed: int,
    problem: Problem,
    method: Method,
    updates: int,
    epoch: int,
    *,
    local_step: Local,
    batch_size: int,
) -> dict[str, float]:
    """Return the noise of the two estimates at the final topics of a run of `method`."""
    key_init, key_start, key_first, key_last, key_noise = jax.random.split(jax.random.key(seed), 5)
    step: Step = method.steps[0]
    kernel, stream = method.build(problem, local_step, batch_size, step.schedule())
    state = kernel.init(key_init, jax.random.exponential(key_start, problem.shape) + 1e-6)
    nothing = {"collect": lambda state, info: ()}
    state, _ = run(key_first, kernel, state, stream, max(1, updates - epoch), **nothing)
    before = state.position
    state, _ = run(key_last, kernel, state, stream, epoch, **nothing)
    config = lda.configure(
        problem.shape, counts="subsampled", batch_size=batch_size, **local_step._asdict()
    )
    source = lda_kernel.source_of(problem.corpus, config)

    def noise(estimator: Estimator, stream: batches.Stream, memory: Any) -> float:
        result = gradient_noise.variance(
            estimator, key_noise, state.position, stream, REPEATS, memory
        )
        return float(jnp.sqrt(result.sum()))

    zeros = jnp.zeros_like(before)  # counts at the reference add nothing to the noise
    reference = control_variate.Reference(before, zeros, zeros.sum(axis=1))
    plain = device.uniform_stream(problem.corpus, batch_size)
    visits = batches.visits(plain, 1, first=REPEATS)  # which do not move the reference
    alpha = state.alpha
    subsampled = lda_kernel.counts_of(source).with_prior(alpha)
    controlled = control_variate.control_variate(source).with_prior(alpha)
    return {
        "subsampled": noise(subsampled, plain, subsampled.init(key_init)),
        "control variate": noise(controlled, visits, reference),
    }


def _drawn(curves: dict[str, list[list[dict[str, float]]]]) -> Any:
    figure, (axis,) = common.figure(1, width=5.5, height=3.6)
    for colour, (name, runs) in zip(common.COLOURS, curves.items(), strict=False):
        for number, records in enumerate(runs):
            done = [record["updates"] for record in records]
            scores = [record["sample"] for record in records]
            label = name if number == 0 else None
            axis.plot(done, scores, color=colour, linewidth=0.9, label=label)
    axis.set(xlabel="updates", ylabel="perplexity, one sample", yscale="log")
    axis.legend(fontsize=7, frameon=False)
    return figure


if __name__ == "__main__":
    main()

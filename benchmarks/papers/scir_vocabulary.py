"""SCIR and SGRLD on LDA with larger and larger vocabularies: Baker et al. (2018), section 4.1.

    python benchmarks/papers/scir_vocabulary.py [--quick] [--out FOLDER] [--seed N]

They say that their improvement over SGRLD on Wikipedia, with a vocabulary of about 8,000 words,
would be larger with a larger vocabulary, and do not try it. Here documents are drawn from the
model: K = 20, 2,000 documents of 100 tokens, alpha = 0.1 and beta = 100 / V, which all methods
know, with vocabularies of V = 2,000 to 100,000 words. The sum of beta over the words is constant,
so topics are about as hard to learn and documents to predict at every V. The number of tokens is
constant too: a larger vocabulary has more words in no document, and smaller concentrations.

SCIR and SGRLD use batches of 50 documents with 20 collapsed sweeps, of which the last ten count.
Totals are carried, from independent Gamma(1, 1) weights on, as in the papers, or refreshed.
Memoised SCIR is exact, and shows the score of the posterior itself; it makes one sweep of batches
of 500, in as many updates. Step sizes are chosen for each vocabulary by a run of half the length on
unreported documents with an unreported seed. Perplexities are those of the second halves of 200
documents: p averaged over the second half of the evaluations, one for every five updates. The mass
of unseen words is what topics give, on average over the same samples, to words in no training
document.
"""

import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import click
import common
import jax
import jax.numpy as jnp
import lda_common
import numpy as np
import scipy.sparse as sp
from baselines.hybrid import Local
from lda_common import Method, Problem, Step

from simplex_jax._src.corpus import device
from simplex_jax._src.models.topics import evaluation
from simplex_jax._src.runtime.driver import run
from simplex_jax._src.runtime.hooks import Event

ALPHA = 0.1
TOTAL = 100.0  # sum of beta over the words
LENGTH = 100  # tokens of a document
EVERY = 5  # updates from one evaluation to the next
SCIR = tuple(Step(a, 10, 0.33) for a in (0.03, 0.1, 0.3, 1.0, 3.0))
METHODS = {
    "SCIR": Method(lda_common.sampled("scir", "carried"), SCIR),
    "SCIR, total refreshed": Method(lda_common.sampled("scir"), SCIR),
    "SGRLD": Method(
        lda_common.sampled("sgrld", "carried"),
        tuple(Step(a, 1000, 0.6) for a in (0.01, 0.03, 0.1, 0.3, 1.0)),
    ),
    "SGRLD, total refreshed": Method(
        lda_common.sampled("sgrld"),
        tuple(Step(a, 1000, 0.6) for a in (1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)),
    ),
    "memoised SCIR": lda_common.METHODS["memoised SCIR"],
}


class Corpus(NamedTuple):
    """Documents drawn from the model.

    Attributes:
        counts: All documents, [D, V].
        log_topics: Their true topics, [K, V].
    """

    counts: sp.csr_array
    log_topics: np.ndarray


def drawn(seed: int, documents: int, num_topics: int, num_words: int) -> Corpus:
    """Draw topics and documents."""
    generator = np.random.default_rng(seed)
    concentrations = np.full(num_words, TOTAL / num_words)
    log_topics = common.log_dirichlet_draws(generator, concentrations, num_topics)
    shares = generator.dirichlet(np.full(num_topics, ALPHA), documents)
    tokens = generator.multinomial(LENGTH, shares)  # of each topic in each document
    words, places = [], []
    for topic in range(num_topics):
        where = np.repeat(np.arange(documents), tokens[:, topic])
        p = np.exp(log_topics[topic])
        words.append(generator.choice(num_words, len(where), p=p / p.sum()))
        places.append(where)
    row, column = np.concatenate(places), np.concatenate(words)
    ones = np.ones(len(row), np.int32)
    return Corpus(sp.csr_array((ones, (row, column)), (documents, num_words)), log_topics)


class Masses:
    """A hook that averages the mass of some words over evaluations, the first half left out."""

    def __init__(self, unseen: np.ndarray, evaluations: int) -> None:
        self._unseen, self._first = jnp.asarray(unseen), evaluations // 2
        self._done, self._sum = 0, 0.0

    def __call__(self, event: Event) -> None:
        """Add the current mass."""
        if self._done >= self._first:
            self._sum += float(_mass(event.state.position, self._unseen))
        self._done += 1

    def mean(self) -> float:
        """Return the mean so far."""
        return self._sum / max(1, self._done - self._first)


@jax.jit
def _mass(log_topics: jax.Array, unseen: jax.Array) -> jax.Array:
    return jnp.where(unseen, jnp.exp(log_topics), 0).sum(axis=1).mean()


def scored(
    problem: Problem, method: Method, step: Step, updates: int, seed: int, unseen: np.ndarray, **how
) -> dict[str, float]:
    """Run a method and return its final results; a run that diverges has perplexity inf."""
    keys = jax.random.split(jax.random.key(seed), 4)
    batch_size, local_step = how["batch_size"], how["local_step"]
    if not method.sweeps:  # one sweep of ten times the documents draws as many labels
        batch_size = min(10 * batch_size, device.size(problem.corpus))
    kernel, stream = method.build(problem, local_step, batch_size, step.schedule())
    start = jax.random.exponential(keys[0], problem.shape) + jnp.finfo(jnp.float32).tiny
    evaluations = updates // EVERY
    scores = lda_common.Scores(problem.heldout, keys[3], evaluations, batch_size)
    masses = Masses(unseen, evaluations)
    state = kernel.init(keys[1], start)
    before = time.perf_counter()
    try:
        run(
            keys[2],
            kernel,
            state,
            stream,
            evaluations * EVERY,
            collect=lambda state, info: (),
            hooks=[scores, masses],
            chunk=EVERY,
        )
    except FloatingPointError:
        return dict.fromkeys(("one sample", "perplexity", "unseen", "seconds"), math.inf)
    last = scores.records[-1]
    return {
        "one sample": last["sample"],
        "perplexity": last["average"],
        "unseen": masses.mean(),
        "seconds": time.perf_counter() - before,
    }


@click.command(help=__doc__.splitlines()[0])
@common.options("scir_vocabulary")
@click.option("--updates", type=click.IntRange(20), default=250, show_default=True)
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True)
def main(quick: bool, out: Path, seed: int, updates: int, seeds: int) -> None:
    started = time.perf_counter()
    sizes, num_topics, documents, judged = (2_000, 10_000, 30_000, 100_000), 20, 2_000, 200
    how: dict[str, Any] = {"batch_size": 50, "local_step": Local(sweeps=20, burn_in=10)}
    names = tuple(METHODS)
    if quick:
        sizes, num_topics, documents, judged, updates, seeds = (200, 1_000), 5, 200, 20, 20, 1
        how = {"batch_size": 50, "local_step": Local(sweeps=4, burn_in=2)}
        names = ("SCIR", "SGRLD", "memoised SCIR")
    rows = []
    for num_words in sizes:
        # The documents are the same for all seeds, which are those of the chains.
        corpus = drawn(0, documents + 2 * judged, num_topics, num_words)
        train = sp.csr_array(corpus.counts[2 * judged :])
        unseen = np.asarray(train.sum(axis=0)).ravel() == 0
        reported, chosen = (
            lda_common.completion_of(sp.csr_array(corpus.counts[part]), 0.5, 0)[1]
            for part in (slice(judged), slice(judged, 2 * judged))
        )
        shape = (num_topics, num_words)
        beta = TOTAL / num_words
        problem = Problem(device.to_device(train), shape, reported, ALPHA, beta)
        about = {"words": num_words, "words seen": int((~unseen).sum()), "beta": TOTAL / num_words}
        rows.append(about | {"method": "truth", **_truth(corpus.log_topics, reported, unseen)})
        for name in names:
            method = METHODS[name]
            step = method.steps[min(1, len(method.steps) - 1)]
            tried = {}
            if len(method.steps) > 1 and not quick:
                tuning = problem._replace(heldout=chosen)
                tried = {
                    one: scored(
                        tuning,
                        method,
                        one,
                        updates // 2,
                        lda_common.TUNING_SEED,
                        unseen,
                        **how,
                    )["perplexity"]
                    for one in method.steps
                }
                step = min(tried, key=tried.__getitem__)
            result = [
                scored(problem, method, step, updates, s, unseen, **how)
                for s in range(seed, seed + seeds)
            ]
            perplexities = [one["perplexity"] for one in result]
            row = {
                "method": name,
                "step size": str(step),
                **{key: float(np.mean([one[key] for one in result])) for key in result[0]},
                "least": min(perplexities),
                "most": max(perplexities),
                "end of the grid": len(method.steps) > 1
                and step in (method.steps[0], method.steps[-1]),
            }
            rows.append(about | row)
            told = {str(one): round(value, 1) for one, value in tried.items()}
            click.echo(f"{num_words} {name}: {row}, {told}")
    columns = {name: "" for row in rows for name in row}
    rows = [columns | row for row in rows]
    settings = {
        "seed": seed,
        "seeds": seeds,
        "topics": num_topics,
        "documents": documents,
        "tokens of each": LENGTH,
        "alpha": ALPHA,
        "sum of beta": TOTAL,
        "batch": how["batch_size"],
        "sweeps": how["local_step"].sweeps,
        "updates": updates,
    }
    common.write(out, rows, _figure(rows, names, sizes), settings, started)


def _truth(
    log_topics: np.ndarray, heldout: evaluation.Completion, unseen: np.ndarray
) -> dict[str, float]:
    """Return the scores of the true topics."""
    log_topics = jnp.asarray(log_topics, jnp.float32)
    alpha = jnp.full(len(log_topics), ALPHA)
    log_p = evaluation.log_predictive(jax.random.key(0), log_topics, alpha, heldout)
    result = evaluation.perplexity(np.asarray(log_p, np.float64), heldout.counts)
    return {
        "one sample": result,
        "perplexity": result,
        "unseen": float(_mass(log_topics, jnp.asarray(unseen))),
    }


def _figure(rows: list[dict], names: tuple[str, ...], sizes: tuple[int, ...]) -> Any:
    figure, axes = common.figure(2, width=4.2, height=3.4)
    truth = {row["words"]: row for row in rows if row["method"] == "truth"}
    for colour, name in zip(common.COLOURS, names, strict=False):
        here = {row["words"]: row for row in rows if row["method"] == name}
        ratio = [here[size]["perplexity"] / truth[size]["perplexity"] for size in sizes]
        axes[0].plot(sizes, ratio, ".-", color=colour, label=name)
        axes[1].plot(sizes, [here[size]["unseen"] for size in sizes], ".-", color=colour)
    axes[1].plot(sizes, [truth[size]["unseen"] for size in sizes], "k:", label="truth")
    axes[0].set(ylabel="perplexity over that of the truth", yscale="log")
    axes[1].set(ylabel="mass of words without a token", yscale="log")
    for ax in axes:
        ax.set(xlabel="words", xscale="log")
    figure.legend(loc="outside lower center", ncols=6, fontsize=7, frameon=False)
    return figure


if __name__ == "__main__":
    main()

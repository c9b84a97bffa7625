"""Would tempering help LDA's chains to mix? The rungs that a ladder needs, and how its chains mix.

    python benchmarks/lda_tempering.py [--corpora sotu ap] [--powers 1 0.9 0.8] [--keep FILE]

The chain of power b has the density of topics and labels with the likelihood of the words to the
power b: labels are drawn given the topics to the power b, topics from Dirichlet(beta + b n). With
the topics integrated out, neighbours b and c swap labels with probability about erfc(|b - c| s / 2)
where s is the standard deviation of the derivative of the log density of the labels by b. The best
ladders swap one time in four, so between two powers it has their distance times s / 1.63 rungs.
A chain explores only part of its posterior, which makes s, and the rungs, too few.

Powers go down from 1, each chain from the labels of the one before. "swaps" are of this chain with
one a rung above it, by their own densities: a check of the formula.
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import kept
import numpy as np
from jax.scipy.special import digamma, gammaln
from lda_corpora import NAMES, training_counts
from lda_mixing import ALPHA, BETA
from lda_recorder import SHARED

from simplex_jax._src.corpus import device
from simplex_jax._src.corpus.device import Documents
from simplex_jax._src.draws import log_dirichlet
from simplex_jax._src.evaluate.diagnostics import effective_size
from simplex_jax._src.models.topics import engine

RUNG = 1.63  # standard deviations between neighbours that swap one time in four


class Memory(NamedTuple):
    """Labels of the tokens, [T], and tokens of each topic and word, [K, V]."""

    labels: jax.Array
    counts: jax.Array


class Trace(NamedTuple):
    """After each pass: tokens of each topic [K], and log densities of the labels.

    `own` is the part of the log density that depends on the power, `other` the same at another
    power, and `slope` its derivative.
    """

    tokens: jax.Array
    own: jax.Array
    other: jax.Array
    slope: jax.Array


def log_density(counts: jax.Array, power: float | jax.Array) -> jax.Array:
    """Return the log probability of words given labels to a power, topics integrated out."""
    words = counts.shape[1]
    each = gammaln(BETA + power * counts).sum()
    return each - gammaln(words * BETA + power * counts.sum(axis=1)).sum()


def slope(counts: jax.Array, power: float | jax.Array) -> jax.Array:
    """Return the derivative of `log_density` by the power."""
    words, totals = counts.shape[1], counts.sum(axis=1)
    each = (counts * digamma(BETA + power * counts)).sum()
    return each - (totals * digamma(words * BETA + power * totals)).sum()


@partial(jax.jit, static_argnames="passes")
def sample(
    key: jax.Array,
    documents: Documents,
    memory: Memory,
    power: jax.Array,
    other: jax.Array,
    passes: int,
) -> tuple[Memory, Trace]:
    """Make passes over all documents at a power; `other` is a power to compare with."""
    alpha = jnp.full(memory.counts.shape[0], ALPHA)

    def step(memory: Memory, key: jax.Array) -> tuple[Memory, Trace]:
        key_topics, key_labels = jax.random.split(key)
        log_topics = log_dirichlet(key_topics, BETA + power * memory.counts)
        swept = engine.sweeps(
            key_labels,
            power * log_topics,
            alpha,
            documents,
            *memory,
            times=1,
            count="changes",
        )
        counts = swept.words
        trace = Trace(
            counts.sum(axis=1),
            log_density(counts, power),
            log_density(counts, other),
            slope(counts, power),
        )
        return Memory(swept.labels, counts), trace

    return jax.lax.scan(step, memory, jax.random.split(key, passes))


def begin(key: jax.Array, documents: Documents, shape: tuple[int, int]) -> Memory:
    """Return labels drawn given random topics of K topics and V words."""
    key_topics, key_labels = jax.random.split(key)
    log_topics = log_dirichlet(key_topics, jnp.full(shape, 1.0))
    alpha = jnp.full(shape[0], ALPHA)
    swept = engine.sweeps(key_labels, log_topics, alpha, documents, None, times=1, count="labels")
    return Memory(swept.labels, swept.words)


def swaps(colder: Trace, warmer: Trace) -> float:
    """Return how often states of two chains, each the other's `other`, would be exchanged."""
    gain = (colder.other - colder.own) + (warmer.other - warmer.own)
    return float(jnp.exp(jnp.minimum(gain, 0.0)).mean())


def measure(
    documents: Documents, shape: tuple[int, int], powers: list[float], passes: int
) -> list[dict[str, float]]:
    """Return the rungs down to each power, and the effective samples of its chain."""
    key = jax.random.key(0)
    memory = begin(key, documents, shape)
    rows: list[dict[str, float]] = []
    rungs, above, before = 0.0, np.nan, np.nan
    for number, power in enumerate(powers):
        key_burn, key_chain, key_near, key_check = jax.random.split(
            jax.random.fold_in(key, number), 4
        )
        memory, _ = sample(key_burn, documents, memory, power, power, passes)
        _, pilot = sample(key_near, documents, memory, power, power, passes // 10)
        near = power + RUNG / float(pilot.slope.std())
        memory, trace = sample(key_chain, documents, memory, power, near, passes)
        closer, _ = sample(key_near, documents, memory, near, power, passes // 10)
        _, check = sample(key_check, documents, closer, near, power, passes)
        spread = float(np.asarray(trace.slope, float).std())
        if number:
            rungs += (before - power) * (above + spread) / 2 / RUNG
        tokens = np.asarray(trace.tokens, float)
        sizes = [effective_size(tokens[:, topic]) for topic in range(shape[0])]
        rows.append(
            {
                "power": power,
                "spread": spread,
                "rungs": rungs,
                "swaps": swaps(check, trace),
                "lowest tenth, per 1,000 passes": 1e3 * float(np.quantile(sizes, 0.1)) / passes,
                "median, per 1,000 passes": 1e3 * float(np.median(sizes)) / passes,
            }
        )
        above, before = spread, power
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", nargs="+", choices=("sotu", *NAMES), default=["sotu", "ap"])
    parser.add_argument("--topics", type=int, default=30)
    parser.add_argument("--passes", type=int, default=2_000)
    parser.add_argument(
        "--powers", nargs="+", type=float, default=[1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5]
    )
    parser.add_argument("--peers", type=Path, default=SHARED / "peers")
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in options.corpora:
        train = training_counts(name, options.peers, options.data)
        ids = jnp.arange(train.shape[0], dtype=jnp.int32)
        documents = device.select(device.to_device(train), ids)
        shape = options.topics, train.shape[1]
        for row in measure(documents, shape, options.powers, options.passes):
            rows.append({"corpus": name, **row})
        if options.keep:
            kept.write(options.keep, rows, topics=options.topics, passes=options.passes)


if __name__ == "__main__":
    main()

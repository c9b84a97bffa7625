"""Parts of an update of LDA on an accelerator, by the number of topics.

    python benchmarks/lda_parts_gpu.py [--topics 100 1000] [--tokens 20000000] [--keep FILE]

The corpus is that of lda_throughput.py. The parts are a sweep over all documents from the labels of
earlier sweeps, with counting; the rows of words; and K V variates: CIR transitions from a sparse
table, and gamma variates of beta and counts. Medians of five.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import kept
import numpy as np
from lda_throughput import corpus_of

from simplex_jax._src import draws
from simplex_jax._src.corpus import device
from simplex_jax._src.models.topics import engine
from simplex_jax._src.models.topics.native import calls

WORDS, ALPHA, BETA, REPEATS = 7_702, 0.1, 0.05, 5


def seconds(function: Callable, *arguments: Any) -> float:
    """Return the median seconds of a compiled function after its first call."""
    times = []
    for _ in range(1 + REPEATS):
        began = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        times.append(time.perf_counter() - began)
    return float(np.median(times[1:]))


def measure(corpus: device.DeviceCorpus, num_topics: int) -> dict[str, float]:
    """Return the times of the parts."""
    documents = device.select(corpus, jnp.arange(corpus.order.shape[0], dtype=jnp.int32))
    tokens, shape = corpus.tokens.shape[0], (num_topics, WORDS)
    key = jax.random.key(num_topics)
    log_topics = draws.log_dirichlet(key, jnp.full(shape, BETA))
    alpha, labels = jnp.full(num_topics, ALPHA), engine.no_labels(tokens, num_topics)
    words, times = jnp.zeros(shape, jnp.int32), []

    def sweep(key: jax.Array, labels: jax.Array, words: jax.Array) -> engine.SweepResult:
        return engine.sweeps(
            key, log_topics, alpha, documents, labels, words, times=1, count="changes"
        )

    compiled = jax.jit(sweep, donate_argnums=(1, 2))
    for turn in range(1 + REPEATS):
        began = time.perf_counter()
        swept = jax.block_until_ready(compiled(jax.random.fold_in(key, turn), labels, words))
        times.append(time.perf_counter() - began)
        labels, words = swept.labels, swept.words
    sweeping, a, size = float(np.median(times[1:])), words + BETA, num_topics * WORDS
    return {
        "topics": num_topics,
        "sweep_ms": 1e3 * sweeping,
        "million_tokens_per_s": tokens / sweeping / 1e6,
        "rows_ms": 1e3 * seconds(jax.jit(calls.lay_out), log_topics),
        "cir_ns": 1e9 / size * seconds(jax.jit(lambda a: draws.cir(key, log_topics, a, 0.5)), a),
        "loggamma_ns": 1e9 / size * seconds(jax.jit(lambda a: draws.loggamma(key, a)), a),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--topics", type=int, nargs="+", default=[100, 1_000])
    parser.add_argument("--tokens", type=int, default=2_000_000)
    parser.add_argument("--keep", type=Path, help="a JSON file for the results")
    options = parser.parse_args()
    corpus, rows = corpus_of(options.tokens, WORDS), []
    for num_topics in options.topics:
        rows.append(measure(corpus, num_topics))
        print({name: float(f"{value:.4g}") for name, value in rows[-1].items()}, flush=True)
    if options.keep:
        kept.write(options.keep, rows, device=jax.devices()[0].device_kind)


if __name__ == "__main__":
    main()

"""Milliseconds of the parts of an update of LDA: labels, topics, and the rest.

    python benchmarks/lda_parts.py [--corpora news20 synth] [--topics 50] [--passes 30]

An update of all documents, memoised SCIR, after `--passes` of them; each part is compiled by
itself. Needs the folder ../shared with `peers/` and `data/`.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from lda_corpora import NAMES, load
from lda_recorder import SHARED

from simplex_jax._src import draws
from simplex_jax._src.corpus import device
from simplex_jax._src.models.lda import model
from simplex_jax._src.models.topics import engine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", nargs="+", choices=NAMES, default=["news20", "synth"])
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--passes", type=int, default=30)
    parser.add_argument("--peers", type=Path, default=SHARED / "peers")
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    options = parser.parse_args()
    for name in options.corpora:
        train = load(name, options.peers, options.data, quick=False).train
        print(json.dumps({"corpus": name} | parts(train, options.topics, options.passes)))


def parts(train: Any, num_topics: int, passes: int) -> dict[str, float]:
    """Return the time of an update and of its parts, in ms, and that of the first call in s."""
    documents, words = train.shape
    shape = (num_topics, words)
    corpus = device.to_device(train)
    alpha, beta = np.float32(0.1), np.float32(0.05)
    kernel, _ = model.build(
        corpus,
        shape,
        alpha=alpha,
        beta=beta,
        counts="memoised",
        batch_size=documents,
        sampler="scir",
        step_size=5.0,
        devices=None,
    )
    key, ids = jax.random.key(0), jnp.arange(documents, dtype=jnp.int32)
    state = kernel.init(key, jax.random.exponential(key, shape) + 1e-6)
    update = jax.jit(kernel.update)
    begun = time.perf_counter()
    jax.block_until_ready(update(key, state, ids))
    first = time.perf_counter() - begun
    for i in range(passes):
        state, _ = update(jax.random.fold_in(key, i), state, ids)
    log_topics, memory = state.position, state.sampler.memory
    batch, full = device.select(corpus, ids), jnp.full(num_topics, alpha)
    shapes = memory.counts + beta

    def labels(key: jax.Array) -> engine.SweepResult:
        return engine.sweeps(
            key, log_topics, full, batch, memory.labels, memory.counts, times=1, count="changes"
        )

    return {
        "first call, s": round(first, 2),
        "update": timed(lambda key: update(key, state, ids), key),
        "labels": timed(jax.jit(labels), key),
        "cir": timed(jax.jit(lambda key: draws.cir(key, log_topics, shapes, 5.0)), key),
        "log_dirichlet": timed(jax.jit(lambda key: draws.log_dirichlet(key, shapes)), key),
    }


def timed(run: Callable, key: jax.Array, repeats: int = 20) -> float:
    """Return the median time of a call in ms."""
    jax.block_until_ready(run(key))
    times = []
    for i in range(repeats):
        begun = time.perf_counter()
        jax.block_until_ready(run(jax.random.fold_in(key, i)))
        times.append(time.perf_counter() - begun)
    return round(1e3 * float(np.median(times)), 1)


if __name__ == "__main__":
    main()

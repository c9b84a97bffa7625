"""Nanoseconds per token of the native sweeps, by corpus and number of topics, on CPUs or a GPU.

    python benchmarks/lda_sweeps.py [--corpora wikipedia] [--topics 200 500 1000] [--keep FILE]

Each kernel (dense, sparse, integer; on GPUs one) sweeps over all documents from the same labels,
after --passes updates by memoised SCIR. Kernels alternate, and the minimum of four counts. Times
are wall-clock, with the counting and the tables of the topics; multiply by the number of threads
for core time. "update" is the whole update with the chosen kernel. Needs the folder ../shared with
`peers/` and `data/`.
"""

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import kept
import numpy as np
from lda_corpora import NAMES, load
from lda_recorder import SHARED

from simplex_jax._src.corpus import device
from simplex_jax._src.models.lda import model
from simplex_jax._src.models.topics import engine

swept = jax.jit(engine.sweeps, static_argnames=("times", "count", "kind"))
KINDS = ("dense", "integer", "sparse") if jax.default_backend() == "cpu" else ("dense",)
ALPHA, BETA, TURNS = 0.1, 0.05, 4


def measure(train: Any, num_topics: int, passes: int) -> dict[str, float]:
    """Return the nanoseconds per token of each kernel, and of an update."""
    corpus, shape = device.to_device(train), (num_topics, train.shape[1])
    documents, tokens = train.shape[0], int(train.sum())
    kernel, _ = model.build(corpus, shape, alpha=ALPHA, beta=BETA, batch_size=documents)
    key, ids = jax.random.key(0), jnp.arange(documents, dtype=jnp.int32)
    state = kernel.init(key, jax.random.exponential(key, shape) + 1e-6)
    update = jax.jit(kernel.update, donate_argnums=1)
    for step in range(passes):
        state, _ = update(jax.random.fold_in(key, step), state, ids)
    memory = state.sampler.memory
    given = (
        state.position,
        jnp.full(num_topics, ALPHA),
        device.select(corpus, ids),
        memory.labels,
        memory.counts,
    )

    def sweep(key: jax.Array, kind: str) -> engine.SweepResult:
        return swept(key, *given, times=1, count="changes", kind=kind)

    least = dict.fromkeys(KINDS, np.inf)
    for kind in KINDS:
        jax.block_until_ready(sweep(key, kind))
    for turn, kind in itertools.product(range(TURNS), KINDS):
        begun = time.perf_counter()
        jax.block_until_ready(sweep(jax.random.fold_in(key, turn), kind))
        least[kind] = min(least[kind], time.perf_counter() - begun)
    least["update"] = np.inf
    for turn in range(TURNS):
        begun = time.perf_counter()
        state, _ = jax.block_until_ready(update(jax.random.fold_in(key, turn), state, ids))
        least["update"] = min(least["update"], time.perf_counter() - begun)
    return {name: 1e9 * seconds / tokens for name, seconds in least.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", nargs="+", choices=NAMES, default=["wikipedia"])
    parser.add_argument("--topics", type=int, nargs="+", default=[200, 500, 1_000])
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--peers", type=Path, default=SHARED / "peers")
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    parser.add_argument("--keep", type=Path, help="a JSON file for the results")
    options = parser.parse_args()
    rows = []
    for name in options.corpora:
        train = load(name, options.peers, options.data, quick=False).train
        for num_topics in options.topics:
            row = {"corpus": name, "topics": num_topics, "tokens": int(train.sum())}
            rows.append(row | measure(train, num_topics, options.passes))
            print(json.dumps(rows[-1]), flush=True)
    if options.keep:
        kept.write(options.keep, rows, device=jax.devices()[0].device_kind)


if __name__ == "__main__":
    main()

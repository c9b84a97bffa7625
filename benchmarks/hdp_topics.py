"""The hierarchical Dirichlet process beside LDA with a grid of numbers of topics.

    python benchmarks/hdp_topics.py --out benchmarks/results/hdp_topics.json

All learn from the embedded corpus without the same 1,000 paragraphs, half of whose words are then
predicted from the other half; LDA learns an alpha for each topic. With `--tomotopy PYTHON`, an
interpreter that has tomotopy, its HDPModel is judged by the same routine.
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from simplex_jax import corpus as corpora
from simplex_jax import hdp, lda
from simplex_jax.models.topics import data, perplexity

HELD_OUT = 1_000

# Topics are smoothed as the model has them; live topics have weights as they have tokens.
TOMOTOPY = """
import sys, time
import numpy as np, tomotopy as tp
arrays = np.load(sys.argv[1]); passes, seed = int(sys.argv[3]), int(sys.argv[4])
model = tp.HDPModel(initial_k=100, alpha=1.0, eta=0.05, gamma=1.0, seed=seed)
for row in np.split(arrays["tokens"], arrays["ends"][:-1]):
    if len(row):
        model.add_doc([f"w{word}" for word in row])
start = time.perf_counter()
model.train(passes, workers=2)
seconds = time.perf_counter() - start
live = [k for k in range(model.k) if model.is_live_topic(k)]
# Its laws are over the words that it has seen; all others have eta as well.
sizes = np.asarray(model.get_count_by_topics(), float)
topics = np.full((len(live), int(arrays["words"])), 0.05)
places = [int(word[1:]) for word in model.used_vocabs]
totals = sizes + 0.05 * len(places)
topics[:, places] = [totals[k] * np.asarray(model.get_topic_word_dist(k)) for k in live]
topics /= topics.sum(axis=1, keepdims=True)
shares = sizes[live]
np.savez(sys.argv[2], topics=topics, alpha=model.alpha * shares / shares.sum(), seconds=seconds)
"""


def record(name: str, fitted: Any, wall: float, topics: str) -> dict[str, Any]:
    """Return what is kept of a fit."""
    last = fitted.metrics[-1]
    curve = [(r["passes"], r["perplexity"]) for r in fitted.metrics]
    return {
        "model": name,
        "topics": topics,
        "single": last["perplexity"],
        "averaged": last["perplexity_average"],
        "passes": last["passes"],
        "training_seconds": last["seconds"],
        "wall_seconds": wall,
        "curve": curve,
        "warnings": fitted.warnings,
    }


def of_tomotopy(python: str, train: Any, halves: Any, passes: int, seed: int) -> dict[str, Any]:
    """Train tomotopy's model in a process of its own, and judge its last topics."""
    counts = train.counts
    tokens = np.repeat(counts.indices, counts.data)
    ends = np.cumsum(counts.sum(axis=1))
    with tempfile.TemporaryDirectory() as place:
        given, found = f"{place}/given.npz", f"{place}/found.npz"
        np.savez(given, tokens=tokens, ends=ends, words=counts.shape[1])
        arguments = [python, "-c", TOMOTOPY, given, found, str(passes), str(seed)]
        subprocess.run(arguments, check=True)
        with np.load(found) as arrays:
            topics, alpha, seconds = (arrays[name] for name in ("topics", "alpha", "seconds"))
    completion = perplexity.completion(*halves)
    table = jnp.maximum(jnp.asarray(topics, jnp.float32), jnp.finfo(jnp.float32).tiny)
    weights = jnp.asarray(np.maximum(alpha, 1e-9), jnp.float32)
    log_p = perplexity.log_predictive(jax.random.key(seed), jnp.log(table), weights, completion)
    return {
        "model": "tomotopy HDPModel",
        "topics": str(len(topics)),
        "single": perplexity.perplexity(log_p, completion.counts),
        "passes": passes,
        "training_seconds": float(seconds),
    }


def main() -> None:
    """Fit each, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--topics", type=int, nargs="*", default=[20, 50, 100, 200])
    parser.add_argument("--starts", type=int, nargs="*", default=[20, 100, 200])
    parser.add_argument("--passes", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tomotopy", metavar="PYTHON")
    given = parser.parse_args()
    corpus = corpora.embedded_corpus()
    options: Any = {"holdout": HELD_OUT, "holdout_seed": 0, "seed": given.seed}
    options |= {"passes": given.passes, "beta": 0.05}
    found: list[dict[str, Any]] = []

    def keep(entry: dict[str, Any]) -> None:
        found.append(entry)
        given.out.write_text(json.dumps(found, indent=1) + "\n")
        print({name: value for name, value in entry.items() if name != "curve"}, flush=True)

    for start in given.starts:
        began = time.perf_counter()
        fitted = hdp.fit(corpus, initial_topics=start, **options)
        number = f"{min(fitted.number)}-{max(fitted.number)}, {len(fitted.mean)} lasting"
        entry = record(f"hdp from {start}", fitted, time.perf_counter() - began, number)
        keep(entry | {"concentrations": fitted.concentrations, "told": fitted.prevalence.sum()})
    for topics in given.topics:
        began = time.perf_counter()
        fitted = lda.fit(corpus, topics, alpha="learn", **options)
        keep(record(f"lda {topics}", fitted, time.perf_counter() - began, str(topics)))
    if given.tomotopy:
        train, halves = data.hold_out(corpus, HELD_OUT, 0)
        keep(of_tomotopy(given.tomotopy, train, halves, given.passes, given.seed))


if __name__ == "__main__":
    main()

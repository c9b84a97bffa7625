"""Shares of documents: actual and reported errors, their time, and how chains start.

    python benchmarks/lda_shares.py [--cases ap:50:0.1:25 ...] [--seeds 8] [--keep FILE]

A case is a corpus, a number of topics, an alpha, and the passes in which the topics are learned,
over at most 10,000 documents. They are passed to `models.topics.proportions`. The shares of
`--documents` documents under several seeds are compared with their means over four long runs; times
are those of up to `--timed` documents, for the default `--share-error` and a larger one. Compared
are also two ways to start a document's labels: from none, each drawn given those before it, and by
`engine.sweeps` from `None`. Needs the folder ../shared with `peers/` and `data/`.
"""

import argparse
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import kept
import numpy as np
import scipy.sparse as sp
from lda_corpora import load
from lda_recorder import SHARED

from simplex_jax._src.corpus import device
from simplex_jax._src.models import lda
from simplex_jax._src.models.topics import engine
from simplex_jax._src.models.topics.options import SHARE_ERROR

CASES = (
    *("ap:50:0.1:25", "ap:50:0.02:25", "news20:100:0.05:25", "wikipedia:500:0.1:25"),
    *("ap:50:0.1:3", "wikipedia:500:0.1:3"),
)
LARGER = 0.05
CHAINS, AFTER = 48, (3, 6, 9, 12)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", default=CASES)
    parser.add_argument("--documents", type=int, default=400)
    parser.add_argument("--timed", type=int, default=4_000)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--peers", type=Path, default=SHARED / "peers")
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    parser.add_argument("--keep", type=Path, help="a JSON file for the results")
    options = parser.parse_args()
    rows = []
    for case in options.cases:
        name, topics, alpha, passes = case.split(":")
        train = load(name, options.peers, options.data, quick=False).train
        fitted = lda.fit(
            train[:10_000],
            int(topics),
            alpha=float(alpha),
            passes=int(passes),
            seed=0,
            chains=1,
            holdout=0,
        )
        task = fitted.topics, fitted.alpha
        judged, timed = train[: options.documents], train[: options.timed]
        row = {"corpus": name, "topics": int(topics), "alpha": float(alpha)}
        row |= {"passes": int(passes), "documents": timed.shape[0]}
        row |= precision(*task, judged, options.seeds)
        row |= duration(*task, timed) | beginnings(*task, judged)
        print(json.dumps(row), flush=True)
        rows.append(row)
        if options.keep:
            kept.write(options.keep, rows)


def precision(
    topics: np.ndarray, alpha: np.ndarray, counts: sp.csr_array, seeds: int
) -> dict[str, float]:
    """Return the actual and the reported errors of shares over seeds, for the worst topic."""
    long = partial(lda.shards, topics, alpha, counts, share_error=0)
    truth = np.mean([next(long(seed=1_000 + i)).proportions for i in range(4)], axis=0)
    errors, said = [], []
    for seed in range(seeds):
        (part,) = lda.shards(topics, alpha, counts, seed=seed)
        errors.append(part.proportions - truth)
        said.append(part.error)
    squares = np.mean(np.square(errors), axis=0).max(axis=1)
    worst = np.abs(errors).max(axis=2)
    return {
        "error": round(float(np.sqrt(squares.mean())), 4),
        "said": round(float(np.sqrt(np.square(said).mean())), 4),
        "above 0.04": round(float((worst > 0.04).mean()), 4),
        "largest": round(float(worst.max()), 3),
    }


def duration(topics: np.ndarray, alpha: np.ndarray, counts: sp.csr_array) -> dict[str, float]:
    """Return the processor seconds of the shares of documents, after compilation."""
    spent = {}
    for share_error in (SHARE_ERROR, LARGER):
        list(lda.shards(topics, alpha, counts, seed=1, share_error=share_error))
        begun = time.process_time()
        list(lda.shards(topics, alpha, counts, seed=2, share_error=share_error))
        spent[f"processor seconds, {share_error:g}"] = round(time.process_time() - begun, 2)
    return spent


def beginnings(topics: np.ndarray, alpha: np.ndarray, counts: sp.csr_array) -> dict[str, float]:
    """Return how far the largest share is from its mean after sweeps from two starts.

    This is the root mean square over documents of the mean over chains. Multiplying the means of
    two halves of the chains removes the noise of few chains.
    """
    corpus = device.to_device(counts)
    documents = device.select(corpus, jnp.arange(counts.shape[0], dtype=jnp.int32))
    log_topics = jnp.log(jnp.maximum(jnp.asarray(topics), np.finfo(np.float32).tiny))
    concentrations = jnp.asarray(alpha, jnp.float32)
    none = engine.no_labels(documents.tokens.shape[0], len(alpha))

    @partial(jax.jit, static_argnames=("times", "burn_in"))
    def sweep(key: jax.Array, labels: Any, times: int = 1, burn_in: int = 0) -> Any:
        swept = engine.sweeps(
            *(key, log_topics, concentrations, documents, labels),
            times=times,
            burn_in=burn_in,
            tally=True,
        )
        return swept.labels, swept.documents / (times - burn_in)

    def halves(one: Any) -> np.ndarray:
        chains = [one(jax.random.key(i)) for i in range(CHAINS)]
        sums = np.stack([np.sum(chains[half::2], axis=0) for half in range(2)]) / (CHAINS / 2)
        return sums / (np.sum(alpha) + np.maximum(np.asarray(documents.lengths), 1))

    def run(key: jax.Array, labels: Any, before: int) -> np.ndarray:
        """Return the counts after these sweeps, less those `before`, [times, K, D]."""
        counts = []
        for i in range(before, max(AFTER)):
            labels, tally = sweep(jax.random.fold_in(key, i), labels)
            if i + 1 in AFTER:
                counts.append(np.asarray(tally))
        return np.stack(counts)

    truth = halves(lambda key: np.asarray(sweep(key, None, 200, 50)[1]))
    top, place = truth.sum(axis=0).argmax(axis=0), np.arange(counts.shape[0])

    def distances(labels: Any, before: int) -> np.ndarray:
        off = halves(lambda key: run(key, labels, before)) - truth[:, None]
        product = (off[0] * off[1])[:, top, place].mean(axis=1)
        return np.sqrt(np.maximum(product, 0)).round(4)

    # The latter start with their first sweep, so that both have done equal work.
    pairs = zip(AFTER, distances(none, 0), distances(None, 1), strict=True)
    return {
        f"{way}, {after} sweeps": float(value)
        for after, *values in pairs
        for way, value in zip(("from none", "begun"), values, strict=True)
    }


if __name__ == "__main__":
    main()

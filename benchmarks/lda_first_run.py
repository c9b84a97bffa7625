"""The default run: what its verdict claims, checked against other chains and a longer run.

    python benchmarks/lda_first_run.py [--chains 14] [--longer 10] [--keep FILE]
    python benchmarks/lda_first_run.py --corpus ap
    python benchmarks/lda_first_run.py --corpus wikipedia --documents 3000 --chains 0

Chains of the length of `simplex-jax lda` on the embedded corpus, or another one, of which every
two, or four drawn at random, stand for the chains of a run, and ten others for other runs. Printed
are, for several affinities from which on topics of two chains are called the same,

- the share of the topics called stable, each with each other chain, that the other chain has too;
- the share of the topics that all ten have which are called stable;

with the topics that the run reports, the means of those that its chains share. Another chain has a
topic if its partner, one to one, has an affinity of 0.7. And printed are how far the default run is
from one of ten times its passes: the perplexity of the average of the samples, and how many of the
stable topics the longer run has, with their median affinity. Held-out documents are the same in
all. Chains in --cache FILE, an .npz, are not run again.
"""

import argparse
import itertools
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import kept
import lda_corpora
import numpy as np
from lda_recorder import SHARED

from simplex_jax import lda
from simplex_jax._src.evaluate import matching

_COMMON: dict[str, Any] = {"holdout_seed": 0, "share_error": 0.5}
_TOPICS, _OTHERS, _FOURS = 30, 10, 100

_HAS = 0.7  # the affinity of a topic that another chain has
_SAME = (0.7, matching.SAME, 0.8, 0.9)


def chains(
    documents: Any, seeds: Iterable[int], passes: int, held: int, cache: Path | None
) -> np.ndarray:
    """Return the mean topics of independent chains, [count, K, V]."""
    topics: dict[str, np.ndarray] = {}
    if cache is not None and cache.exists():
        topics = dict(np.load(cache))
    names = {seed: f"{seed}_{passes}" for seed in seeds}
    for seed, name in names.items():
        if name not in topics:
            options = {"passes": passes, "chains": 1, "seed": seed, "holdout": held}
            topics[name] = lda.fit(documents, _TOPICS, **options, **_COMMON).topics
            if cache is not None:
                np.savez(cache, **topics)
    return np.stack([topics[name] for name in names.values()]).astype(np.float64)


def partners(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the partners of topics, one to one, by their roots [K, V], and the affinities."""
    table = one @ other.T
    order = matching.assignment(table)[1]
    return order, table[np.arange(len(table)), order]


def judge(
    topics: np.ndarray, runs: Sequence[Sequence[int]], same: float, seed: int = 0
) -> dict[str, float]:
    """Return how well stability in the chains of runs foretells what ten other chains have."""
    rng, roots = np.random.default_rng(seed), np.sqrt(topics)
    found = asked = called = common = number = 0
    for first, *rest in runs:
        matched, shared = [topics[first]], [np.ones(_TOPICS, bool)]
        for chain in rest:
            order, near = partners(roots[first], roots[chain])
            matched.append(topics[chain][order])
            shared.append(near >= same)
        has = np.array(shared)
        reported = np.einsum("ck,ckv->kv", has, np.array(matched)) / has.sum(axis=0)[:, None]
        others = [chain for chain in range(len(topics)) if chain not in (first, *rest)]
        in_others = np.array(
            [
                partners(np.sqrt(reported), roots[chain])[1] >= _HAS
                for chain in rng.permutation(others)[:_OTHERS]
            ]
        )
        is_stable, in_all = has.all(axis=0), in_others.all(axis=0)
        found += int(in_others[:, is_stable].sum())
        asked += in_others[:, is_stable].size
        common += int(in_all.sum())
        called += int((is_stable & in_all).sum())
        number += int(is_stable.sum())
    return {
        "stable topics": number / len(runs),
        "of them another chain has, %": 100 * found / max(asked, 1),
        "topics that all others have": common / len(runs),
        "of them called stable, %": 100 * called / max(common, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chains", type=int, default=14, help="0: none")
    parser.add_argument("--passes", type=int, help="of the chains; by default those of the run")
    parser.add_argument("--longer", type=int, default=10, help="0: no longer run")
    parser.add_argument("--documents", type=int, help="only the first ones")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--seed", type=int, default=300, help="of the first chain")
    parser.add_argument(
        "--corpus",
        default="sotu",
        choices=["sotu", "msweb", *lda_corpora.NAMES],
        help="by default the embedded one",
    )
    parser.add_argument("--peers", type=Path, default=SHARED / "peers")
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    arguments = parser.parse_args()
    named = arguments.corpus, arguments.peers, arguments.data
    documents = lda_corpora.training_counts(*named)[: arguments.documents]
    held = documents.shape[0] // 10
    result: dict[str, Any] = {}
    passes = arguments.passes
    if passes is None or arguments.longer:
        default = lda.fit(documents, _TOPICS, holdout=held, **_COMMON)
        passes = passes or default.done["passes"]
        result |= {
            "passes": default.done["passes"],
            "chains": default.settings.chains,
            "perplexity": default.metrics[-1]["perplexity_average"],
            "stable topics of 30": int(default.stable.sum()),
        }
        print(result)
    if arguments.longer:
        length = {"passes": arguments.longer * passes, "chains": default.settings.chains}
        long = lda.fit(documents, _TOPICS, holdout=held, **length, **_COMMON)
        end = long.metrics[-1]["perplexity_average"]
        affinity = partners(np.sqrt(default.topics), np.sqrt(long.topics))[1][default.stable]
        result |= {
            "perplexity of the longer run": end,
            "above it, %": 100 * math.log(result["perplexity"] / end),
            "stable topics that it has": int((affinity >= _HAS).sum()),
            "their median affinity": float(np.median(affinity)) if affinity.size else None,
        }
        print(result)
    rows, runs = [], {}
    if arguments.chains:
        seeds = range(arguments.seed, arguments.seed + arguments.chains)
        topics = chains(documents, seeds, passes, held, arguments.cache)
        rng = np.random.default_rng(0)
        runs[2] = list(itertools.permutations(range(len(topics)), 2))
        if len(topics) >= 4 + _OTHERS:
            runs[4] = [rng.permutation(len(topics))[:4].tolist() for _ in range(_FOURS)]
    for count, same in itertools.product(runs, _SAME):
        judged = judge(topics, runs[count], same)
        row = {"chains": count, "same from": same} | {key: round(x, 1) for key, x in judged.items()}
        print(row)
        rows.append(row)
    if arguments.keep:
        kept.write(arguments.keep, rows, passes_of_chains=passes, **result)


if __name__ == "__main__":
    main()

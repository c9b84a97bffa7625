"""The default run: what its verdict claims, checked against other chains and a longer run.

    python benchmarks/lda_first_run.py [--chains 12] [--longer 10] [--keep FILE]

Chains of the length of `simplex-jax lda` on the embedded corpus, where a pair stands for the two
chains of a default run, and the others for other runs. Printed are, over all pairs,

- the share of the topics called stable, each with each other chain, that the other chain has too;
- the share of the topics that all other chains have which are called stable;

with topics the same as in a run, each the other's nearest with a lead of 0.1, and at other least
affinities to their one-to-one partner; and the perplexity of the average of the samples at the end
of the default run, and at ten times its passes. Held-out documents are the same in all. Chains in
--cache FILE, an .npz, are not run again.
"""

import argparse
import itertools
import math
from pathlib import Path
from typing import Any

import kept
import numpy as np

from simplex_jax import lda
from simplex_jax._src.corpus.embedded import embedded_corpus
from simplex_jax._src.evaluate import matching

_COMMON: dict[str, Any] = {"holdout": 974, "holdout_seed": 0, "share_error": 0.5}


def chains(count: int, passes: int, cache: Path | None) -> np.ndarray:
    """Return the mean topics of independent chains, [count, K, V]."""
    topics: dict[str, np.ndarray] = {}
    if cache is not None and cache.exists():
        topics = dict(np.load(cache))
    corpus = embedded_corpus()
    for seed in range(100, 100 + count):
        name = f"{seed}_{passes}"
        if name not in topics:
            fitted = lda.fit(corpus, passes=passes, chains=1, seed=seed, **_COMMON)
            topics[name] = fitted.topics
            if cache is not None:
                np.savez(cache, **topics)
    return np.stack([topics[f"{seed}_{passes}"] for seed in range(100, 100 + count)])


def partners(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the affinity of each topic to its partner, one to one, and its lead over others."""
    order = matching.assignment(table)[1]
    own = np.arange(len(table))
    nearest, rivals = table[own, order], table.copy()
    rivals[own, order] = -np.inf
    return nearest, nearest - np.maximum(rivals.max(axis=1), rivals.max(axis=0)[order])


def judge(
    pairs: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]],
    count: int,
    stable: tuple[float, float],
    has: tuple[float, float],
) -> dict[str, float]:
    """Return how well stability in pairs of chains foretells what the other chains have.

    Topics are stable in a pair, and another chain has a topic, by the least affinity to its partner
    and the least lead over other topics.
    """
    found = asked = called = common = number = 0
    for one, two in pairs:
        is_stable = _passes(pairs[one, two], stable)
        others = [chain for chain in range(count) if chain not in (one, two)]
        in_others = np.array([_passes(pairs[one, chain], has) for chain in others])
        in_all = in_others.all(axis=0)
        found += int(in_others[:, is_stable].sum())
        asked += int(is_stable.sum()) * len(others)
        common += int(in_all.sum())
        called += int((is_stable & in_all).sum())
        number += int(is_stable.sum())
    return {
        "stable: affinity": stable[0],
        "stable: lead": stable[1],
        "another has it: affinity": has[0],
        "another has it: lead": has[1],
        "stable topics": number / len(pairs),
        "of them another chain has, %": 100 * found / max(asked, 1),
        "topics that all others have": common / len(pairs),
        "of them called stable, %": 100 * called / max(common, 1),
    }


def _passes(pair: tuple[np.ndarray, np.ndarray], least: tuple[float, float]) -> np.ndarray:
    return (pair[0] >= least[0]) & (pair[1] >= least[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chains", type=int, default=12)
    parser.add_argument("--passes", type=int, help="of the chains; by default those of the run")
    parser.add_argument("--longer", type=int, default=10, help="0: no longer run")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    result: dict[str, Any] = {}
    passes = arguments.passes
    if passes is None or arguments.longer:
        default = lda.fit(embedded_corpus(), **_COMMON)
        passes = passes or default.done["passes"]
        result |= {
            "passes": default.done["passes"],
            "perplexity": default.metrics[-1]["perplexity_average"],
            "stable topics of 30": int(default.stable.sum()),
        }
        print(result)
    if arguments.longer:
        long = lda.fit(embedded_corpus(), passes=arguments.longer * passes, chains=2, **_COMMON)
        end = long.metrics[-1]["perplexity_average"]
        result |= {
            "perplexity of the longer run": end,
            "above it, %": 100 * math.log(result["perplexity"] / end),
        }
        print(result)
    topics = chains(arguments.chains, passes, arguments.cache)
    pairs = {
        (one, two): partners(matching.affinity(topics[one], topics[two]))
        for one, two in itertools.permutations(range(len(topics)), 2)
    }
    own = (matching.SAME, matching.MARGIN)
    rules = (own, (0.7, -1.0), (0.8, -1.0), (0.9, -1.0))
    rows = [
        {name: round(value, 2) for name, value in judge(pairs, len(topics), rule, has).items()}
        for has in (own, (0.7, -1.0))
        for rule in rules
    ]
    for row in rows:
        print(row)
    if arguments.keep:
        kept.write(arguments.keep, rows, **result)


if __name__ == "__main__":
    main()

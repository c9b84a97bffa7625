"""The default run: what its verdict claims, checked against other chains and a longer run.

    python benchmarks/lda_first_run.py [--chains 14] [--longer 10] [--keep FILE]
    python benchmarks/lda_first_run.py --corpus ap.dat --vocab vocab.txt --passes 840 --longer 0

Chains of the length of `simplex-jax lda` on the embedded corpus, or another one, of which every
two, or four drawn at random, stand for the chains of a run, and ten others for other runs. Printed
are, for several rules by which topics are called stable,

- the share of the topics called stable, each with each other chain, that the other chain has too;
- the share of the topics that all ten have which are called stable;

with the topics that the run reports, the means of those that its chains share. Another chain has a
topic if its partner, one to one, has an affinity of `matching.SAME`. And printed is the perplexity
of the average of the samples at the end of the default run, and at ten times its passes. Held-out
documents are the same in all. Chains in --cache FILE, an .npz, are not run again.

The rule was chosen on chains with the seeds from 100 on; the kept results are of others.
"""

import argparse
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import kept
import numpy as np

from simplex_jax import corpus, lda
from simplex_jax._src.corpus.embedded import embedded_corpus
from simplex_jax._src.evaluate import matching

_COMMON: dict[str, Any] = {"holdout_seed": 0, "share_error": 0.5}
_TOPICS, _OTHERS, _FOURS = 30, 10, 100

Rule: TypeAlias = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""`(affinities to the partners, to the nearest other topic) -> which are the same`."""

RULES: dict[str, Rule] = {
    "before: 0.7, lead 0.1": lambda near, rival: (near >= 0.7) & (near >= rival + 0.1),
    "now": lambda near, rival: (near >= matching.SAME) & (1 - rival >= matching.RIVAL * (1 - near)),
    "0.7": lambda near, rival: near >= 0.7,
    "0.75": lambda near, rival: near >= 0.75,
    "0.9": lambda near, rival: near >= 0.9,
}


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


def partners(table: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the partner of each topic, one to one, its affinity, and that of the nearest other."""
    order = matching.assignment(table)[1]
    own = np.arange(len(table))
    nearest, rivals = table[own, order], table.copy()
    rivals[own, order] = -np.inf
    return order, nearest, np.maximum(rivals.max(axis=1), rivals.max(axis=0)[order])


def judge(
    topics: np.ndarray, runs: Sequence[Sequence[int]], rule: Rule, seed: int = 0
) -> dict[str, float]:
    """Return how well stability in the chains of runs foretells what ten other chains have."""
    rng, roots = np.random.default_rng(seed), np.sqrt(topics)
    found = asked = called = common = number = 0
    for first, *rest in runs:
        matched, shared = [topics[first]], [np.ones(_TOPICS, bool)]
        for chain in rest:
            order, *near = partners(roots[first] @ roots[chain].T)
            matched.append(topics[chain][order])
            shared.append(rule(*near))
        has = np.array(shared)
        reported = np.einsum("ck,ckv->kv", has, np.array(matched)) / has.sum(axis=0)[:, None]
        others = [chain for chain in range(len(topics)) if chain not in (first, *rest)]
        in_others = np.array(
            [
                partners(np.sqrt(reported) @ roots[chain].T)[1] >= matching.SAME
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
    parser.add_argument("--chains", type=int, default=14)
    parser.add_argument("--passes", type=int, help="of the chains; by default those of the run")
    parser.add_argument("--longer", type=int, default=10, help="0: no longer run")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--seed", type=int, default=300, help="of the first chain")
    parser.add_argument("--corpus", type=Path, help="by default the embedded one")
    parser.add_argument("--vocab", type=Path)
    arguments = parser.parse_args()
    if arguments.corpus is None:
        documents = embedded_corpus()
    else:
        documents = corpus.read(arguments.corpus, vocabulary=arguments.vocab)
    held = len(documents.names) // 10
    result: dict[str, Any] = {}
    passes = arguments.passes
    if passes is None or arguments.longer:
        default = lda.fit(documents, _TOPICS, holdout=held, **_COMMON)
        passes = passes or default.done["passes"]
        result |= {
            "passes": default.done["passes"],
            "perplexity": default.metrics[-1]["perplexity_average"],
            "stable topics of 30": int(default.stable.sum()),
        }
        print(result)
    if arguments.longer:
        options = {"passes": arguments.longer * passes, "chains": 2, "holdout": held}
        long = lda.fit(documents, _TOPICS, **options, **_COMMON)
        end = long.metrics[-1]["perplexity_average"]
        result |= {
            "perplexity of the longer run": end,
            "above it, %": 100 * math.log(result["perplexity"] / end),
        }
        print(result)
    seeds = range(arguments.seed, arguments.seed + arguments.chains)
    topics = chains(documents, seeds, passes, held, arguments.cache)
    rng = np.random.default_rng(0)
    runs: dict[int, list[Any]] = {2: list(itertools.permutations(range(len(topics)), 2))}
    if len(topics) >= 4 + _OTHERS:
        runs[4] = [rng.permutation(len(topics))[:4].tolist() for _ in range(_FOURS)]
    rows = []
    for count, (name, rule) in itertools.product(runs, RULES.items()):
        judged = judge(topics, runs[count], rule)
        row = {"chains": count, "rule": name} | {key: round(x, 1) for key, x in judged.items()}
        print(row)
        rows.append(row)
    if arguments.keep:
        kept.write(arguments.keep, rows, passes_of_chains=passes, **result)


if __name__ == "__main__":
    main()

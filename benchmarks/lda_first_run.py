"""The default run: what its verdict claims, checked against other chains and a longer run.

    python benchmarks/lda_first_run.py [--only embedded AP ...] [--keep FILE]

First, how far the default run is from one of ten times its passes: the perplexity of the average of
the samples, and how many of the stable topics the longer run has, with their median affinity.
Held-out documents are the same in both.

Then, of the first two corpora, chains of that length, of which every two, or four drawn at random,
stand for the chains of a run, and ten others for other runs. Printed are, for several affinities
from which on topics of two chains are called the same,

- the share of the topics called stable, each with each other chain, that the other chain has too;
- the share of the topics that all ten have which are called stable;

with the topics that the run reports, the means of those that its chains share. Another chain has a
topic if its partner, one to one, has an affinity of 0.7. Rows in --keep stay, so that a run that
was ended goes on, if the code is the same.
"""

import argparse
import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import kept
import lda_corpora
import numpy as np
from lda_recorder import SHARED

from simplex_jax import lda
from simplex_jax._src.evaluate import matching


class Case(NamedTuple):
    """A corpus.

    Attributes:
        corpus: Its name in `lda_corpora`.
        documents: How many of the first ones; None for all.
        longer: Times the passes of the longer run.
        chains: Chains to compare; 0 for none.
    """

    corpus: str
    documents: int | None = None
    longer: int = 10
    chains: int = 0


CASES = {
    "embedded": Case("sotu", chains=14),
    "AP": Case("ap", chains=14),
    "MSWeb": Case("msweb"),
    "Wikipedia": Case("wikipedia", documents=3000),
    "NIPS": Case("nips", documents=300),
    "20 Newsgroups": Case("news20", longer=4),
}
_COMMON: dict[str, Any] = {"holdout_seed": 0, "share_error": 0.5}
_TOPICS, _OTHERS, _FOURS = 30, 10, 100
_FIRST_SEED = 300  # of the chains, unlike those of the runs

_HAS = 0.7  # the affinity of a topic that another chain has
_SAME = (0.7, matching.SAME, 0.8, 0.9)


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


def against_longer(documents: Any, longer: int) -> dict[str, Any]:
    """Compare the default run with one of more passes."""
    held = documents.shape[0] // 10
    default = lda.fit(documents, _TOPICS, holdout=held, **_COMMON)
    passes, chains = default.done["passes"], default.settings.chains
    long = lda.fit(
        documents, _TOPICS, holdout=held, passes=longer * passes, chains=chains, **_COMMON
    )
    here, there = (fitted.metrics[-1]["perplexity_average"] for fitted in (default, long))
    affinity = partners(np.sqrt(default.topics), np.sqrt(long.topics))[1][default.stable]
    return {
        "documents": documents.shape[0],
        "passes": passes,
        "chains": chains,
        "perplexity": here,
        "stable topics of 30": int(default.stable.sum()),
        "longer": longer,
        "perplexity of the longer run": there,
        "above it, %": 100 * math.log(here / there),
        "stable topics that it has": int((affinity >= _HAS).sum()),
        "their median affinity": float(np.median(affinity)) if affinity.size else None,
    }


def among_chains(documents: Any, passes: int, count: int) -> Iterator[dict[str, Any]]:
    """Yield how well stability foretells what other chains have, by chains and affinity."""
    options: dict[str, Any] = {"passes": passes, "chains": 1, "holdout": documents.shape[0] // 10}
    fits = (
        lda.fit(documents, _TOPICS, seed=_FIRST_SEED + i, **options, **_COMMON)
        for i in range(count)
    )
    topics = np.stack([fitted.topics for fitted in fits]).astype(np.float64)
    rng = np.random.default_rng(0)
    runs = {
        2: list(itertools.permutations(range(count), 2)),
        4: [rng.permutation(count)[:4].tolist() for _ in range(_FOURS)],
    }
    for number, same in itertools.product(runs, _SAME):
        judged = judge(topics, runs[number], same)
        yield {"chains": number, "same from": same} | {k: round(x, 1) for k, x in judged.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--peers", type=Path, default=SHARED / "peers")
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    given = parser.parse_args()
    rows = kept.earlier(given.keep)
    for name in given.only:
        if any(row["corpus"] == name for row in rows):
            continue
        case = CASES[name]
        counts = lda_corpora.training_counts(case.corpus, given.peers, given.data)
        documents = counts[: case.documents]
        run = against_longer(documents, case.longer)
        found = [run]
        if case.chains:
            found += among_chains(documents, run["passes"], case.chains)
        rows += [{"corpus": name} | row for row in found]
        print(*rows[-len(found) :], sep="\n", flush=True)
        if given.keep:
            kept.write(given.keep, rows)


if __name__ == "__main__":
    main()

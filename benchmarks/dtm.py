"""Held-out perplexity of topics in slices against those of LDA, on the State of the Union.

usage: python benchmarks/dtm.py [--topics 30] [--passes 700] [--seeds 3] [--out FILE]

A tenth of the paragraphs is held out: topic proportions are inferred from one half of each, and the
other half is predicted, averaged over the samples of the last half of the run. Both models learn
alpha and beta, alpha one for each topic, in one chain and equal passes.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kept

from simplex_jax import corpus, dtm, lda


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    result = argparse.ArgumentParser(description=__doc__)
    result.add_argument("--topics", type=int, default=30)
    result.add_argument("--passes", type=int, default=700)
    result.add_argument("--seeds", type=int, default=3)
    result.add_argument("--slices", default="decade")
    result.add_argument("--out", type=Path, default=kept.RESULTS / "dtm.json")
    return result


def perplexity(fit: Callable[..., Any], *data: Any, **options: Any) -> float:
    """Fit a model, and return its last averaged perplexity."""
    options |= {"chains": 1, "holdout": 974, "eval_every": 50, "keep_samples": 0}
    return fit(*data, **options).metrics[-1]["perplexity_average"]


def main() -> None:
    """Run both models with each seed, and print or keep the results."""
    chosen = parser().parse_args()
    texts, years = corpus.embedded_corpus(), corpus.embedded_years()
    rows: list[dict[str, Any]] = []
    for seed in range(chosen.seeds):
        shared = {"num_topics": chosen.topics, "passes": chosen.passes, "seed": seed}
        static = perplexity(lda.fit, texts, alpha="learn-asymmetric", beta="learn", **shared)
        moving = perplexity(dtm.fit, texts, times=years, slices=chosen.slices, **shared)
        for name, value in (("lda", static), ("dtm", moving)):
            rows.append({"model": name, **shared, "perplexity": value})
            print(rows[-1], flush=True)
        kept.write(chosen.out, rows, slices=chosen.slices)


if __name__ == "__main__":
    main()

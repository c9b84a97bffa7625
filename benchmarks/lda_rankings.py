"""Whether document completion and left-to-right rank the LDA tools alike.

    python benchmarks/lda_rankings.py --corpora ap news20 [--tools ours tomotopy-2] [--keep FILE]

The final topics of each tool, trained as in `lda_peers.py` with equal priors, are scored on the
same held-out documents: by completion, predicting one half of each from the other, and by the
left-to-right probability of all their tokens. Errors are those of the second estimate, with the
bias that its particles may leave.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import kept
import numpy as np
from lda_corpora import Task, load
from lda_peers import ALPHA, evaluate, parser_of, prepare, trained
from scipy import stats

from simplex_jax._src.models import lda

POINTS = 5  # times that topics are kept; the last are scored


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--particles", type=int, default=256)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in given.corpora:
        task = load(name, given.peers, given.data, given.quick)
        prepare(task.observed, task.target, given.peers)
        for tool in given.tools:
            for seed in range(given.seeds):
                rows.append({"corpus": name, "tool": tool, "seed": seed})
                rows[-1] |= judged(tool, task, seed, given)
                print(rows[-1], flush=True)
                if given.keep:
                    kept.write(given.keep, rows)
        here = [row for row in rows if row["corpus"] == name]
        scores = [[row[method] for row in here] for method in ("completion", "left to right")]
        print(f"{name}: rank correlation {stats.spearmanr(*scores).statistic:.3f}")


def judged(tool: str, task: Task, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """Train a tool and return both perplexities of its final topics."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        last = trained(tool, task, seed, POINTS, given, folder)["points"][-1]
        file, alpha = folder / last["file"], last.get("alpha", ALPHA)
        completion = evaluate([file], alpha)
        topics = np.load(file).astype(np.float64)
    documents = task.observed + task.target
    # As completion does: some tools give no probability to words that no training document has.
    topics = np.maximum(topics / topics.sum(axis=1, keepdims=True), 1e-12)
    result = lda.left_to_right(
        topics / topics.sum(axis=1, keepdims=True),
        alpha,
        documents,
        particles=given.particles,
        seed=seed,
    )
    value, error = result.perplexity(documents.sum(axis=1))
    return {"completion": completion, "left to right": value, "error": error}


if __name__ == "__main__":
    main()

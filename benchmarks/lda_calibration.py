"""Do LDA's 90% intervals cover the truth? On corpora drawn from the model.

    python benchmarks/lda_calibration.py [--corpora 50] [--out FILE]

Each corpus has 5 to 20 topics, 400 documents of 60 tokens and 300 words, alpha 0.1 and beta 0.05,
which the fits are given; they run to their default stopping rule, for at most 20 seconds. Topics
are matched to the true ones (`matching.align`). For topics shared with the truth, the script counts
how often the intervals cover the true values: of a word's probability, for the ten words with the
largest posterior mean, and of the share of the tokens. A correct posterior gives 90%.
"""

import argparse
import json
from pathlib import Path

import kept
import numpy as np

from simplex_jax._src.evaluate import matching
from simplex_jax._src.evaluate.diagnostics import rough
from simplex_jax._src.evaluate.intervals import beta_interval
from simplex_jax._src.models import lda

ALPHA, BETA = 0.1, 0.05
DOCUMENTS, LENGTH, WORDS = 400, 60, 300
LEVEL, LEADING = 0.9, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = [judge(seed, options.seconds) for seed in range(options.corpora)]
    total = {name: sum(row[name] for row in rows) for name in rows[0] if name != "seed"}
    held = {
        "words": total["words_held"] / total["words"],
        "shares": total["shares_held"] / total["intervals"],
        "topics_shared": total["shared"] / total["topics"],
        "with_interval": total["intervals"] / total["shared"],
    }
    print(json.dumps(held))
    if options.out:
        kept.write(options.out, rows, level=LEVEL, held=held)


def judge(seed: int, seconds: float) -> dict[str, float]:
    """Fit a corpus and count intervals, and those that cover the truth."""
    rng = np.random.default_rng(seed)
    num_topics = int(rng.integers(5, 21))
    topics = rng.dirichlet(np.full(WORDS, BETA), num_topics)
    labels = np.stack(
        [
            rng.choice(num_topics, LENGTH, p=p)
            for p in rng.dirichlet([ALPHA] * num_topics, DOCUMENTS)
        ]
    )
    cumulative = np.cumsum(topics, axis=1)[labels]
    words = (cumulative < rng.random((*labels.shape, 1))).sum(axis=-1).clip(max=WORDS - 1)
    counts = np.zeros((DOCUMENTS, WORDS), int)
    np.add.at(counts, (np.arange(DOCUMENTS)[:, None], words), 1)
    share = np.bincount(labels.ravel(), minlength=num_topics) / labels.size
    fitted = lda.fit(
        counts, num_topics, alpha=ALPHA, beta=BETA, seed=seed, holdout=0, time_limit=seconds
    )
    order, _, shared = matching.align([fitted.topics, topics])
    known = shared[1] & ~rough(fitted.diagnostics, fitted.shared)
    lower, upper = beta_interval(fitted.prevalence, fitted.prevalence_sd, LEVEL)
    truth = share[order[1]]
    row = {
        **{"seed": seed, "topics": num_topics, "shared": int(shared[1].sum())},
        **{"intervals": int(known.sum())},
        "shares_held": int(((lower <= truth) & (truth <= upper))[known].sum()),
    }
    leading = np.argsort(-fitted.topics, axis=1)[:, :LEADING]
    mean, sd, true = (
        np.take_along_axis(array, leading, axis=1)[known]
        for array in (fitted.topics, fitted.topics_sd, topics[order[1]])
    )
    lower, upper = beta_interval(mean, sd, LEVEL)
    return row | {"words": true.size, "words_held": int(((lower <= true) & (true <= upper)).sum())}


if __name__ == "__main__":
    main()

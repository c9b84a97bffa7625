"""Do the intervals of topics in slices hold the truth? On corpora drawn from the model.

    python benchmarks/dtm_calibration.py [--corpora 50] [--passes 3000] [--keep FILE]

Each corpus has 5 topics in 6 slices with gaps of 1 to 3, 200 words and 50 documents of 50 tokens in
each slice. Steadiness c, pace r, alpha, beta and the steadiness m within documents are drawn from
the priors that the fit has, the topics and their prevalence from these: a correct posterior holds
the truth as often as its intervals say. Topics are matched to the true ones by their means over the
slices (`matching.align`). For topics that the fit and the truth share, the script counts how often
90% intervals, by the rules of the fit's 95% intervals, hold the true values of

- words: the probability in each slice of the ten words with the largest posterior mean there;
- prevalence: the expected share of a topic in each slice;
- c and r of each topic.

"shown" is the share that has intervals, "held" the share of these that holds the truth, in all and
by kind: "mixed" with 50 effective samples, "apart" with fewer.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import kept
import numpy as np

from simplex_jax import dtm
from simplex_jax._src.evaluate import diagnostics, matching
from simplex_jax._src.models.dtm import intervals
from simplex_jax._src.models.topics.report import INTERVAL, OVER_CHAINS

TIMES = np.array([0.0, 1, 2, 4, 7, 8])
TOPICS, WORDS, DOCUMENTS, LENGTH = 5, 200, 50, 50
ALPHA, BETA = (5.0, 50.0), (5.0, 100.0)  # shape and rate
DEVIATION, PACE = 0.2, (np.log(3 / 8), 1.5)  # of c^-1/2; mean and deviation of log r
OWN = 0.1  # of m^-1/2
LEVEL, LEADING = 0.9, 10
KINDS = {"mixed": INTERVAL, "apart": OVER_CHAINS}


def log_dirichlet(rng: np.random.Generator, a: np.ndarray) -> np.ndarray:
    """Return the logarithm of Dirichlet variates, whose parameters may be tiny."""
    a = np.maximum(a, 1e-12)
    log_g = np.log(rng.gamma(a + 1)) + np.log(rng.random(a.shape)) / a
    top = log_g.max(axis=-1, keepdims=True)
    return log_g - top - np.log(np.exp(log_g - top).sum(axis=-1, keepdims=True))


def path(rng: np.random.Generator, base: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return paths from bases [N, V], and their c and r, drawn from the priors: [N, T, V], [N]."""
    c = (DEVIATION * np.tan(np.pi / 2 * rng.random(len(base)))) ** -2
    r = np.exp(rng.normal(*PACE, len(base)))
    vectors = [np.exp(log_dirichlet(rng, c[:, None] * base))]
    for gap in np.diff(TIMES):
        e, w = -np.expm1(-r * gap)[:, None], -1 / np.expm1(-2 * r * gap)[:, None]
        mean = (1 - e) * vectors[-1] + e * base
        vectors.append(np.exp(log_dirichlet(rng, c[:, None] * w * mean)))
    return np.stack(vectors, axis=1), c, r


def simulate(rng: np.random.Generator) -> dict[str, Any]:
    """Return counts [D, V] of documents with their times, and what they were drawn from."""
    alpha, beta = (rng.gamma(shape) / rate for shape, rate in (ALPHA, BETA))
    bases = np.exp(log_dirichlet(rng, np.full((TOPICS, WORDS), beta)))
    topics, c, r = path(rng, bases)
    prevalence, _, _ = path(rng, rng.dirichlet(np.ones(TOPICS), 1))
    m = (OWN * np.tan(np.pi / 2 * rng.random())) ** -2
    counts = []
    for t in range(len(TIMES)):
        shapes = np.broadcast_to(TOPICS * alpha * prevalence[0, t], (DOCUMENTS, TOPICS))
        theta = np.exp(log_dirichlet(rng, shapes))
        within = np.broadcast_to(m * topics[:, t], (DOCUMENTS, TOPICS, WORDS))
        shares = np.einsum("dk,dkw->dw", theta, np.exp(log_dirichlet(rng, within)))
        counts.append(rng.multinomial(LENGTH, shares / shares.sum(axis=1, keepdims=True)))
    times = np.repeat(TIMES, DOCUMENTS)
    own = {"topics": topics, "prevalence": prevalence[0], "steadiness": c, "pace": r}
    return {"counts": np.concatenate(counts), "times": times, **own}


def judge(seed: int, passes: int) -> dict[str, float]:
    """Fit a corpus and count topics, intervals, and those that hold the truth."""
    true = simulate(np.random.default_rng(seed))
    fitted = dtm.fit(
        true["counts"],
        TOPICS,
        times=true["times"],
        slices="year",
        alpha_prior=ALPHA,
        beta_prior=BETA,
        passes=passes,
        keep_samples=100,
        holdout=0,
        seed=seed,
    )
    order, _, found = matching.align([fitted.topics, true["topics"].mean(axis=1)])
    # By topic of the fit, as slices have equally many tokens.
    topics, c, r = (true[name][order[1]] for name in ("topics", "steadiness", "pace"))
    prevalence = true["prevalence"][:, order[1]]
    levels = (1 - LEVEL) / 2, (1 + LEVEL) / 2

    def ends(samples: np.ndarray, kinds: np.ndarray, change: Any, back: Any) -> np.ndarray:
        return back(intervals.interval_of(change(samples), kinds, levels))

    leading = np.argsort(-fitted.topics_by_slice, axis=-1)[..., :LEADING]  # [T, K, n]
    mean, sd, truth = (
        np.take_along_axis(array, leading, axis=-1)
        for array in (
            fitted.topics_by_slice,
            fitted.topics_by_slice_sd,
            topics.transpose(1, 0, 2),
        )
    )
    of_words = np.stack(
        [
            np.take_along_axis(fitted.word_kinds(k, np.arange(WORDS)), leading[:, k], axis=1)
            for k in range(TOPICS)
        ],
        axis=1,
    )
    kinds = {"words": of_words, "prevalence": fitted.kinds}
    for name, trait in (("c", "steadiness"), ("r", "pace")):
        sizes = [fitted.diagnostics[f"{trait} {k}"]["ess"] for k in range(TOPICS)]
        enough = np.array(sizes, float) >= diagnostics.ENOUGH
        kinds[name] = intervals.kinds_of(
            enough, fitted.shared, fitted.num_samples // len(fitted.shared)
        )
    path, *traits = (
        intervals.matched(fitted.samples[name], fitted.order, fitted.shared)
        for name in ("prevalence", "steadiness", "pace")
    )
    samples = dict(zip("cr", traits, strict=True))
    held = {
        "words": _holds(intervals.word_ends(mean, sd, LEVEL), truth),
        "prevalence": _holds(
            ends(path, kinds["prevalence"], np.sqrt, lambda x: np.clip(x, 0, 1) ** 2), prevalence
        ),
        **{
            name: _holds(ends(samples[name], kinds[name], np.log, np.exp), true_value)
            for name, true_value in (("c", c), ("r", r))
        },
    }
    row: dict[str, float] = {
        "seed": seed,
        "found": int(found[1].sum()),
        "stable": int(fitted.stable.sum()),
    }
    for name, holds in held.items():
        axis = 1 if name in ("words", "prevalence") else 0
        holds, kind = (np.compress(found[1], array, axis=axis) for array in (holds, kinds[name]))
        row[name] = kind.size
        for label, code in KINDS.items():
            row[f"{name}_{label}"] = int((kind == code).sum())
            row[f"{name}_{label}_held"] = int(holds[kind == code].sum())
    return row


def _holds(ends: Any, truth: np.ndarray) -> np.ndarray:
    lower, upper = ends
    return (lower <= truth) & (truth <= upper)


def main() -> None:
    """Fit all corpora, and print or keep the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--corpora", type=int, default=50)
    parser.add_argument("--passes", type=int, default=3000)
    parser.add_argument("--keep", type=Path)
    chosen = parser.parse_args()
    rows = []
    for seed in range(chosen.corpora):
        rows.append(judge(seed, chosen.passes))
        print(rows[-1], flush=True)
    total = {name: sum(row[name] for row in rows) for name in rows[0]}
    summary: dict[str, Any] = {"topics matched": total["found"] / (TOPICS * len(rows))}
    for name in ("words", "prevalence", "c", "r"):
        shown = sum(total[f"{name}_{label}"] for label in KINDS)
        held = sum(total[f"{name}_{label}_held"] for label in KINDS)
        summary[name] = {
            "held": held / max(shown, 1),
            "shown": shown / max(total[name], 1),
            **{
                label: total[f"{name}_{label}_held"] / max(total[f"{name}_{label}"], 1)
                for label in KINDS
            },
        }
    print(json.dumps(summary, indent=1))
    if chosen.keep:
        kept.write(chosen.keep, rows, level=LEVEL, summary=summary)


if __name__ == "__main__":
    main()

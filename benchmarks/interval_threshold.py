"""The number of estimated effective samples from which intervals hold what they claim.

    python benchmarks/interval_threshold.py [--runs 2000] [--keep FILE]

Traces are first-order autoregressions with a normal law and a known effective size, at which
`diagnostics.effective_size` estimates more or less. Where the estimate reaches a threshold, the 95%
interval of the trace's mean and deviation is shown, and its coverage is the share of the true law
that it holds. A threshold is judged by the coverage of all intervals shown, if all true sizes,
evenly spaced on a logarithmic scale, are equally frequent, and by that of the worst true size,
among those of which at least 5% of the traces are shown.
"""

import argparse
from pathlib import Path
from typing import Any

import kept
import numpy as np
from scipy import signal, stats

from simplex_jax._src.evaluate import diagnostics, intervals

SHAPES = ((1, 50), (1, 200), (2, 50), (2, 200), (2, 1000), (4, 100))  # chains, samples
SIZES = (1, 2, 3, 5, 8, 13, 20, 32, 50, 80, 126, 200)
THRESHOLDS = (10, 20, 30, 40, 50, 70, 100)
SHOWN = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000, help="traces of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="file for the results")
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    rows: list[dict[str, Any]] = []
    for chains, samples in SHAPES:
        for size in SIZES:
            if size > chains * samples:
                continue
            judged = [_judged(rng, chains, samples, size) for _ in range(given.runs)]
            estimates, coverages = np.transpose(judged)
            for threshold in THRESHOLDS:
                shown = estimates >= threshold
                rows.append(
                    {
                        "chains": chains,
                        "samples": samples,
                        "size": size,
                        "threshold": threshold,
                        "shown": float(shown.mean()),
                        "coverage": float(coverages[shown].mean()) if shown.any() else None,
                    }
                )
    for threshold in THRESHOLDS:
        here = [row for row in rows if row["threshold"] == threshold and row["shown"] > 0]
        weights = [row["shown"] for row in here]
        overall = np.average([row["coverage"] for row in here], weights=weights)
        often = [row for row in here if row["shown"] >= SHOWN]
        worst = min(often, key=lambda row: row["coverage"])
        print(
            f"from {threshold:3d} estimated: {overall:.3f} in all; {worst['coverage']:.3f} at a "
            f"true size of {worst['size']} ({worst['chains']} chains of {worst['samples']}; "
            f"{worst['shown']:.0%} are shown)"
        )
    if given.keep:
        kept.write(given.keep, rows)


def _judged(
    rng: np.random.Generator, chains: int, samples: int, size: float
) -> tuple[float, float]:
    """Return the estimated effective size of a trace and the coverage of its interval."""
    # n (1 - r) / (1 + r) = size, for long chains.
    r = (1 - size / (chains * samples)) / (1 + size / (chains * samples))
    steps = rng.normal(size=(chains, samples)) * np.sqrt(1 - r * r)
    steps[:, 0] = rng.normal(size=chains)
    trace = signal.lfilter([1.0], [1.0, -r], steps, axis=1)
    lower, upper = intervals.normal_interval(trace.mean(), trace.std(ddof=1))
    coverage = stats.norm.cdf(upper) - stats.norm.cdf(lower)
    return diagnostics.effective_size(trace), float(coverage)


if __name__ == "__main__":
    main()

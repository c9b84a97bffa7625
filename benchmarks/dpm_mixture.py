"""Seconds per pass of the Dirichlet-process mixture over synthetic count rows, on this device.

    python benchmarks/dpm_mixture.py [--rows 100000 1000000] [--categories 300] [--passes 20]

Rows have about ten tokens each, from 30 clusters with sparse profiles and geometric weights. A pass
draws the labels of all rows once. Passes start from 20 random clusters; the first, which compiles,
is reported separately. The table has the median wall-clock and processor seconds of the others
(which differ if the machine is busy), the held-out log predictive of 10,000 rows after the last
pass and of the truth, and the number of clusters with more than a thousandth of the rows.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import kept
import numpy as np
import scipy.sparse as sp

from simplex_jax._src.models.dpm import families
from simplex_jax._src.models.dpm import model as dpm_mixture
from simplex_jax._src.runtime.driver import run

CLUSTERS, HELD_OUT = 30, 10_000
CASES = {
    "exact, all rows": {},
    "exact, 10 batches": {"batches": 10},
    "SCIR, 10 batches": {
        "batches": 10,
        "sampler": "scir",
        "atom_step_size": 1.0,
        "stick_step_size": 1.0,
    },
}


class Truth:
    """A mixture, and rows drawn from it."""

    def __init__(self, categories: int) -> None:
        self.rng = np.random.default_rng(0)
        weights = 0.85 ** np.arange(CLUSTERS)
        self.weights = weights / weights.sum()
        self.profiles = self.rng.dirichlet(np.full(categories, 0.05), CLUSTERS) + 1e-6
        self.profiles /= self.profiles.sum(axis=1, keepdims=True)

    def draw(self, size: int) -> sp.csr_array:
        """Rows of counts."""
        cluster = self.rng.choice(CLUSTERS, size, p=self.weights)
        lengths = self.rng.poisson(10, size)
        row = np.repeat(np.arange(size), lengths)
        sums = np.cumsum(self.profiles, axis=1)
        word = np.empty(row.size, np.int64)
        for k in range(CLUSTERS):
            mine = cluster[row] == k
            result = np.searchsorted(sums[k], self.rng.random(mine.sum()))
            word[mine] = np.minimum(result, sums.shape[1] - 1)
        ones = np.ones(row.size, np.int64)
        return sp.coo_array((ones, (row, word)), (size, sums.shape[1])).tocsr()

    def log_predictive(self, counts: sp.csr_array) -> float:
        """Mean over the rows, with ordered words."""
        logs = counts @ np.log(self.profiles).T + np.log(self.weights)
        peak = logs.max(axis=1, keepdims=True)
        return float((peak[:, 0] + np.log(np.exp(logs - peak).sum(axis=1))).mean())


def nothing(state, info):
    return ()


def passes_of(counts: sp.csr_array, held_out: sp.csr_array, case: dict, passes: int) -> dict:
    """Times of the passes over some rows, and the score of the final state."""
    size, categories = counts.shape
    rows = jax.tree.map(jnp.asarray, families.multinomial_rows(counts))
    family = families.multinomial(categories, concentration=0.1)
    options = dict(case)
    batches = options.pop("batches", 1)
    kernel, stream = dpm_mixture.build(
        rows,
        family,
        alpha=dpm_mixture.Gamma(1.0, 1.0),
        batch_size=-(-size // batches),
        **options,
    )
    state = kernel.init(jax.random.key(0), dpm_mixture.random_labels(jax.random.key(1), rows, 20))
    clock, processor = [], []
    for _ in range(passes):
        started = time.perf_counter(), time.process_time()
        state, _ = run(
            jax.random.key(2),
            kernel,
            state,
            stream,
            batches,
            collect=nothing,
            grow=dpm_mixture.State.grown,
        )
        clock.append(time.perf_counter() - started[0])
        processor.append(time.process_time() - started[1])
    score = dpm_mixture.log_predictive(family, state.position, families.multinomial_rows(held_out))
    return {
        "first pass": round(clock[0], 2),
        "seconds a pass": round(float(np.median(clock[1:])), 3),
        "processor seconds a pass": round(float(np.median(processor[1:])), 3),
        "held out": round(float(score.mean()), 4),
        "clusters": int((np.asarray(state.occupancy) > size / 1000).sum()),
        "capacity": int(state.occupancy.shape[0]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--categories", type=int, default=300)
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--keep", type=Path, help="a JSON file for the results")
    args = parser.parse_args()
    truth = Truth(args.categories)
    held_out = truth.draw(HELD_OUT)
    print(f"held-out log predictive of the truth: {truth.log_predictive(held_out):.4f}")
    result = []
    for size in args.rows:
        counts = truth.draw(size)
        for name, case in CASES.items():
            record = {"rows": size, "case": name} | passes_of(counts, held_out, case, args.passes)
            print(json.dumps(record), flush=True)
            result.append(record)
    if args.keep:
        kept.write(args.keep, result, device=jax.devices()[0].device_kind)


if __name__ == "__main__":
    main()

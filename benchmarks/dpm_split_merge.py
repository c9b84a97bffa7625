"""What split-merge moves gain: held-out log predictive against updates and seconds.

    python benchmarks/dpm_split_merge.py [--rows 10000] [--updates 200] [--seeds 3] [--msweb FILE]

The exact full-batch slice sampler of a multinomial mixture, with 0, 1 and 4 proposals per update,
from two starts: all rows in one cluster, and 20 random labels. Rows are synthetic, 24 clusters in
pairs with overlapping profiles, or with --msweb the users of `anonymous-msweb.data`. Every tenth is
held out; the score is its log probability under the current mixture, in nats per row. Candidates
alternate in pieces of 20 updates, so that load on the machine affects all alike; compilation is not
counted.
"""

import argparse
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import msweb
import numpy as np
import scipy.sparse as sp

from simplex_jax._src.models.dpm import families
from simplex_jax._src.models.dpm import model as dpm_mixture
from simplex_jax._src.models.dpm.families import family as family_rows
from simplex_jax._src.models.dpm.model import State
from simplex_jax._src.runtime.driver import run

PIECE, PROPOSALS, LABELS, NEAR = 20, (0, 1, 4), 20, 0.02


def synthetic(rows: int, words: int = 100, pairs: int = 12) -> sp.csr_array:
    """Rows of about 15 words from pairs of similar profiles."""
    rng = np.random.default_rng(0)
    shared = np.repeat(rng.dirichlet(np.full(words, 0.1), pairs), 2, axis=0)
    profiles = 0.6 * shared + 0.4 * rng.dirichlet(np.full(words, 0.1), 2 * pairs)
    weights = rng.dirichlet(np.full(2 * pairs, 2.0))
    labels = rng.choice(2 * pairs, rows, p=weights)
    return sp.csr_array(rng.multinomial(rng.poisson(15, rows), profiles[labels]))


def clusters_of(state: State, info: dpm_mixture.Info) -> jax.Array:
    """Return the number of clusters; one function, so that all runs share a program."""
    return info.occupied


predictive = jax.jit(dpm_mixture.log_predictive)


def measure(counts: sp.csr_array, start: str, updates: int, seed: int) -> dict[int, np.ndarray]:
    """Return (updates, seconds, score, clusters) by number of proposals, [pieces, 4]."""
    out = np.arange(counts.shape[0]) % 10 == 0
    rows, heldout = (families.multinomial_rows(counts[part]) for part in (~out, out))
    family = families.multinomial(counts.shape[1], 0.5)
    n = family_rows.size(rows)
    labels = jnp.zeros(n, jnp.int32)
    if start == "random":
        labels = jnp.asarray(np.random.default_rng(seed).integers(0, LABELS, n, np.int32))
    runs = {}
    for proposals in PROPOSALS:
        kernel, stream = dpm_mixture.build(rows, family, split_merge=proposals)
        state = kernel.init(jax.random.key(seed), labels)
        options = {"collect": clusters_of, "grow": dpm_mixture.State.grown}
        run(jax.random.key(0), kernel, state, stream, 2, **options)  # compiles
        runs[proposals] = [kernel, stream, state, options, 0.0, []]
    for piece in range(updates // PIECE):
        for proposals in PROPOSALS:
            kernel, stream, state, options, seconds, actual = runs[proposals]
            began = time.perf_counter()
            key = jax.random.key(1000 + seed)
            state, _ = run(key, kernel, state, stream, PIECE, **options)
            jax.block_until_ready(state)
            seconds += time.perf_counter() - began
            clusters = int(dpm_mixture.occupied(state))
            now = float(predictive(family, state.position, heldout).mean())
            actual.append(((piece + 1) * PIECE, seconds, now, clusters))
            runs[proposals][2], runs[proposals][4] = state, seconds
    return {proposals: np.array(runs[proposals][5]) for proposals in PROPOSALS}


def show(start: str, results: list[dict[int, np.ndarray]]) -> None:
    """Print medians over the seeds."""
    # For each seed: the best final score of any candidate.
    best = [max(actual[-3:, 2].mean() for actual in result.values()) for result in results]
    print(f"\nstart: {start}; best end {np.median(best):.3f} nats a row")
    print(f"proposals  ms/update  short of it  clusters  updates, s to within {NEAR}")
    for proposals in PROPOSALS:
        actual = np.stack([result[proposals] for result in results])
        pace = 1e3 * np.median(actual[:, -1, 1] / actual[:, -1, 0])
        short = np.median(best - actual[:, -3:, 2].mean(axis=1))
        near = actual[:, :, 2] > np.array(best)[:, None] - NEAR
        first = [
            f[np.argmax(n), :2] if n.any() else [np.inf] * 2
            for f, n in zip(actual, near, strict=True)
        ]
        updates, seconds = np.median(first, axis=0)
        print(
            f"{proposals:9d}  {pace:9.1f}  {short:11.3f}  {np.median(actual[:, -1, 3]):8.0f}  "
            f"{updates:.0f}, {seconds:.1f} ({near.any(axis=1).sum()} of {len(actual)} seeds)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--msweb", type=Path)
    options = parser.parse_args()
    if options.msweb:
        counts = msweb.read(options.msweb).counts
    else:
        counts = synthetic(options.rows)
    for start in ("one cluster", "random"):
        seeds = range(options.seeds)
        show(start, [measure(counts, start, options.updates, seed) for seed in seeds])


if __name__ == "__main__":
    main()

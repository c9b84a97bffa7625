"""How LDA's chains mix: effective samples of the topics' token shares, per pass and per second.

    python benchmarks/lda_mixing.py [--corpora sotu ap] [--passes 3000] [--seeds 3] [--keep FILE]
    python benchmarks/lda_mixing.py --priors 0.1,0.05 0.5,0.2 learn,0.05 learn-asymmetric,learn

Memoised SCIR with one update of the topics per pass, the default, and with two, four and eight; and
a sampler that integrates the topics out as well (tomotopy, `pip install tomotopy`; one worker,
since two make it approximate). Corpora, K, alpha and beta are the same; shares are read after every
pass, the first quarter is dropped, and the effective sample size is that of `evaluate.diagnostics`.

With --priors, instead: one update per pass with other alpha and beta, or learned ones, and the
perplexity of 500 held-out documents, averaged over the second half of the run, whose samples are
counted.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import kept
import numpy as np
import scipy.sparse as sp
from lda_corpora import NAMES, training_counts
from lda_recorder import SHARED

from simplex_jax._src.corpus import device
from simplex_jax._src.evaluate.diagnostics import effective_size
from simplex_jax._src.models import lda
from simplex_jax._src.models.lda import model
from simplex_jax._src.runtime.driver import run

ALPHA, BETA = 0.1, 0.05


def ours(
    train: sp.csr_array,
    topics: int,
    passes: int,
    seed: int,
    updates: int = 1,
) -> np.ndarray:
    """Return the tokens of each topic after every pass, [passes, K]."""
    documents, shape = device.to_device(train), (topics, train.shape[1])
    size = -(-train.shape[0] // updates)
    kernel, stream = model.build(documents, shape, alpha=ALPHA, beta=BETA, batch_size=size)
    key = jax.random.key(seed)
    state = kernel.init(key, jnp.ones(shape))
    _, trace = run(
        jax.random.fold_in(key, 1),
        kernel,
        state,
        stream,
        passes * updates,
        collect=lambda state, info: state.sampler.memory.counts.sum(axis=1),
        thin=updates,
        chunk=50 * updates,
    )
    return np.asarray(trace)


def collapsed(train: sp.csr_array, topics: int, passes: int, seed: int) -> np.ndarray:
    """Return the same for a sampler that integrates the topics out."""
    import tomotopy

    sampler = tomotopy.LDAModel(k=topics, alpha=ALPHA, eta=BETA, seed=seed)
    sampler.optim_interval = 0
    for document in range(train.shape[0]):
        row = train[[document]]
        sampler.add_doc([str(word) for word in np.repeat(row.indices, row.data)])
    trace = []
    for _ in range(passes):
        sampler.train(1, workers=1)
        trace.append(sampler.get_count_by_topics())
    return np.asarray(trace)


SAMPLERS = {
    **{f"{updates} updates": partial(ours, updates=updates) for updates in (1, 2, 4, 8)},
    "integrated": collapsed,
}


def measure(sample: Callable[[int], np.ndarray], seeds: int) -> dict[str, float]:
    """Return effective samples per 1,000 passes and per second: lowest tenth and median."""
    lowest, median, seconds = [], [], []
    for seed in range(seeds):
        begun = time.perf_counter()
        trace = sample(seed).astype(float)
        seconds.append((time.perf_counter() - begun) / len(trace))
        kept = trace[len(trace) // 4 :]
        sizes = np.array([effective_size(kept[:, k]) for k in range(trace.shape[1])])
        lowest.append(np.quantile(sizes, 0.1) / len(kept))
        median.append(np.median(sizes) / len(kept))
    each = float(np.median(seconds))
    return {
        "ms a pass": 1e3 * each,
        "lowest tenth, per 1,000 passes": 1e3 * float(np.median(lowest)),
        "median, per 1,000 passes": 1e3 * float(np.median(median)),
        "least median": 1e3 * float(min(median)),
        "largest median": 1e3 * float(max(median)),
        "median, a second": float(np.median(median)) / each,
    }


def of_prior(
    train: sp.csr_array,
    topics: int,
    passes: int,
    seeds: int,
    alpha: float | str,
    beta: float | str,
) -> dict[str, float]:
    """Return effective samples per 1,000 passes and the perplexity under a prior."""
    lowest, median, perplexity = [], [], []
    for seed in range(seeds):
        options: dict[str, Any] = {"alpha": alpha, "beta": beta, "seed": seed, "chains": 1}
        fitted = lda.fit(train, topics, passes=passes, holdout=500, sample_every=1, **options)
        if fitted.interrupted:
            raise SystemExit("stopped: a shorter run does not count")
        sizes = [fitted.diagnostics[f"prevalence {k}"]["ess"] for k in range(topics)]
        lowest.append(np.quantile(sizes, 0.1) / fitted.num_samples)
        median.append(np.median(sizes) / fitted.num_samples)
        perplexity.append(fitted.metrics[-1]["perplexity_average"])
    return {
        "lowest tenth, per 1,000 passes": 1e3 * float(np.median(lowest)),
        "median, per 1,000 passes": 1e3 * float(np.median(median)),
        "least median": 1e3 * float(min(median)),
        "largest median": 1e3 * float(max(median)),
        "perplexity": float(np.median(perplexity)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--corpora", nargs="+", choices=("sotu", "msweb", *NAMES), default=["sotu", "ap"]
    )
    parser.add_argument("--samplers", nargs="+", choices=SAMPLERS, default=list(SAMPLERS))
    parser.add_argument("--topics", type=int, default=30)
    parser.add_argument("--passes", type=int, default=3_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--peers", type=Path, default=SHARED / "peers")
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    parser.add_argument("--priors", nargs="+", metavar="ALPHA,BETA")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []

    def keep(**row: Any) -> None:
        rows.append(row)
        print(row, flush=True)
        if options.keep:
            kept.write(options.keep, rows, topics=options.topics, passes=options.passes)

    for name in options.corpora:
        train = training_counts(name, options.peers, options.data)
        job = train, options.topics, options.passes
        for prior in options.priors or ():
            alpha, beta = (
                part if part.startswith("learn") else float(part) for part in prior.split(",")
            )
            result = of_prior(*job, options.seeds, alpha, beta)
            keep(corpus=name, alpha=alpha, beta=beta, **result)
        if options.priors:
            continue
        for sampler in options.samplers:
            keep(
                corpus=name,
                sampler=sampler,
                **measure(partial(SAMPLERS[sampler], *job), options.seeds),
            )


if __name__ == "__main__":
    main()

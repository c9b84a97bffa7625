"""How LDA's chains mix: effective samples of the topics' token shares, per pass and per second.

    python benchmarks/lda_mixing.py [--corpora sotu ap] [--passes 3000] [--seeds 3] [--keep FILE]
    python benchmarks/lda_mixing.py --priors 0.1,0.05 0.5,0.2 learn,0.05 learn-asymmetric,learn
    python benchmarks/lda_mixing.py --gradient

Memoised SCIR with one update of the topics per pass, the default, and with two, four and eight;
with five sweeps per update; with documents that move all their tokens of a topic to another one,
see `relabelled`; and a sampler that integrates the topics out as well (tomotopy, `pip install
tomotopy`; one worker, since two make it approximate). Corpora, K, alpha and beta are the same;
shares are read after every pass, the first quarter is dropped, and the effective sample size is
that of `evaluate.diagnostics`.

With --priors, instead: one update per pass with other alpha and beta, or learned ones, and the
perplexity of 500 held-out documents, averaged over the second half of the run, whose samples are
counted.

With --gradient, what Hamiltonian moves of shares and topics would cost: the time of a gradient of
their log density, with labels summed out, against that of a pass.
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

from simplex_jax._src.base import Kernel
from simplex_jax._src.corpus import device
from simplex_jax._src.corpus.device import DeviceCorpus
from simplex_jax._src.evaluate.diagnostics import effective_size
from simplex_jax._src.models import lda
from simplex_jax._src.models.lda import model
from simplex_jax._src.models.lda.kernel import Memory
from simplex_jax._src.runtime.driver import run

ALPHA, BETA = 0.1, 0.05


def ours(
    train: sp.csr_array,
    topics: int,
    passes: int,
    seed: int,
    updates: int = 1,
    sweeps: int = 1,
    relabel: bool = False,
) -> np.ndarray:
    """Return the tokens of each topic after every pass, [passes, K]."""
    documents, shape = device.to_device(train), (topics, train.shape[1])
    size = -(-train.shape[0] // updates)
    kernel, stream = model.build(
        documents, shape, alpha=ALPHA, beta=BETA, sweeps=sweeps, batch_size=size
    )
    if relabel:
        kernel = Kernel(kernel.init, partial(_moved, kernel.update, documents))
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


def _moved(update: Callable, held: DeviceCorpus, key: jax.Array, state: Any, ids: Any) -> Any:
    key, key_move = jax.random.split(key)
    state, info = update(key, state, ids)
    labels = relabelled(key_move, state.position, held, state.sampler.memory.labels)
    counts = jnp.zeros(state.position.shape, jnp.int32).at[labels, held.tokens].add(1)
    return state._replace(sampler=state.sampler._replace(memory=Memory(labels, counts))), info


def relabelled(
    key: jax.Array, log_topics: jax.Array, held: DeviceCorpus, labels: jax.Array
) -> jax.Array:
    """Move the tokens of a topic in a document together to one that it lacks, or leave them.

    Given the topics, and with one alpha for all of them, the new topic has the probability of the
    tokens' words under it: a Gibbs step. A document's groups are visited in the order of their
    first tokens, which no such move changes; the order of their topics would be wrong.
    """
    topics, documents = log_topics.shape[0], device.size(held)
    sizes = jnp.diff(held.starts)
    document = jnp.repeat(jnp.arange(documents), sizes, total_repeat_length=labels.shape[0])
    groups = document * topics + labels.astype(jnp.int32)
    fit = jax.ops.segment_sum(log_topics.T[held.tokens], groups, documents * topics)
    fit = fit.reshape(documents, topics, topics)
    first = jax.ops.segment_min(jnp.arange(groups.size), groups, documents * topics)
    first = first.reshape(documents, topics)
    there = first < groups.size  # the largest integer if there is no token
    order = jnp.argsort(first, axis=1)
    numbers, rows = jnp.arange(topics), jnp.arange(documents)

    def move(i: jax.Array, loop: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        places, taken = loop
        group = order[:, i]
        free = ~taken | (numbers == group[:, None])
        scores = jnp.where(free, fit[rows, group], -jnp.inf)
        new = jax.random.categorical(jax.random.fold_in(key, i), scores)
        new = jnp.where(there[rows, group], new, group)
        taken = taken & (numbers != group[:, None])
        taken |= there[rows, group][:, None] & (numbers == new[:, None])
        return places.at[rows, group].set(new), taken

    start = jnp.tile(numbers, (documents, 1)), there
    places, _ = jax.lax.fori_loop(0, topics, move, start)
    return places[document, labels].astype(labels.dtype)


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
    "5 sweeps": partial(ours, sweeps=5),
    "relabelled": partial(ours, relabel=True),
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


def of_gradient(train: sp.csr_array, topics: int, passes: int) -> dict[str, float]:
    """Return the milliseconds of a gradient and of a pass, and their ratio."""
    entries = train.tocoo()
    documents, words, counts = map(jnp.asarray, (entries.row, entries.col, entries.data))

    @jax.jit
    @jax.grad
    def gradient(coordinates: tuple[jax.Array, jax.Array]) -> jax.Array:
        shares, weights = (jax.nn.softmax(leaf, axis=1) for leaf in coordinates)
        each = jnp.sum(shares[documents] * weights.T[words], axis=1)
        prior = ALPHA * jnp.log(shares).sum() + BETA * jnp.log(weights).sum()
        return counts @ jnp.log(each) + prior

    keys = jax.random.split(jax.random.key(0))
    shapes = (train.shape[0], topics), (topics, train.shape[1])
    now = tuple(jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=True))
    times = []
    for _ in range(21):
        begun = time.perf_counter()
        jax.block_until_ready(gradient(now))
        times.append(time.perf_counter() - begun)
    of_pass = lda.fit(train, topics, passes=passes, holdout=0, chains=1).metrics[-1]
    each, pass_ = 1e3 * float(np.median(times[1:])), 1e3 * of_pass["seconds"] / passes
    return {"ms a gradient": each, "ms a pass": pass_, "ratio": each / pass_}


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
    parser.add_argument("--gradient", action="store_true")
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
        if options.gradient:
            keep(corpus=name, **of_gradient(*job))
        if options.priors or options.gradient:
            continue
        for sampler in options.samplers:
            keep(
                corpus=name,
                sampler=sampler,
                **measure(partial(SAMPLERS[sampler], *job), options.seeds),
            )


if __name__ == "__main__":
    main()

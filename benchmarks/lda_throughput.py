"""Token-sweeps per second of memoised SCIR on LDA, with topic updates, on this device.

    python benchmarks/lda_throughput.py [--topics 100 1000] [--engine xla] [--tokens 20000000]

The corpus is synthetic, with the lengths and the Zipf law of real text, and stays on the device. A
pass draws every topic label once, in batches of the default size, and all topics once per batch.
Medians of several repeats; compilation is reported separately.

Each rate is also given as a share of two bounds set by memory. A fused sweep reads a row of K
float32 probabilities for each token and moves 8 bytes more, 4 K + 8; one that writes out an array
of tokens x K, and reads it twice, 12 K + 8. The bandwidth is the manufacturer's if known here,
otherwise measured by adding one to a large array.
"""

import argparse
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import kept
import numpy as np

from simplex_jax._src.corpus.device import DeviceCorpus, HostCorpus
from simplex_jax._src.models.lda import model as lda
from simplex_jax._src.models.topics.engine import ENGINES, resolve
from simplex_jax._src.runtime import devices

BANDWIDTH = {"H200": 4.8e12, "H100": 3.35e12, "A100": 2.0e12}  # bytes per second


def corpus_of(tokens: int, vocabulary: int) -> DeviceCorpus:
    rng = np.random.default_rng(0)
    lengths = np.sort(np.maximum(10, rng.lognormal(4.6, 0.8, tokens // 137)).astype(int))
    base = 1 / (np.arange(vocabulary) + 10.0)
    words = rng.choice(vocabulary, lengths.sum(), p=base / base.sum())
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return DeviceCorpus(
        jnp.asarray(words, jnp.int32),
        jnp.asarray(starts, jnp.int32),
        jnp.arange(len(lengths), dtype=jnp.int32),
    )


def bandwidth() -> tuple[float, str]:
    """Bytes per second to and from memory, and the source of the figure."""
    device = jax.devices()[0]
    for name, value in BANDWIDTH.items():
        if name in device.device_kind:
            return value, "nominal"
    add = jax.jit(lambda x: x + 1, donate_argnums=0)
    x, seconds = add(jnp.zeros(2**26, jnp.float32)), []
    for _ in range(9):
        started = time.perf_counter()
        x = jax.block_until_ready(add(x))
        seconds.append(time.perf_counter() - started)
    return 2 * x.nbytes / float(np.median(seconds)), "measured"


def one_epoch(update, stream, state, batches):
    """Run one pass over the corpus."""

    def body(_, state):
        key = jax.random.fold_in(jax.random.key(1), state.step)
        return update(key, state, stream(jax.random.key(2), state.step))[0]

    return jax.lax.fori_loop(0, batches, body, state)


def measure(corpus, topics, method, options):
    """Median token-sweeps per second with K topics, and the settings."""
    total, documents = corpus.tokens.shape[0], corpus.order.shape[0]
    shape = (topics, options.vocabulary)
    batch = lda.default_batch_size(documents, total, shape)
    if options.batch_tokens:
        batch = max(1, min(documents, documents * options.batch_tokens // total))
    batches = -(-documents // batch)
    shared = jax.devices()[: options.devices] if options.devices > 1 else None
    if shared:
        tokens, starts = np.asarray(corpus.tokens), np.asarray(corpus.starts)
        corpus = HostCorpus(
            np.diff(starts).astype(np.int64),
            lambda ids: np.concatenate([tokens[starts[i] : starts[i + 1]] for i in ids]),
        )
    kernel, stream = lda.build(
        corpus,
        shape,
        local=method,
        engine=options.engine,
        batch_size=batch,
        devices=shared,
    )
    state = kernel.init(jax.random.key(0), jnp.ones(shape))
    epoch = jax.jit(one_epoch, static_argnums=3, donate_argnums=2)
    started = time.perf_counter()
    compiled = epoch.lower(kernel.update, stream, state, batches).compile()
    compiling = time.perf_counter() - started
    seconds = []
    for _ in range(options.repeats):
        started = time.perf_counter()
        state = jax.block_until_ready(compiled(kernel.update, stream, state))
        seconds.append(time.perf_counter() - started)
    memory = jax.devices()[0].memory_stats() or {}
    return {
        "topics": topics,
        "method": method,
        "engine": "xla" if method == "blocked" else resolve(options.engine, topics),
        "batch_documents": batch,
        "updates_a_pass": batches,
        "token_sweeps_per_s": total / float(np.median(seconds)),
        "compile_seconds": compiling,
        "peak_bytes": memory.get("peak_bytes_in_use"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--topics", type=int, nargs="+", default=[100])
    parser.add_argument("--methods", nargs="+", default=["collapsed", "blocked"])
    parser.add_argument("--tokens", type=int, default=2_000_000)
    parser.add_argument("--vocabulary", type=int, default=7_702)
    parser.add_argument(
        "--batch-tokens", type=int, help="of a batch; the library's default if not given"
    )
    parser.add_argument("--devices", type=int, default=1, help="that share the documents")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--engine", choices=ENGINES, help="of collapsed sweeps")
    parser.add_argument("--keep", type=Path, help="a JSON file for the results")
    options = parser.parse_args()

    devices.use(options.devices)
    corpus = corpus_of(options.tokens, options.vocabulary)
    bytes_per_second, source = bandwidth()
    about = {"jax": jax.__version__, "device": jax.devices()[0].device_kind}
    about |= {"tokens": corpus.tokens.shape[0], "vocabulary": options.vocabulary}
    about |= {"bandwidth": bytes_per_second, "bandwidth_source": source}
    print(
        f"jax {about['jax']} on {about['device']}; {about['tokens']:,} tokens; "
        f"{bytes_per_second / 1e9:,.0f} GB/s ({source})"
    )
    rows = []
    for topics in options.topics:
        for method in options.methods:
            row = measure(corpus, topics, method, options)
            rate = row["token_sweeps_per_s"]
            row["share_fused"] = rate * (4 * topics + 8) / bytes_per_second
            row["share_unfused"] = rate * (12 * topics + 8) / bytes_per_second
            rows.append(row)
            print(
                f"K {topics:5d} {method:10s} {row['batch_documents']:7d} documents a batch, "
                f"{row['updates_a_pass']:4d} updates a pass: {rate / 1e6:9.2f} M token-sweeps/s, "
                f"{row['share_fused']:.1%} of the fused and {row['share_unfused']:.1%} of the "
                f"unfused bound; compiled in {row['compile_seconds']:.1f} s",
                flush=True,
            )
    if options.keep:
        kept.write(options.keep, rows, **about)


if __name__ == "__main__":
    main()

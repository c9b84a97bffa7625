"""Token-sweeps a second of memoised SCIR on LDA, topic updates included, on this device.

    python benchmarks/lda_throughput.py [--topics 100 1000] [--tokens 20000000] [--json FILE]

The corpus is synthetic, with the lengths and the Zipf law of real text, and stays on the device. A
pass draws every topic label of the corpus once, in batches of the default size, and all topics
once a batch. Medians of several repeats; compilation is reported apart.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from simplex_jax.corpus.device import DeviceCorpus
from simplex_jax.models import lda, lda_counts

VOCABULARY = 7_702


def corpus_of(tokens: int) -> DeviceCorpus:
    rng = np.random.default_rng(0)
    lengths = np.sort(np.maximum(10, rng.lognormal(4.6, 0.8, tokens // 137)).astype(int))
    base = 1 / (np.arange(VOCABULARY) + 10.0)
    words = rng.choice(VOCABULARY, lengths.sum(), p=base / base.sum())
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return DeviceCorpus(
        jnp.asarray(words, jnp.int32),
        jnp.asarray(starts, jnp.int32),
        jnp.arange(len(lengths), dtype=jnp.int32),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--topics", type=int, nargs="+", default=[100])
    parser.add_argument("--tokens", type=int, default=2_000_000)
    parser.add_argument("--batch-tokens", type=int)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    corpus = corpus_of(options.tokens)
    total, documents = corpus.tokens.shape[0], corpus.order.shape[0]
    print(f"jax {jax.__version__} on {jax.devices()[0].device_kind}; {total:,} tokens")
    rows = []
    for topics in options.topics:
        shape = (topics, VOCABULARY)
        wanted = options.batch_tokens or topics * VOCABULARY
        batch = max(1, min(documents, documents * wanted // total))
        for method in ("collapsed", "blocked"):
            kernel, stream = lda.build(
                corpus, shape, how=lda_counts.Local(method), batch_size=batch
            )
            state = kernel.init(jax.random.key(0), jnp.ones(shape))
            batches = -(-documents // batch)
            epoch = jax.jit(one_epoch, static_argnums=3, donate_argnums=2)
            started = time.perf_counter()
            compiled = epoch.lower(kernel.update, stream, state, batches).compile()
            compiling = time.perf_counter() - started
            seconds = []
            for _ in range(options.repeats):
                started = time.perf_counter()
                state = jax.block_until_ready(compiled(kernel.update, stream, state))
                seconds.append(time.perf_counter() - started)
            rate = total / np.median(seconds)
            rows.append(
                {"topics": topics, "local": method, "batch": batch, "token_sweeps_per_s": rate}
            )
            print(
                f"K {topics:5d} {method:10s} {batch:7d} documents a batch, {batches:4d} updates "
                f"a pass: {rate / 1e6:9.2f} M token-sweeps/s; compiled in {compiling:.1f} s",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps({"jax": jax.__version__, "rows": rows}, indent=1))


def one_epoch(update, stream, state, batches):
    """Do one pass over the corpus."""

    def body(_, state):
        key = jax.random.fold_in(jax.random.key(1), state.step)
        return update(key, state, stream(jax.random.key(2), state.step))[0]

    return jax.lax.fori_loop(0, batches, body, state)


if __name__ == "__main__":
    main()

"""What an update of LDA moves between devices: as predicted, and as the compiled program has it.

The documents stay where they are. An update adds up, over all devices, the changes of the counts:
one all-reduce of int32 [K, V]; one in each pass that learns alpha adds the tables of the topics and
the classes of documents in which logarithms are added up. A ring of n devices sends and receives
2 (n - 1) / n times that from each.

    JAX_NUM_CPU_DEVICES=4 python benchmarks/lda_traffic.py --topics 100 --words 10000

`--plan` also prints what an update and a pass take of a cluster, from the same formula.
"""

import argparse
import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from simplex_jax.corpus import device
from simplex_jax.models.lda import model as lda
from simplex_jax.models.lda.kernel import _CLASSES

_REDUCTION = re.compile(r"= \(?([^=]*?)\)? all-reduce(?:-start)?\(")
_ARRAY = re.compile(r"([a-z]\d+)\[([\d,]*)\]")


def predicted(topics: int, words: int, *, learn: bool) -> int:
    """Bytes of all reductions in the program of an update."""
    return 4 * topics * words + (4 * (topics + _CLASSES) if learn else 0)


def compiled(topics: int, words: int, *, learn: bool) -> int:
    """The same from the operations of the compiled program."""
    rng = np.random.default_rng(0)
    counts = sp.csr_array(rng.poisson(0.5, (64, words)).astype(np.int32))
    kernel, stream = lda.build(
        device.on_host(counts),
        (topics, words),
        batch_size=64,
        devices=jax.devices(),
        learn_alpha="vector" if learn else None,
    )
    state = kernel.init(jax.random.key(0), jnp.ones((topics, words)))
    batch = stream(jax.random.key(1), state.step)

    def update(key, state, batch):
        return kernel.update(key, state, batch)

    text = jax.jit(update).lower(jax.random.key(2), state, batch).compile().as_text()
    total = 0
    for shapes in _REDUCTION.findall(text):
        for kind, sizes in _ARRAY.findall(shapes):
            numbers = [int(size) for size in sizes.split(",") if size]
            total += int(kind[1:]) // 8 * int(np.prod(numbers))
    return total


def plan(options: argparse.Namespace) -> dict[str, float]:
    """What a pass costs on so many hosts, with updates after so many tokens."""
    hosts, updates = options.hosts, options.tokens / options.batch_tokens
    sent = 2 * (hosts - 1) / hosts * predicted(options.topics, options.words, learn=False)
    return {
        "tokens_a_host": options.tokens / hosts,
        # Tokens are int32; labels are uint16, before and after an update.
        "gigabytes_a_host": options.tokens / hosts * (4 + 2 * 2) / 1e9,
        "updates_a_pass": updates,
        "gigabytes_sent_an_update": sent / 1e9,
        "network_seconds_a_pass": updates * sent / options.network,
        "sweep_seconds_a_pass": options.tokens / hosts * options.nanoseconds * 1e-9 / options.cores,
    }


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--words", type=int, default=10_000)
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--tokens", type=float, default=1e12)
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--cores", type=int, default=64, help="of a host")
    parser.add_argument("--nanoseconds", type=float, default=130, help="a token and core")
    parser.add_argument("--network", type=float, default=12.5e9, help="bytes a second of a host")
    parser.add_argument("--batch-tokens", type=float, default=4e9)
    options = parser.parse_args()
    if options.plan:
        print(json.dumps(plan(options), indent=1))
        return
    for learn in (False, True):
        expected = predicted(options.topics, options.words, learn=learn)
        found = compiled(options.topics, options.words, learn=learn)
        record = {"devices": len(jax.devices()), "learn": learn, "predicted": expected}
        print(json.dumps(record | {"compiled": found}))


if __name__ == "__main__":
    main()

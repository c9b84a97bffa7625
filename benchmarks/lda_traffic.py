"""What an update of LDA moves between devices and needs on each, from its compiled program.

Documents stay where they are. In an update each of n devices gets its part of the summed changes of
the counts, an all-to-all of int32 [K, V], draws its part of the topics, and sends it to the
others, an all-gather of float32 [K, V]; K is rounded up to a multiple of n. Four figures per topic
are gathered as well. A pass that learns alpha all-reduces the tables of the topics and the classes
of documents in which logarithms are summed; one that learns beta gathers the counts. If devices do
not share the topics (`sharding.shared_topics`), an update is one all-reduce of int32 [K, V], and
what alpha needs. Bytes are those of the whole arrays. In a ring of n devices each sends and
receives (n - 1) / n times as many, and twice that for all-reduce.

    JAX_NUM_CPU_DEVICES=4 python benchmarks/lda_traffic.py --topics 100 --words 10000

`memory` is what the program needs on a device, by the compiler: the state before and after it, its
temporaries and a tiny corpus, in bytes for each of the K V numbers of the topics. `--plan` also
prints what an update and a pass cost a cluster, from the same formula.
"""

import argparse
import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus import device
from simplex_jax._src.models.lda import model as lda
from simplex_jax._src.models.lda import sharding
from simplex_jax._src.models.lda.kernel import _CLASSES

KINDS = ("all-to-all", "all-gather", "all-reduce")
_OPERATION = re.compile(r"= \(?([^=]*?)\)? (all-to-all|all-gather|all-reduce)(?:-start)?\(")
_ARRAY = re.compile(r"([a-z]\d+)\[([\d,]*)\]")


def predicted(topics: int, words: int, devices: int, *, learn: tuple[str, ...]) -> dict[str, int]:
    """Bytes of all collective operations of each kind in the program of an update."""
    reduced = 4 * (topics + _CLASSES) if "alpha" in learn else 0
    shared = sharding.shared_topics("scir", devices, topics)
    if shared is None:
        counts = 4 * topics * words
        return {"all-to-all": 0, "all-gather": 0, "all-reduce": counts + reduced}
    rows = shared.number * devices
    counts = 4 * rows * words
    return {
        "all-to-all": counts,
        "all-gather": counts + 4 * 4 * rows + (counts if "beta" in learn else 0),
        "all-reduce": reduced,
    }


def sent(traffic: dict[str, int], devices: int) -> float:
    """Bytes that a ring of devices sends from each."""
    once = sum(traffic.values()) + traffic["all-reduce"]
    return once * (devices - 1) / devices


def compiled(topics: int, words: int, *, learn: tuple[str, ...]) -> jax.stages.Compiled:
    """Return the program of an update, spread over all devices."""
    counts = sp.csr_array(sp.eye_array(64, words, dtype=np.int32))
    kernel, stream = lda.build(
        device.on_host(counts),
        (topics, words),
        batch_size=64,
        devices=jax.devices(),
        **dict.fromkeys(learn, "learn-asymmetric"),
    )
    state = kernel.init(jax.random.key(0), jnp.ones((topics, words)))
    batch = stream(jax.random.key(1), state.step)

    def update(key, state, batch):
        return kernel.update(key, state, batch)

    return jax.jit(update).lower(jax.random.key(2), state, batch).compile()


def moved(program: jax.stages.Compiled) -> dict[str, int]:
    """Return the same as `predicted`, from the operations of a program."""
    total = dict.fromkeys(KINDS, 0)
    for shapes, operation in _OPERATION.findall(program.as_text()):
        for kind, sizes in _ARRAY.findall(shapes):
            numbers = [int(size) for size in sizes.split(",") if size]
            total[operation] += int(kind[1:]) // 8 * int(np.prod(numbers))
    return total


def memory(program: jax.stages.Compiled) -> int:
    """Return the bytes that a program needs on a device."""
    analysis = program.memory_analysis()
    return (
        analysis.argument_size_in_bytes
        + analysis.output_size_in_bytes
        + analysis.temp_size_in_bytes
    )


def plan(options: argparse.Namespace) -> dict[str, float]:
    """The cost of a pass, by number of hosts and tokens per update."""
    hosts, updates = options.hosts, options.tokens / options.batch_tokens
    traffic = predicted(options.topics, options.words, hosts, learn=())
    leaving = sent(traffic, hosts)
    return {
        "tokens_a_host": options.tokens / hosts,
        # Tokens are int32; labels are uint16, before and after an update.
        "gigabytes_a_host": options.tokens / hosts * (4 + 2 * 2) / 1e9,
        "updates_a_pass": updates,
        "gigabytes_sent_an_update": leaving / 1e9,
        "network_seconds_a_pass": updates * leaving / options.network,
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
    devices = len(jax.devices())
    for learn in ((), ("alpha",), ("alpha", "beta")):
        expected = predicted(options.topics, options.words, devices, learn=learn)
        program = compiled(options.topics, options.words, learn=learn)
        record = {"devices": devices, "learn": learn, "predicted": expected}
        record |= {"compiled": moved(program), "sent": sent(moved(program), devices)}
        needed = memory(program) / (options.topics * options.words)
        print(json.dumps(record | {"memory": round(needed, 2)}))


if __name__ == "__main__":
    main()

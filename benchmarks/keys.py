"""Time of an update with keys split by XLA and by native code.

    python benchmarks/keys.py [--only sgld scir] [--keep benchmarks/results/keys.json]

Microseconds per update of each sampler, on the small problem of its tests, in a compiled loop: for
one chain and for many side by side. Both kinds of keys alternate and have the same words.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import compile_times
import jax
import jax.numpy as jnp
import kept
import numpy as np
from jax import lax

from simplex_jax._src import base
from simplex_jax._src.draws.keys import by_native_code

KEYS = {"xla": lambda key: key, "native": by_native_code}
UPDATES = {1: 50_000, 1_000: 2_000, 100_000: 50}


def loop_of(name: str, chains: int) -> Callable[[], Any]:
    """Return a compiled loop of updates, with its arguments."""
    update, (key, state, batch) = compile_times.UPDATES[name]()

    def filled(leaf: jax.ShapeDtypeStruct) -> jax.Array:
        value = 0.3 if jnp.issubdtype(leaf.dtype, jnp.floating) else 0
        return jnp.full(leaf.shape, value, leaf.dtype)

    batch = jax.tree.map(filled, batch)
    start = jax.tree.map(lambda leaf: jnp.broadcast_to(filled(leaf), (chains, *leaf.shape)), state)

    def advance(key: jax.Array, state: Any) -> Any:
        def body(i: jax.Array, state: Any) -> Any:
            keys = jax.random.split(jax.random.fold_in(key, i), chains)
            return jax.vmap(lambda key, state: update(key, state, batch)[0])(keys, state)

        return lax.fori_loop(0, UPDATES[chains], body, state)

    compiled = jax.jit(advance).lower(key, start).compile()
    return lambda: jax.block_until_ready(compiled(key, start))


def microseconds(loop: Callable[[], Any], chains: int) -> float:
    start = time.perf_counter()
    loop()
    return (time.perf_counter() - start) / UPDATES[chains] * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = list(compile_times.of_samplers())
    parser.add_argument("--only", nargs="+", default=["sgld", "sghmc", "scir", "mamla", "gmc"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    if unknown := set(given.only) - set(names):
        parser.error(f"--only: {', '.join(sorted(unknown))} is not one of {', '.join(names)}")
    rows = []
    for name in given.only:
        for chains in UPDATES:
            loops = {}
            for kind, keys in KEYS.items():
                base.by_native_code = keys  # what `base.freeze` gives to an update
                jax.clear_caches()
                loops[kind] = loop_of(name, chains)
                loops[kind]()
            times: dict[str, list[float]] = {kind: [] for kind in loops}
            for _ in range(given.repeats):
                for kind, loop in loops.items():
                    times[kind].append(microseconds(loop, chains))
            medians = {kind: round(float(np.median(each)), 2) for kind, each in times.items()}
            rows.append({"sampler": name, "chains": chains} | medians)
            print(json.dumps(rows[-1]), flush=True)
    if given.keep:
        kept.write(given.keep, rows)


if __name__ == "__main__":
    main()

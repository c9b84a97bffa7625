"""Time of an update of paths of probability vectors, and its effective samples of c and r.

    python benchmarks/dirichlet_paths.py [--paths K] [--times T] [--words V] [--tokens N]
        [--seconds S] [--keep FILE]

Counts are drawn from the model itself, a chain with c and r like those of topics in the State of
the Union by half-decades. "zero-heavy" has N tokens in all, so nearly all counts are 0; in "dense"
every category of every vector has 20 tokens in the mean. Each case runs with native code and with
XLA alone (SIMPLEX_JAX_NATIVE=0), in a process of its own, from a state at which the chain has
settled. `ns` is nanoseconds for each of the K T V coordinates: `wall` on all cores, `cpu` as
processor time of all threads; `load` is that of the machine, with this process. `effective` is the
median over paths of effective samples in 1,000 updates, where there were 200 or more.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import kept
import numpy as np

GAP = 5.0


def simulate(paths, times, words, tokens, seed):
    """Return counts [K, T, V] drawn from the model."""
    rng = np.random.default_rng(seed)

    def log_dirichlet(a):
        log_g = np.log(rng.gamma(a + 1)) + np.log(rng.random(a.shape)) / a
        top = log_g.max(axis=-1, keepdims=True)
        return log_g - top - np.log(np.exp(log_g - top).sum(axis=-1, keepdims=True))

    base = np.exp(log_dirichlet(np.full((paths, words), 0.05 if tokens else 1.0)))
    c = np.exp(rng.normal(np.log(300), 0.5, (paths, 1)))
    r = np.exp(rng.normal(np.log(0.03), 0.7, (paths, 1)))
    vectors = np.empty((paths, times, words))
    e, w = -np.expm1(-r * GAP), -1 / np.expm1(-2 * r * GAP)
    for t in range(times):
        mean = (1 - e) * vectors[:, t - 1] + e * base if t else base
        shapes = np.maximum(c * (w if t else 1) * mean, 1e-12)
        vectors[:, t] = np.exp(log_dirichlet(shapes))
    each = tokens // (paths * times) if tokens else 20 * words
    return rng.multinomial(each, vectors / vectors.sum(axis=-1, keepdims=True))


def measure(arguments):
    import jax
    import jax.numpy as jnp

    from simplex_jax._src.evaluate import diagnostics
    from simplex_jax.samplers import dirichlet_paths

    shape = arguments.paths, arguments.times, arguments.words
    counts = simulate(*shape, arguments.tokens, seed=0)
    beta = 0.05 if arguments.tokens else 1.0
    kernel = dirichlet_paths.build(beta, np.full(arguments.times, GAP))
    device_counts = jnp.asarray(counts, jnp.float32)
    update = jax.jit(kernel.update)
    state = kernel.init(jax.random.key(0), counts.sum(axis=1, keepdims=True) + np.full(shape, beta))
    keys = iter(jax.random.split(jax.random.key(1), 100_000))
    start = time.perf_counter()
    while time.perf_counter() - start < arguments.seconds:
        state, _ = jax.block_until_ready(update(next(keys), state, device_counts))
    rates, trace = [], []
    start = time.perf_counter()
    while time.perf_counter() - start < arguments.seconds or len(rates) < 5:
        wall, cpu = time.perf_counter(), time.process_time()
        state, info = jax.block_until_ready(update(next(keys), state, device_counts))
        rates.append((time.perf_counter() - wall, time.process_time() - cpu))
        trace.append((np.log(info.concentration), np.log(info.pace)))
    wall, cpu = 1e9 * np.median(rates, axis=0) / counts.size
    result = {
        "native": os.environ.get("SIMPLEX_JAX_NATIVE") != "0",
        "tokens": int(counts.sum()),
        "zeros": round(float((counts == 0).mean()), 3),
        "updates": len(rates),
        "load": round(os.getloadavg()[0], 1),
        "ms": round(wall * counts.size / 1e6, 2),
        "wall ns": round(wall, 2),
        "cpu ns": round(cpu, 2),
        "acceptance": round(float(info.acceptance.mean()), 2),
    }
    if len(rates) >= 200:
        for name, values in zip(("c", "r"), np.moveaxis(np.array(trace, float), 1, 0), strict=True):
            each = [diagnostics.effective_size(path) for path in values.T]
            result[f"effective {name}"] = round(float(np.median(each)) * 1000 / len(rates), 1)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--paths", type=int, default=30)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--words", type=int, default=3500)
    parser.add_argument("--tokens", type=int, default=206_000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measure(arguments)))
        return
    rows = []
    for tokens in (arguments.tokens, 0):
        for native in ("1", "0"):
            environment = os.environ | {"SIMPLEX_JAX_NATIVE": native}
            child = [sys.executable, *sys.argv, "--child", "--tokens", str(tokens)]
            out = subprocess.run(child, env=environment, stdout=subprocess.PIPE, check=True).stdout
            rows.append(json.loads(out))
            print(rows[-1], flush=True)
    if arguments.keep:
        kept.write(arguments.keep, rows)


if __name__ == "__main__":
    main()

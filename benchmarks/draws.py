"""Speed of the draws against the alternatives, in one run on one mix of arguments.

    python benchmarks/draws.py [--data FOLDER] [--repeats N] [--keep FILE]

The mix is that of SCIR on a fitted LDA (K = 100, V = 7,702): log theta of every topic and word, the
shapes beta + counts, and steps of the published schedule, one per topic. It is fitted here, in a
few passes, on the Wikipedia corpus of ../shared/data (or --data), otherwise on documents drawn from
an LDA of that size.

Candidates alternate in every repeat, and medians are compared, so that load on the machine affects
all alike. `wall` uses all cores, `cpu` is processor time of all threads; NumPy runs on one core,
and on two as two threads with a generator each. The floor is the cost of the random words and the
passes over memory alone: four words a draw, two numbers read and one written.

All JAX candidates are parts of compiled programs, as in a sampler, where values are not checked,
except "cir, called by itself".
"""

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import kept
import numpy as np
import scipy.sparse as sp

from simplex_jax._src import corpus, draws, schedules
from simplex_jax._src.draws.bits import random_words
from simplex_jax._src.models import lda

TOPICS, WORDS, BETA = 100, 7_702, 0.05


def fitted_mix(data: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, str]:
    """Return log theta [K, V], shapes [K, V] and steps [K, 1] of a fitted LDA."""
    path = data / "wikipedia" / "docword.wikipedia.train.txt.gz"
    if path.exists():
        counts, name = corpus.read(path).counts[:20_000], "20,000 Wikipedia articles"
    else:
        counts, name = synthetic(), "synthetic documents"
    fit = lda.fit(counts, TOPICS, passes=20, beta=BETA)
    shapes = np.asarray(fit.state.sampler.memory.counts) + BETA
    totals = np.log(np.random.default_rng(0).gamma(shapes.sum(axis=1, keepdims=True)))
    steps = schedules.polynomial_decay(0.5, tau=10, kappa=0.33)(10 * np.arange(TOPICS))
    return np.asarray(fit.state.position) + totals, shapes, np.asarray(steps)[:, None], name


def synthetic() -> sp.csr_array:
    rng = np.random.default_rng(0)
    base = 1 / (np.arange(WORDS) + 50.0)
    phi = rng.dirichlet(300 * base / base.sum() + 1e-3, TOPICS)
    theta = rng.dirichlet(np.full(TOPICS, 0.1), 20_000)
    return sp.csr_array(np.stack([rng.multinomial(137, row @ phi) for row in theta]))


def candidates(log_theta: np.ndarray, shapes: np.ndarray, steps: np.ndarray) -> dict:
    """Return name -> (function of a seed, number of draws)."""
    size = log_theta.size
    lt, a, h = (jnp.asarray(x, jnp.float32) for x in (log_theta, shapes, steps))
    rate = jnp.exp(lt) / jnp.expm1(h)
    np_df = np.broadcast_to(2 * shapes, log_theta.shape).ravel()
    np_nc = 2 * np.asarray(rate, np.float64).ravel()
    generators = [np.random.default_rng(seed) for seed in (0, 1)]
    halves = [slice(0, size // 2), slice(size // 2, size)]
    pool = ThreadPoolExecutor(2)

    @jax.jit
    def jax_cir(key):
        key_n, key_g = jax.random.split(key)
        n = jax.random.poisson(key_n, rate).astype(jnp.float32)
        return jnp.log(-jnp.expm1(-h)) + jax.random.loggamma(key_g, a + n)

    @jax.jit
    def approximate(key):
        key_n, key_g = jax.random.split(key)
        n = jax.random.poisson(key_n, rate, method="approximate").astype(jnp.float32)
        return jnp.log(-jnp.expm1(-h)) + jnp.log(
            jax.random.gamma(key_g, a + n, method="approximate")
        )

    @jax.jit
    def floor(key):
        key_a, key_b = jax.random.split(key)
        words = random_words(key_a, size, jnp.float32) + random_words(key_b, size, jnp.float32)
        return lt.ravel() + a.ravel() * (words[0] ^ words[1] ^ words[2] ^ words[3])

    threefry, rbg = jax.random.key, lambda seed: jax.random.key(seed, impl="rbg")
    cir = jax.jit(lambda key: draws.cir(key, lt, a, h))
    loggamma = jax.jit(lambda key: draws.loggamma(key, a))
    poisson = jax.jit(lambda key: draws.poisson(key, rate))
    log_dirichlet = jax.jit(lambda key: draws.log_dirichlet(key, a))
    jax_loggamma = jax.jit(lambda key: jax.random.loggamma(key, a))
    jax_poisson = jax.jit(lambda key: jax.random.poisson(key, rate))
    result = {
        "cir": lambda seed: cir(threefry(seed)),
        "cir, rbg key": lambda seed: cir(rbg(seed)),
        "cir, called by itself": lambda seed: draws.cir(threefry(seed), lt, a, h),
        "loggamma": lambda seed: loggamma(threefry(seed)),
        "poisson": lambda seed: poisson(threefry(seed)),
        "log_dirichlet": lambda seed: log_dirichlet(threefry(seed)),
        "floor": lambda seed: floor(threefry(seed)),
        "jax poisson + loggamma": lambda seed: jax_cir(threefry(seed)),
        "jax loggamma": lambda seed: jax_loggamma(threefry(seed)),
        "jax poisson": lambda seed: jax_poisson(threefry(seed)),
        "numpy noncentral_chisquare": lambda seed: generators[0].noncentral_chisquare(np_df, np_nc),
        "numpy, two threads": lambda seed: list(
            pool.map(
                lambda i: generators[i].noncentral_chisquare(np_df[halves[i]], np_nc[halves[i]]),
                (0, 1),
            )
        ),
    }
    try:
        jax.eval_shape(approximate, threefry(0))
        result["jax approximate (not exact)"] = lambda seed: approximate(threefry(seed))
    except TypeError:
        pass  # jax before 0.12 has no approximate methods
    return result


def measure(functions: dict, size: int, repeats: int) -> dict[str, dict[str, float]]:
    first = {}
    for name, function in functions.items():
        started = time.perf_counter()
        jax.block_until_ready(function(0))
        first[name] = time.perf_counter() - started
    times: dict[str, list] = {name: [] for name in functions}
    for repeat in range(repeats):
        for name, function in functions.items():
            cpu, wall = time.process_time(), time.perf_counter()
            jax.block_until_ready(function(repeat + 1))
            times[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    table = {}
    for name, pairs in times.items():
        wall, cpu = np.median(np.array(pairs), axis=0) / size * 1e9
        table[name] = {"wall_ns": wall, "cpu_ns": cpu, "first_call_s": first[name]}
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = os.environ.get("SIMPLEX_JAX_DATA", Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--data", type=Path, default=Path(default))
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--keep", type=Path, help="a JSON file for the results")
    options = parser.parse_args()

    log_theta, shapes, steps, name = fitted_mix(options.data)
    print(f"jax {jax.__version__} on {jax.devices()[0].device_kind}, {os.cpu_count()} cores")
    rates = np.exp(log_theta) / np.expm1(steps)
    print(
        f"{log_theta.size:,} draws; fitted on {name}; {(shapes < 1).mean():.0%} of shapes below 1; "
        f"rates: median {np.median(rates):.2g}, largest {rates.max():.2g}"
    )
    table = measure(candidates(log_theta, shapes, steps), log_theta.size, options.repeats)
    own = table["cir"]
    print(f"{'ns per draw, median':<30}{'wall':>9}{'cpu':>9}{'wall / cir':>12}{'first call s':>14}")
    for label, row in table.items():
        print(
            f"{label:<30}{row['wall_ns']:9.2f}{row['cpu_ns']:9.2f}"
            f"{row['wall_ns'] / own['wall_ns']:12.2f}{row['first_call_s']:14.2f}"
        )
    if options.keep:
        rows = [{"draw": label} | row for label, row in table.items()]
        kept.write(options.keep, rows, device=jax.devices()[0].device_kind, mix=name)


if __name__ == "__main__":
    main()

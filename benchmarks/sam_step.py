"""A step of the spherical admixture model against the same step as a plain NumPy loop.

    python benchmarks/sam_step.py [--topics 50] [--words 3000] [--batch 100] [--keep FILE]

One update of "sggmc" on synthetic sparse unit vectors, with proportions by independence Metropolis,
and the same update as a loop over the documents of the batch: proportions by Newton's method and
the same number of proposals, gradient, its variance, and the move of the topics.
"""

import argparse
import statistics
import time
from pathlib import Path

import jax
import kept
import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_solve, cholesky, solve_triangular

from simplex_jax._src.base import as_pytree
from simplex_jax._src.models.sam import joint, model
from simplex_jax._src.models.sam.local import Local

ALPHA, SIGMA, KAPPA0, KAPPA1, STEPS, FREEDOM = 10.0, 6e3, 6e3, 2e4, 5, 30.0


def vectors(documents: int, words: int, seed: int) -> sp.csr_array:
    """Sparse unit vectors with about 85 nonzeros, like Wikipedia's."""
    rng = np.random.default_rng(seed)
    frequency = 1 / (np.arange(words) + 50)
    frequency /= frequency.sum()
    rows = []
    for length in rng.poisson(85, documents) + 1:
        places = rng.choice(words, length, replace=False, p=frequency)
        values = rng.gamma(2.0, size=length) - 0.2
        rows.append((places, values / np.linalg.norm(values)))
    indptr = np.concatenate([[0], np.cumsum([len(places) for places, _ in rows])])
    flat = [np.concatenate(part) for part in zip(*rows, strict=True)]
    return sp.csr_array((flat[1], flat[0], indptr), shape=(documents, words))


def proportions(rng: np.random.Generator, c: np.ndarray, gram: np.ndarray) -> np.ndarray:
    """One document: Newton's method for the mode, then independence Metropolis."""
    k = c.size
    ones = np.full((k, k), 1 / k)

    def value(y):
        log_theta = y - y.max()
        log_theta = log_theta - np.log(np.exp(log_theta).sum())
        theta = np.exp(log_theta)
        return KAPPA1 * theta @ c / np.sqrt(theta @ gram @ theta) + ALPHA * log_theta.sum()

    def slopes(y):
        theta = np.exp(y - y.max())
        theta /= theta.sum()
        turned = gram @ theta
        squares = turned @ theta
        scale = KAPPA1 / np.sqrt(squares)
        height = theta @ c * scale
        u, w = theta * c * scale, theta * turned / squares
        along = u - height * w
        curved = np.outer(u, w) + np.outer(w, u) - 3 * height * np.outer(w, w)
        curved += height / squares * np.outer(theta, theta) * gram
        curved += np.diag(k * ALPHA * theta - along) - k * ALPHA * np.outer(theta, theta)
        return along + ALPHA * (1 - k * theta), curved

    y, damping = np.zeros(k), 8 * ALPHA
    best = value(y)
    for _ in range(30):
        gradient, curved = slopes(y)
        try:
            factor = cholesky(curved + ones + damping * np.eye(k), lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            damping *= 8
            continue
        step = cho_solve((factor, True), gradient, check_finite=False)
        step -= step.mean()
        longest = np.abs(step).max()
        step *= min(1, 3 / longest)
        new = value(y + step)
        if new < best:
            damping *= 8
            continue
        y, best, done = y + step, new, longest < 1e-3 and damping <= ALPHA
        damping /= 8
        if done:
            break
    factor = cholesky(slopes(y)[1] + ones, lower=True, check_finite=False)
    at, weight = None, -np.inf
    for _ in range(STEPS + 1):
        spread = solve_triangular(factor, rng.normal(size=k), lower=True, trans=1)
        spread = (spread - spread.mean()) * np.sqrt(FREEDOM / rng.chisquare(FREEDOM))
        distance = np.sum((factor.T @ spread) ** 2)
        new = value(y + spread) + (FREEDOM + k - 1) / 2 * np.log1p(distance / FREEDOM)
        if at is None or np.log(rng.random()) < new - weight:
            at, weight = y + spread, new
    theta = np.exp(at - at.max())
    return theta / theta.sum()


def numpy_step(rng, table, ids, topics, velocity, mean, h, friction) -> tuple:
    """One update, a document at a time."""
    k, v = topics.shape
    scale = table.shape[0] / ids.size
    gram = topics @ topics.T
    drawn = []
    for d in ids:
        row = slice(table.indptr[d], table.indptr[d + 1])
        words, values = table.indices[row], table.data[row]
        drawn.append((words, values, proportions(rng, topics[:, words] @ values, gram)))
    topics, velocity = flow(topics, velocity, h / 2)
    velocity = velocity * np.exp(-friction * h / 2)
    gradient, square = np.zeros((k, v)), np.zeros((k, v))
    for words, values, theta in drawn:
        b = theta @ topics
        length = np.linalg.norm(b)
        across = -(b[words] @ values / length**2) * b
        across[words] += values
        one = np.outer(KAPPA1 / length * theta, across)
        gradient += one
        square += one**2
    each = (square - gradient**2 / ids.size) / (ids.size - 1)
    variance = scale * (table.shape[0] - ids.size) * each
    centre = KAPPA0 * mean + SIGMA * topics.sum(0)
    length = np.linalg.norm(centre)
    ratio = v / length
    prior = SIGMA * (np.sqrt(ratio**2 + 4) - ratio) / 2 * centre / length
    noise = np.maximum(2 * friction - h * np.minimum(variance, 1.8 * friction / h), 0)
    push = h * (prior + scale * gradient) + np.sqrt(h * noise) * rng.normal(size=(k, v))
    velocity = velocity + push - topics * np.sum(topics * push, axis=1, keepdims=True)
    velocity = velocity * np.exp(-friction * h / 2)
    return flow(topics, velocity, h / 2)


def flow(x: np.ndarray, v: np.ndarray, t: float) -> tuple[np.ndarray, np.ndarray]:
    """Great circles."""
    speed = np.linalg.norm(v, axis=1, keepdims=True)
    return (
        x * np.cos(speed * t) + v / speed * np.sin(speed * t),
        v * np.cos(speed * t) - x * speed * np.sin(speed * t),
    )


def main() -> None:
    """Print milliseconds per step of both, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    for name, default in (("topics", 50), ("words", 3000), ("batch", 100), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--documents", type=int, default=5000)
    parser.add_argument("--updates", type=int, default=20, help="updates of a compiled program")
    parser.add_argument("--keep", type=Path, help="a JSON file for the results")
    options = parser.parse_args()
    table = vectors(options.documents, options.words, 0)
    documents = joint.to_device(table)
    mean = joint.mean_direction(table)
    hyper = joint.hyperparameters(mean, alpha=ALPHA, sigma=SIGMA, kappa0=KAPPA0, kappa1=KAPPA1)
    kernel, stream = model.build(
        documents,
        (options.topics, options.words),
        hyper=hyper,
        sampler="sggmc",
        batch_size=options.batch,
        local_step=Local(method="laplace", burn_in=STEPS - 1),
    )
    state = kernel.init(jax.random.key(0), model.start(jax.random.key(1), hyper, options.topics))

    @jax.jit
    def updates(kernel, stream, state, key):
        def update(i, state):
            return kernel.update(jax.random.fold_in(key, i), state, stream(key, state.step))[0]

        return jax.lax.fori_loop(0, options.updates, update, state)

    arrays = as_pytree(kernel), as_pytree(stream)
    began = time.perf_counter()
    state = jax.block_until_ready(updates(*arrays, state, jax.random.key(2)))
    first = time.perf_counter() - began
    print(f"first call, with compilation: {first:.1f} s")
    rng = np.random.default_rng(0)
    shape = (options.topics, options.words)
    defaults = model.default_settings("sggmc", options.documents, shape, hyper, options.batch)
    step_size, friction = float(defaults.step_size), float(defaults.friction)
    topics, centre = np.asarray(state.position, np.float64), np.asarray(mean, np.float64)
    velocity = np.asarray(state.sampler.velocity, np.float64)
    ours, theirs = [], []
    for repeat in range(options.repeats):
        began = time.perf_counter()
        state = jax.block_until_ready(updates(*arrays, state, jax.random.key(3 + repeat)))
        ours.append((time.perf_counter() - began) / options.updates)
        ids = rng.choice(options.documents, options.batch, replace=False)
        began = time.perf_counter()
        topics, velocity = numpy_step(
            rng, table, ids, topics, velocity, centre, step_size, friction
        )
        theirs.append(time.perf_counter() - began)
    fast, slow = statistics.median(ours), statistics.median(theirs)
    print(f"simplex_jax {1e3 * fast:.1f} ms, NumPy loop {1e3 * slow:.1f} ms")
    print(f"ratio {slow / fast:.1f}")
    if options.keep:
        row = {"topics": options.topics, "words": options.words, "batch": options.batch}
        row |= {"simplex_jax_ms": 1e3 * fast, "numpy_ms": 1e3 * slow, "first_call_s": first}
        kept.write(options.keep, [row], device=jax.devices()[0].device_kind)
    dimension = options.topics * (options.words - 1)
    print(f"kinetic energy of the loop's chain: {np.sum(velocity**2) / dimension:.2f}")


if __name__ == "__main__":
    main()

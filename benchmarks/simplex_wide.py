"""Effective samples on a simplex of 10,000 coordinates: our kernels, NUTS, MCLMC and Dikin walks.

    python benchmarks/simplex_wide.py [--sizes 100 10000] [--seconds 10] [--only TEXT] [--keep FILE]

Posteriors with the density of prod_i x_i^(a_i - 1) exp(-c_i x_i), in a random order of coordinates:

- uniform: a = 1, c = 0, that of github.com/ethz-randomwalk/polytopewalk/issues/24;
- linear: a = 1, and c from K / 100 to 100 K, geometrically;
- sparse: the prior Dirichlet(0.1) and K / 10 events in categories with Zipf's frequencies, most of
  which have none.

Watched are the logarithm of the coordinates with the smallest, the median and the largest mean, the
mean of all logarithms, and two linear functionals. Their exact means and deviations (`moments`)
judge each chain: "off" is the largest error of a mean, in exact deviations, and "z" the same in
standard errors.

Every run is a process of its own on one core, as many at a time as there are cores, so that times
are processor times without compilation. A run tunes itself and warms up for at least half of
`--seconds`, and is given up after `--patience`; then it samples for `--seconds`. Effective sample
sizes, bulk and tail (Vehtari et al. 2021), are of the worst quantity, R-hat of the halves of the
chain. polytopewalk has no densities but the uniform one. Samplers that are not installed are left
out: `pip install blackjax polytopewalk`.
"""

import argparse
import functools
import importlib.util
import json
import os
import queue
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import kept
import numpy as np
import numpyro
import numpyro.distributions as dist
import scipy.sparse as sp
from jax.typing import ArrayLike
from numpyro.infer import NUTS
from numpyro.infer.util import initialize_model
from numpyro_coordinates import COORDINATES, in_coordinates
from scipy import optimize, special

from simplex_jax._src import batches, draws, estimators, step_sizes
from simplex_jax._src.base import Kernel
from simplex_jax._src.evaluate.diagnostics import effective_size, summary
from simplex_jax._src.geometry import manifolds, mirror
from simplex_jax._src.geometry.metrics import hessian_metric
from simplex_jax._src.numpyro.distributions import LogDirichlet
from simplex_jax._src.numpyro.reference import learn_reference
from simplex_jax._src.numpyro.scir import SCIR
from simplex_jax._src.samplers import barker, gmc, mamla, mapla, scir

TUNING = 500  # steps in which a kernel's step size is adapted, or NUTS's with its mass matrix
LONGEST_TUNING = 10_000  # MCLMC spends a third of them


class Target(NamedTuple):
    """A posterior on the simplex, all arrays [K]: a is the prior's plus the counts."""

    prior: np.ndarray
    counts: np.ndarray
    slope: np.ndarray  # c

    @property
    def shape(self) -> np.ndarray:
        """The exponents a, [K]."""
        return self.prior + self.counts


def targets(size: int) -> dict[str, Target]:
    rng = np.random.default_rng(0)
    ones, zeros = np.ones(size), np.zeros(size)
    frequencies = rng.permutation(1 / np.arange(1, size + 1))
    counts = rng.multinomial(size // 10, frequencies / frequencies.sum()).astype(float)
    return {
        "uniform": Target(ones, zeros, zeros),
        "linear": Target(ones, zeros, rng.permutation(size * np.geomspace(0.01, 100, size))),
        "sparse": Target(0.1 * ones, counts, zeros),
    }


def log_density(target: Target, log_p: jax.Array) -> jax.Array:
    """Return the log density of probabilities, given their logarithms, up to a constant."""
    return jnp.sum((target.shape - 1) * log_p - target.slope * jnp.exp(log_p))


class Statistics(NamedTuple):
    """Weights of probabilities and of their logarithms in the watched quantities."""

    linear: np.ndarray  # [2, K]
    logs: np.ndarray  # [4, K]

    def of(self, log_p: ArrayLike) -> jax.Array:
        """Return the quantities of log-probabilities [..., K]."""
        log_p = jnp.asarray(log_p)
        pairs = ((jnp.exp(log_p), self.linear), (log_p, self.logs))
        parts = [
            jnp.einsum("...k,sk->...s", x, weights, precision="highest") for x, weights in pairs
        ]
        return jnp.concatenate(parts, axis=-1)


def statistics(target: Target) -> Statistics:
    size = target.prior.size
    means = target.shape / (target.slope + _tilt(target))
    places = np.argsort(means, kind="stable")[[0, size // 2, -1]]
    trend = np.linspace(-1, 1, size)
    half = (np.arange(size) < size // 2).astype(float)
    return Statistics(
        np.stack([trend, half]), np.vstack([np.eye(size)[places], np.ones(size) / size])
    )


def _tilt(target: Target) -> float:
    """Return the s for which independent gamma variates of rates c + s have the mean sum 1."""
    shape, slope = target.shape, target.slope
    total = shape.sum()
    low, high = -slope.min() + 1e-9 * total, total * (1 + 1e-9)
    return optimize.brentq(lambda s: (shape / (slope + s)).sum() - 1, low, high)


def moments(target: Target, watched: Statistics) -> tuple[np.ndarray, np.ndarray]:
    """Return the exact means and standard deviations of the quantities.

    The posterior is that of independent gamma variates of shapes a and rates r = c + s given that
    their sum S is 1, for every s. So the mean of a quantity q is the integral of E[q e^(it S)]
    e^(-it) over t, divided by that without q. With p = 1 / (r - it) the expectations are products
    of the characteristic function with moments of gamma variates of the complex rates r - it. The
    integrands are analytic and decay fast, so the trapezoid rule is exact to rounding.
    """
    a, tilt = target.shape, _tilt(target)
    rates = target.slope + tilt
    width = 1 / np.sqrt((a / rates**2).sum())

    def log_transform(t: float) -> complex:
        return -(a * np.log1p(-1j * t / rates)).sum() - 1j * t

    reach = 8 * width
    while log_transform(reach).real > -40:
        reach *= 1.5

    def inner(t: float) -> np.ndarray:
        p = 1 / (rates - 1j * t)
        return np.concatenate(
            [watched.linear @ (a * p), watched.logs @ (special.digamma(a) + np.log(p))]
        )

    centre = inner(0.0).real
    constant = watched.logs**2 @ special.polygamma(1, a)
    sums = np.zeros((3, len(centre)))
    for t in np.arange(-reach, reach, width / 20):
        transform, first = np.exp(log_transform(t)), inner(t) - centre
        linear = watched.linear**2 @ (a / (rates - 1j * t) ** 2)
        second = first**2 + np.concatenate([linear, constant])
        sums += (transform * np.stack([np.ones_like(first), first, second])).real
    mean, square = sums[1:] / sums[0]
    return centre + mean, np.sqrt(square - mean**2)


class Sampler(NamedTuple):
    """A chain: its state, a step to (state, log-probabilities, gradients), and steps to warm up."""

    state: Any
    step: Callable[[Any], tuple[Any, jax.Array, ArrayLike]]
    warmup: int = 0
    chunk: int = 200


def of_kernel(
    kernel: Kernel, start: jax.Array, to_log: Callable, gradients: int, batch: Any = None
) -> Sampler:
    """Return a chain of one of our kernels."""

    def step(carry: tuple) -> tuple:
        key, inner = jax.random.split(carry[0])
        state, _ = kernel.update(inner, carry[1], batch)
        return (key, state), to_log(state.position), gradients

    return Sampler((jax.random.key(1), kernel.init(jax.random.key(0), start)), step)


def tuned(build: Callable, start: jax.Array, to_log: Callable, gradients: int, **aim) -> Sampler:
    """Return a chain of a kernel whose step size has a target acceptance."""
    state = build(aim["initial"]).init(jax.random.key(0), start)
    h = step_sizes.adapt(jax.random.key(2), build, state, batches.none, num_steps=TUNING, **aim)
    return of_kernel(build(h), start, to_log, gradients)


def by_scir(target: Target) -> Sampler:
    kernel = scir.build(estimators.multinomial(1), target.prior, step_size=10.0)
    start = jnp.ones(target.prior.size)
    return of_kernel(kernel, start, lambda y: y, 0, jnp.asarray(target.counts)[None])


def by_rejection(target: Target) -> Sampler:
    """Return independent draws, as the likelihood is linear, with no gradient and nothing to tune.

    Gamma variates of rates r = c + s, divided by their sum, have a density proportional to prod_i
    x_i^(a_i - 1) / L^A, with L = r.x and A the sum of a, so that the posterior's is proportional to
    L^A exp(-L) times theirs, which is largest at L = A. L is within some standard deviations,
    root A, of it, so that the share accepted does not fall with the number of coordinates.
    """
    a, total = jnp.asarray(target.shape, jnp.float32), float(target.shape.sum())
    rates = jnp.asarray(target.slope + _tilt(target), jnp.float32)

    def propose(carry: tuple) -> tuple:
        key, inner, key_accept = jax.random.split(carry[0], 3)
        log_p = jax.nn.log_softmax(draws.loggamma(inner, a) - jnp.log(rates))
        excess = (rates @ jnp.exp(log_p)) / total - 1
        log_ratio = total * (jnp.log1p(excess) - excess)
        return key, log_p, -jax.random.exponential(key_accept) < log_ratio

    def step(state: tuple) -> tuple:
        state = jax.lax.while_loop(lambda carry: ~carry[2], propose, (*state[:2], False))
        return state, state[1], 0

    return Sampler((jax.random.key(1), jnp.zeros(a.shape), True), step)


def start_of(target: Target) -> jax.Array:
    """Return logarithms of gamma variates whose shares are a draw for a slope of 0."""
    return draws.loggamma(jax.random.key(5), jnp.asarray(target.shape, jnp.float32))


def by_gmc(target: Target, steps: int = 20) -> Sampler:
    def on_sphere(root: jax.Array) -> jax.Array:
        return log_density(target, 2 * jnp.log(root)) + jnp.log(root).sum()

    size = target.prior.size
    return tuned(
        lambda h: gmc.build(on_sphere, manifolds.simplex_sphere(), h, num_steps=steps),
        jnp.exp(jax.nn.log_softmax(start_of(target)) / 2),
        lambda root: 2 * jnp.log(root),
        steps + 1,
        target=0.8,
        initial=0.1 * size**-0.5,
    )


def by_mamla(target: Target) -> Sampler:
    size = target.prior.size
    largest = int(np.argmax(target.shape / (target.slope + _tilt(target))))
    entropic = mirror.simplex(largest)
    return tuned(
        lambda h: mamla.build(lambda x: log_density(target, jnp.log(x)), entropic, h),
        jax.nn.softmax(start_of(target)),
        jnp.log,
        2,
        target=0.574,
        initial=0.1 / size,
    )


def by_mapla(target: Target) -> Sampler:
    """In Dikin's metric, with the last coordinate left out."""

    def full(x: jax.Array) -> jax.Array:
        return jnp.append(x, 1 - x.sum())

    def of_rest(x: jax.Array) -> jax.Array:
        p = full(x)
        inside = (p > 0).all()
        return jnp.where(inside, log_density(target, jnp.log(jnp.where(inside, p, 1))), -jnp.inf)

    metric = hessian_metric(lambda x: -jnp.log(full(x)).sum())
    return tuned(
        lambda h: mapla.build(of_rest, metric, h),
        jax.nn.softmax(start_of(target))[:-1],
        lambda x: jnp.log(full(x)),
        2,
        target=0.574,
        initial=0.01,
    )


def by_barker(target: Target) -> Sampler:
    """On logarithms of gamma variates, scaled by their deviations without the slope."""
    a = target.shape

    def of_gammas(u: jax.Array) -> jax.Array:
        return jnp.sum(a * u - jnp.exp(u) - target.slope * jax.nn.softmax(u))

    scales = special.polygamma(1, a)
    return tuned(
        lambda h: barker.build(of_gammas, h, preconditioner=scales),
        start_of(target),
        jax.nn.log_softmax,
        2,
        target=0.5,
        initial=a.size ** (-1 / 3),
    )


def model_of(target: Target, logs: bool = True) -> Callable[[], None]:
    """Return a target as a numpyro model, of log-probabilities or of probabilities."""
    prior, counts, slope = (jnp.asarray(x, jnp.float32) for x in target)

    def model() -> None:
        # In float32 sums of so many probabilities miss 1 by more than numpyro's checks allow.
        law = LogDirichlet(prior) if logs else dist.Dirichlet(prior, validate_args=False)
        p = numpyro.sample("p", law)
        log_p, p = (p, jnp.exp(p)) if logs else (jnp.log(p), p)
        if target.counts.any():
            seen = {"logits": log_p} if logs else {"probs": p}
            number = int(target.counts.sum())
            seen_of = dist.Multinomial(number, validate_args=False, **seen)
            numpyro.sample("counts", seen_of, obs=counts)
        if target.slope.any():
            numpyro.factor("slope", -jnp.sum(slope * p))

    return model


def of_numpyro(kernel: Any, logs: bool = True) -> Sampler:
    """Return a chain of a kernel of numpyro, or of ours for it."""
    start = kernel.init(jax.random.key(0), TUNING, None, (), {})
    constrain = kernel.postprocess_fn((), {})

    def step(state: Any) -> tuple:
        state = kernel.sample(state, (), {})
        p = constrain(getattr(state, kernel.sample_field))["p"]
        return state, p if logs else log_of(p), getattr(state, "num_steps", 1)

    return Sampler(start, step, TUNING, 10 if isinstance(kernel, NUTS) else 200)


def log_of(p: jax.Array) -> jax.Array:
    return jnp.log(jnp.maximum(p, jnp.finfo(p.dtype).tiny))


def in_scores(target: Target) -> Sampler:
    config = learn_reference(jax.random.key(1), model_of(target))
    return of_numpyro(NUTS(numpyro.handlers.reparam(model_of(target), config=config)))


def nuts(target: Target, coordinates: str) -> Sampler:
    return of_numpyro(NUTS(in_coordinates(model_of(target), COORDINATES[coordinates])))


def mclmc(target: Target, coordinates: str) -> Sampler:
    """Return a chain of BlackJAX's microcanonical Langevin dynamics, tuned by its own rules."""
    import blackjax

    model = in_coordinates(model_of(target), COORDINATES[coordinates])
    start, potential, constrain, _ = initialize_model(jax.random.key(0), model)

    def density(z: dict) -> jax.Array:
        return -potential(z)

    kernel = blackjax.mclmc.build_kernel()
    state, found, _ = blackjax.mclmc_find_L_and_step_size(
        kernel,
        LONGEST_TUNING,
        blackjax.mclmc.init(start.z, density, jax.random.key(1)),
        jax.random.key(2),
        logdensity_fn=density,
    )

    def step(carry: tuple) -> tuple:
        key, inner = jax.random.split(carry[0])
        state, _ = kernel(
            inner, carry[1], density, found.inverse_mass_matrix, found.L, found.step_size
        )
        return (key, state), constrain(state.position)["p"], 2

    return Sampler((jax.random.key(3), state), step)


Draw: TypeAlias = Callable[[], tuple[np.ndarray, int]]
"""Returns the next quantities, [n, 6], and how many gradients they took."""


def by_dikin(target: Target, watched: Statistics) -> Draw:
    """Return draws of polytopewalk's sparse Dikin walk, from the centre."""
    from polytopewalk.sparse import SparseDikinWalk

    size = target.prior.size
    walk, ones = SparseDikinWalk(r=0.9), sp.csc_matrix(np.ones((1, size)))
    x, seed = np.full(size, 1 / size), 0

    def draw() -> tuple[np.ndarray, int]:
        nonlocal x, seed
        seed += 1
        found = walk.generateCompleteWalk(100, x, ones, np.ones(1), size, seed=seed)
        x = found[-1]
        return np.asarray(watched.of(np.log(found))), 0

    return draw


SAMPLERS: dict[str, Callable[[Target], Sampler]] = {
    "SCIR": by_scir,
    "rejection": by_rejection,
    "GMC": by_gmc,
    "MAMLA": by_mamla,
    "MAPLA": by_mapla,
    "Barker": by_barker,
    "SCIR, numpyro": lambda target: of_numpyro(SCIR(model_of(target))),
    "NUTS in scores": in_scores,
    "NUTS, sticks": lambda target: of_numpyro(NUTS(model_of(target, logs=False)), logs=False),
    "NUTS, ILR": functools.partial(nuts, coordinates="ILR"),
    "NUTS, gammas": functools.partial(nuts, coordinates="gammas"),
    "MCLMC, ILR": functools.partial(mclmc, coordinates="ILR"),
    "MCLMC, gammas": functools.partial(mclmc, coordinates="gammas"),
}
DIKIN = "Dikin walk"
NEEDS = {"MCLMC, ILR": "blackjax", "MCLMC, gammas": "blackjax", DIKIN: "polytopewalk"}


def applies(name: str, target: Target) -> bool:
    """Return whether a sampler is for a target, and whether it is installed."""
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        return False
    if name == "SCIR":  # has counts, and no other likelihood
        return not target.slope.any()
    if name == "rejection":
        return bool(target.slope.any())
    if name == "MAPLA":  # factorises a matrix of all coordinates
        return target.prior.size <= 1000 and (target.shape >= 1).all()
    if name in ("GMC", "MAMLA"):  # nothing to reflect it where the density is infinite
        return bool((target.shape >= 1).all())
    if name == DIKIN:
        return not target.slope.any() and bool((target.shape == 1).all())
    return True


def drawing(sampler: Sampler, watched: Statistics) -> Draw:
    """Return compiled draws of a chain."""

    def step(state: Any, _: None) -> tuple:
        state, log_p, gradients = sampler.step(state)
        return state, (watched.of(log_p), jnp.asarray(gradients))

    state = sampler.state
    run = (
        jax.jit(lambda state: jax.lax.scan(step, state, None, length=sampler.chunk))
        .lower(state)
        .compile()
    )

    def draw() -> tuple[np.ndarray, int]:
        nonlocal state
        state, (found, gradients) = run(state)
        return np.asarray(found), int(np.asarray(gradients).sum())

    return draw


def measure(name: str, kind: str, size: int, seconds: float, patience: float) -> dict[str, Any]:
    """Run a sampler on a target, and return the figures of its chain."""
    target = targets(size)[kind]
    watched = statistics(target)
    row: dict[str, Any] = {"size": size, "target": kind, "sampler": name}
    clock = time.process_time
    begun = clock()
    if name == DIKIN:
        draw, left = by_dikin(target, watched), 0
    else:
        sampler = SAMPLERS[name](target)
        draw, left = drawing(sampler, watched), sampler.warmup
    row["tuning"], begun = clock() - begun, clock()
    while left > 0 or clock() - begun < seconds / 2:
        left -= len(draw()[0])
        if left > 0 and clock() - begun > patience:
            return row | {"warmup": clock() - begun}
    row["warmup"], begun = clock() - begun, clock()
    parts = [draw()]
    while clock() - begun < seconds:
        parts.append(draw())
    row["seconds"] = clock() - begun
    trace = np.concatenate([found for found, _ in parts]).astype(np.float64)
    return row | judged(trace, moments(target, watched), row["seconds"], sum(n for _, n in parts))


def judged(
    trace: np.ndarray, exact: tuple[np.ndarray, np.ndarray], seconds: float, gradients: int
) -> dict[str, Any]:
    """Return the figures of a trace [n, 6] with the exact means and deviations of its columns."""
    mean, sd = exact
    bulk = np.array([effective_size(column) for column in trace.T])
    tails = [
        effective_size((column <= end).astype(float))
        for column in trace.T
        for end in np.quantile(column, (0.05, 0.95))
    ]
    half = len(trace) // 2
    r_hats = summary({str(i): trace[: 2 * half, i].reshape(2, half) for i in range(len(mean))})
    error = abs(trace.mean(axis=0) - mean) / sd
    ratio = trace.std(axis=0) / sd
    found = {
        "draws": len(trace),
        "bulk": bulk.min() / seconds,
        "tail": min(tails) / seconds,
        "gradients": gradients,
        "per_1000_gradients": 1000 * bulk.min() / gradients if gradients else None,
        "r_hat": np.max([found["rhat"] for found in r_hats.values()]),
        "off": error.max(),
        "z": (error * np.sqrt(bulk)).max(),
        "deviation": ratio[np.argmax(abs(ratio - 1))],
    }
    return {name: _plain(value) for name, value in found.items()}


def _plain(value: Any) -> Any:
    """Return a number as JSON has it: None if it is not finite."""
    if isinstance(value, int) or value is None:
        return value
    return float(value) if np.isfinite(value) else None


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of the table in docs/which_sampler.md, for the rows of one size."""
    kinds = list(dict.fromkeys(row["target"] for row in rows))
    yield f"| | {' | '.join(kinds)} |"
    yield "|---" * (1 + len(kinds)) + "|"
    cells = {(row["sampler"], row["target"]): _cell(row) for row in rows}
    for name in (*SAMPLERS, DIKIN):
        if any((name, kind) in cells for kind in kinds):
            yield f"| {name} | {' | '.join(cells.get((name, kind), '') for kind in kinds)} |"


def _cell(row: dict[str, Any]) -> str:
    if "draws" not in row:
        return "failed" if "failed" in row else "still warming up"
    if None in (row["r_hat"], row["off"]):
        return "not finite, or stuck"
    if row["r_hat"] > 1.05 or row["off"] > 1:
        return f"not converged, off {row['off']:.2g}"
    gradients = row["per_1000_gradients"]
    told = f"{_number(row['bulk'])}, {_number(row['tail'])}"
    told += "" if gradients is None else f"; {_number(gradients)}"
    return told + (f"; off {row['off']:.2g}" if row["z"] > 5 else "")


def _number(x: float) -> str:
    return f"{float(f'{x:.2g}'):,g}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 10_000])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--patience", type=float, default=60.0, help="for a warm-up, in seconds")
    parser.add_argument("--only", default="", help="part of a posterior's or sampler's name")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)  # size, target, sampler
    options = parser.parse_args()
    if options.run:
        size, kind, name = options.run
        print(json.dumps(measure(name, kind, int(size), options.seconds, options.patience)))
        return
    runs = [
        (str(size), kind, name)
        for size in options.sizes
        for kind, target in targets(size).items()
        for name in (*SAMPLERS, DIKIN)
        if applies(name, target) and options.only in f"{kind} {name}"
    ]
    cores: queue.Queue[int] = queue.Queue()
    for core in sorted(os.sched_getaffinity(0)):
        cores.put(core)
    with ThreadPoolExecutor(cores.qsize()) as pool:
        rows = []
        for row in pool.map(lambda run: in_process(run, options, cores), runs):
            rows.append(row)
            print(row, flush=True)
            if options.keep:
                kept.write(options.keep, rows)
    for size in options.sizes:
        print(f"\n{size:,} coordinates\n", *table([r for r in rows if r["size"] == size]), sep="\n")


def in_process(
    run: tuple[str, str, str], options: argparse.Namespace, cores: queue.Queue
) -> dict[str, Any]:
    """Measure a sampler on a core of its own."""
    core = cores.get()
    command = [sys.executable, __file__, "--run", *run]
    seconds = options.seconds / (4 if int(run[0]) <= 1000 else 1)
    command += ["--seconds", str(seconds), "--patience", str(options.patience)]
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        )
    finally:
        cores.put(core)
    if done.returncode:  # its message has been printed, and the others go on
        return {"size": int(run[0]), "target": run[1], "sampler": run[2], "failed": True}
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()

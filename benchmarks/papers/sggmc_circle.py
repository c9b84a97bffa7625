"""SGGMC, section 5.1: two modes on a circle, with gradients of known noise.

    python benchmarks/papers/sggmc_circle.py [--quick] [--out FOLDER] [--seed N]

Liu, Zhu and Song (2016). The potential is -log(exp(5 mu_1.x) + 2 exp(5 mu_2.x)) with mu_1 at the
angle pi/3 and mu_2 = -mu_1; gradients have noise N(0, 1000 I), and SGGMC is given V = 1000. GMC and
SGGMC make 30 steps of 0.01 between samples, with the friction 0.1 / 0.01 = 10, as in their
supplement. The paper draws 10,000 samples once; here 16 chains do so, to show how much of the
distance is chance, against exact draws, SGGMC without knowledge of the noise, and the thermostat,
which finds it by itself. Distances are total variations over bins of 0.1, as drawn.
"""

import time
from pathlib import Path
from typing import Any

import click
import common
import jax
import jax.numpy as jnp
import numpy as np
import sggmc_common

from simplex_jax._src import batches, gradients
from simplex_jax._src.base import Kernel, bind
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.geometry import manifolds
from simplex_jax._src.samplers import gmc, gsgnht, sggmc

FIRST, WEIGHTS, KAPPA = np.pi / 3, (1.0, 2.0), 5.0
NOISE = 1000.0
STEP, FRICTION, STEPS = 0.01, 10.0, 30
BINS = 63


@click.command(help=__doc__.splitlines()[0])
@common.options("sggmc_circle")
def main(quick: bool, out: Path, seed: int) -> None:
    started = time.perf_counter()
    chains, kept, burn_in = (2, 2_000, 100) if quick else (16, 10_000, 500)
    circle = manifolds.sphere()
    noisy = _noisy(gradients.density(log_density))
    told = {"friction": FRICTION, "num_steps": STEPS}
    kernels: dict[str, Kernel] = {
        "GMC": gmc.build(log_density, circle, STEP, num_steps=STEPS),
        "SGGMC, V = 1000": sggmc.build(noisy, circle, STEP, noise_estimate=NOISE, **told),
        "SGGMC, V = 0": sggmc.build(noisy, circle, STEP, **told),
        "gSGNHT, V = 0": gsgnht.build(noisy, circle, STEP, **told),
    }
    edges = np.linspace(-np.pi, np.pi, BINS + 1)
    fine = (np.arange(100 * BINS) + 0.5) / (100 * BINS) * 2 * np.pi - np.pi
    density = np.exp(_log_density(fine))
    density /= density.mean() * 2 * np.pi
    truth = density.reshape(BINS, 100).sum(axis=1) / density.sum()
    near = np.cos(fine - FIRST) > 0
    rows = []

    def add(name: str, angle: np.ndarray, kinetic: float, effective: float) -> None:
        counts = [np.histogram(a, edges)[0] for a in angle]
        distances = [sggmc_common.total_variation(n, truth) for n in counts]
        rows.append(
            {
                "method": name,
                "distance, one chain": float(np.median(distances)),
                "least": min(distances),
                "most": max(distances),
                "all chains": sggmc_common.total_variation(np.sum(counts, axis=0), truth),
                "mass at mu_1": float((np.cos(angle - FIRST) > 0).mean()),
                "true mass": float(density[near].sum() / density.sum()),
                "kinetic energy": kinetic,
                "effective samples of a chain": effective / len(angle),
            }
        )

    start = circle.point(common.key_of(seed, "start"), jnp.zeros((chains, 2)))
    result = {}
    for name, kernel in kernels.items():
        position, kinetic = sggmc_common.chains(
            common.key_of(seed, name),
            kernel,
            start,
            batches.full(jnp.zeros(1)),
            burn_in=burn_in,
            kept=kept,
            collect=lambda state, info: (state.position, info.kinetic),
        )
        angle = sggmc_common.angles(position)
        result[name] = angle
        effective = sggmc_common.effective((np.cos(angle - FIRST) > 0).astype(float))
        add(name, angle, float(kinetic.mean()), effective)
    generator = np.random.default_rng(seed)
    exact = generator.choice(fine, (chains, kept), p=density / density.sum())
    add("exact draws", exact, float("nan"), float(exact.size))

    _figure(out, rows, result, (fine, density, edges), started, seed, chains, kept, burn_in)


def log_density(x: jax.Array) -> jax.Array:
    """Return minus the potential at a point of the circle."""
    along = KAPPA * (x[..., 0] * np.cos(FIRST) + x[..., 1] * np.sin(FIRST))
    return jnp.logaddexp(jnp.log(WEIGHTS[0]) + along, jnp.log(WEIGHTS[1]) - along)


def _log_density(angle: np.ndarray) -> np.ndarray:
    along = KAPPA * np.cos(angle - FIRST)
    return np.logaddexp(np.log(WEIGHTS[0]) + along, np.log(WEIGHTS[1]) - along)


def _noisy(exact: Estimator) -> Estimator:
    def estimate(inner: Any, key: jax.Array, memory: Any, x: jax.Array, batch: Any) -> tuple:
        key_inner, key_noise = jax.random.split(key)
        slope, memory = inner(key_inner, memory, x, batch)
        return slope + jnp.sqrt(NOISE) * jax.random.normal(key_noise, x.shape, x.dtype), memory

    return Estimator(init=exact.init, estimate=bind(estimate, exact.estimate))


def _figure(
    out: Path,
    rows: list[dict],
    result: dict[str, np.ndarray],
    truth: tuple[np.ndarray, np.ndarray, np.ndarray],
    started: float,
    seed: int,
    chains: int,
    kept: int,
    burn_in: int,
) -> None:
    fine, density, edges = truth
    figure, (plane, line) = common.figure(2, width=4.6, height=4.2)
    paper = result["SGGMC, V = 1000"][0]
    counts, _ = np.histogram(paper, edges, density=True)
    middle = (edges[:-1] + edges[1:]) / 2
    for a, height in zip(middle, counts, strict=True):
        reach = np.array([1.0, 1 + height])
        plane.plot(reach * np.cos(a), reach * np.sin(a), color=common.COLOURS[1], lw=2.5, alpha=0.6)
    shown = paper[:: max(1, len(paper) // 100)][:100]
    plane.plot(np.cos(shown), np.sin(shown), "o", ms=3, color=common.COLOURS[0])
    plane.plot((1 + density) * np.cos(fine), (1 + density) * np.sin(fine), "k-", lw=0.8)
    plane.set(aspect="equal", title="a chain of SGGMC, with 100 of its samples; line: truth")
    plane.axis("off")
    line.plot(fine, density, "k-", lw=1.2, label="truth")
    for (name, angle), colour in zip(result.items(), common.COLOURS, strict=False):
        counts, _ = np.histogram(angle, edges, density=True)
        line.stairs(counts, edges, color=colour, lw=1, label=name)
    line.set(xlabel="angle", ylabel="density", title="all chains")
    line.set_ylim(0, 1.35 * density.max())
    line.legend(fontsize=7, frameon=False, loc="upper right")
    settings = {
        "seed": seed,
        "chains": chains,
        "kept": kept,
        "burn_in": burn_in,
        "step_size": STEP,
        "friction": FRICTION,
        "num_steps": STEPS,
        "noise": NOISE,
        "bins": BINS,
    }
    common.write(out, rows, figure, settings, started)


if __name__ == "__main__":
    main()

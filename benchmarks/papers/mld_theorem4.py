"""MLD, Theorem 4: distance over iterations at the theorem's step size, against its bound.

    python benchmarks/papers/mld_theorem4.py [--quick] [--out FOLDER] [--seed N]

Hsieh, Kavis, Rolland and Cevher (2018): a Dirichlet posterior of counts 20, 6 and 4 and alpha 0.5,
by SMLD with the first category as the reference, from the uniform point, with all data and with
batches of 10. For each number of iterations T the step size is that of Theorem 4, corrected
(`step_rules.for_mirror_langevin`); chains are examined after T iterations, and after a random
number from 1 to T, as in the theorem. The relative entropy is that of a histogram of Rosenblatt's
numbers, uniform under the posterior, over 8 by 8 bins, less the average for as many exact draws;
total variation uses the same histogram. "Fixed" is one step size for all T, the theorem's for the
largest.

Lemma 2.4, that a gradient has less noise in the dual, is measured at posterior draws: the noise of
a batch's dual gradient, summed over coordinates, as a share of the primal one's.
"""

import functools
import time
from pathlib import Path
from typing import Any

import click
import common
import jax
import jax.numpy as jnp
import numpy as np
from baselines import step_rules
from scipy import special

from simplex_jax._src import batches, estimators
from simplex_jax._src.samplers import smld

COUNTS, ALPHA, BATCH = np.array([20, 6, 4]), 0.5, 10
POSTERIOR = COUNTS + ALPHA
SIZE, DIMENSION = int(COUNTS.sum()), len(COUNTS) - 1
LENGTHS = (16, 32, 64, 128, 256, 512)
CASES = ((None, "theorem's"), (None, "fixed"), (BATCH, "theorem's"))  # batch size, step
BINS = 8


def distance() -> float:
    """Return W_2 from the point y = 0 to the distribution of y_j = log(x_j / x_1)."""
    others = POSTERIOR[1:]
    mean = special.digamma(others) - special.digamma(POSTERIOR[0])
    variance = special.polygamma(1, others) + special.polygamma(1, POSTERIOR[0])
    return float(np.sqrt((mean**2 + variance).sum()))


def noise(batch_size: int | None) -> float:
    """Return the variance of a gradient in y, summed over coordinates; 0 with all data."""
    p = COUNTS[1:] / SIZE
    return float(SIZE**2 / batch_size * (p * (1 - p)).sum()) if batch_size else 0.0


@click.command(help=__doc__.splitlines()[0])
@common.options("mld_theorem4")
@click.option("--chains", type=int, help="20,000 (--quick: 5,000).")
def main(quick: bool, out: Path, seed: int, chains: int | None) -> None:
    started = time.perf_counter()
    chains = chains or (5_000 if quick else 20_000)
    lengths = LENGTHS[:3] if quick else LENGTHS
    lipschitz = float(POSTERIOR.sum()) / 2
    given = {"distance": distance(), "lipschitz": lipschitz, "dimension": DIMENSION}
    rows = []
    for batch_size, kind in CASES:
        rule = functools.partial(
            step_rules.for_mirror_langevin, variance=noise(batch_size), **given
        )
        for steps in lengths:
            h = float(rule(lengths[-1] if kind == "fixed" else steps))
            bound = given["distance"] ** 2 / (2 * h * steps)
            bound += h * (lipschitz * DIMENSION + noise(batch_size))
            key = common.key_of(seed, f"{batch_size} {kind} {steps}")
            at_random, last = chain_ends(key, h, steps, batch_size=batch_size, chains=chains)
            entropy, _ = divergences(at_random)
            entropy_last, variation = divergences(last)
            rows.append(
                {
                    "data": f"batches of {batch_size}" if batch_size else "all",
                    "step": kind,
                    "iterations": steps,
                    "step size": h,
                    "bound": bound,
                    "entropy at random": entropy,
                    "entropy at the end": entropy_last,
                    "TV at the end": variation,
                }
            )
    settings = {
        "seed": seed,
        "counts": COUNTS.tolist(),
        "alpha": ALPHA,
        "chains": chains,
        "noise of the dual gradient": noise(BATCH),
        "dual noise, share of primal": lemma(seed),
        "slopes": slopes(rows),
        **given,
    }
    common.write(out, rows, _drawn(rows), settings, started)


@functools.partial(jax.jit, static_argnames=("batch_size", "chains"))
def chain_ends(
    key: jax.Array, step_size: float, steps: int, *, batch_size: int | None, chains: int
) -> tuple[jax.Array, jax.Array]:
    """Return log x of chains after a random number of iterations and after all, [chains, K]."""
    labels = jnp.repeat(jnp.arange(len(COUNTS)), COUNTS, total_repeat_length=SIZE)
    if batch_size:
        estimator, stream = estimators.categorical(SIZE), batches.uniform(labels, batch_size)
    else:
        estimator = estimators.multinomial(1)
        stream = batches.full(jnp.asarray(COUNTS, jnp.float32)[None])
    kernel = smld.build(estimator, ALPHA, step_size, reference=0)
    key_run, key_pick = jax.random.split(key)
    start = kernel.init(key_run, jnp.ones(len(COUNTS)))
    picked = jax.random.randint(key_pick, (chains,), 1, steps + 1)

    def chain(key: jax.Array, state: smld.State) -> smld.State:
        key_batch, key_update = jax.random.split(key)
        return kernel.update(key_update, state, stream(key_batch, state.step))[0]

    def move(i: jax.Array, carry: tuple) -> tuple:
        states, kept = carry
        states = jax.vmap(chain)(jax.random.split(jax.random.fold_in(key_run, i), chains), states)
        return states, jnp.where((picked == i + 1)[:, None], states.position, kept)

    states = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (chains, *leaf.shape)), start)
    states, kept = jax.lax.fori_loop(0, steps, move, (states, states.position))
    return kept, states.position


def divergences(log_x: jax.Array) -> tuple[float, float]:
    """Return the relative entropy to the posterior, less its bias, and the total variation."""
    u = common.rosenblatt(np.asarray(log_x, np.float64), POSTERIOR)
    counts, _ = np.histogramdd(u, bins=BINS, range=[(0, 1)] * DIMENSION)
    share = counts.ravel() / len(u)
    bias = (share.size - 1) / (2 * len(u))
    entropy = special.xlogy(share, share * share.size).sum() - bias
    return float(entropy), float(np.abs(share - 1 / share.size).sum() / 2)


def lemma(seed: int) -> float:
    """Return the mean over the posterior of the noise of a dual gradient over a primal one's."""
    x = np.random.default_rng(seed).dirichlet(POSTERIOR, 10_000)
    p = COUNTS / SIZE
    # For counts of one datum: Var[m_j / x_j - m_1 / x_1] in x, and Var[m_j] in y.
    primal = (
        p[1:] / x[:, 1:] ** 2 + p[:1] / x[:, :1] ** 2 - (p[1:] / x[:, 1:] - p[0] / x[:, :1]) ** 2
    )
    return float(np.mean((p[1:] * (1 - p[1:])).sum() / primal.sum(axis=1)))


def slopes(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return by case the slope of log entropy at random on log iterations, for the last four."""
    result = {}
    for data, kind in dict.fromkeys((row["data"], row["step"]) for row in rows):
        own = [row for row in rows if (row["data"], row["step"]) == (data, kind)][-4:]
        x, y = (np.log([row[name] for row in own]) for name in ("iterations", "entropy at random"))
        result[f"{data}, {kind}"] = float(np.polyfit(x, y, 1)[0])
    return result


def _drawn(rows: list[dict[str, Any]]) -> Any:
    cases = list(dict.fromkeys((row["data"], row["step"]) for row in rows))
    figure, axes = common.figure(len(cases), sharey=True)
    columns = ("bound", "entropy at random", "entropy at the end")
    for ax, case in zip(axes, cases, strict=True):
        own = [row for row in rows if (row["data"], row["step"]) == case]
        for colour, column in zip(common.COLOURS, columns, strict=False):
            seen = [row for row in own if row[column] > 0]  # otherwise nothing is left of it
            x, y = ([row[name] for row in seen] for name in ("iterations", column))
            ax.plot(x, y, ".-", color=colour, label=column, lw=1.2)
        ax.set_xscale("log", base=2)
        ax.set(yscale="log", xlabel="iterations T", title=f"{case[0]}, {case[1]}")
    axes[0].set(ylabel="relative entropy")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


if __name__ == "__main__":
    main()

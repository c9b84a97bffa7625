"""SGGMC, section 5.2: the posterior of a mixture of two von Mises-Fisher distributions.

    python benchmarks/papers/sggmc_posterior.py [--quick] [--out FOLDER] [--seed N]

Liu, Zhu and Song (2016). 100 data are drawn from half vMF(v_1, 20), half vMF(mu, 20), of
mu = (v_1 + v_2) / |v_1 + v_2|, at v_1 = -pi/24, v_2 = pi/8; both priors are vMF(e_1, 20). (The
paper prints vMF(v_2, 20) for the second component and e_2 for the second prior; its appendix D and
the symmetry of its two modes need these.) The modes lie near (-pi/24, pi/8) and (pi/24, -pi/8),
and are of equal weight for data symmetric about e_1; the data drawn decide how close they come.

SGGMC has batches of 10, 10 steps of sqrt(5e-4 / 100), the friction 0.1 / step, and the empirical
Fisher information for V; GMC makes 20 steps of 1e-3. Each chain keeps 25,000 samples after 15,000,
as in their supplement. GMC with steps of 0.02 shows what it can do. The Fisher information is that
of all data, along the circle. As the 10 steps share a batch, their noise adds up and the chain is
too warm, with or without V: "a batch a step" makes ten updates of one step each between samples
instead. "Full-matrix V of the batch" is the covariance matrix of each batch's gradients, as in the
paper, for either point along its circle; "in the plane" has the whole gradient, most of whose noise
points outwards. If h V exceeds 2 C a chain becomes NaN: a row counts these, gives the number of
samples before that, and is otherwise of the chains that stay finite. The truth is a quadrature over
both angles. Distances are total variations over cells of 0.05 x 0.05. Some methods run on five sets
of data, which differ in how far their modes overlap.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import common
import jax
import jax.numpy as jnp
import numpy as np
import sggmc_common

from simplex_jax._src import batches, draws, gradient_noise, gradients
from simplex_jax._src.base import Kernel, State, bind
from simplex_jax._src.geometry import manifolds
from simplex_jax._src.samplers import gmc, gsgnht, sggmc

KAPPA, SIZE, BATCH, STEPS = 20.0, 100, 10, 10
ONCE = "SGGMC, a batch a step"
FULL = "SGGMC, full-matrix V of the batch"
FULL_ONCE = f"{FULL}, a batch a step"
PLANE = f"{FULL} in the plane"
FULL_SLOW = f"{FULL_ONCE}, five times the friction"
APART = (FULL, FULL_ONCE, FULL_SLOW, PLANE)
BY_BATCH = (ONCE, FULL_ONCE, FULL_SLOW)
REPEATED = ("SGGMC", ONCE, FULL, FULL_ONCE, FULL_SLOW)
DATA_SETS = 5
TRUE = (-np.pi / 24, np.pi / 8)
STEP = float(np.sqrt(5e-4 / SIZE))
FRICTION = 0.1 / STEP
HALF, CELLS, FINE = 0.75, 30, 10  # angles up to HALF, cells an axis, points of the truth a cell
EDGES = np.linspace(-HALF, HALF, CELLS + 1)


@click.command(help=__doc__.splitlines()[0])
@common.options("sggmc_posterior")
def main(quick: bool, out: Path, seed: int) -> None:
    started = time.perf_counter()
    chains = 2 if quick else 8
    lengths = {"burn_in": 500, "kept": 1_500} if quick else {"burn_in": 15_000, "kept": 25_000}
    rows: list[dict] = []
    data_sets = []
    for number in range(1 if quick else DATA_SETS):
        data = _data(common.key_of(seed + number, "data"))
        data_sets.append(np.round(sggmc_common.angles(np.asarray(data)), 4).tolist())
        names = None if number == 0 else REPEATED
        found, result, cells = _measured(data, seed + number, names, chains, lengths)
        rows += [{"data set": number, **row} for row in found]
        if number == 0:
            figure = _figure(result, cells, EDGES)
    settings = {
        "seed": seed,
        "chains": chains,
        **lengths,
        "batch": BATCH,
        "step_size": STEP,
        "friction": FRICTION,
        "data": data_sets,
    }
    common.write(out, rows, figure, settings, started)


def _runs(data: jax.Array) -> dict[str, tuple[Kernel, bool]]:
    """Return kernels, and whether their batches are all data."""
    circle = manifolds.sphere()
    estimator = gradients.posterior(_log_prior, _log_likelihood, SIZE)
    told = {"friction": FRICTION, "num_steps": STEPS}
    of_all = bind(_variance, data)
    once = sggmc.build(estimator, circle, STEP, noise_estimate=of_all, friction=FRICTION)
    return {
        "GMC": (gmc.build(_target, circle, 1e-3, num_steps=20, needs_batch=True), True),
        "GMC, step 0.02": (gmc.build(_target, circle, 0.02, num_steps=20, needs_batch=True), True),
        "SGGMC": (sggmc.build(estimator, circle, STEP, noise_estimate=of_all, **told), False),
        ONCE: (once, False),
        FULL: (_by_matrix(**told), False),
        FULL_ONCE: (_by_matrix(friction=FRICTION), False),
        FULL_SLOW: (_by_matrix(friction=5 * FRICTION), False),
        PLANE: (_by_matrix(project=False, **told), False),
        "SGGMC, V = 0": (sggmc.build(estimator, circle, STEP, **told), False),
        "gSGNHT, V = 0": (gsgnht.build(estimator, circle, STEP, **told), False),
    }


def _measured(
    data: jax.Array,
    seed: int,
    names: Sequence[str] | None,
    chains: int,
    lengths: dict[str, int],
) -> tuple[list[dict], dict[str, np.ndarray], np.ndarray]:
    """Return rows of the named methods (None: of all), their counts of samples, and the truth."""
    fine, truth = _truth(data)
    cells = sggmc_common.coarse(truth, FINE)
    start = jnp.broadcast_to(jnp.array([[1.0, 0.0], [1.0, 0.0]]), (chains, 2, 2))
    below = float(truth[fine < 0].sum())
    rows, result = [], {}
    runs = _runs(data)
    for name in runs if names is None else names:
        kernel, whole = runs[name]
        position, kinetic, share = sggmc_common.chains(
            common.key_of(seed, name),
            kernel,
            _apart(start) if name in APART else start,
            batches.full(data) if whole else batches.uniform(data, BATCH),
            collect=_kept,
            **_times(lengths, STEPS if name in BY_BATCH else 1),
        )
        finite = np.isfinite(position).all(axis=(2, 3)).sum(axis=1)
        good = finite == lengths["kept"]
        row = {"method": name, "NaN chains": int((~good).sum()), "samples before NaN": ""}
        if not good.all():
            row["samples before NaN"] = f"{finite[~good].min()} to {finite[~good].max()}"
        angle = sggmc_common.angles(position[good])
        counts = [np.histogram2d(*a.T, bins=(EDGES, EDGES))[0] for a in angle]
        if good.all():
            result[name] = np.sum(counts, axis=0)
        rows.append(row | _distances(counts, cells, below))
        if good.any():
            left = (angle[..., 0] < 0).astype(float)
            rows[-1]["kinetic energy"] = float(kinetic[good].mean())
            rows[-1]["noise / injected"] = float(share[good].max())
            rows[-1]["effective samples of a chain"] = sggmc_common.effective(left) / good.sum()
    generator = np.random.default_rng(seed)
    exact = generator.multinomial(lengths["kept"], cells.ravel(), chains)
    row = {"method": "exact draws", "NaN chains": 0, "samples before NaN": ""}
    rows.append(row | _distances(exact.reshape(-1, *cells.shape), cells, below))
    rows[-1]["effective samples of a chain"] = float(lengths["kept"])
    return rows, result, cells


def _distances(counts: Sequence[np.ndarray], cells: np.ndarray, below: float) -> dict[str, float]:
    """Return the distances of chains' counts [chains][cells, cells]; NaN without any."""
    distance, nothing = sggmc_common.total_variation, float("nan")
    row = dict.fromkeys(("joint, one chain", "joint, all", "v_1, all", "v_2, all"), nothing)
    row |= {"mass of v_1 < 0": nothing, "true mass": below, "kinetic energy": nothing}
    row |= {"noise / injected": nothing, "effective samples of a chain": nothing}
    if len(counts):
        every = np.sum(counts, axis=0)
        row["joint, one chain"] = float(np.median([distance(n, cells) for n in counts]))
        row["joint, all"] = distance(every, cells)
        row["v_1, all"] = distance(every.sum(axis=1), cells.sum(axis=1))
        row["v_2, all"] = distance(every.sum(axis=0), cells.sum(axis=0))
        row["mass of v_1 < 0"] = float(every[: CELLS // 2].sum() / every.sum())
    return row


def _times(lengths: dict[str, int], thin: int) -> dict[str, int]:
    return {"burn_in": thin * lengths["burn_in"], "kept": lengths["kept"], "thin": thin}


def _data(key: jax.Array) -> jax.Array:
    first, second = jax.random.split(key)
    v = jnp.stack([jnp.cos(jnp.array(TRUE)), jnp.sin(jnp.array(TRUE))], axis=1)
    which = jax.random.bernoulli(first, 0.5, (SIZE, 1))
    return draws.von_mises_fisher(second, jnp.where(which, v[0], _middle(v)), KAPPA)


def _middle(v: jax.Array) -> jax.Array:
    both = v[0] + v[1]
    return both / jnp.linalg.norm(both)


def _log_prior(v: jax.Array) -> jax.Array:
    return KAPPA * (v[0, 0] + v[1, 0])


def _log_likelihood(v: jax.Array, data: jax.Array) -> jax.Array:
    return jnp.sum(jnp.logaddexp(KAPPA * data @ v[0], KAPPA * data @ _middle(v)))


def _variance(data: jax.Array, v: jax.Array, batch: jax.Array) -> jax.Array:
    """Return the variance of the gradient of a batch along each circle, [2, 1]."""

    def along(v: jax.Array, x: jax.Array) -> jax.Array:
        slope = jax.grad(_log_likelihood)(v, x[None])
        return manifolds.sphere().project(v, slope)

    each = jax.vmap(along, (None, 0))(v, data)
    spread = jnp.var(each, axis=0, ddof=1).sum(axis=-1, keepdims=True)
    return SIZE**2 / batch.shape[0] * spread


def _apart(v: jax.Array) -> dict[str, jax.Array]:
    """Return the two points [..., 2, 2] as vectors, which allow matrices for V."""
    return {"v_1": v[..., 0, :], "v_2": v[..., 1, :]}


def _together(v: dict[str, jax.Array]) -> jax.Array:
    return jnp.stack([v["v_1"], v["v_2"]], axis=-2)


def _by_matrix(*, project: bool = True, **options: Any) -> Kernel:
    """Return SGGMC of two vectors with each batch's matrix as V, along the circles or not."""
    circles = manifolds.product({"v_1": manifolds.sphere(), "v_2": manifolds.sphere()})
    estimator = gradients.posterior(lambda v: _log_prior(_together(v)), _log_likelihood_apart, SIZE)
    along = circles.project if project else None
    information = gradient_noise.fisher(_log_likelihood_apart, SIZE, along, matrix=True)
    return sggmc.build(estimator, circles, STEP, noise_estimate=information, **options)


def _log_likelihood_apart(v: dict[str, jax.Array], data: jax.Array) -> jax.Array:
    return _log_likelihood(_together(v), data)


def _target(v: jax.Array, data: jax.Array) -> jax.Array:
    return _log_prior(v) + _log_likelihood(v, data)


def _truth(data: jax.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return angles, and their masses on a fine grid."""
    x = np.asarray(data, np.float64)
    fine = (np.arange(CELLS * FINE) + 0.5) / (CELLS * FINE) * 2 * HALF - HALF
    around = np.stack([np.cos(fine), np.sin(fine)], axis=1)
    middle = (fine[:, None] + fine) / 2  # of angles less than pi apart
    of_middle = KAPPA * np.cos(middle[..., None] - sggmc_common.angles(x))
    of_first = (KAPPA * around @ x.T)[:, None]
    log_p = np.logaddexp(of_first, of_middle).sum(axis=-1)
    log_p += KAPPA * (np.cos(fine)[:, None] + np.cos(fine))
    return fine, sggmc_common.masses(log_p)


def _kept(state: State, info: Any) -> tuple:
    share = getattr(info, "gradient_noise", None)
    position = _together(state.position) if isinstance(state.position, dict) else state.position
    return position, info.kinetic, jnp.float32(jnp.nan) if share is None else share


def _figure(result: dict[str, np.ndarray], cells: np.ndarray, edges: np.ndarray):
    figure, axes = common.figure(5, width=3.6, height=3.4)
    width = edges[1] - edges[0]
    for axis, along, name in zip(axes[:2], (1, 0), ("v_1", "v_2"), strict=True):
        axis.stairs(cells.sum(axis=along) / width, edges, color="k", lw=2.5, label="truth")
        for (method, counts), colour in zip(result.items(), common.COLOURS, strict=False):
            share = counts.sum(axis=along) / counts.sum() / width
            axis.stairs(share, edges, color=colour, lw=1, label=method)
        axis.set(xlabel=f"angle of ${name}$", ylabel="density")
    axes[0].legend(fontsize=5.5, frameon=False, loc="upper left")
    axes[0].set_xlim(-0.6, 0.4)
    axes[1].set_xlim(-0.6, 0.6)
    for axis, name in zip(axes[2:], ("truth", "SGGMC", ONCE), strict=True):
        shown = cells if name == "truth" else result[name] / result[name].sum()
        axis.pcolormesh(edges, edges, shown.T, cmap="Blues", vmin=0, vmax=cells.max())
        for point in (TRUE, (-TRUE[0], -TRUE[1])):
            axis.plot(*point, "+", color=common.COLOURS[1], ms=9)
        axis.set(xlabel="angle of $v_1$", ylabel="angle of $v_2$", title=name, aspect="equal")
        axis.set(xlim=(-0.5, 0.5), ylim=(-0.5, 0.5))
    return figure


if __name__ == "__main__":
    main()

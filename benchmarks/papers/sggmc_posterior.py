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
points outwards. If h V exceeds 2 C a chain becomes NaN, and its row gives the number of samples
before that. The truth is a quadrature over both angles. Distances are total variations over cells
of 0.05 x 0.05.
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

from simplex_jax._src import batches, draws, gradient_noise, gradients
from simplex_jax._src.base import Kernel, State, bind
from simplex_jax._src.geometry import manifolds
from simplex_jax._src.samplers import gmc, gsgnht, sggmc

KAPPA, SIZE, BATCH, STEPS = 20.0, 100, 10, 10
ONCE = "SGGMC, a batch a step"
FULL = "SGGMC, full-matrix V of the batch"
FULL_ONCE = f"{FULL}, a batch a step"
PLANE = f"{FULL} in the plane"
APART = (FULL, FULL_ONCE, PLANE)
TRUE = (-np.pi / 24, np.pi / 8)
STEP = float(np.sqrt(5e-4 / SIZE))
FRICTION = 0.1 / STEP
HALF, CELLS, FINE = 0.75, 30, 10  # angles up to HALF, cells an axis, points of the truth a cell


@click.command(help=__doc__.splitlines()[0])
@common.options("sggmc_posterior")
def main(quick: bool, out: Path, seed: int) -> None:
    started = time.perf_counter()
    chains = 2 if quick else 8
    lengths = {"burn_in": 500, "kept": 1_500} if quick else {"burn_in": 15_000, "kept": 25_000}
    data = _data(common.key_of(seed, "data"))
    circle = manifolds.sphere()
    estimator = gradients.posterior(_log_prior, _log_likelihood, SIZE)
    told = {"friction": FRICTION, "num_steps": STEPS}
    once = sggmc.build(
        estimator, circle, STEP, noise_estimate=bind(_variance, data), friction=FRICTION
    )
    small = batches.uniform(data, BATCH)
    runs = {
        "GMC": (gmc.build(_target, circle, 1e-3, num_steps=20, needs_batch=True), None),
        "GMC, step 0.02": (gmc.build(_target, circle, 0.02, num_steps=20, needs_batch=True), None),
        "SGGMC": (
            sggmc.build(estimator, circle, STEP, noise_estimate=bind(_variance, data), **told),
            small,
        ),
        ONCE: (once, small),
        FULL: (_by_matrix(**told), small),
        FULL_ONCE: (_by_matrix(friction=FRICTION), small),
        PLANE: (_by_matrix(project=False, **told), small),
        "SGGMC, V = 0": (sggmc.build(estimator, circle, STEP, **told), small),
        "gSGNHT, V = 0": (gsgnht.build(estimator, circle, STEP, **told), small),
    }
    fine, truth = _truth(data)
    cells = sggmc_common.coarse(truth, FINE)
    edges = np.linspace(-HALF, HALF, CELLS + 1)
    at = np.array([[1.0, 0.0], [1.0, 0.0]], np.float32)
    start = jnp.broadcast_to(at, (chains, 2, 2))
    below = truth[fine < 0].sum()
    rows, result = [], {}
    for name, (kernel, stream) in runs.items():
        stream = batches.full(data) if stream is None else stream
        position, kinetic, share = sggmc_common.chains(
            common.key_of(seed, name),
            kernel,
            _apart(start) if name in APART else start,
            stream,
            collect=_kept,
            **_times(lengths, STEPS if name in (ONCE, FULL_ONCE) else 1),
        )
        finite = np.isfinite(position).all(axis=(2, 3)).sum(axis=1)
        if finite.min() < lengths["kept"]:
            rows.append(_broken(name, finite))
            continue
        angle = sggmc_common.angles(position)
        counts = np.array([np.histogram2d(*a.T, bins=(edges, edges))[0] for a in angle])
        joint = [sggmc_common.total_variation(n, cells) for n in counts]
        every = counts.sum(axis=0)
        result[name] = every
        left = (angle[..., 0] < 0).astype(float)
        rows.append(
            {
                "method": name,
                "joint, one chain": float(np.median(joint)),
                "joint, all": sggmc_common.total_variation(every, cells),
                "v_1, all": sggmc_common.total_variation(every.sum(axis=1), cells.sum(axis=1)),
                "v_2, all": sggmc_common.total_variation(every.sum(axis=0), cells.sum(axis=0)),
                "mass of v_1 < 0": float(left.mean()),
                "true mass": float(below),
                "kinetic energy": float(kinetic.mean()),
                "noise / injected": float(share.max()),
                "effective samples of a chain": sggmc_common.effective(left) / chains,
                "samples before NaN": "",
            }
        )
    rows.append(_exact(cells, lengths["kept"], chains, below, seed))
    settings = {
        "seed": seed,
        "chains": chains,
        **lengths,
        "batch": BATCH,
        "step_size": STEP,
        "friction": FRICTION,
        "data": np.round(sggmc_common.angles(np.asarray(data)), 4).tolist(),
    }
    common.write(out, rows, _figure(result, cells, edges), settings, started)


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


def _exact(cells: np.ndarray, kept: int, chains: int, below: float, seed: int) -> dict:
    generator = np.random.default_rng(seed)
    counts = generator.multinomial(kept, cells.ravel(), chains).reshape(-1, *cells.shape)
    every, distance = counts.sum(axis=0), sggmc_common.total_variation
    return {
        "method": "exact draws",
        "joint, one chain": float(np.median([distance(n, cells) for n in counts])),
        "joint, all": distance(every, cells),
        "v_1, all": distance(every.sum(axis=1), cells.sum(axis=1)),
        "v_2, all": distance(every.sum(axis=0), cells.sum(axis=0)),
        "mass of v_1 < 0": float(every[: CELLS // 2].sum() / every.sum()),
        "true mass": float(below),
        "kinetic energy": float("nan"),
        "noise / injected": float("nan"),
        "effective samples of a chain": float(kept),
        "samples before NaN": "",
    }


def _broken(name: str, finite: np.ndarray) -> dict:
    """Return the row of chains that became NaN after these numbers of samples."""
    columns = ("joint, one chain", "joint, all", "v_1, all", "v_2, all", "mass of v_1 < 0")
    others = ("true mass", "kinetic energy", "noise / injected", "effective samples of a chain")
    nothing = dict.fromkeys((*columns, *others), float("nan"))
    return {"method": name, **nothing, "samples before NaN": f"{finite.min()} to {finite.max()}"}


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

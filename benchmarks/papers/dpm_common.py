"""Shared by the Dirichlet-process mixture experiments: methods, runs and their scores."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import common
import jax
import numpy as np
import scipy.sparse as sp

from simplex_jax._src.base import Info, State
from simplex_jax._src.models.dpm import families
from simplex_jax._src.models.dpm import model as dpm_mixture
from simplex_jax._src.models.dpm.families import family as family_rows
from simplex_jax._src.runtime.averaging import LogMean
from simplex_jax._src.runtime.driver import run
from simplex_jax._src.runtime.hooks import Event

BATCH = 1_000
STEPS = {"scir": (0.03, 0.1, 0.3, 1.0), "sgrld": (3e-5, 1e-4, 3e-4, 1e-3, 3e-3)}
"""Candidate step sizes, for sticks as for atoms."""


class Method(NamedTuple):
    """A sampler of the mixture with its settings.

    Attributes:
        sampler: As in `dpm_mixture.build`.
        counts: Likewise.
        whole: Whether all rows are in a batch.
        base: Concentration of the base measure.
        clusters: Number of random initial labels.
        steps: Step sizes of atoms and sticks; None to tune them.
        total: As in `dpm_mixture.build`; the papers carry it.
        alpha: The concentration of the process; None for one drawn, with the prior Gamma(1, 1).
    """

    sampler: str
    counts: str
    whole: bool = False
    base: float = 0.5
    clusters: int = 20
    steps: tuple[float, float] | None = (0.1, 0.1)
    total: str = "refreshed"
    alpha: float | None = None


_SGRLD = Method("sgrld", "subsampled", base=1e-3, clusters=30, steps=(1e-3, 5e-3))
METHODS = {
    "SCIR, published": Method("scir", "subsampled", total="carried"),
    "SCIR, total refreshed": Method("scir", "subsampled"),
    "SGRLD, published": _SGRLD._replace(total="carried"),
    "SGRLD, total refreshed": _SGRLD,
    "SCIR, tuned": Method("scir", "subsampled", steps=None),
    "SGRLD, tuned": Method("sgrld", "subsampled", steps=None),
    "memoised SCIR": Method("scir", "memoised", steps=(5.0, 5.0)),
    "memoised, exact draws": Method("exact", "memoised"),
    "exact slice sampler": Method("exact", "memoised", whole=True),
}
_CARRIED = METHODS["SGRLD, published"]
REMARKS = {
    "SCIR, 30 labels": METHODS["SCIR, published"]._replace(clusters=30),
    "SGRLD, 20 labels": _CARRIED._replace(clusters=20),
    "SGRLD, concentration 20": _CARRIED._replace(alpha=20.0),
    "SGRLD, concentration 100": _CARRIED._replace(alpha=100.0),
    "SGRLD, base measure 0.01": _CARRIED._replace(base=0.01),
    "SGRLD, base measure 0.1": _CARRIED._replace(base=0.1),
}
"""Variants of the published settings, for the remarks on numbers of clusters."""


class Problem(NamedTuple):
    """Training rows and rows to score."""

    train: sp.csr_array
    test: sp.csr_array


class Synthetic(NamedTuple):
    """Users of six groups over sixty pages: their counts, and their true distribution."""

    counts: np.ndarray  # [users, 60]
    weights: np.ndarray  # of the groups, [6]
    atoms: np.ndarray  # probabilities of the pages, [6, 60]


def synthetic(users: int) -> Synthetic:
    """Draw users, the same every time."""
    rng = np.random.default_rng(0)
    atoms = rng.dirichlet(np.full(60, 0.1), size=6)
    weights = np.array([0.3, 0.25, 0.2, 0.15, 0.07, 0.03])
    groups = rng.choice(6, size=users, p=weights)
    return Synthetic(rng.multinomial(1 + rng.poisson(4, users), atoms[groups]), weights, atoms)


class Recorder:
    """A hook that scores the mixtures of a run: minus the mean log predictive density of a row."""

    def __init__(self, family: Any, rows: Any, half: int) -> None:
        self._family, self._rows, self._half = family, rows, half
        self._average = LogMean(family_rows.size(rows))
        self.records: list[dict[str, float]] = []

    def __call__(self, event: Event) -> None:
        """Score the current mixture."""
        log_p = np.asarray(_score(self._family, event.state.position, self._rows), np.float64)
        if event.step >= self._half:
            self._average.add([log_p])
        self.records.append(
            {
                "step": event.step,
                "seconds": event.seconds,
                "current": -float(log_p.mean()),
                "averaged": -float(self._average.value().mean())
                if self._average.samples
                else float("nan"),
                "clusters": float(dpm_mixture.occupied(event.state)),
                "alpha": float(event.state.alpha),
            }
        )


# Made once: each new function is compiled again, and a process holds only so many programs.
_score = jax.jit(dpm_mixture.log_predictive)


def _nothing(state: State, info: Info) -> tuple:
    del state, info
    return ()


def scores(
    problem: Problem, method: Method, updates: int, seed: int, *, evaluations: int = 25
) -> list[dict[str, float]]:
    """Run a method with its step sizes; return a record for each evaluation."""
    rows = families.multinomial_rows(problem.train)
    family = families.multinomial(problem.train.shape[1], method.base)
    size = problem.train.shape[0]
    steps = {}
    if method.sampler != "exact" and method.steps is not None:
        steps = dict(zip(("atom_step_size", "stick_step_size"), method.steps, strict=True))
    kernel, stream = dpm_mixture.build(
        rows,
        family,
        sampler=method.sampler,
        total=method.total,
        counts=method.counts,
        batch_size=size if method.whole else min(BATCH, size),
        alpha=dpm_mixture.Gamma(1.0, 1.0) if method.alpha is None else method.alpha,
        **steps,
        label_moves=method.counts == "memoised",
    )
    keys = jax.random.split(jax.random.key(seed), 3)
    state = kernel.init(keys[0], dpm_mixture.random_labels(keys[1], rows, method.clusters))
    recorder = Recorder(family, families.multinomial_rows(problem.test), updates // 2)
    every = max(1, updates // evaluations)
    run(
        keys[2],
        kernel,
        state,
        stream,
        updates,
        collect=_nothing,
        chunk=every,
        hooks=[recorder],
        grow=dpm_mixture.State.grown,
    )
    return recorder.records


def tuned(problem: Problem, method: Method, updates: int, seed: int) -> Method:
    """Return a method with the step sizes that score best on another seed."""
    if method.steps is not None:
        return method
    result = {}
    for step in STEPS[method.sampler]:
        tried = method._replace(steps=(step, step))
        try:
            result[step] = scores(problem, tried, updates, seed, evaluations=4)[-1]["averaged"]
        except FloatingPointError:
            result[step] = float("inf")
    print({step: round(score, 3) for step, score in result.items()}, flush=True)
    best = min(result, key=lambda step: result[step] if result[step] == result[step] else np.inf)
    return method._replace(steps=(best, best))


def experiment(
    problem: Problem,
    methods: Sequence[str],
    *,
    updates: int,
    sweeps: int,
    seeds: Sequence[int],
    out: Path,
    about: dict[str, Any],
    truth: float | None = None,
) -> None:
    """Run methods, and write the table and the figure: scores against updates and seconds."""
    started = time.perf_counter()
    table, runs = [], {}
    # Steps are chosen on unreported rows.
    some = np.random.default_rng(seeds[-1] + 1).permutation(problem.train.shape[0])
    cut = len(some) // 8
    tuning = Problem(*(sp.csr_array(problem.train[part]) for part in (some[cut:], some[:cut])))
    for name in methods:
        method = tuned(tuning, (METHODS | REMARKS)[name], max(4, updates // 4), seeds[-1] + 1)
        length = sweeps if method.whole else updates
        runs[name] = [scores(problem, method, length, seed) for seed in seeds]
        half = [records[len(records) // 2] for records in runs[name]]
        last = [records[-1] for records in runs[name]]
        averaged = np.array([record["averaged"] for record in last])
        table.append(
            {
                "method": name,
                "base": method.base,
                "steps": "" if method.sampler == "exact" else f"{method.steps}",
                "updates": length,
                "seconds": float(np.mean([record["seconds"] for record in last])),
                "halfway": f"{np.mean([record['current'] for record in half]):.3f}",
                "current": f"{np.mean([record['current'] for record in last]):.3f}",
                "averaged": f"{averaged.mean():.3f}",
                "sd over seeds": f"{averaged.std(ddof=1):.3f}" if len(seeds) > 1 else "",
                "clusters": float(np.mean([record["clusters"] for record in last])),
                "alpha": float(np.mean([record["alpha"] for record in last])),
            }
        )
        print(table[-1], flush=True)
    _reached(table, runs)
    figure, axes = common.figure(2, width=4.4, height=3.4, sharey=True)
    for colour, name in zip(common.COLOURS, runs, strict=False):
        for axis, along in zip(axes, ("step", "seconds"), strict=True):
            for number, records in enumerate(runs[name]):
                x = [record[along] for record in records]
                y = [record["current"] for record in records]
                axis.plot(x, y, color=colour, lw=0.8, label=None if number else name)
            axis.set(xlabel={"step": "updates", "seconds": "seconds of training"}[along])
            axis.set_xscale("log")
    axes[0].set_ylabel("minus log predictive, current state")
    if truth is not None:
        for axis in axes:
            axis.axhline(truth, color="black", lw=0.6, ls=":")
    axes[1].legend(fontsize=7, frameon=False)
    common.write(out, table, figure, {**about, "seeds": list(seeds)}, started)


def _reached(table: list[dict[str, Any]], runs: dict[str, list[list[dict[str, float]]]]) -> None:
    """Add the seconds to the level of the exact slice sampler: its mean in its second half + 0.01.

    The mean over seeds of the current scores; empty if a method does not get there.
    """
    exact = runs.get("exact slice sampler")
    if exact is None:
        return
    means = {name: _mean_curve(result) for name, result in runs.items()}
    _, curve = means["exact slice sampler"]
    level = curve[len(curve) // 2 :].mean() + 0.01
    for row in table:
        seconds, curve = means[row["method"]]
        there = np.flatnonzero(curve <= level)
        row["seconds to it"] = f"{seconds[there[0]]:.1f}" if len(there) else ""


def _mean_curve(result: list[list[dict[str, float]]]) -> tuple[np.ndarray, np.ndarray]:
    return tuple(
        np.mean([[record[name] for record in records] for records in result], axis=0)
        for name in ("seconds", "current")
    )

"""Shared by the SAM experiments: the methods, their scores against time, table and figure."""

import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import common
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from baselines.sam_geodesic import Geodesic

from simplex_jax._src import schedules
from simplex_jax._src.base import Kernel
from simplex_jax._src.batches import Stream
from simplex_jax._src.models.sam import density, joint, model, variational
from simplex_jax._src.models.sam.joint import UnitDocuments
from simplex_jax._src.models.sam.model import Hyperparameters, Local
from simplex_jax._src.runtime.driver import run
from simplex_jax._src.runtime.hooks import Event, Hook

EVALUATIONS = 24
POOLED = 10
"""Number of samples of the topics in pooled scores, for any method."""
SETTINGS = ("published", "equilibrium")


class Published(NamedTuple):
    """Settings of the released code for a data set.

    Attributes:
        gamma: The step size is the root of gamma over the number of documents.
        rho: The friction times the step size.
        steps: Inner steps of SGGMC and gSGNHT with batches, and of each with all documents.
        apprmh: Step size, inner steps, burn-in and samples of the proportions of GMC-apprMH.
        gibbs: Step size, inner steps and burn-in of GMC-bGibbs.
        decay: Power of the step size of stochastic variational inference.
    """

    gamma: float
    rho: float
    steps: tuple[int, int, int]
    apprmh: tuple[float, int, int, int]
    gibbs: tuple[float, int, int]
    decay: float


class Problem(NamedTuple):
    """Training and held-out documents, and the model.

    Attributes:
        train: Training documents.
        test: Held-out documents.
        shape: (K, V).
        hyper: Hyperparameters.
        batch_size: Documents per batch.
        published: Settings of the released code.
    """

    train: UnitDocuments
    test: UnitDocuments
    shape: tuple[int, int]
    hyper: Hyperparameters
    batch_size: int
    published: Published


Build = Callable[[Problem, str], tuple[Kernel, Stream]]


def problem_of(
    train: sp.csr_array,
    test: sp.csr_array,
    topics: int,
    batch_size: int,
    published: Published,
    **concentrations: float,
) -> Problem:
    """Return the problem of two tables of unit vectors."""
    documents = joint.to_device(train)
    mean = joint.mean_direction(train)
    return Problem(
        train=documents,
        test=joint.to_device(test),
        shape=(topics, train.shape[1]),
        hyper=joint.hyperparameters(mean, **concentrations),
        batch_size=batch_size,
        published=published,
    )


def _langevin(sampler: str, full: bool) -> Build:
    def build(problem: Problem, setting: str) -> tuple[Kernel, Stream]:
        size = joint.num_documents(problem.train)
        options: dict[str, Any] = {"batch_size": size if full else problem.batch_size}
        if setting == "published":
            told = problem.published
            step = math.sqrt(told.gamma / size)
            steps = told.steps[(1 if sampler == "sggmc" else 2) if full else 0]
            options |= {"step_size": step, "friction": told.rho / step, "inner_steps": steps}
            options |= {"noise_estimate": False, "local_step": _published_local(40, 20)}
            if sampler == "gsgnht":
                options["inertia"] = 1.0
        return model.build(
            problem.train, problem.shape, hyper=problem.hyper, sampler=sampler, **options
        )

    return build


def _metropolis(samples: int) -> Build:
    def build(problem: Problem, setting: str) -> tuple[Kernel, Stream]:
        options: dict[str, Any] = {}
        if samples > 1:
            options["local_step"] = Local(samples=samples)
        if setting == "published":
            told = problem.published
            if samples > 1:
                step, steps, burn_in, draws = told.apprmh
            else:
                step, steps, burn_in, draws = *told.gibbs, 1
            options = {"step_size": step, "inner_steps": steps}
            options["local_step"] = _published_local(burn_in, draws)
        return model.build(
            problem.train, problem.shape, hyper=problem.hyper, sampler="gmc-bgibbs", **options
        )

    return build


def _published_local(burn_in: int, samples: int) -> Geodesic:
    return Geodesic(samples, burn_in, 10, 1e-6, 1e-6, "least-squares", fixed=True)


def _variational(full: bool, learn: bool) -> Build:
    def build(problem: Problem, setting: str) -> tuple[Kernel, Stream]:
        del setting
        decay = problem.published.decay
        options: dict[str, Any] = {"learn_concentration": learn}
        if full:
            # Weights continue from their last values: short updates lose nothing and score earlier.
            options |= {"local_iterations": 5, "topic_iterations": 5}
        else:
            step = schedules.polynomial_decay(5**-decay, tau=5, kappa=decay)
            options |= {"batch_size": problem.batch_size, "step_size": step}
        return variational.build(problem.train, problem.shape, hyper=problem.hyper, **options)

    return build


METHODS: dict[str, Build] = {
    "SGGMC": _langevin("sggmc", full=False),
    "gSGNHT": _langevin("gsgnht", full=False),
    "SGGMC, full batch": _langevin("sggmc", full=True),
    "gSGNHT, full batch": _langevin("gsgnht", full=True),
    "GMC-apprMH": _metropolis(5),
    "GMC-bGibbs": _metropolis(1),
    "VI": _variational(full=True, learn=False),
    "StoVI": _variational(full=False, learn=False),
    "VI, xi learned": _variational(full=True, learn=True),
    "StoVI, xi learned": _variational(full=False, learn=True),
}
POINTS = tuple(name for name in METHODS if "VI" in name)
"""These have one setting, and are shown with both."""


class _Scores(Hook):
    """A hook that scores the topics about every `seconds / EVALUATIONS`, and ends the run."""

    def __init__(self, problem: Problem, key: jax.Array, seconds: float) -> None:
        self._problem, self._key, self._seconds = problem, key, seconds
        # Early times are closer together, since most happens there.
        self._due = list(seconds * (np.arange(1, EVALUATIONS + 1) / EVALUATIONS) ** 1.5)
        self.records: list[dict[str, float]] = []
        self.log_p: dict[str, list[np.ndarray]] = {"importance": [], "prior": []}

    def pulse(self, event: Event) -> bool:
        """Score if it is time."""
        if event.seconds < self._due[0]:
            return False
        while self._due and event.seconds >= self._due[0]:
            self._due.pop(0)
        problem, topics = self._problem, event.state.position
        told = problem.hyper.alpha, problem.hyper.kappa1
        key = jax.random.fold_in(self._key, event.step)
        by_importance = density.estimate(key, topics, problem.test, *told)
        # The same prior draws at all times.
        by_prior = density.estimate(
            self._key, topics, problem.test, *told, density.PRIOR_DRAWS, method="prior"
        )
        self.log_p["importance"].append(by_importance.log_p)
        self.log_p["prior"].append(by_prior.log_p)
        self.records.append(
            {
                "updates": event.step,
                "seconds": event.seconds,
                "importance": density.log_perplexity(by_importance.log_p),
                "prior": density.log_perplexity(by_prior.log_p),
                "draws": float(np.median(by_importance.ess)),
            }
        )
        return not self._due

    def pooled(self, name: str) -> float:
        """Return the log-perplexity of the last `POOLED` samples of the topics, pooled."""
        return density.log_perplexity(pool(self.log_p[name][-POOLED:]))


def scored(
    problem: Problem, name: str, setting: str, seconds: float, seed: int, start: str
) -> dict[str, Any]:
    """Run a method for some seconds of updates; return its row and records.

    The seconds of a variational start, with compilation, are counted separately.
    """
    kernel, stream = METHODS[name](problem, setting)
    key_start, key_init, key_run, key_scores = jax.random.split(jax.random.key(seed), 4)
    hook = _Scores(problem, key_scores, seconds)
    begun = time.perf_counter()
    topics = variational.start(key_start, problem.train, problem.hyper, problem.shape[0], start)
    topics.block_until_ready()
    row: dict[str, Any] = {"settings": "" if name in POINTS else setting, "method": name}
    row |= {"start": start, "start seconds": time.perf_counter() - begun}
    chunk = 20_000
    try:
        _, told = run(
            key_run,
            kernel,
            kernel.init(key_init, topics),
            stream,
            1_000 * chunk,
            collect=_told,
            hooks=[hook],
            chunk=chunk,
        )
    except FloatingPointError as error:
        click.echo(f"{name}: {error}")
        return {"row": row | dict.fromkeys(_COLUMNS, math.nan), "records": hook.records}
    half = {key: float(values[len(values) // 2 :].mean()) for key, values in told.items()}
    late = hook.records[len(hook.records) // 2 :]
    last = hook.records[-1]
    figures = (
        last["updates"],
        last["seconds"],
        half["kinetic"],
        half["acceptance"],
        float(np.mean([record["importance"] for record in late])),
        hook.pooled("importance"),
        last["draws"],
        float(np.mean([record["prior"] for record in late])),
        hook.pooled("prior"),
    )
    return {"row": row | dict(zip(_COLUMNS, figures, strict=True)), "records": hook.records}


_COLUMNS = (
    "updates",
    "seconds",
    "kinetic energy",
    "acceptance",
    "importance",
    f"importance, {POOLED} pooled",
    "effective draws",
    "prior draws",
    f"prior draws, {POOLED} pooled",
)


def _told(state: Any, info: Any) -> dict[str, jax.Array]:
    del state
    inner = getattr(info, "sampler", None)
    return {name: jnp.float32(getattr(inner, name, jnp.nan)) for name in ("kinetic", "acceptance")}


def options(name: str) -> Callable:
    """Add the options of the experiments to a command."""

    def decorate(command: Callable) -> Callable:
        for option in (
            click.option(
                "--settings", multiple=True, type=click.Choice(SETTINGS), default=SETTINGS
            ),
            click.option(
                "--methods",
                multiple=True,
                type=click.Choice(tuple(METHODS)),
                default=tuple(METHODS),
            ),
            click.option(
                "--start", type=click.Choice(variational.STARTS), default="prior", show_default=True
            ),
            click.option(
                "--seconds", type=float, default=300.0, show_default=True, help="Of each method."
            ),
            common.options(name),
        ):
            command = option(command)
        return command

    return decorate


def experiment(
    problem: Problem,
    methods: Sequence[str],
    settings: Sequence[str],
    seconds: float,
    start: str,
    seed: int,
    out: Path,
    about: dict[str, Any],
) -> None:
    """Run the methods, each into its own file; the table and the figure show all files."""
    started = time.perf_counter()
    (out / "runs").mkdir(parents=True, exist_ok=True)
    for setting in settings:
        for name in methods:
            if name in POINTS and setting != settings[0]:
                continue
            result = scored(problem, name, setting, seconds, seed, start)
            where = name if name in POINTS else f"{setting}, {name}"
            where += ", variational start" * (start != "prior")
            text = json.dumps(result)
            (out / "runs" / f"{where}.json").write_text(text, encoding="utf-8")
            click.echo(result["row"])
            told = {"seconds a method": seconds, "seed": seed, "pooled": POOLED, **about}
            _write(out, told, started)


def _write(out: Path, about: dict[str, Any], started: float) -> None:
    result = [json.loads(p.read_text(encoding="utf-8")) for p in sorted((out / "runs").iterdir())]
    names = list(METHODS)
    result.sort(key=lambda one: (one["row"]["settings"], names.index(one["row"]["method"])))
    figure, axes = common.figure(2, 2, width=4.6, height=3.2, sharex=True, sharey="row")
    colours = dict(zip(names, common.COLOURS, strict=False))
    for row, score in enumerate(("importance", "prior")):
        for axis, setting in zip(axes[2 * row :], SETTINGS, strict=False):
            for one in result:
                name = one["row"]["method"]
                if one["row"]["settings"] not in ("", setting) or not one["records"]:
                    continue
                seconds = [record["seconds"] for record in one["records"]]
                values = [record[score] for record in one["records"]]
                label, style = name, "--" if name in POINTS else "-"
                if one["row"]["start"] != "prior":
                    label, style = f"{name}, variational start", ":"
                axis.plot(seconds, values, style, color=colours[name], lw=1.1, label=label)
            if row == 0:
                axis.set(title=f"{setting} settings")
            else:
                axis.set(xlabel="seconds of training")
    axes[0].set_xscale("log")
    axes[0].set_ylabel("log-perplexity, importance sampling")
    axes[2].set_ylabel("log-perplexity, 200 prior draws")
    axes[1].legend(fontsize=6, frameon=False)
    common.write(out, [one["row"] for one in result], figure, about, started)


def synthetic(seed: int) -> Problem:
    """Return a problem that runs in seconds, drawn from the model."""
    generator = np.random.default_rng(seed)
    topics, words, documents = 4, 60, 240
    beta = np.abs(generator.normal(size=(topics, words))) * (
        generator.random((topics, words)) < 0.4
    )
    beta /= np.linalg.norm(beta, axis=1, keepdims=True)
    b = generator.dirichlet(np.full(topics, 0.5), documents) @ beta
    noisy = b / np.linalg.norm(b, axis=1, keepdims=True) + 0.08 * generator.normal(size=b.shape)
    vectors = sp.csr_array(noisy / np.linalg.norm(noisy, axis=1, keepdims=True))
    told = Published(1e-2, 1e-2, (10, 1, 1), (1e-4, 1, 15, 10), (2e-5, 5, 15), 0.8)
    model = {"alpha": 0.5, "sigma": 50.0, "kappa0": 50.0, "kappa1": 120.0}
    return problem_of(vectors[:200], vectors[200:], topics, 20, told, **model)


def pool(log_p) -> np.ndarray:
    """Return the log of the mean density over samples of the topics, [M, D] -> [D].

    It increases with the number of samples: compare only figures with the same number.
    """
    values = np.asarray(log_p, np.float64)
    return np.logaddexp.reduce(values, axis=0) - np.log(len(values))

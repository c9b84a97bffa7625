"""Fits of Dirichlet-process mixtures: preparation and summary of a run."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from simplex_jax._src.base import Kernel
from simplex_jax._src.draws.keys import split
from simplex_jax._src.evaluate import diagnostics
from simplex_jax._src.evaluate import partitions as point_partitions
from simplex_jax._src.evaluate.fits import Mixture
from simplex_jax._src.evaluate.partitions import PointPartition
from simplex_jax._src.models import growth, pipeline
from simplex_jax._src.models.dpm import clusters as clustering
from simplex_jax._src.models.dpm import cost, model, posterior, starts
from simplex_jax._src.models.dpm.clusters import Assignment, Clusters, assign
from simplex_jax._src.models.dpm.data import Data, Given, as_data, mapped
from simplex_jax._src.models.dpm.families import Family
from simplex_jax._src.models.dpm.families import rows as family_rows
from simplex_jax._src.models.dpm.options import Options, most_clusters, process_alpha
from simplex_jax._src.models.dpm.state import State
from simplex_jax._src.models.dpm.variables import Columns, Variables
from simplex_jax._src.models.records import Plan
from simplex_jax._src.runtime import devices, session
from simplex_jax._src.runtime.sample_files import Folder
from simplex_jax._src.runtime.session import Run

_EXAMPLES, _VALUES = 3, 12
# Clusters that are supposed for an estimate of time.
_SOME = 10
_REMEDY = "give a smaller capacity (--capacity), or fewer chains"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Fit(pipeline.Fit):
    """A fitted Dirichlet-process mixture; several chains are pooled.

    It has the attributes of `pipeline.Fit`, too. The metrics of an evaluation are step, documents
    (rows) and passes visited, seconds, rows_per_second, capacity, moved (share of the rows that
    changed their cluster in the last update), alpha, num_clusters and largest, and with held-out
    rows log_predictive and log_predictive_average (see `heldout`).

    Attributes:
        clusters: The clusters of the N training rows, with profiles and intervals.
        point: The partition of these rows of least expected loss, `labels` [N], see
            `evaluate.partitions.PointPartition`.
        alpha: Concentration of the process; the posterior mean if it is learned.
        alpha_sd: Its posterior standard deviation, 0 if it is given.
        alpha_interval: Its 95% interval.
        num_clusters_posterior: Posterior probability of each number of clusters with rows, by
            number.
        names: Names of all rows, D.
        held_out: Which of them were held out, bool [D].
        proportions: Posterior probability of each cluster for all rows, float32 [D, C].
        family: The component distribution.
        variables: The variables of the rows; None if `fit` was given a family.
        examples: Rows that are most probably in each cluster, if there are variables.
        traces: Traces of the last half of the run: "alpha", "num_clusters" and "largest" (share of
            the rows in the largest cluster), [S, chains] each, and, with held-out rows,
            "log_predictive" of its evaluations, [E, chains]; empty for a loaded fit.
        partitions: Posterior partitions: "labels" [S, chains, N], "alpha" [S, chains], "step" [S];
            empty for a loaded fit.
    """

    settings: Options
    clusters: Clusters
    point: PointPartition
    alpha: float
    alpha_sd: float
    alpha_interval: tuple[float, float]
    num_clusters_posterior: dict[int, float]
    names: tuple[str, ...]
    held_out: np.ndarray
    proportions: np.ndarray
    family: Family
    variables: Variables | None
    examples: list[list[dict[str, Any]]]
    traces: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    partitions: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)

    def to_record(self) -> Mixture:
        """Return traces and partitions for `simplex_jax.evaluate`."""
        return Mixture(self.traces, self.partitions)

    @property
    def num_clusters(self) -> int:
        """Number of clusters of the point partition."""
        return int(self.point.labels.max()) + 1

    def lines(self) -> list[str]:
        """Return a line for each cluster, the largest first."""
        sizes = enumerate(self.clusters.sizes)
        return [f"{cluster:4d} {size:8,.0f} rows" for cluster, size in sizes]


def _law(data: Data, settings: Options) -> tuple[Family, Variables | None]:
    """Return the component distribution of a run, and the variables of its rows."""
    if data.family is not None:
        return data.family, None
    assert data.variables is not None
    prior = settings.concentration or data.variables.concentration
    variables = data.variables._replace(concentration=prior)
    return variables.family(), variables


def prepare(plan: Plan, folder: Folder | None) -> Run:
    """Return the run of a plan, ready for training.

    Partitions stay in memory, because the clusters are computed from them.
    """
    del folder
    settings: Options = plan.settings
    rows, (family, _) = plan.train.rows, _law(plan.train, settings)
    heldout = plan.heldout
    key_init, key_run, _ = _keys(settings)
    build = functools.partial(
        model.build,
        rows,
        family,
        sampler=settings.sampler,
        counts=settings.counts,
        batch_size=settings.batch_size,
        alpha=process_alpha(settings),
        atom_step_size=settings.atom_step_size,
        stick_step_size=settings.stick_step_size,
        split_merge=settings.split_merge or 0,
        chains=settings.chains if settings.chains > 1 else None,
    )
    kernel, stream = build(capacity=settings.capacity)
    measures: dict[str, Any] = {}
    if heldout is not None:
        heldout = jax.tree.map(jnp.asarray, heldout)
        measures["evaluation"] = posterior.held_out(family, heldout, settings)
    measures["posterior"] = posterior.gather(settings, heldout is not None)
    measures["kept"] = posterior.keep(settings)
    measures["records"] = posterior.records(settings, len(plan.train.names))
    # Last, after all checks: the search for a start can take seconds.
    state = _like(kernel, rows, settings)
    cost.warn(settings, family, rows, settings.initial_clusters or _SOME)
    if not plan.resumed:
        key_labels, key_state = split(key_init)
        labels = _start(key_labels, family, rows, settings)
        clusters = int(labels.max()) + 1
        # Growing the state recompiles its program.
        needed = cost.sticks(settings, family_rows.size(rows), clusters)
        kernel, stream = build(capacity=growth.doubled(settings.capacity, needed))
        labels = labels if settings.chains > 1 else labels[0]
        state = session.start(kernel.init, key_state, labels, remedy=_REMEDY)
    return Run(
        key=key_run,
        kernel=kernel,
        state=state,
        feed=lambda first_step: stream,
        measures=measures,
        grow=model.grown,
    )


def _like(kernel: Kernel, rows: Any, settings: Options) -> State:
    """Return the structure of a state of the initial capacity; raise if memory is too small."""
    chains = (settings.chains,) if settings.chains > 1 else ()
    labels = jax.ShapeDtypeStruct((*chains, family_rows.size(rows)), jnp.int32)
    like = jax.eval_shape(kernel.init, jax.random.key(0), labels)
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(like))
    devices.check_memory(2 * size, _REMEDY)
    return like


def _start(key: jax.Array, family: Family, rows: Any, settings: Options) -> jax.Array:
    """Return the initial labels of each chain, int32 [chains, N]."""
    keys = [jax.random.fold_in(key, chain) for chain in range(settings.chains)]
    if settings.initial_clusters is None:
        most = most_clusters(family_rows.size(rows), settings)
        labels: list[ArrayLike] = []
        for key in keys:
            found = starts.predictive_labels(key, family, rows, most)
            together = starts.merged(jax.random.fold_in(key, 1), family, rows, found)
            labels.append(_numbered(together))
    else:
        numbers = growth.starts(settings.initial_clusters, settings.capacity, settings.chains)
        labels = [
            model.random_labels(key, rows, number)
            for key, number in zip(keys, numbers, strict=True)
        ]
    return jnp.stack(labels)


def _numbered(labels: ArrayLike) -> np.ndarray:
    """Number clusters without gaps, the largest first like the sticks: this saves capacity."""
    array = np.asarray(labels)
    order = np.argsort(-np.bincount(array), kind="stable")
    return np.argsort(order, kind="stable")[array].astype(np.int32)


def _keys(settings: Options) -> tuple[jax.Array, ...]:
    """Return the keys of the first state, of the run and of the summary."""
    return split(jax.random.key(settings.seed), 3)


def summarise(plan: Plan, run: Run, trained: session.Trained) -> Fit:
    """Match the clusters of the kept partitions, and describe them."""
    settings: Options = plan.settings
    data, (family, variables) = plan.train, _law(plan.train, settings)
    gathered = run.measures["posterior"].result(trained.event)
    partitions = run.measures["kept"].samples()
    if not partitions and trained.event:
        last = posterior.read(trained.event, settings.chains)
        partitions = {name: array[None] for name, array in last.items()}
    labels = partitions["labels"].reshape(-1, len(data.names))
    key = _keys(settings)[2]
    clusters = clustering.summarise(key, family, data.rows, labels, partitions["alpha"].ravel())
    held_out = np.ones(len(plan.data.names), bool)
    held_out[data.numbers] = False
    proportions = np.empty((len(held_out), len(clusters.sizes)), np.float32)
    proportions[~held_out] = clusters.proportions
    if plan.held:
        proportions[held_out] = assign(clusters.samples, family, plan.heldout).proportions
    traces = gathered.traces()
    moving = {name: trace.T for name, trace in traces.items() if np.unique(trace).size > 1}
    mean, sd = (float(x) for x in gathered.moments["alpha"].pooled())
    lower, upper = np.quantile(traces["alpha"], [0.025, 0.975])
    return Fit(
        num_samples=len(labels),
        diagnostics=diagnostics.summary(moving),
        metrics=run.measures["records"].records,
        settings=settings,
        interrupted=trained.interrupted,
        state=trained.state,
        clusters=clusters,
        point=point_partitions.point_partition(labels, settings.loss, seed=settings.seed),
        alpha=mean if isinstance(settings.alpha, str) else settings.alpha,
        alpha_sd=sd if isinstance(settings.alpha, str) else 0.0,
        alpha_interval=(float(lower), float(upper)),
        num_clusters_posterior=point_partitions.number_posterior(
            traces["num_clusters"].astype(int).ravel()
        ),
        names=plan.data.names,
        held_out=held_out,
        proportions=proportions,
        family=family,
        variables=variables,
        examples=[] if variables is None else _examples(plan.data, variables, proportions),
        traces=traces,
        partitions=partitions,
    )


def _examples(
    data: Data, variables: Variables, proportions: np.ndarray
) -> list[list[dict[str, Any]]]:
    """Return the rows with the largest probability of each cluster, with their values."""
    return [
        [
            {
                "name": data.names[row].encode("utf-8", "replace").decode(),
                "share": float(of_cluster[row]),
                "values": variables.of_row(data.table, row)[:_VALUES],
            }
            for row in np.argsort(-of_cluster, kind="stable")[:_EXAMPLES]
        ]
        for of_cluster in proportions.T
    ]


def describe(plan: Plan) -> dict[str, Any]:
    """Return facts about the rows of a run."""
    data: Data = plan.data
    facts: dict[str, Any] = {"rows": len(data.names)}
    if data.variables is None:
        return facts
    variables = data.variables
    observations = variables.observations(data.table)
    return facts | {
        "empty": int((observations == 0).sum()),
        "observations": int(observations.sum()),
        "variables": len(variables.columns) if isinstance(variables, Columns) else 1,
        "values": len(variables.items),
    }


def infer(fitted: Fit, rows: Any, *, seed: int = 0) -> np.ndarray:
    """Return cluster probabilities of new rows, float32 [n, C]; deterministic."""
    del seed
    return _assign(fitted, rows).proportions


def score(fitted: Fit, rows: Any, *, seed: int = 0) -> float:
    """Return the mean log predictive density of new rows, see `Fit.score`; deterministic."""
    del seed
    return float(_assign(fitted, rows).log_predictive.mean())


def _assign(fitted: Fit, rows: Any) -> Assignment:
    if fitted.variables is None:
        rows = as_data(Given(rows, fitted.family)).rows
    else:
        rows = fitted.variables.rows(mapped(fitted.variables, rows)[0])
    return assign(fitted.clusters.samples, fitted.family, rows)

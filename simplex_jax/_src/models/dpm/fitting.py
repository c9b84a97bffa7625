"""Fits of Dirichlet-process mixtures: preparation and summary of a run."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from simplex_jax._src.arguments import as_number
from simplex_jax._src.base import Kernel, PyTree
from simplex_jax._src.batches import Stream
from simplex_jax._src.corpus.frames import reads_as_number
from simplex_jax._src.draws.keys import fold_in, split
from simplex_jax._src.evaluate import diagnostics
from simplex_jax._src.evaluate import partitions as point_partitions
from simplex_jax._src.evaluate.diagnostics import LARGE_RHAT, few_samples
from simplex_jax._src.evaluate.fits import Mixture
from simplex_jax._src.evaluate.partitions import PointPartition
from simplex_jax._src.models import growth, heldout, pipeline, verdict
from simplex_jax._src.models.dpm import clusters as clustering
from simplex_jax._src.models.dpm import model, starts
from simplex_jax._src.models.dpm.clusters import Assignment, Clusters, assign
from simplex_jax._src.models.dpm.data import Data, mapped
from simplex_jax._src.models.dpm.families import Family
from simplex_jax._src.models.dpm.families import family as family_rows
from simplex_jax._src.models.dpm.families.gaussian import Normals
from simplex_jax._src.models.dpm.options import Options, most_clusters, process_alpha
from simplex_jax._src.models.dpm.state import State
from simplex_jax._src.models.dpm.totals import compiler_options, has_documents
from simplex_jax._src.models.dpm.variables import Columns, Variables
from simplex_jax._src.models.heldout import HeldOut, mean, measured, metrics
from simplex_jax._src.models.records import Plan, of_run
from simplex_jax._src.report import display
from simplex_jax._src.report.display import counted
from simplex_jax._src.runtime import devices, driver, gathering, session
from simplex_jax._src.runtime.gathering import Gathered, Kept, Posterior
from simplex_jax._src.runtime.hooks import Event
from simplex_jax._src.runtime.moments import Moments
from simplex_jax._src.runtime.sample_files import Folder
from simplex_jax._src.runtime.session import Records, Run
from simplex_jax._src.runtime.windows import window_of
from simplex_jax._src.warn import warn_caller

# Hooks of a run: traces, partitions, held-out rows, and records of the evaluations.

_TRACES = ("alpha", "num_clusters", "largest")
_CELLS = "cells."

_log_predictive = jax.jit(model.log_predictive)


def gather_traces(settings: Options, heldout: bool) -> Posterior:
    """Return the hook that gathers traces of label-invariant quantities.

    These are the concentration, the number of clusters with rows, the share of the rows in the
    largest one and, with held-out rows, their mean log predictive density. Labels of clusters are
    not comparable between samples: see `clusters`.
    """
    chains = settings.chains
    names = [*_TRACES, "log_predictive"] if heldout else _TRACES

    def sample(event: Event) -> gathering.Sample:
        traced = _traced(event, chains)
        return gathering.Sample({"alpha": traced["alpha"]}, {}, traced)

    def evaluated(event: Event) -> dict[str, np.ndarray]:
        return {"log_predictive": measured(event, "log_predictive", chains)} if heldout else {}

    def make() -> Gathered:
        return Gathered({"alpha": Moments((chains,))}, dict.fromkeys(names, (chains,)))

    return Posterior(sample, make, window_of(settings), evaluated)


def _traced(event: Event, chains: int) -> dict[str, np.ndarray]:
    """Return the traced numbers of an event, [C] each."""
    occupancy = np.asarray(event.state.occupancy).reshape(chains, -1)
    return {
        "alpha": np.asarray(event.state.alpha, np.float64).reshape(chains),
        "num_clusters": (occupancy > 0).sum(axis=1),
        "largest": occupancy.max(axis=1) / occupancy.sum(axis=1),
    }


def read_partitions(event: Event, chains: int) -> dict[str, np.ndarray]:
    """Return the partitions of an event, [C, N], with compact labels, and alpha, [C].

    If the family draws missing cells, their values are among them, [C, N, m].
    """
    labels = np.asarray(event.state.labels).reshape(chains, -1)
    compact = np.stack([np.unique(row, return_inverse=True)[1] for row in labels])
    size = np.min_scalar_type(int(compact.max()))
    found = {"labels": compact.astype(size), "alpha": np.asarray(event.state.alpha).reshape(chains)}
    for place, values in enumerate(event.state.cells or ()):
        found[f"{_CELLS}{place}"] = np.asarray(values).reshape(chains, *values.shape[-2:])
    return found


def keep_partitions(settings: Options) -> Kept:
    """Return the hook that keeps thinned partitions in memory."""
    return Kept(
        lambda event: read_partitions(event, settings.chains),
        settings.keep_samples,
        window_of(settings),
        None,
    )


def measure_heldout(family: Family, rows: PyTree, settings: Options) -> HeldOut:
    """Return the hook that measures the log predictive densities of held-out rows."""

    def measure(event: Event) -> tuple[list[np.ndarray], dict[str, float]]:
        mixture, chains = event.state.position, settings.chains
        mixtures = (
            [mixture]
            if chains == 1
            else [
                jax.tree.map(lambda leaf, chain=chain: leaf[chain], mixture)
                for chain in range(chains)
            ]
        )
        return [np.asarray(_log_predictive(family, one, rows), np.float64) for one in mixtures], {}

    return HeldOut(
        "log_predictive",
        family_rows.size(rows),
        measure,
        mean,
        settings.chains,
        window_of(settings),
    )


def record_evaluations(settings: Options, rows: int) -> Records:
    """Return the hook that records evaluations: traces, throughput and kernel diagnostics."""
    chains = settings.chains

    def measure(event: Event, passes: float) -> Mapping[str, float]:
        record: dict[str, float] = {
            "rows_per_second": round(passes * rows / max(event.seconds, 1e-9)),
            "capacity": int(event.state.occupancy.shape[-1]),
            "moved": float(np.mean(np.asarray(event.info.moved))),
        }
        for name, values in _traced(event, chains).items():
            record[name] = float(values.mean())
            record |= zip(metrics(name, chains), map(float, values), strict=True)
        return record

    per_step: float = settings.batch_size or rows
    if settings.counts == "memoised":  # blocks cover the rows once a pass; the last may be short
        per_step = rows / -(-rows // per_step)
    return Records(rows, per_step, measure)


# An estimate of the time of a run, and a warning before one that takes long.

_LONG = 120.0
"""Seconds from which a run is warned of."""

# Roughly, of one core of a CPU: multiplications a second, and the seconds of one stick, however
# small, for a draw or an evidence.
_RATE, _EACH = 2e9, 2e-6

# Draws of each stick, and draws and evidences of each cluster in a round of split-merge moves.
_DRAWS, _OF_MOVES = 2, 5


def expected_sticks(settings: Options, rows: int, clusters: int) -> int:
    """Return about how many sticks the first updates need.

    With k clusters of similar size, the sticks beyond them weigh alpha / (n + alpha), and the least
    slice of n rows is about 1 / (k n), occasionally a 20th of that: after alpha log(20 k alpha)
    more sticks the rest is as small. A learned concentration starts near its posterior mean given k
    clusters.
    """
    if not isinstance(settings.alpha, str):
        alpha = settings.alpha
    else:
        prior, alpha = process_alpha(settings), 1.0
        assert isinstance(prior, model.Gamma)
        for _ in range(3):
            alpha = float((prior.shape + clusters) / (prior.rate + math.log1p(rows / alpha)))
    return math.ceil(clusters + alpha * math.log(max(20 * clusters * alpha, 1.0)))


def expected_seconds(
    settings: Options, family: Family, rows: PyTree, capacity: int, clusters: int
) -> float:
    """Return about how many seconds a run takes on one core, without compilation."""
    atom = family_rows.form_of_atom(family, rows)
    size = sum(leaf.size for leaf in jax.tree.leaves(atom))
    # A matrix for each component has to be factored: for `one_of` by each of its members.
    p = _covariance_columns(atom)
    factor = 3.0 * p**3
    priors = max((jnp.size(leaf) for leaf in jax.tree.leaves(family)), default=0)
    members = max(1, priors // (p * p)) if p else 1
    moves = settings.split_merge or 0
    each = _EACH + factor / _RATE
    draws = (_DRAWS * capacity + _OF_MOVES * moves * clusters) * members * each
    # As many sums of statistics as there are passes over the rows, in an update and its moves.
    batch = settings.batch_size or family_rows.size(rows)
    passes = batch * (capacity + 4 * (1 + moves)) * size / _RATE
    assert settings.steps is not None
    return settings.steps * settings.chains * (draws + passes)


def _covariance_columns(atom: PyTree) -> int:
    """Return the number of columns of the largest covariance of a component; 0 without one."""
    parts = jax.tree.leaves(atom, is_leaf=lambda part: isinstance(part, Normals))
    return max((part.mean.shape[-1] for part in parts if isinstance(part, Normals)), default=0)


def warn_of_time(settings: Options, family: Family, rows: PyTree, clusters: int) -> None:
    """Warn of a run that takes minutes, with what makes it shorter."""
    count = expected_sticks(settings, family_rows.size(rows), clusters)
    capacity = max(settings.capacity, count)
    if settings.seconds is not None:
        return
    if (time := expected_seconds(settings, family, rows, capacity, clusters)) < _LONG:
        return
    reasons = []
    if not isinstance(settings.alpha, str) and count > 4 * settings.capacity:
        size = family_rows.size(rows)
        expected = settings.alpha * math.log1p(size / settings.alpha)
        reasons.append(
            f"alpha = {settings.alpha:g} expects {expected:,.0f} clusters of {size:,} rows and "
            f"needs some {count:,} sticks: give a smaller one, or learn it"
        )
    if (p := _covariance_columns(family_rows.form_of_atom(family, rows))) >= 32:
        reasons.append(
            f"a component has the covariance of {p} columns: reduce them by principal components, "
            "or take the family diagonal_gaussian"
        )
    reasons.append("do fewer passes (--passes), or give a time (--seconds)")
    warn_caller(f"the run takes about {_duration(time)} on one core; {'; or '.join(reasons)}")


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.0f} hours"


_EXAMPLES, _VALUES = 3, 12
# Clusters that are supposed for an estimate of time.
_SOME = 10
_REMEDY = "give a smaller capacity (--capacity), or fewer chains"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Fit(pipeline.Fit):
    """A fitted Dirichlet-process mixture; several chains are pooled.

    The metrics of an evaluation are step, documents (rows) and passes visited, seconds,
    rows_per_second, capacity, moved (share of the rows that changed their cluster in the last
    update), alpha, num_clusters and largest, and with held-out rows log_predictive, by the current
    state, and log_predictive_average, by the mean of the densities over chains and evaluations.

    Attributes:
        clusters: The clusters of the N training rows, with profiles and intervals.
        point: The partition of these rows of least expected loss, `labels` [N], as from
            `evaluate.point_partition`.
        alpha: Concentration of the process; the posterior mean if it is learned.
        alpha_sd: Its posterior standard deviation, 0 if it is given.
        alpha_interval: Its 95% interval; rough with fewer than 50 effective samples, see
            `diagnostics`, and then not in the report.
        num_clusters_posterior: Posterior probability of each number of clusters with rows, by
            number.
        names: Names of all rows, D.
        weights: How many equal rows each of them stands for, int [D], if `fit` was given weights;
            None for a loaded fit. Sizes of clusters count all of them; the label of a row in
            `point` is the most frequent one of its equals, and its proportions are their mean.
        held_out: Which of them were held out, bool [D].
        proportions: Posterior probability of each cluster for all rows, float32 [D, C].
        family: The component distribution.
        variables: The variables of the rows; None if `fit` was given a family.
        examples: Rows that are most probably in each cluster, if there are variables.
        traces: Traces of the last half of the run: "alpha", "num_clusters" and "largest" (share of
            the rows in the largest cluster), [S, chains] each, and, with held-out rows,
            "log_predictive" of its evaluations, [E, chains]; empty for a loaded fit.
        partitions: Posterior partitions: "labels" [S, chains, N], "alpha" [S, chains], "step" [S];
            empty for a loaded fit. With weights each of N rows comes as often as it counts.
        {results}
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
    weights: np.ndarray | None = None

    def to_record(self) -> Mixture:
        """Return traces and partitions for `simplex_jax.evaluate`."""
        return Mixture(self.traces, self.partitions)

    @property
    def num_clusters(self) -> int:
        """Number of clusters of the point partition."""
        return int(self.point.labels.max()) + 1

    def sample(
        self,
        num_rows: int = 1,
        *,
        seed: int = 0,
        draw: int | None = None,
        lengths: ArrayLike | None = None,
    ) -> tuple[Any, np.ndarray]:
        """Draw new rows from the posterior predictive distribution.

        A row has one of the kept samples, one of its components, or a new one from the prior, and
        values from that: the density of rows is that whose logarithm `score` averages.

        Args:
            num_rows: Number of rows, from 1 on.
            seed: Of the draws; the same seed gives the same rows.
            draw: Index of the kept sample that all rows are from, 0 to `num_samples` - 1; by
                default each row has a random one.
            lengths: For counts of words: their number in each row, an integer or [num_rows], which
                is not part of the model.

        Returns:
            The rows, complete, in the form of the data: a `Corpus`; of a table, arrays of the
            columns by name, in their units and with the values of categories; or rows of the family
            that `fit` was given. And the cluster of each row in `clusters`, int32 [num_rows]; -1
            for a new cluster or one that is not reported.

        Raises:
            ValueError: An argument is out of range, `lengths` is missing, or a custom family cannot
                draw rows.

        Example:
            >>> import numpy as np
            >>> from simplex_jax import dpm
            >>> table = {"size": np.repeat([1.5, 7.5], 20) + np.linspace(0, 0.9, 40)}
            >>> fitted = dpm.fit(table | {"kind": ["a"] * 20 + ["b"] * 20}, passes=50)
            >>> rows, labels = fitted.sample(500, seed=1)
            >>> list(rows), labels.shape, bool(np.mean(rows["size"][rows["kind"] == "b"]) > 5)
            (['size', 'kind'], (500,), True)
        """
        rows, labels = clustering.sample(
            seed, self.clusters.samples, self.family, num_rows, draw=draw, lengths=lengths
        )
        return rows if self.variables is None else self.variables.from_rows(rows), labels

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
        heldout = family_rows.prepare(family, heldout)
        measures["evaluation"] = measure_heldout(family, heldout, settings)
    measures["posterior"] = gather_traces(settings, heldout is not None)
    measures["kept"] = keep_partitions(settings)
    measures["records"] = record_evaluations(settings, plan.train.size)
    # Last, after all checks: the search for a start can take seconds.
    state = _like(kernel, rows, settings)
    warn_of_time(settings, family, rows, settings.initial_clusters or _SOME)
    if not plan.resumed:
        wait = _compile_ahead(key_run, kernel, state, stream, rows, settings)
        key_labels, key_state = split(key_init)
        labels = _start(key_labels, family, rows, settings)
        clusters = int(labels.max()) + 1
        needed = expected_sticks(settings, family_rows.size(rows), clusters)
        if needed > settings.capacity:  # growing the state later would compile once more
            kernel, stream = build(capacity=growth.doubled(settings.capacity, needed))
        labels = labels if settings.chains > 1 else labels[0]
        remedy = _REMEDY
        if needed > settings.capacity and not isinstance(settings.alpha, str):
            remedy = (
                f"alpha = {settings.alpha:g} needs some {needed:,} sticks: give a smaller one "
                "(--alpha), or fewer chains"
            )
        state = session.start(kernel.init, key_state, labels, remedy=remedy)
        if needed <= settings.capacity:
            wait()
    return Run(
        key=key_run,
        kernel=kernel,
        state=state,
        feed=lambda first_step: stream,
        measures=measures,
        grow=model.State.grown,
        compiler_options=compiler_options(rows),
    )


def _compile_ahead(
    key: jax.Array,
    kernel: Kernel,
    like: State,
    stream: Stream,
    rows: Any,
    settings: Options,
) -> Callable[[], None]:
    """Start compiling the program of the updates, while a start is searched for.

    It is in vain if the start needs more sticks, as those of documents and a large alpha do.
    """
    more = expected_sticks(settings, family_rows.size(rows), 1) > settings.capacity
    if more or has_documents(rows) or settings.initial_clusters is not None:
        return lambda: None
    assert settings.eval_every is not None
    return driver.compile_ahead(
        *(key, kernel, like, stream),
        collect=driver.nothing,
        chunk=settings.eval_every,
        compiler_options=compiler_options(rows),
    )


def _like(kernel: Kernel, rows: Any, settings: Options) -> State:
    """Return the structure of a state of the initial capacity; raise if memory is too small."""
    chains = (settings.chains,) if settings.chains > 1 else ()
    labels = jax.ShapeDtypeStruct((*chains, family_rows.size(rows)), jnp.int32)
    like = jax.eval_shape(kernel.init, jax.random.key(0), labels)
    needed = 2 * _bytes(like) + settings.keep_samples * _bytes(like.cells)
    devices.check_memory(needed, _REMEDY)
    # Without weak types, as in `run`.
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), like)


def _bytes(arrays: Any) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(arrays))


def _start(key: jax.Array, family: Family, rows: Any, settings: Options) -> np.ndarray:
    """Return the initial labels of each chain, int32 [chains, N]."""
    keys = [fold_in(key, chain) for chain in range(settings.chains)]
    if settings.initial_clusters is None:
        most = most_clusters(family_rows.size(rows))
        labels: list[ArrayLike] = []
        for key in keys:
            found = starts.predictive_labels(key, family, rows, most)
            together = starts.merged(fold_in(key, 1), family, rows, found)
            labels.append(_numbered(together))
    else:
        numbers = growth.starts(settings.initial_clusters, settings.chains)
        labels = [
            model.random_labels(key, rows, number)
            for key, number in zip(keys, numbers, strict=True)
        ]
    return np.stack([np.asarray(one) for one in labels]).astype(np.int32)


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
        last = read_partitions(trained.event, settings.chains)
        partitions = {name: array[None] for name, array in last.items()}
    labels = partitions["labels"].reshape(-1, data.size)
    count = sum(name.startswith(_CELLS) for name in partitions)
    cells = [partitions.pop(f"{_CELLS}{place}") for place in range(count)]
    clusters = clustering.summarise(
        _keys(settings)[2],
        family,
        data.rows,
        labels,
        partitions["alpha"].ravel(),
        [values.reshape(-1, *values.shape[2:]) for values in cells],
    )
    proportions = data.means(clusters.proportions)
    clusters = clusters._replace(
        proportions=proportions, labels=clustering.most_probable(proportions)
    )
    point = point_partitions.point_partition(labels, settings.loss, seed=settings.seed)
    held_out = np.ones(len(plan.data.names), bool)
    held_out[data.numbers] = False
    proportions = np.empty((len(held_out), len(clusters.sizes)), np.float32)
    proportions[~held_out] = clusters.proportions
    if plan.held:
        held = dataclasses.replace(plan.data, weights=None).select(np.flatnonzero(held_out))
        proportions[held_out] = assign(clusters.samples, family, held.rows).proportions
    traces = gathered.traces()
    moving = {name: trace.T for name, trace in traces.items() if np.unique(trace).size > 1}
    mean, sd = (float(x) for x in gathered.moments["alpha"].pooled())
    lower, upper = np.quantile(traces["alpha"], [0.025, 0.975])
    return Fit(
        num_samples=len(labels),
        diagnostics=diagnostics.summary(moving),
        **of_run(plan, run, trained),
        clusters=clusters,
        point=point._replace(labels=data.labels(point.labels)),
        alpha=mean if isinstance(settings.alpha, str) else settings.alpha,
        alpha_sd=sd if isinstance(settings.alpha, str) else 0.0,
        alpha_interval=(float(lower), float(upper)),
        num_clusters_posterior=point_partitions.number_posterior(
            traces["num_clusters"].astype(int).ravel()
        ),
        names=plan.data.names,
        weights=plan.data.weights,
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
    if data.weights is not None:
        facts |= {"weighted": data.size, "weighted_train": plan.train.size}
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
    return _assign(fitted, rows).proportions


def score(fitted: Fit, rows: Any, *, seed: int = 0) -> float:
    """Return the mean log predictive density of new rows, see `Fit.score`; deterministic."""
    return float(_assign(fitted, rows).log_predictive.mean())


def _assign(fitted: Fit, rows: Any) -> Assignment:
    if fitted.variables is not None:
        rows = fitted.variables.rows(mapped(fitted.variables, rows)[0])
    return assign(fitted.clusters.samples, fitted.family, rows)


# Warnings that a fitted Dirichlet-process mixture may not be reliable, and its verdict.

_MOST_OTHERS = 0.1
"""Warn if more than this share of the rows is in clusters that are not shown."""

_MOST_DISTINCT = 0.9
"""Warn if a category has at least this number of values a row; names of rows have one."""

_MOST_NUMBERS = 10
"""Warn if a category has more values than this, and they are numbers with fractions."""

_LEAST_PRESENT = 0.5
"""Warn if a cluster of more than 1% of the rows is in less than this share of the samples."""


def mixture_warnings(
    metrics: Sequence[Mapping[str, float | None]],
    sizes: ArrayLike,
    present: ArrayLike,
    rows: int,
    *,
    partition: int | None = None,
    starts: Sequence[int] = (),
    split_merge: int = 0,
) -> list[str]:
    """Look for a log predictive that did not rise, a single cluster, and clusters that come and go.

    `sizes` [C] are mean sizes of the clusters, and `present` [C] the shares of the samples that
    have them. The point partition has `partition` clusters, by default as many. Chains started from
    `starts` random clusters and made `split_merge` moves per update. Return one sentence for each
    reason.
    """
    values = [v for record in metrics if (v := record.get("log_predictive")) is not None]
    sentences = []
    if not all(display.finite(value) for value in values):
        sentences.append("A held-out log predictive is not finite: the run has failed.")
    elif len(values) > 1 and values[-1] <= values[0] - max(
        heldout.noise(values), verdict.TOLERANCE
    ):
        sentences.append(
            f"The held-out log predictive did not rise: {values[0]:.4g} at first, "
            f"{values[-1]:.4g} at the end."
        )
    sentences += _stuck(metrics, starts, split_merge)
    means, share = np.asarray(sizes), np.asarray(present)
    if (len(means) if partition is None else partition) == 1 and rows > 1:
        sentences.append("All rows are in one cluster.")
    if means.sum() < (1 - _MOST_OTHERS) * rows:
        sentences.append(
            f"{100 * (1 - means.sum() / rows):.0f}% of the rows are in clusters that are not "
            "shown, because the reference sample does not have them."
        )
    sentences += [
        f"Cluster {cluster} is in {100 * share[cluster]:.0f}% of the samples only: the chain has "
        "not settled, or the rows leave it open."
        for cluster in np.flatnonzero((share < _LEAST_PRESENT) & (means > rows / 100))[:10]
    ]
    return sentences


def _stuck(
    metrics: Sequence[Mapping[str, float | None]], starts: Sequence[int], split_merge: int
) -> list[str]:
    """Look for chains whose number of clusters is still about that of the start."""
    near = []
    for chain, start in enumerate(starts):
        name = f"num_clusters_chain_{chain}" if len(starts) > 1 else "num_clusters"
        half = [record.get(name) for record in metrics[len(metrics) // 2 :]]
        values = [value for value in half if display.finite(value)]
        if values and start > 1 and 0.9 * start <= min(values) and max(values) <= 1.2 * start:
            near.append(start)
    if not near:
        return []
    numbers = " and ".join(map(str, near))
    or_moves = "" if split_merge else ", or one with --split-merge"
    return [
        f"The number of clusters has stayed at about that of the start ({numbers}): compare a run "
        f"from another number (--initial-clusters){or_moves}."
    ]


def _of_categories(variables: Variables | None, rows: int) -> list[str]:
    """Look for categories that are names of the rows, or measurements."""
    if not isinstance(variables, Columns):
        return []
    sentences = []
    for column, values in zip(variables.columns, variables.values, strict=True):
        if len(values) >= _MOST_DISTINCT * rows:
            sentences.append(
                f"Column {column!r} has {counted(len(values), 'value')} for "
                f"{counted(rows, 'row')}, like names of the rows, which say nothing about "
                "clusters: leave it out (--drop-column)."
            )
        measured = len(values) > _MOST_NUMBERS and all(map(reads_as_number, values))
        examples = (x for x in values if measured and not as_number(x).is_integer())
        if example := next(examples, None):
            sentences.append(
                f"Column {column!r} has {len(values):,} different numbers, such as {example}, each "
                "of which is taken for a category: say that they are numbers (--number-column; in "
                f"Python, kinds={{{column!r}: 'number'}})."
            )
    return sentences


def warn(fitted: Fit) -> list[str]:
    """Return what is wrong with a fit or its data, and what to do, one sentence each."""
    clusters, settings = fitted.clusters, fitted.settings
    # A start that was searched for is expected to be near the end.
    starts: Sequence[int] = ()
    if settings.initial_clusters is not None:
        starts = growth.starts(settings.initial_clusters, settings.chains)
    sentences = mixture_warnings(
        fitted.metrics,
        clusters.sizes,
        clusters.present,
        len(clusters.labels)
        if fitted.weights is None
        else int(fitted.weights[~fitted.held_out].sum()),
        partition=fitted.num_clusters,
        starts=starts,
        split_merge=settings.split_merge or 0,
    )
    sentences += _of_categories(fitted.variables, len(fitted.names))
    return sentences + few_samples(fitted.num_samples, kept=True)


def judge(fitted: Fit, longer: str) -> list[str]:
    """Return the verdict, given the command or call of a longer run; see `Results.verdict`."""
    sentences = [verdict.predictions(fitted, "log_predictive", logarithmic=True)]
    what = "" if verdict.SETTLED in sentences[0] else "lets the predictions settle"
    numbers = fitted.num_clusters_posterior
    likeliest = f"{min(numbers)} to {max(numbers)}" if len(numbers) > 1 else f"{min(numbers)}"
    clusters = f"{counted(fitted.num_clusters, 'cluster')}, and {likeliest} in single samples"
    # A number that is the same in all samples has no diagnostics.
    rhat = fitted.diagnostics.get("num_clusters", {"rhat": 1.0})["rhat"]
    if fitted.settings.chains == 1:
        sentences.append(
            f"{clusters}. One chain cannot tell whether another run would find the same: two can "
            "(chains=2, --chains 2)."
        )
    elif math.isnan(rhat):
        sentences.append(f"{clusters}. The chains are too short to tell whether they agree.")
        what = what or "tells whether the chains agree"
    elif rhat > LARGE_RHAT:  # infinite if each chain stays at a number of its own
        sentences.append(f"{clusters}. The chains disagree on their number (R-hat {rhat:.2f}).")
        what = "brings the chains together"
    else:
        sentences.append(f"{clusters}. The chains agree on their number.")
    if what:
        sentences += verdict.improvement(f"A longer run {what}", longer)
    return sentences

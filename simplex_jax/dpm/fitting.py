"""From rows to the clusters of the posterior of a Dirichlet-process mixture."""

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from simplex_jax.base import PyTree
from simplex_jax.dpm import evaluation, posterior
from simplex_jax.dpm.clusters import Clusters, summarise
from simplex_jax.dpm.settings import Settings, kernel_options, resolve, starts
from simplex_jax.evaluate import diagnostics, partitions
from simplex_jax.evaluate.partitions import PointPartition
from simplex_jax.models import dp_families, dp_mixture
from simplex_jax.models.dp_families import Family
from simplex_jax.runtime import session
from simplex_jax.runtime.hooks import Hook


class Fit(NamedTuple):
    """A fitted Dirichlet-process mixture; with several chains, of all of them together.

    Attributes:
        clusters: The clusters, with profiles and intervals, see `clusters.Clusters`.
        point: The partition of least expected loss, `labels` [N], with what it was found by: see
            `evaluate.partitions.PointPartition`.
        samples: Number of partitions kept, of all chains, from the second half of the run.
        alpha: Concentration of the process; the posterior mean where it is learned.
        alpha_sd: Its standard deviation, 0 where it is given.
        occupied: Posterior probability of each number of clusters with rows, by number.
        traces: Of the second half of the run: "alpha", "occupied", "largest" (share of the rows in
            the largest cluster) and, with held-out rows, "log_predictive", [S, chains] each.
        diagnostics: R-hat and effective sample size of these, by name; what never changes is left
            out.
        metrics: One record per evaluation: step, documents (rows) and passes visited, seconds,
            rows_per_second, capacity, moved (share of the rows that changed their cluster in the
            last update), alpha, occupied and largest, and with held-out rows log_predictive and
            log_predictive_average (see `evaluation`).
        partitions: The partitions kept: "labels" [S, chains, N], "alpha" [S, chains], "step" [S].
        settings: The settings, resolved.
        state: Last state of the kernel, of all chains along a first axis if there are several.
        interrupted: The signal that ended the run before its time, or None.
    """

    clusters: Clusters
    point: PointPartition
    samples: int
    alpha: float
    alpha_sd: float
    occupied: dict[int, float]
    traces: dict[str, np.ndarray]
    diagnostics: dict[str, dict[str, float]]
    metrics: list[dict[str, float]]
    partitions: dict[str, np.ndarray]
    settings: Settings
    state: object
    interrupted: signal.Signals | None


def fit(
    rows: PyTree,
    family: Family,
    *,
    heldout: PyTree | None = None,
    hooks: Sequence[Hook] = (),
    checkpoint: Path | None = None,
    checkpoint_every: float = 60.0,
    resume: bool = False,
    about: dict[str, Any] | None = None,
    **options: Any,
) -> Fit:
    """Sample the partition of rows into clusters whose number is not given.

    SIGINT (Ctrl-C) and SIGTERM end the run early, with a checkpoint if there is a directory for
    them; what was sampled up to there is summarised. A second signal ends at once.

    Args:
        rows: Rows that the family takes, see `models.dp_families`.
        family: The law of the components, with its prior.
        heldout: Other rows, whose log predictive density is measured.
        hooks: Called with an `Event` after every evaluation, say `hooks.Progress`.
        checkpoint: Directory of the checkpoints; None for none.
        checkpoint_every: Least number of seconds between two of them.
        resume: Go on from the newest checkpoint, to the samples that an uninterrupted run would
            have had. Where there is none yet, start anew.
        about: What else a run that goes on must have in common with this one, such as a digest of
            the rows.
        **options: As in `resolve`.

    Returns:
        The fit. The same rows, options, versions and device give the same numbers, except that
        `seconds` ends a run by the clock.

    Raises:
        ValueError: An option is out of range or the rows are not those of the family; a
            `CheckpointError` if `resume` finds only checkpoints that are damaged or of another run.
        FloatingPointError: The state became NaN; the message names the step.

    Example:
        >>> import numpy as np
        >>> from simplex_jax import dpm
        >>> from simplex_jax.models import dp_families
        >>> rows = np.repeat([[0, 0, 1], [1, 1, 0]], [25, 15], axis=0)
        >>> fitted = dpm.fit(rows, dp_families.categorical([2, 2, 2]), passes=100)
        >>> fitted.clusters.labels[[0, 24, 25, 39]].tolist()
        [0, 0, 1, 1]
    """
    family.check(rows)
    rows = jax.tree.map(jnp.asarray, rows)
    if heldout is not None:
        family.check(heldout)
        heldout = jax.tree.map(jnp.asarray, heldout)
    count = dp_families.size(rows)
    settings = resolve(count, **options)
    key_init, key_run, key_summary = jax.random.split(jax.random.key(settings.seed), 3)
    kernel, stream = dp_mixture.build(rows, family, **kernel_options(settings))
    key_labels, key_state = jax.random.split(key_init)
    labels = jnp.stack(
        [
            dp_mixture.random_labels(jax.random.fold_in(key_labels, chain), rows, clusters)
            for chain, clusters in enumerate(starts(settings))
        ]
    )
    gathered = posterior.gather(settings, heldout is not None)
    kept = posterior.keep(settings)
    records = posterior.records(settings, count)
    measures: dict[str, Any] = {"posterior": gathered, "kept": kept, "records": records}
    if heldout is not None:
        held = evaluation.HeldOut(family, heldout, settings)
        measures = {"evaluation": held} | measures
    trained = session.train(
        key_run,
        kernel,
        kernel.init(key_state, labels if settings.chains > 1 else labels[0]),
        lambda first_step: stream,
        session.Length(settings.num_steps, settings.seconds, settings.eval_every),
        measures=measures,
        hooks=hooks,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        resume=resume,
        about={"settings": settings._asdict(), "rows": count} | (about or {}),
        grow=dp_mixture.grown,
    )
    if not gathered.samples and trained.event:  # the run has ended in its first half
        gathered.add(trained.event)
    found = kept.samples()
    if not found and trained.event:
        last = posterior.read(trained.event, settings.chains)
        found = {name: array[None] for name, array in last.items()}
    return _summary(key_summary, family, rows, gathered, found, records, settings, trained)


def _summary(
    key: jax.Array,
    family: Family,
    rows: PyTree,
    gathered: Any,
    found: dict[str, np.ndarray],
    records: session.Records,
    settings: Settings,
    trained: session.Trained,
) -> Fit:
    labels = found["labels"].reshape(-1, dp_families.size(rows))
    traces = gathered.traces()
    alpha, alpha_sd = (float(x) for x in gathered.moments["alpha"].pooled())
    moving = {name: trace.T for name, trace in traces.items() if np.ptp(trace) > 0}
    learned = settings.alpha is None
    return Fit(
        clusters=summarise(key, family, rows, labels, found["alpha"].ravel()),
        point=partitions.point_partition(labels, settings.loss, seed=settings.seed),
        samples=len(labels),
        alpha=alpha if learned else float(settings.alpha or 0),
        alpha_sd=alpha_sd if learned else 0.0,
        occupied=partitions.number_posterior(traces["occupied"].astype(int).ravel()),
        traces=traces,
        diagnostics=diagnostics.summary(moving),
        metrics=records.records,
        partitions=found,
        settings=settings,
        state=trained.state,
        interrupted=trained.interrupted,
    )

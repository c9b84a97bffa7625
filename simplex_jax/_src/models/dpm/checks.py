"""Warnings about a fitted Dirichlet-process mixture, and the verdict on it."""

from collections.abc import Mapping, Sequence

import numpy as np
from jax.typing import ArrayLike

from simplex_jax._src.arguments import as_number
from simplex_jax._src.corpus.cells import reads_as_number
from simplex_jax._src.evaluate.diagnostics import LARGE_RHAT, few_samples
from simplex_jax._src.models import growth, heldout, verdict
from simplex_jax._src.models.dpm.fitting import Fit
from simplex_jax._src.models.dpm.variables import Columns, Variables
from simplex_jax._src.report import display
from simplex_jax._src.report.display import counted

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
    elif len(values) > 1 and values[-1] <= values[0] - heldout.noise(values):
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
        starts = growth.starts(settings.initial_clusters, settings.capacity, settings.chains)
    sentences = mixture_warnings(
        fitted.metrics,
        clusters.sizes,
        clusters.present,
        len(clusters.labels),
        partition=fitted.num_clusters,
        starts=starts,
        split_merge=settings.split_merge or 0,
    )
    sentences += _of_categories(fitted.variables, len(fitted.names))
    return sentences + few_samples(fitted.traces["alpha"].size)


def judge(fitted: Fit, longer: str) -> list[str]:
    """Return the verdict, given the command or call of a longer run; see `Results.verdict`."""
    sentences = [verdict.predictions(fitted, "log_predictive", logarithmic=True)]
    numbers = fitted.num_clusters_posterior
    likeliest = f"{min(numbers)} to {max(numbers)}" if len(numbers) > 1 else f"{min(numbers)}"
    clusters = f"{counted(fitted.num_clusters, 'cluster')}, and {likeliest} in single samples"
    rhat = fitted.diagnostics.get("num_clusters", {}).get("rhat")
    if fitted.settings.chains == 1:
        sentences.append(
            f"{clusters}. One chain cannot tell whether another run would find the same: two can "
            "(chains=2, --chains 2)."
        )
    elif display.finite(rhat) and rhat > LARGE_RHAT:
        sentences.append(f"{clusters}. The chains disagree on their number (R-hat {rhat:.2f}).")
    else:
        sentences.append(f"{clusters}. The chains agree on their number.")
    apart = "disagree" in sentences[1]
    if apart or verdict.SETTLED not in sentences[0]:
        sentences += verdict.improvement("A longer run brings the chains together", longer)
    return sentences

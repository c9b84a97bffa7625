"""The files of a run, as they are written; `saved` reads them again."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simplex_jax.base import PyTree
from simplex_jax.dpm.assignment import Assignment, Samples, assign
from simplex_jax.dpm.clusters import most_probable
from simplex_jax.dpm.fitting import Fit
from simplex_jax.dpm.variables import Variables
from simplex_jax.evaluate.dp_report import over_represented
from simplex_jax.evaluate.intervals import beta_interval
from simplex_jax.runtime import directory, output

FILES = (
    "config.json",
    "metrics.jsonl",
    "summary.json",
    "clusters.csv",
    "profiles.csv",
    "cluster_keys.txt",
    "clusters.npz",
    "samples.npz",
    "rows.csv",
    "row_clusters.npz",
    "variables.json",
    "report.html",
)
PER_CLUSTER = ("sizes", "lower", "upper", "present")

_TOP_VALUES, _EXAMPLES, _VALUES = 20, 3, 12


class Rows(NamedTuple):
    """The rows of a run.

    Attributes:
        variables: What they consist of.
        table: All of them: counts [N, V], sparse, or codes [N, P].
        names: Their names.
        out: Which of them are held out, bool.
        heldout: Those, as the family has them; None where there are none.
    """

    variables: Variables
    table: Any
    names: Sequence[str]
    out: np.ndarray
    heldout: PyTree | None


def write(path: str | Path, rows: Rows, fitted: Fit, *, about: Mapping[str, object]) -> None:
    """Write what a fit has found, each file atomically.

    `clusters.npz` and `samples.npz` have the arrays of `saved.Model`; `clusters.csv` the sizes of
    the clusters and the share of samples that have them; `profiles.csv` the 20 values of each that
    are over-represented most, with their 95 % interval by `intervals.beta_interval`;
    `cluster_keys.txt` cluster, size and the first values, parted by tabs; `rows.csv` the most
    probable cluster of every row with its probability, -1 for clusters that only some samples have,
    and its cluster in the point partition, which those held out do not have; `row_clusters.npz` the
    probabilities of all clusters of every row, by name; `summary.json`, the last, diagnostics, the
    number of clusters, and rows that stand for each.

    Args:
        path: An existing directory, which also holds `config.json`.
        rows: All rows, those held out too.
        fitted: The fit, of the others.
        about: What else goes into `summary.json`.
    """
    place, found, variables = Path(path), fitted.clusters, rows.variables
    mean, sd = variables.flat(found.profiles), variables.flat(found.profiles_sd)
    overall = variables.flat(found.overall)
    output.write_json(place / "variables.json", variables._asdict())
    arrays = {name: np.asarray(getattr(found, name), np.float64) for name in PER_CLUSTER}
    profiles = {"profiles": mean, "profiles_sd": sd, "overall": overall}
    output.write_npz(place / "clusters.npz", arrays | profiles | {"confusion": found.confusion})
    output.write_npz(place / "samples.npz", arrays_of(found.samples, variables))
    shares = _of_all(rows, fitted)
    labels = most_probable(shares)
    write_shares(place / "row_clusters.npz", rows.names, shares)
    values = over_represented(mean, overall, _TOP_VALUES)
    output.write_csv(
        place / "clusters.csv",
        ["cluster", "size", "lower", "upper", "present", "most_over_represented"],
        _lines(fitted, values, variables.items),
    )
    header = ["cluster", "rank", "value", "probability", "lower", "upper", "overall", "lift"]
    lines = _lines_of_values(mean, sd, overall, values, variables.items)
    output.write_csv(place / "profiles.csv", header, lines)
    output.write_text(
        place / "cluster_keys.txt",
        "".join(
            f"{cluster}\t{size:.0f}\t{', '.join(variables.items[v] for v in those[:10])}\n"
            for cluster, (size, those) in enumerate(zip(found.sizes, values, strict=True))
        ),
    )
    own = (f"{p:.4g}" for p in _of_label(shares, labels))
    point = np.full(len(rows.names), "", object)
    point[~rows.out] = fitted.point.labels
    output.write_csv(
        place / "rows.csv",
        ["row", "cluster", "probability", "partition"],
        zip(rows.names, labels, own, point, strict=True),
    )
    output.write_json(place / "summary.json", _summary(rows, fitted, shares) | dict(about))


def write_assignment(path: Path, names: Sequence[str], assigned: Assignment) -> None:
    """Write the cluster of each row with its probability, as a `.csv`."""
    labels = most_probable(assigned.shares)
    own = (f"{p:.4g}" for p in _of_label(assigned.shares, labels))
    output.write_csv(path, ["row", "cluster", "probability"], zip(names, labels, own, strict=True))


def write_shares(path: Path, names: Sequence[str], shares: np.ndarray) -> None:
    """Write the shares of all rows in all clusters, as an `.npz`."""
    directory.write_proportions(path, names, shares.shape[1], [shares])


def _of_label(shares: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the share of each row in its cluster; -1 are all others, which have what is left."""
    own = np.take_along_axis(shares, np.maximum(labels, 0)[:, None], axis=1)[:, 0]
    return np.where(labels < 0, 1 - shares.sum(axis=1), own)


def arrays_of(samples: Samples, variables: Variables) -> dict[str, np.ndarray]:
    """Return the arrays of the samples of a fit, by name."""
    mixtures = samples.mixtures
    return {
        "log_weights": np.asarray(mixtures.log_weights),
        "log_rest": np.asarray(mixtures.log_rest),
        "atoms": variables.flat(mixtures.atoms),
        "shares": samples.shares,
    }


def _of_all(rows: Rows, fitted: Fit) -> np.ndarray:
    """Return the shares of all rows, those held out too."""
    found = fitted.clusters
    shares = np.zeros((len(rows.names), len(found.sizes)), np.float32)
    shares[~rows.out] = found.shares
    if rows.heldout is not None:
        shares[rows.out] = assign(found.samples, rows.variables.family(), rows.heldout).shares
    return shares


def _lines(
    fitted: Fit, values: Sequence[np.ndarray], items: Sequence[str]
) -> Iterable[tuple[object, ...]]:
    found = fitted.clusters
    for cluster, those in enumerate(values):
        numbers = found.sizes[cluster], found.lower[cluster], found.upper[cluster]
        first = ", ".join(items[value] for value in those[:5])
        sizes = (f"{number:.1f}" for number in numbers)
        yield cluster, *sizes, f"{found.present[cluster]:.4g}", first


def _lines_of_values(
    mean: np.ndarray,
    sd: np.ndarray,
    overall: np.ndarray,
    values: Sequence[np.ndarray],
    items: Sequence[str],
) -> Iterable[tuple[object, ...]]:
    for cluster, those in enumerate(values):
        lower, upper = beta_interval(np.clip(mean[cluster, those], 0, 1), sd[cluster, those])
        for place, value in enumerate(those):
            p, all_ = mean[cluster, value], overall[value]
            numbers = p, lower[place], upper[place], all_, p / all_
            yield cluster, place + 1, items[value], *(f"{number:.6g}" for number in numbers)


def _summary(rows: Rows, fitted: Fit, shares: np.ndarray) -> dict[str, object]:
    trace = fitted.traces["alpha"]
    return {
        "samples": fitted.samples,
        "interrupted": fitted.interrupted is not None,
        "clusters": len(fitted.clusters.sizes),
        "components": fitted.clusters.samples.shares.shape[2],
        "occupied": fitted.occupied,
        "alpha": {
            "mean": fitted.alpha,
            "sd": fitted.alpha_sd,
            "lower": float(np.quantile(trace, 0.025)),
            "upper": float(np.quantile(trace, 0.975)),
        },
        "partition": {
            "loss": fitted.settings.loss,
            "expected": fitted.point.loss,
            "clusters": int(fitted.point.labels.max()) + 1,
            "rows_used": fitted.point.rows_used,
            "rows": len(fitted.clusters.labels),
        },
        "diagnostics": fitted.diagnostics,
        "examples": [_examples(rows, of) for of in shares.T],
    }


def _examples(rows: Rows, shares: np.ndarray) -> list[dict[str, object]]:
    """Rows of the largest shares of a cluster, with what they consist of."""
    best = np.argsort(-shares, kind="stable")[:_EXAMPLES]
    return [
        {
            "name": rows.names[row].encode("utf-8", "replace").decode(),
            "share": float(shares[row]),
            "values": rows.variables.of_row(rows.table, row)[:_VALUES],
        }
        for row in best
    ]

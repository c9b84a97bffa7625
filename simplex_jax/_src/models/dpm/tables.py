"""The files of a fitted mixture."""

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from simplex_jax._src.evaluate.partitions import PointPartition
from simplex_jax._src.models.dpm import report, variables
from simplex_jax._src.models.dpm.clusters import Clusters, Samples, most_probable
from simplex_jax._src.models.dpm.fitting import Fit
from simplex_jax._src.models.dpm.model import Mixture
from simplex_jax._src.models.dpm.report import Estimate, digits, variables_of
from simplex_jax._src.models.dpm.variables import Variables
from simplex_jax._src.models.records import Array, Files, Saved
from simplex_jax._src.runtime import directory, output, saved
from simplex_jax._src.runtime.saved import RunError

CLUSTERS, SAMPLES = "clusters.npz", "samples.npz"
PROPORTIONS, VARIABLES = "row_clusters.npz", "variables.json"
_PLAIN = ("sizes", "lower", "upper", "present", "confusion")
_PROFILES = ("profiles", "profiles_sd", "overall")
_TOP_VALUES = 20
_PROBABILITY = 1 + 1e-5

# Control characters, such as tabs, further ends of lines, and surrogates, which no UTF-8 has.
_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def values(fitted: Fit) -> dict[str, np.ndarray]:
    """Return the arrays of a fit by name; its rows must have variables."""
    variables, clusters = variables_of(fitted), fitted.clusters
    mixtures, membership = clusters.samples
    partition = np.full(len(fitted.names), -1.0)
    partition[~fitted.held_out] = fitted.point.labels
    return {
        **{name: getattr(clusters, name) for name in _PLAIN},
        **{name: variables.flat(getattr(clusters, name)) for name in _PROFILES},
        "partition": partition,
        "log_weights": np.asarray(mixtures.log_weights),
        "log_rest": np.asarray(mixtures.log_rest),
        "atoms": variables.flat(mixtures.atoms),
        "membership": membership,
    }


def write(fitted: Fit, place: Path) -> None:
    """Write the files for users and other programs, each atomically.

    `clusters.csv` has the sizes of the clusters and the share of samples that have them;
    `profiles.csv` the 20 most distinctive words, values, means and rates of each, with their 95%
    intervals, in the units of the columns; `cluster_keys.txt` cluster, size and the first values,
    separated by tabs, with blanks for control characters in values; `rows.csv` the most probable
    cluster of every row with its probability, -1 for clusters that only some samples have, and its
    cluster in the point partition, empty for held-out rows; `row_clusters.npz` the probabilities of
    all clusters for every row, by name.
    """
    clusters, variables = fitted.clusters, variables_of(fitted)
    features = report.estimates_of(variables, clusters, _TOP_VALUES)
    words = [[one.text() for one in those] for those in features]
    output.write_json(place / VARIABLES, variables._asdict())
    proportions = [(fitted.proportions, None)]
    directory.write_proportions(place / PROPORTIONS, fitted.names, len(clusters.sizes), proportions)
    output.write_csv(
        place / "clusters.csv",
        ["cluster", "size", "lower", "upper", "present", "most_over_represented"],
        _rows_of_clusters(clusters, words),
    )
    output.write_csv(place / "profiles.csv", _OF_ESTIMATES, _rows_of_estimates(features))
    output.write_text(
        place / "cluster_keys.txt",
        "".join(
            f"{cluster}\t{size:.0f}\t{_BREAKS.sub(' ', ', '.join(first[:10]))}\n"
            for cluster, (size, first) in enumerate(zip(clusters.sizes, words, strict=True))
        ),
    )
    point = np.full(len(fitted.names), "", object)
    point[~fitted.held_out] = fitted.point.labels
    write_rows(place / "rows.csv", fitted.names, fitted.proportions, partition=point)


def _rows_of_clusters(
    clusters: Clusters, words: Sequence[Sequence[str]]
) -> Iterable[tuple[object, ...]]:
    for cluster, entries in enumerate(words):
        numbers = clusters.sizes[cluster], clusters.lower[cluster], clusters.upper[cluster]
        first = ", ".join(entries[:5])
        sizes = (f"{number:.1f}" for number in numbers)
        yield cluster, *sizes, f"{clusters.present[cluster]:.4g}", first


_OF_ESTIMATES = [
    *("cluster", "rank", "value", "measure", "estimate", "lower", "upper", "sd", "overall", "lift")
]


def _rows_of_estimates(features: Sequence[Sequence[Estimate]]) -> Iterable[tuple[object, ...]]:
    for cluster, entries in enumerate(features):
        for rank, one in enumerate(entries, start=1):
            numbers = one.mean, one.lower, one.upper, one.within, one.overall, one.lift
            # A mean far from 0, such as a time, has more digits.
            width = (one.upper - one.lower if one.known else one.within) or 0.0
            most = max(8, digits(one.mean, width) if 0 < width < math.inf else 0)
            shown = ("" if number is None else f"{number:.{most}g}" for number in numbers)
            yield cluster, rank, one.name, one.measure, *shown


def write_rows(
    path: Path, names: Sequence[str], proportions: np.ndarray, **more: np.ndarray
) -> None:
    """Write the cluster of each row with its probability, and more columns, as a `.csv`."""
    labels = most_probable(proportions)
    probabilities = np.take_along_axis(proportions, np.maximum(labels, 0)[:, None], axis=1)[:, 0]
    # -1 stands for all other clusters, which have the remainder.
    probability = (
        f"{p:.4g}" for p in np.where(labels < 0, 1 - proportions.sum(axis=1), probabilities)
    )
    columns = zip(names, labels, probability, *more.values(), strict=True)
    output.write_csv(path, ["row", "cluster", "probability", *more], columns)


def summary(fitted: Fit) -> dict[str, Any]:
    """Return the fields of `summary.json` for a mixture."""
    lower, upper = fitted.alpha_interval
    point = fitted.point
    return {
        "clusters": len(fitted.clusters.sizes),
        "components": fitted.clusters.samples.membership.shape[2],
        "num_clusters_posterior": fitted.num_clusters_posterior,
        "alpha": {"mean": fitted.alpha, "sd": fitted.alpha_sd, "lower": lower, "upper": upper},
        "partition": {
            "loss": fitted.settings.loss,
            "expected": point.loss,
            "clusters": fitted.num_clusters,
            "rows_used": point.rows_used,
            "rows": report.partitioned_rows(fitted),
            "draws_used": point.draws_used,
            "source": point.source,
        },
        "examples": fitted.examples,
    }


def sizes(run: Saved) -> dict[str, int]:
    """Return the numbers of clusters, samples, components, values and rows."""
    axes = {"C": "clusters", "S": "num_samples", "K": "components"}
    counts: Any = {axis: run.summary.get(name) for axis, name in axes.items()}
    if not all(isinstance(count, int) and count > 0 for count in counts.values()):
        raise RunError(
            f"{run.directory / 'summary.json'}: the number of clusters, samples or components is "
            "missing"
        )
    return counts | {"V": len(_variables(run).items), "D": int(run.corpus["rows"])}


def _variables(run: Saved) -> Variables:
    path = run.directory / VARIABLES
    fields = saved.load_json(path)
    try:
        return variables.from_json(fields)
    except ValueError as error:
        raise RunError(f"{path}: {error}: the file is damaged") from None


def restore(run: Saved) -> dict[str, Any]:
    """Return the attributes of a fit from its files."""
    arrays, parts, path = run.arrays, _variables(run), run.directory / PROPORTIONS
    _check_ranges(run, parts)
    names, proportions, _ = saved.load_proportions(path, len(arrays["sizes"]))
    partition = arrays["partition"].astype(int)
    if len(names) != len(partition):
        raise RunError(
            f"{path}: {len(names)} rows instead of {len(partition)}: the files belong to different "
            "runs"
        )
    held_out = partition < 0
    mixtures = Mixture(
        jnp.asarray(arrays["log_weights"]),
        jnp.asarray(arrays["log_rest"]),
        parts.tree(arrays["atoms"]),
    )
    point, alpha, examples = (run.summary[name] for name in ("partition", "alpha", "examples"))
    if len(examples) != len(arrays["sizes"]) or not np.isfinite(alpha["mean"]):
        raise ValueError("numbers out of range")
    return {
        "clusters": Clusters(
            **{name: arrays[name] for name in _PLAIN},
            **{name: parts.tree(arrays[name]) for name in _PROFILES},
            proportions=proportions[~held_out],
            labels=most_probable(proportions[~held_out]),
            samples=Samples(mixtures, arrays["membership"]),
        ),
        "point": PointPartition(
            partition[~held_out],
            float(point["expected"]),
            int(point["rows_used"]),
            int(point["draws_used"]),
            str(point["source"]),
        ),
        "alpha": float(alpha["mean"]),
        "alpha_sd": float(alpha["sd"]),
        "alpha_interval": (float(alpha["lower"]), float(alpha["upper"])),
        "num_clusters_posterior": {
            int(k): float(p) for k, p in run.summary["num_clusters_posterior"].items()
        },
        "names": names,
        "held_out": held_out,
        "proportions": proportions,
        "family": parts.family(),
        "variables": parts,
        "examples": [[_example(entry) for entry in entries] for entries in examples],
    }


def _check_ranges(run: Saved, parts: Variables) -> None:
    """Raise a RunError if profiles or atoms are out of range for their parameters."""
    measures = np.array(parts.measures)
    values, sds = measures == "probability", measures == "sd"
    bounds = {
        "profiles": (CLUSTERS, ~(measures == "mean"), values, _PROBABILITY),
        "overall": (CLUSTERS, ~(measures == "mean"), values, _PROBABILITY),
        "profiles_sd": (CLUSTERS, measures != "", measures == "", 0.0),
        "atoms": (SAMPLES, sds, values, 1e-5),  # logarithms, except for numbers
    }
    for name, (file, positive, bounded, most) in bounds.items():
        array = run.arrays[name]
        if (array[..., positive] < 0).any() or (array[..., bounded] > most).any():
            raise RunError(f"{run.directory / file}: {name} has numbers out of range")


def _example(entry: dict[str, Any]) -> dict[str, Any]:
    words = [str(value) for value in entry["values"]]
    return {"name": str(entry["name"]), "share": float(entry["share"]), "values": words}


FILES = Files(
    names=("clusters.csv", "profiles.csv", "cluster_keys.txt", "rows.csv", PROPORTIONS, VARIABLES),
    arrays={
        CLUSTERS: {
            "sizes": Array("C"),
            "lower": Array("C"),
            "upper": Array("C"),
            "present": Array("C", most=_PROBABILITY),
            "confusion": Array("CC", most=_PROBABILITY),
            # Probabilities, means and rates, checked by `_check_ranges`.
            "profiles": Array("CV", least=-np.inf),
            "profiles_sd": Array("CV", unknown=True),
            "overall": Array("V", least=-np.inf),
            "partition": Array("D", least=-1),
        },
        SAMPLES: {
            "log_weights": Array("SK", least=-np.inf, most=1e-5),
            "log_rest": Array("S", least=-np.inf, most=1e-5),
            "atoms": Array("SKV", least=-np.inf),
            "membership": Array("SCK", most=_PROBABILITY),
        },
    },
    sizes=sizes,
    write=write,
    summary=summary,
    restore=restore,
    report=report.REPORT,
    values=values,
)

"""The files of a fitted spherical admixture model."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from simplex_jax._src.evaluate.intervals import normal_interval
from simplex_jax._src.models.records import Array, Files, Saved
from simplex_jax._src.models.sam import report
from simplex_jax._src.models.sam.fitting import Fit
from simplex_jax._src.models.sam.posterior import CONCENTRATIONS
from simplex_jax._src.models.topics import tables
from simplex_jax._src.models.topics.report import TITLES, interval_ends
from simplex_jax._src.runtime.saved import RunError

_TOP_WORDS, _ABSENT_WORDS = 20, 10
_SCALARS = [name for one in CONCENTRATIONS for name in (one, f"{one}_sd")]


def write(fitted: Fit, place: Path) -> None:
    """Write the files for users and other programs, each atomically.

    `topics.csv` has the 20 words with the largest loadings of each topic, at ranks 1 to 20, and up
    to 10 with the most negative ones, at ranks -1 to -10: their posterior mean, the mean direction
    times its length, with its 95% interval, by `intervals.normal_interval`, or its range over the
    chains, as the last column says; `topic_keys.txt` topic, share and these words, separated by
    tabs, the negative ones last with a minus prefix; `doc_topics.npz` the proportions of all
    documents and their names.
    """
    words = map(" ".join, report.strongest(fitted, _TOP_WORDS, _ABSENT_WORDS))
    rows = rows_of_words(fitted)
    tables.write_all(fitted, place, None, rows, "loading", fitted.prevalence, words)


def rows_of_words(fitted: Fit) -> Iterable[tuple[object, ...]]:
    """Yield the rows of `topics.csv`."""
    loadings = fitted.length[:, None] * fitted.topics
    (lower, upper), kinds = interval_ends(
        fitted, loadings, fitted.topics_sd, fitted.topics_range, normal_interval
    )
    words = report.signed_words(fitted.topics, _TOP_WORDS, _ABSENT_WORDS)
    for topic, (most, least) in enumerate(words):
        ranked = [*enumerate(most, start=1), *((-rank, w) for rank, w in enumerate(least, start=1))]
        for rank, word in ranked:
            numbers = (array[topic, word] for array in (loadings, lower, upper))
            shown = (f"{number:.6g}" for number in numbers)
            yield topic, rank, fitted.vocabulary[word], *shown, TITLES[kinds[topic]]


def summary(fitted: Fit) -> dict[str, Any]:
    """Return the fields of `summary.json` for a spherical admixture model."""
    own = {"order": fitted.order, "idf": fitted.weighting, "excluded": fitted.excluded}
    return tables.common_summary(fitted) | own


def restore(run: Saved) -> dict[str, Any]:
    """Return the attributes of a fit from its files."""
    lengths = np.linalg.norm(run.arrays["topics"].astype(np.float64), axis=1)
    if not np.allclose(lengths, 1, atol=1e-3):
        raise RunError(f"{run.directory / tables.TOPICS}: the topics are not of length 1")
    order, weighting = np.asarray(run.summary["order"], int), run.summary["idf"]
    return tables.common(run)[0] | {
        **{name: float(run.arrays[name]) for name in _SCALARS},
        "weighting": None if weighting is None else str(weighting),
        "excluded": tuple(str(name) for name in run.summary["excluded"]),
        "order": order.reshape(-1, run.settings.num_topics),
    }


FILES = Files(
    names=tables.NAMES,
    arrays={
        tables.TOPICS: {
            "topics": Array("KV", least=-1.001),
            "topics_sd": Array("KV", unknown=True),
            "length": Array("K"),
            "topics_range": Array("EKR", least=-1.001),
            "prevalence": Array("K"),
            "prevalence_sd": Array("K", unknown=True),
            "prevalence_range": Array("EK"),
            "stability": Array("K", least=-1.001, unknown=True),
            **{name: Array("", positive=True) for name in CONCENTRATIONS},
            **{f"{name}_sd": Array("", unknown=True) for name in CONCENTRATIONS},
            "idf": Array("V"),
        }
    },
    sizes=tables.sizes,
    write=write,
    summary=summary,
    restore=restore,
    report=report.REPORT,
)

"""The files of a fitted spherical admixture model."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from simplex_jax.evaluate import diagnostics
from simplex_jax.evaluate.intervals import normal_interval
from simplex_jax.models.files import Array, Files, Saved, example
from simplex_jax.models.sam import report
from simplex_jax.models.sam.fitting import Fit
from simplex_jax.models.sam.posterior import CONCENTRATIONS
from simplex_jax.runtime import directory, output, saved
from simplex_jax.runtime.saved import RunError

TOPICS, SHARES = "topics.npz", "doc_topics.npz"

_TOP_WORDS, _ABSENT_WORDS = 20, 10
_SCALARS = [name for one in CONCENTRATIONS for name in (one, f"{one}_sd")]


def write(fitted: Fit, place: Path) -> None:
    """Write the files that are for people and for other programs, each atomically.

    `topics.csv` has the 20 words of the largest loadings of each topic, at ranks 1 to 20, and up to
    10 of the most negative ones, at ranks -1 to -10: their posterior mean, the mean direction times
    its length, with the 95% interval of `intervals.normal_interval`; `topic_keys.txt` topic, share
    and these words, parted by tabs, the negative ones last with a minus before them;
    `doc_topics.npz` the proportions of all documents and their names.
    """
    shares = [(fitted.proportions, None)]
    directory.write_proportions(place / SHARES, fitted.names, len(fitted.mean), shares)
    directory.write_vocabulary(place, fitted.vocabulary)
    output.write_csv(
        place / "topics.csv",
        ["topic", "rank", "word", "loading", "lower", "upper"],
        rows_of_words(fitted),
    )
    output.write_text(place / "topic_keys.txt", "".join(_keys(fitted)))


def rows_of_words(fitted: Fit) -> Iterable[tuple[object, ...]]:
    """Yield the rows of `topics.csv`."""
    loadings = fitted.length[:, None] * fitted.mean
    rough = diagnostics.rough(fitted.diagnostics, len(loadings))
    lower, upper = normal_interval(loadings, fitted.sd)
    lower[rough] = upper[rough] = np.nan
    words = report.signed_words(fitted.mean, _TOP_WORDS, _ABSENT_WORDS)
    for topic, (most, least) in enumerate(words):
        ranked = [*enumerate(most, start=1), *((-rank, w) for rank, w in enumerate(least, start=1))]
        for rank, word in ranked:
            numbers = (array[topic, word] for array in (loadings, lower, upper))
            yield topic, rank, fitted.vocabulary[word], *(f"{number:.6g}" for number in numbers)


def _keys(fitted: Fit) -> Iterable[str]:
    words = report.strongest(fitted, _TOP_WORDS, _ABSENT_WORDS)
    for topic, share in enumerate(fitted.prevalence):
        yield f"{topic}\t{share:.5g}\t{' '.join(words[topic])}\n"


def summary(fitted: Fit) -> dict[str, Any]:
    """Return what `summary.json` holds of a spherical admixture model."""
    return {
        "coherence_npmi": fitted.coherence,
        "documents": fitted.examples,
        "order": fitted.order,
        "shared": fitted.shared,
        "idf": fitted.weighting,
        "aside": fitted.aside,
    }


def sizes(run: Saved) -> dict[str, int]:
    """Return numbers of topics and words."""
    words = saved.load_vocabulary(run.directory)
    return {"K": run.settings.num_topics, "V": len(words)}


def restore(run: Saved) -> dict[str, Any]:
    """Return the attributes of a fit from its files."""
    lengths = np.linalg.norm(run.arrays["mean"].astype(np.float64), axis=1)
    if not np.allclose(lengths, 1, atol=1e-3):
        raise RunError(f"{run.directory / TOPICS}: the topics of mean are not of length 1")
    topics = run.settings.num_topics
    coherence = np.asarray(run.summary["coherence_npmi"], np.float64)
    examples, weighting = run.summary["documents"], run.summary["idf"]
    if coherence.shape != (topics,) or len(examples) not in (0, topics):
        raise ValueError("topics of another number")
    names, shares, _ = saved.load_proportions(run.directory / SHARES, topics)
    return {
        **run.arrays,
        **{name: float(run.arrays[name]) for name in _SCALARS},
        "weighting": None if weighting is None else str(weighting),
        "vocabulary": saved.load_vocabulary(run.directory),
        "names": names,
        "proportions": shares,
        "aside": tuple(str(name) for name in run.summary["aside"]),
        "coherence": coherence,
        "examples": [[example(entry) for entry in entries] for entries in examples],
        "order": np.asarray(run.summary["order"], int).reshape(-1, topics),
        "shared": np.asarray(run.summary["shared"], bool).reshape(-1, topics),
    }


FILES = Files(
    names=("topics.csv", "topic_keys.txt", SHARES, "vocabulary.txt"),
    arrays={
        TOPICS: {
            "mean": Array("KV", least=-1.001),
            "sd": Array("KV", unknown=True),
            "length": Array("K"),
            "prevalence": Array("K"),
            "prevalence_sd": Array("K", unknown=True),
            "stability": Array("K", least=-1.001, unknown=True),
            **{name: Array("", positive=True) for name in CONCENTRATIONS},
            **{f"{name}_sd": Array("", unknown=True) for name in CONCENTRATIONS},
            "idf": Array("V"),
        }
    },
    sizes=sizes,
    write=write,
    summary=summary,
    restore=restore,
    report=report.REPORT,
)

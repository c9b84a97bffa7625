"""The files of a fitted topic model."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from simplex_jax.evaluate import diagnostics
from simplex_jax.evaluate.coherence import top_words
from simplex_jax.evaluate.intervals import beta_interval
from simplex_jax.models.files import Array, Files, Saved, example
from simplex_jax.models.lda import report
from simplex_jax.models.lda.fitting import Fit
from simplex_jax.runtime import directory, output, saved
from simplex_jax.runtime.saved import RunError

TOPICS, SHARES = "topics.npz", "doc_topics.npz"

_TOP_WORDS = 20


def write(fitted: Fit, place: Path) -> None:
    """Write the files that are for people and for other programs, each atomically.

    `topics.csv` has the 20 most probable words of each topic with their probability and the 95%
    interval of `intervals.beta_interval`; `topic_keys.txt` is MALLET's: topic, alpha and these
    words, parted by tabs; `doc_topics.npz` has the proportions of the documents, their
    Monte-Carlo errors and their names, where the fit has any.
    """
    vocabulary, top = fitted.vocabulary, top_words(fitted.mean, _TOP_WORDS)
    if len(fitted.proportions):
        shares = [(fitted.proportions, fitted.proportions_error)]
        directory.write_proportions(place / SHARES, fitted.names, len(top), shares)
    directory.write_vocabulary(place, vocabulary)
    output.write_csv(
        place / "topics.csv",
        ["topic", "rank", "word", "probability", "lower", "upper"],
        _rows_of_words(fitted, top),
    )
    output.write_text(
        place / "topic_keys.txt",
        "".join(
            f"{topic}\t{fitted.alpha[topic]:.5g}\t{' '.join(vocabulary[w] for w in words)}\n"
            for topic, words in enumerate(top)
        ),
    )


def _rows_of_words(fitted: Fit, top: np.ndarray) -> Iterable[tuple[object, ...]]:
    mean, sd = (np.take_along_axis(array, top, axis=1) for array in (fitted.mean, fitted.sd))
    rough = diagnostics.rough(fitted.diagnostics, len(mean))
    lower, upper = beta_interval(np.clip(mean, 0, 1), sd)
    lower[rough] = upper[rough] = np.nan
    for topic, words in enumerate(top):
        for rank, word in enumerate(words):
            numbers = (array[topic, rank] for array in (mean, lower, upper))
            yield topic, rank + 1, fitted.vocabulary[word], *(f"{x:.6g}" for x in numbers)


def summary(fitted: Fit) -> dict[str, Any]:
    """Return what `summary.json` holds of a topic model."""
    return {
        "coherence_npmi": fitted.coherence,
        "documents": fitted.examples,
        "order": fitted.order,
        "shared": fitted.shared,
        "stiffness": fitted.stiffness,
        "empty": fitted.empty,
    }


def sizes(run: Saved) -> dict[str, int]:
    """Return numbers of topics and words."""
    words = saved.load_vocabulary(run.directory)
    return {"K": run.settings.num_topics, "V": len(words)}


def restore(run: Saved) -> dict[str, Any]:
    """Return the attributes of a fit from its files."""
    arrays, path = run.arrays, run.directory / TOPICS
    if not np.allclose(arrays["mean"].sum(axis=1, dtype=np.float64), 1, atol=1e-3):
        raise RunError(f"{path}: the topics of mean do not sum to 1")
    topics = run.settings.num_topics
    coherence = np.asarray(run.summary["coherence_npmi"], np.float64)
    examples = run.summary["documents"]
    if coherence.shape != (topics,) or len(examples) not in (0, topics):
        raise ValueError("topics of another number")
    names, shares, errors = saved.load_proportions(run.directory / SHARES, topics)
    return {
        **arrays,
        "vocabulary": saved.load_vocabulary(run.directory),
        "names": names,
        "proportions": shares,
        "proportions_error": errors,
        "coherence": coherence,
        "examples": [[example(entry) for entry in entries] for entries in examples],
        "order": np.asarray(run.summary["order"], int).reshape(-1, topics),
        "shared": np.asarray(run.summary["shared"], bool).reshape(-1, topics),
        "stiffness": float(run.summary["stiffness"]),
        "empty": int(run.summary["empty"]),
    }


FILES = Files(
    names=("topics.csv", "topic_keys.txt", SHARES, "vocabulary.txt"),
    arrays={
        TOPICS: {
            "mean": Array("KV"),
            "sd": Array("KV", unknown=True),
            "prevalence": Array("K"),
            "prevalence_sd": Array("K", unknown=True),
            "alpha": Array("K", positive=True),
            "alpha_sd": Array("K", unknown=True),
            "beta": Array("V", positive=True),
            "beta_sd": Array("V", unknown=True),
            "stability": Array("K", unknown=True),
        }
    },
    sizes=sizes,
    write=write,
    summary=summary,
    restore=restore,
    report=report.REPORT,
)

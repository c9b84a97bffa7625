"""The files of topics and of their shares in documents, for people and for other programs."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from simplex_jax.evaluate import diagnostics
from simplex_jax.evaluate.coherence import top_words
from simplex_jax.evaluate.intervals import beta_interval
from simplex_jax.models.files import Saved, example
from simplex_jax.runtime import directory, output, saved
from simplex_jax.runtime.saved import RunError

TOPICS = "topics.npz"
SHARES = "doc_topics.npz"
NAMES = ("topics.csv", "topic_keys.txt", SHARES, "vocabulary.txt")
"""The files that `write` makes."""

_TOP_WORDS = 20


def write(fitted: Any, place: Path) -> None:
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


def summary(fitted: Any) -> dict[str, Any]:
    """Return what `summary.json` holds of topics and their documents."""
    return {
        "coherence_npmi": fitted.coherence,
        "documents": fitted.examples,
        "shared": fitted.shared,
        "empty": fitted.empty,
    }


def restore(run: Saved) -> dict[str, Any]:
    """Return the attributes of a fit from its arrays, the files of `write` and the summary."""
    arrays, path = run.arrays, run.directory / TOPICS
    if not np.allclose(arrays["mean"].sum(axis=1, dtype=np.float64), 1, atol=1e-3):
        raise RunError(f"{path}: the topics of mean do not sum to 1")
    topics = len(arrays["mean"])
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
        "shared": np.asarray(run.summary["shared"], bool).reshape(-1, topics),
        "empty": int(run.summary["empty"]),
    }


def _rows_of_words(fitted: Any, top: np.ndarray) -> Iterable[tuple[object, ...]]:
    mean, sd = (np.take_along_axis(array, top, axis=1) for array in (fitted.mean, fitted.sd))
    rough = diagnostics.rough(fitted.diagnostics, len(mean))
    lower, upper = beta_interval(np.clip(mean, 0, 1), sd)
    lower[rough] = upper[rough] = np.nan
    for topic, words in enumerate(top):
        for rank, word in enumerate(words):
            numbers = (array[topic, rank] for array in (mean, lower, upper))
            yield topic, rank + 1, fitted.vocabulary[word], *(f"{x:.6g}" for x in numbers)

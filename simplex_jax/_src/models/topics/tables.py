"""The files of topics and topic proportions, for people and for other programs."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simplex_jax._src.evaluate.coherence import top_words
from simplex_jax._src.models.files import example
from simplex_jax._src.models.records import Saved
from simplex_jax._src.models.topics.fits import CountFit, TopicFit
from simplex_jax._src.models.topics.report import TITLES, interval_ends
from simplex_jax._src.runtime import directory, output, saved
from simplex_jax._src.runtime.saved import RunError

TOPICS = "topics.npz"
SHARES = "doc_topics.npz"
NAMES = ("topics.csv", "topic_keys.txt", SHARES, saved.VOCABULARY)
"""The files that `write` makes."""

_TOP_WORDS = 20


def write(
    fitted: CountFit,
    place: Path,
    alpha: np.ndarray,
    *,
    names: Sequence[str] = (),
) -> None:
    """Write the files for people and for other programs, each atomically.

    `topics.csv` has the 20 most probable words of each topic with their probability, the ends of
    its 95% interval, by `intervals.beta_interval`, or of its range over the chains, as the next
    column says, see `interval_ends`, and `names` [K] if there are any; `topic_keys.txt` has
    MALLET's format: topic, alpha [K] and these words, separated by tabs; `doc_topics.npz` has the
    proportions of the documents, their Monte-Carlo errors and their names, if the fit has any.
    """
    leading = top_words(fitted.topics, _TOP_WORDS)
    words = [" ".join(fitted.vocabulary[word] for word in row) for row in leading]
    errors, named = fitted.proportions_error, any(names)
    rows = _rows_of_words(fitted, leading, names if named else ())
    written = "probability", alpha, words
    write_all(fitted, place, errors, rows, *written, rest=fitted.leaves_rest, named=named)


def write_all(
    fitted: TopicFit,
    place: Path,
    errors: np.ndarray | None,
    rows: Iterable[tuple[object, ...]],
    column: str,
    numbers: Iterable[float],
    words: Iterable[str],
    *,
    rest: bool = False,
    named: bool = False,
) -> None:
    """Write the files of topics: rows of `topics.csv`, numbers and words of `topic_keys.txt`.

    `rest` says that the proportions of a document leave some to other topics, and `named` that the
    rows have the name of the topic last.
    """
    if len(fitted.proportions):
        parts = [(fitted.proportions, errors)]
        number = len(fitted.topics)
        directory.write_proportions(place / SHARES, fitted.names, number, parts, rest=rest)
    directory.write_vocabulary(place, fitted.vocabulary)
    header = ["topic", "rank", "word", column, "lower", "upper", "interval", *["name"][:named]]
    output.write_csv(place / "topics.csv", header, rows)
    keys = enumerate(zip(numbers, words, strict=True))
    lines = "".join(f"{topic}\t{number:.5g}\t{text}\n" for topic, (number, text) in keys)
    output.write_text(place / "topic_keys.txt", lines)


def summary(fitted: CountFit) -> dict[str, Any]:
    """Return the entries of `summary.json` for topics of tokens and their documents."""
    return common_summary(fitted) | {"num_empty_documents": fitted.num_empty_documents}


def common_summary(fitted: TopicFit) -> dict[str, Any]:
    """Return the entries of `summary.json` for topics of any kind."""
    return {
        "coherence_npmi": fitted.coherence,
        "documents": fitted.examples,
        "shared": fitted.shared,
    }


def sizes(run: Saved) -> dict[str, int]:
    """Return the numbers of topics, words, ends of a range, and their words.

    The topics are those of the options, unless some were merged or left out.
    """
    parts = run.summary.get("parts")
    words = len(saved.load_vocabulary(run.directory))
    ranged = words if len(run.summary["shared"]) > 1 else 0
    topics = run.settings.num_topics if parts is None else len(parts)
    return {"K": topics, "V": words, "E": 2, "R": ranged}


def restore(run: Saved) -> dict[str, Any]:
    """Return the attributes of a fit from its arrays, the files of `write` and the summary."""
    if not np.allclose(run.arrays["topics"].sum(axis=1, dtype=np.float64), 1, atol=1e-3):
        raise RunError(f"{run.directory / TOPICS}: the topics do not sum to 1")
    attributes, errors = common(run)
    return attributes | {
        "proportions_error": errors,
        "num_empty_documents": int(run.summary["num_empty_documents"]),
    }


def common(run: Saved) -> tuple[dict[str, Any], np.ndarray]:
    """Return the attributes of fits with topics of any kind, and the errors of the proportions."""
    topics = len(run.arrays["topics"])
    coherence = np.asarray(run.summary["coherence_npmi"], np.float64)
    examples = run.summary["documents"]
    if coherence.shape != (topics,) or len(examples) not in (0, topics):
        raise ValueError("wrong number of topics")
    names, proportions, errors = saved.load_proportions(run.directory / SHARES, topics)
    return {
        **run.arrays,
        "vocabulary": saved.load_vocabulary(run.directory),
        "names": names,
        "proportions": proportions,
        "coherence": coherence,
        "examples": [[example(entry) for entry in entries] for entries in examples],
        "shared": np.asarray(run.summary["shared"], bool).reshape(-1, topics),
    }, errors


def _rows_of_words(
    fitted: CountFit, top: np.ndarray, names: Sequence[str]
) -> Iterable[tuple[object, ...]]:
    mean, sd = (
        np.take_along_axis(array, top, axis=1) for array in (fitted.topics, fitted.topics_sd)
    )
    chains = fitted.topics_range
    if chains.size:
        chains = np.take_along_axis(chains, top[None], axis=2)
    (lower, upper), kinds = interval_ends(fitted, np.clip(mean, 0, 1), sd, chains)
    for topic, words in enumerate(top):
        for rank, word in enumerate(words):
            numbers = (f"{array[topic, rank]:.6g}" for array in (mean, lower, upper))
            own = names[topic : topic + 1]
            yield topic, rank + 1, fitted.vocabulary[word], *numbers, TITLES[kinds[topic]], *own

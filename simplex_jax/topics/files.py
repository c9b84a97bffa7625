"""The files of a run, as they are written; `saved` reads them again."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from simplex_jax.corpus import Corpus
from simplex_jax.evaluate.coherence import coherence, top_words
from simplex_jax.evaluate.examples import representative
from simplex_jax.evaluate.intervals import beta_interval
from simplex_jax.runtime import directory, output
from simplex_jax.topics.fitting import Fit

FILES = (
    "config.json",
    "metrics.jsonl",
    "summary.json",
    "topics.csv",
    "topic_keys.txt",
    "topics.npz",
    "doc_topics.npz",
    "vocabulary.txt",
    "report.html",
)
ARRAYS = (
    *("mean", "sd", "prevalence", "prevalence_sd", "alpha", "alpha_sd", "beta", "beta_sd"),
    "stability",
)
"""What `topics.npz` holds."""

_TOP_WORDS = 20


def write(path: str | Path, corpus: Corpus, fitted: Fit, *, about: Mapping[str, object]) -> None:
    """Write what a fit has found, each file atomically.

    `topics.npz` has the arrays of `saved.Model`; `topics.csv` the 20 most probable words of each
    topic with their probability and the 95 % interval of `intervals.beta_interval`;
    `topic_keys.txt` is MALLET's: topic, alpha and these words, parted by tabs; `doc_topics.npz` the
    proportions of the documents and their names, where the fit has any; `summary.json`, the last,
    coherence, diagnostics and documents that stand for each topic.

    Args:
        path: An existing directory, which also holds `config.json`.
        corpus: The documents whose proportions the fit has.
        fitted: The fit.
        about: What else goes into `summary.json`.
    """
    place, vocabulary = Path(path), corpus.vocabulary
    top = top_words(fitted.mean, _TOP_WORDS)
    output.write_npz(place / "topics.npz", {name: getattr(fitted, name) for name in ARRAYS})
    if len(fitted.proportions):
        directory.write_proportions(
            place / "doc_topics.npz", corpus.names, len(top), [fitted.proportions]
        )
    directory.write_vocabulary(place, vocabulary)
    output.write_csv(
        place / "topics.csv",
        ["topic", "rank", "word", "probability", "lower", "upper"],
        _rows_of_words(fitted, top, vocabulary),
    )
    output.write_text(
        place / "topic_keys.txt",
        "".join(
            f"{topic}\t{fitted.alpha[topic]:.5g}\t{' '.join(vocabulary[w] for w in words)}\n"
            for topic, words in enumerate(top)
        ),
    )
    output.write_json(
        place / "summary.json",
        {
            "samples": fitted.samples,
            "interrupted": fitted.interrupted is not None,
            "coherence_npmi": coherence(fitted.mean, corpus.counts),
            "diagnostics": fitted.diagnostics,
            "documents": representative(
                corpus.counts, corpus.names, vocabulary, fitted.proportions, fitted.mean
            ),
            **about,
        },
    )


def _rows_of_words(
    fitted: Fit, top: np.ndarray, vocabulary: Sequence[str]
) -> Iterable[tuple[object, ...]]:
    mean, sd = (np.take_along_axis(array, top, axis=1) for array in (fitted.mean, fitted.sd))
    lower, upper = beta_interval(np.clip(mean, 0, 1), sd)
    for topic, words in enumerate(top):
        for rank, word in enumerate(words):
            numbers = (found[topic, rank] for found in (mean, lower, upper))
            yield topic, rank + 1, vocabulary[word], *(f"{number:.6g}" for number in numbers)

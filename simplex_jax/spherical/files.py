"""The files of a run, as they are written; `saved` reads them again."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax.corpus.vectors import UnitVectors
from simplex_jax.evaluate.coherence import coherence
from simplex_jax.evaluate.examples import representative
from simplex_jax.evaluate.intervals import normal_interval
from simplex_jax.evaluate.spherical_report import signed_words
from simplex_jax.runtime import directory, output
from simplex_jax.spherical.fitting import Fit

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
WIDE = ("mean", "sd")
PER_TOPIC = ("length", "prevalence", "prevalence_sd", "stability")
SCALARS = ("alpha", "alpha_sd", "sigma", "sigma_sd", "kappa1", "kappa1_sd")

_TOP_WORDS, _ABSENT_WORDS = 20, 10


class Documents(NamedTuple):
    """The documents of a run.

    Attributes:
        vectors: Those that have a direction.
        names: The names of all.
        rows: Which of all those are that have a direction.
        idf: Weight of every word, by which counts became vectors; ones where the input was vectors.
    """

    vectors: UnitVectors
    names: Sequence[str]
    rows: np.ndarray
    idf: np.ndarray


def write(
    path: str | Path, documents: Documents, fitted: Fit, *, about: Mapping[str, object]
) -> None:
    """Write what a fit has found, each file atomically.

    `topics.npz` has the arrays of `saved.Model`; `topics.csv` the 20 words of the largest loadings
    of each topic, at ranks 1 to 20, and up to 10 of the most negative ones, at ranks -1 to -10:
    their posterior mean, the mean direction times its length, with the 95 % interval of
    `intervals.normal_interval`; `topic_keys.txt` topic, share and the
    first words, parted by tabs, the negative ones last with a minus before them; `doc_topics.npz`
    the proportions of all documents and their names, with 1/K for those without a direction;
    `summary.json`, the last, coherence, diagnostics and documents that stand for each topic.

    Args:
        path: An existing directory, which also holds `config.json`.
        documents: The documents whose proportions the fit has.
        fitted: The fit.
        about: What else goes into `summary.json`.
    """
    place, vectors = Path(path), documents.vectors
    vocabulary, topics = vectors.vocabulary, len(fitted.mean)
    arrays = {name: np.asarray(getattr(fitted, name)) for name in (*WIDE, *PER_TOPIC, *SCALARS)}
    output.write_npz(place / "topics.npz", arrays | {"idf": documents.idf})
    shares = np.full((len(documents.names), topics), 1 / topics, np.float32)
    shares[documents.rows] = fitted.proportions
    directory.write_proportions(place / "doc_topics.npz", documents.names, topics, [shares])
    directory.write_vocabulary(place, vocabulary)
    header = ["topic", "rank", "word", "loading", "lower", "upper"]
    output.write_csv(place / "topics.csv", header, _rows_of_words(fitted, vocabulary))
    output.write_text(place / "topic_keys.txt", "".join(_keys(fitted, vocabulary)))
    counts = sp.csr_array((vectors.values > 0).astype(np.int32))
    output.write_json(
        place / "summary.json",
        {
            "samples": fitted.samples,
            "interrupted": fitted.interrupted is not None,
            "coherence_npmi": coherence(fitted.mean, counts),
            "diagnostics": fitted.diagnostics,
            "documents": representative(
                vectors.values, vectors.names, vocabulary, fitted.proportions, fitted.mean
            ),
            **about,
        },
    )


def _rows_of_words(fitted: Fit, vocabulary: Sequence[str]) -> Iterable[tuple[object, ...]]:
    loadings = fitted.length[:, None] * fitted.mean
    lower, upper = normal_interval(loadings, fitted.sd)
    for topic, (most, least) in enumerate(signed_words(fitted.mean, _TOP_WORDS, _ABSENT_WORDS)):
        ranked = [*enumerate(most, start=1), *((-rank, w) for rank, w in enumerate(least, start=1))]
        for rank, word in ranked:
            numbers = (found[topic, word] for found in (loadings, lower, upper))
            yield topic, rank, vocabulary[word], *(f"{number:.6g}" for number in numbers)


def _keys(fitted: Fit, vocabulary: Sequence[str]) -> Iterable[str]:
    for topic, (most, least) in enumerate(signed_words(fitted.mean, _TOP_WORDS, _ABSENT_WORDS)):
        words = [vocabulary[w] for w in most] + [f"-{vocabulary[w]}" for w in least]
        yield f"{topic}\t{fitted.prevalence[topic]:.5g}\t{' '.join(words)}\n"

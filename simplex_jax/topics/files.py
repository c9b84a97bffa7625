"""The files of a run, as they are written; `saved` reads them again."""

import shutil
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from simplex_jax.corpus import Corpus
from simplex_jax.evaluate.coherence import coherence, top_words
from simplex_jax.evaluate.intervals import beta_interval
from simplex_jax.runtime import output
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
CHECKPOINT, SAMPLES = "checkpoint", "samples"
ARRAYS = (
    *("mean", "sd", "prevalence", "prevalence_sd", "alpha", "alpha_sd", "beta", "beta_sd"),
    "stability",
)
"""What `topics.npz` holds."""

_TOP_WORDS = 20
_DOCUMENTS, _WORDS_OF_DOCUMENT = 3, 12


def prepare(path: str | Path, *, overwrite: bool = False) -> Path:
    """Make the directory of a run, without what an earlier run has left in it.

    Raises:
        FileExistsError: The directory is not empty and `overwrite` is false.
        NotADirectoryError: `path` is a file.
    """
    directory = output.prepare(path, FILES, overwrite=overwrite)
    for name in (CHECKPOINT, SAMPLES):
        if (directory / name).is_dir() and not (directory / name).is_symlink():
            shutil.rmtree(directory / name)
    return directory


def check_words(vocabulary: Sequence[str]) -> None:
    r"""Raise a ValueError if a word could not be written, one a line, in UTF-8.

    Example:
        >>> check_words(["fine", "not" + chr(10) + "fine"])
        Traceback (most recent call last):
        ValueError: word 1 (counted from 0), 'not\nfine', cannot stand on one line of a text file
    """
    for number, word in enumerate(vocabulary):
        if "\n" in word or not _writable(word):
            raise ValueError(
                f"word {number} (counted from 0), {word!a}, cannot stand on one line of a text file"
            )


def _writable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def write(
    directory: str | Path, corpus: Corpus, fitted: Fit, *, about: Mapping[str, object]
) -> None:
    """Write what a fit has found, each file atomically.

    `topics.npz` has the arrays of `saved.Model`; `topics.csv` the 20 most probable words of each
    topic with their probability and the 95 % interval of `intervals.beta_interval`;
    `topic_keys.txt` is MALLET's: topic, alpha and these words, parted by tabs; `doc_topics.npz` the
    proportions of the documents and their names, where the fit has any; `summary.json`, the last,
    coherence, diagnostics and documents that stand for each topic.

    Args:
        directory: An existing directory, which also holds `config.json`.
        corpus: The documents whose proportions the fit has.
        fitted: The fit.
        about: What else goes into `summary.json`.
    """
    place, vocabulary = Path(directory), corpus.vocabulary
    top = top_words(fitted.mean, _TOP_WORDS)
    output.write_npz(place / "topics.npz", {name: getattr(fitted, name) for name in ARRAYS})
    if len(fitted.proportions):
        write_proportions(place / "doc_topics.npz", corpus.names, len(top), [fitted.proportions])
    output.write_text(place / "vocabulary.txt", "".join(f"{word}\n" for word in vocabulary))
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
            "documents": _representative(corpus, fitted),
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


def _representative(corpus: Corpus, fitted: Fit) -> list[list[dict[str, object]]]:
    """Documents with most of each topic, and their words that speak most for it."""
    if len(fitted.proportions) != len(corpus.names):
        return []
    found = []
    for topic, shares in enumerate(fitted.proportions.T):
        best = np.argpartition(-shares, min(_DOCUMENTS, shares.size) - 1)[:_DOCUMENTS]
        entries = []
        for document in best[np.argsort(-shares[best], kind="stable")]:
            row = corpus.counts[[document]]
            weight = row.data * fitted.mean[topic, row.indices]
            words = row.indices[np.argsort(-weight, kind="stable")[:_WORDS_OF_DOCUMENT]]
            name = corpus.names[document].encode("utf-8", "replace").decode()
            entries.append(
                {
                    "name": name,
                    "share": float(shares[document]),
                    "words": [corpus.vocabulary[word] for word in words],
                }
            )
        found.append(entries)
    return found


def write_proportions(
    path: str | Path, names: Sequence[str], num_topics: int, parts: Iterable[np.ndarray]
) -> None:
    """Write topic proportions part by part, atomically, as an `.npz` of two arrays.

    Args:
        path: The file; `proportions` float32 [D, K] and `documents`, D names, will be in it.
        names: D document names.
        num_topics: K.
        parts: The rows in order, [n, K] each.

    Raises:
        ValueError: The parts do not make D rows.
    """
    header = {"descr": "<f4", "fortran_order": False, "shape": (len(names), num_topics)}
    rows = 0
    with output.replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        with archive.open("proportions.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(member, header)
            for part in parts:
                member.write(np.ascontiguousarray(part, "<f4").tobytes())
                rows += len(part)
        if rows != len(names):
            raise ValueError(f"parts: {rows} rows for {len(names)} documents")
        with archive.open("documents.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array(member, np.asarray(names), allow_pickle=False)

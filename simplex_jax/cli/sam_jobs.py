"""What a run of `simplex-jax sam` is to do, and the unit vectors that it does it with."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simplex_jax import corpus as corpora
from simplex_jax import spherical
from simplex_jax.cli import options, runs, sam_options
from simplex_jax.cli.jobs import EMBEDDED
from simplex_jax.corpus import Corpus, split, tfidf, unit_vectors, vectors
from simplex_jax.corpus.vectors import UnitVectors
from simplex_jax.runtime import directory as directories
from simplex_jax.spherical.files import Documents

_OPTIONS = inspect.signature(spherical.resolve).parameters.keys()
_REQUIRED = {"num_topics", "learn", "seed"}


class Job(NamedTuple):
    """Everything that decides a run besides versions and device; all of it can go into JSON.

    Attributes:
        input: The corpus, as an absolute path; None for the embedded one.
        vectors: Whether it holds unit vectors, not counts.
        reading: How it is read, by the names of `sam_options.READING`.
        holdout: Documents to hold out, or None for the default.
        fit: Options of `spherical.fit`, and `num_topics`.
    """

    input: str | None
    vectors: bool
    reading: dict[str, Any]
    holdout: int | None
    fit: dict[str, Any]


class Data(NamedTuple):
    """Unit vectors, ready for a run.

    Attributes:
        documents: All documents.
        train: Those to train on.
        heldout: The others, or None.
        digest: Digest of all.
    """

    documents: Documents
    train: UnitVectors
    heldout: UnitVectors | None
    digest: str

    @property
    def aside(self) -> list[str]:
        """Names of the documents that have no direction."""
        out = np.setdiff1d(np.arange(len(self.documents.names)), self.documents.rows)
        return [self.documents.names[row] for row in out]


def resumed(directory: Path, moved: Path | None) -> tuple[Job, dict[str, Any]]:
    """Return the job of an earlier run, and its configuration; see `runs.resumed`."""
    job, config = runs.resumed(directory, moved, "sam", Job, _sound)
    job.fit["learn"] = tuple(job.fit["learn"])
    return job, config


def _sound(found: dict[str, Any]) -> bool:
    """Tell whether what a configuration says of its job has all that is needed, and no more."""
    fit, reading = found["fit"], found["reading"]
    return (
        isinstance(fit, dict)
        and _REQUIRED <= fit.keys() <= _OPTIONS
        and isinstance(fit["learn"], list)
        and isinstance(reading, dict)
        and reading.keys() == set(sam_options.READING)
    )


def gather(job: Job, say: Callable[[str], object]) -> Data:
    """Read the corpus of a job, hold documents out, and weigh its counts."""
    say(f"reading {job.input or f'the {EMBEDDED}'} ...")
    seed = job.fit["seed"]
    if job.vectors:
        found = read_vectors(Path(job.input or ""), job.reading)
        held = runs.held_out(job.holdout, len(found.names))
        out = split.held_out(len(found.names), held, seed)
        everything = np.arange(len(found.names))
        idf = np.ones(len(found.vocabulary))
        data = Documents(found, found.names, everything, idf)
        digest = vectors.digest(found)
    else:
        counts = _counts(job)
        held = runs.held_out(job.holdout, len(counts.names))
        out = split.held_out(len(counts.names), held, seed)
        # Held-out documents do not enter the weights.
        idf = tfidf.weights(split.rows(counts, ~out), job.reading["idf"])
        weighed = tfidf.vectors(counts, idf)
        data = Documents(weighed.vectors, counts.names, weighed.rows, idf)
        digest = corpora.digest(counts)
    directories.check_words(data.vectors.vocabulary)
    outside = out[data.rows]
    if outside.all():
        raise ValueError("no document is left to train on: hold out fewer (--holdout)")
    heldout = vectors.select(data.vectors, outside) if outside.any() else None
    return Data(data, vectors.select(data.vectors, ~outside), heldout, digest)


def _counts(job: Job) -> Corpus:
    reading = job.reading
    limits = {name: reading[name] for name in ("min_df", "max_df", "max_vocabulary")}
    if job.input is None:
        corpus = corpora.embedded_corpus()
        if reading["drop_words"]:
            drop = corpora.read_vocabulary(Path(reading["drop_words"]))
            corpus = corpora.drop_words(corpus, drop)
    else:
        corpus = options.read(Path(job.input), sam_options.of_counts(reading))
    return tfidf.cut(corpus, **limits)


def read_vectors(path: Path, reading: dict[str, Any]) -> UnitVectors:
    """Read unit vectors with the options of `sam_options.FILE_OPTIONS`."""
    return unit_vectors.read(
        path, reading["vocab"], reading["names"], normalise=reading["normalise"]
    )


def holds_vectors(path: Path | None, format: str | None) -> bool:
    """Tell whether an input has unit vectors, by the format that was named or by its first line."""
    if path is None or format is not None:
        return format == sam_options.VECTORS
    return unit_vectors.recognises(path)


def config_of(job: Job, data: Data, settings: spherical.Settings) -> dict[str, Any]:
    """Return what `config.json` is to hold."""
    found = data.documents
    return {
        "command": "sam",
        "job": job._asdict(),
        "settings": settings._asdict(),
        "corpus": {
            "input": job.input or EMBEDDED,
            "documents": len(found.names),
            "held_out": 0 if data.heldout is None else len(data.heldout.names),
            "aside": len(found.names) - len(found.rows),
            "nonzeros": int(found.vectors.values.nnz),
            "vocabulary": len(found.vectors.vocabulary),
            "digest": data.digest,
        },
        "versions": runs.versions(),
    }

"""What a run is to do: from the command line, or from the `config.json` of a run to go on with."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax import corpus as corpora
from simplex_jax import topics
from simplex_jax.cli import options, runs
from simplex_jax.corpus import Corpus, store
from simplex_jax.corpus.store import Stored
from simplex_jax.runtime import directory as directories

_TOO_SHORT = "--holdout {} documents have no second token: hold out more"
_OPTIONS = inspect.signature(topics.resolve).parameters.keys()
EMBEDDED = "documentation of the installed Python packages"


class Job(NamedTuple):
    """Everything that decides a run besides versions and device; all of it can go into JSON.

    Attributes:
        input: The corpus, as an absolute path; None for the embedded one.
        reading: How it is read, by the names of `options.READING`.
        stream: Whether batches are read from the disk.
        holdout: Documents to hold out, or None for the default.
        fit: Options of `topics.fit`, and `num_topics`.
    """

    input: str | None
    reading: dict[str, Any]
    stream: bool
    holdout: int | None
    fit: dict[str, Any]


class Data(NamedTuple):
    """A corpus, ready for a run.

    Attributes:
        documents: All documents.
        train: Those to train on.
        heldout: Observed and target halves of the others, or None.
        held: Their number.
        among: Numbers of the documents to train on where `train` is on disk, else None.
        digest: Digest of all.
    """

    documents: Corpus
    train: Corpus | Stored
    heldout: tuple[sp.csr_array, sp.csr_array] | None
    held: int
    among: np.ndarray | None
    digest: str


def resumed(directory: Path, moved: Path | None) -> tuple[Job, dict[str, Any]]:
    """Return the job of an earlier run, and its configuration; see `runs.resumed`."""
    return runs.resumed(directory, moved, "lda", Job, _sound)


def _sound(found: dict[str, Any]) -> bool:
    """Tell whether what a configuration says of its job has all that is needed, and no more."""
    fit, reading = found["fit"], found["reading"]
    return (
        isinstance(fit, dict)
        and {"num_topics", "devices", "seed"} <= fit.keys() <= _OPTIONS
        and isinstance(reading, dict)
        and reading.keys() == (set() if found["input"] is None else set(options.READING))
    )


def gather(job: Job, say: Callable[[str], object]) -> Data:
    """Read the corpus of a job and hold documents out."""
    say(f"reading {job.input or f'the {EMBEDDED}'} ...")
    if job.stream:
        return _stored(store.open(job.input or ""), job)
    if job.input is None:
        everything = corpora.embedded_corpus()
    else:
        everything = options.read(Path(job.input), job.reading)
    directories.check_words(everything.vocabulary)
    held = runs.held_out(job.holdout, len(everything.names))
    train, heldout = _hold_out(everything, held, job.fit["seed"])
    if held and heldout is None:
        if job.holdout is not None:
            raise ValueError(_TOO_SHORT.format(held))
        held = 0
        say("the documents are too short to hold some out: there will be no perplexity")
    return Data(everything, train, heldout, held, None, corpora.digest(everything))


def _stored(stored: Stored, job: Job) -> Data:
    """Hold documents of a corpus on disk out, without reading the others."""
    everything = Corpus(stored.rows(), stored.vocabulary, stored.names)
    directories.check_words(everything.vocabulary)
    held = runs.held_out(job.holdout, stored.documents)
    out = np.random.default_rng(job.fit["seed"]).choice(stored.documents, held, replace=False)
    among = np.setdiff1d(np.arange(stored.documents), out)
    halves = corpora.split_tokens(stored.select(np.sort(out)), job.fit["seed"])
    if held and not halves[1].nnz:
        raise ValueError(_TOO_SHORT.format(held))
    return Data(everything, stored, halves if held else None, held, among, stored.digest)


def _hold_out(data: Corpus, held: int, seed: int) -> tuple[Corpus, Any]:
    """Split held-out documents off, and their tokens in two; None where that leaves no target."""
    if held == 0:
        return data, None
    train, heldout = corpora.holdout(data, held, seed)
    halves = corpora.split_tokens(heldout.counts, seed)
    return (train, halves) if halves[1].nnz else (data, None)


def config_of(job: Job, data: Data, settings: topics.Settings) -> dict[str, Any]:
    """Return what `config.json` is to hold."""
    return {
        "command": "lda",
        "job": job._asdict(),
        "settings": settings._asdict(),
        "corpus": {
            "input": job.input or EMBEDDED,
            "documents": len(data.documents.names),
            "held_out": data.held,
            "tokens": int(data.documents.counts.sum()),
            "vocabulary": len(data.documents.vocabulary),
            "digest": data.digest,
        },
        "versions": runs.versions(),
    }

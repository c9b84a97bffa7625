"""What a run of `simplex-jax dpm` is to do, and the rows that it does it with."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simplex_jax import corpus as corpora
from simplex_jax import dpm
from simplex_jax.base import PyTree
from simplex_jax.cli import dpm_options, options, runs
from simplex_jax.cli.jobs import EMBEDDED
from simplex_jax.corpus import categories, split
from simplex_jax.dpm import variables
from simplex_jax.dpm.files import Rows

_OPTIONS = inspect.signature(dpm.resolve).parameters.keys() - {"rows"}


class Job(NamedTuple):
    """Everything that decides a run besides versions and device; all of it can go into JSON.

    Attributes:
        input: The input, as an absolute path; None for the embedded corpus.
        table: Whether it is a table of categories, not counts.
        reading: How it is read, by the names of `dpm_options.READING`.
        holdout: Rows to hold out, or None for the default.
        concentration: Of the Dirichlet prior of the components.
        fit: Options of `dpm.fit`.
    """

    input: str | None
    table: bool
    reading: dict[str, Any]
    holdout: int | None
    concentration: float
    fit: dict[str, Any]


class Data(NamedTuple):
    """Rows, ready for a run.

    Attributes:
        rows: All of them: names, variables, those held out.
        train: Those to train on.
        empty: Number of rows without an observation.
        observed: Number of observations: counts, or values that are not missing.
        digest: Digest of all.
    """

    rows: Rows
    train: PyTree
    empty: int
    observed: int
    digest: str


def resumed(directory: Path, moved: Path | None) -> tuple[Job, dict[str, Any]]:
    """Return the job of an earlier run, and its configuration; see `runs.resumed`."""
    return runs.resumed(directory, moved, "dpm", Job, _sound, "capacity")


def _sound(found: dict[str, Any]) -> bool:
    """Tell whether what a configuration says of its job has all that is needed, and no more."""
    fit, reading = found["fit"], found["reading"]
    wanted = set() if found["input"] is None else set(dpm_options.READING)
    return (
        isinstance(fit, dict)
        and "seed" in fit
        and fit.keys() <= _OPTIONS
        and isinstance(found["concentration"], float)
        and isinstance(reading, dict)
        and reading.keys() == wanted
    )


def gather(job: Job, say: Callable[[str], object]) -> Data:
    """Read the input of a job and hold rows out."""
    say(f"reading {job.input or f'the {EMBEDDED}'} ...")
    if job.table:
        table = dpm_options.read_table(Path(job.input or ""), job.reading)
        found = variables.Variables("categories", table.columns, table.values, job.concentration)
        everything, names, digest = table.codes, table.names, categories.digest(table)
        observations = (table.codes >= 0).sum(axis=1)
    else:
        corpus = (
            corpora.embedded_corpus()
            if job.input is None
            else options.read(Path(job.input), job.reading)
        )
        found = variables.of_counts(corpus.vocabulary, job.concentration)
        everything, names, digest = corpus.counts, corpus.names, corpora.digest(corpus)
        observations = np.asarray(corpus.counts.sum(axis=1))
    held = runs.held_out(job.holdout, len(names))
    out = split.held_out(len(names), held, job.fit["seed"])
    return Data(
        rows=Rows(found, everything, names, out, found.rows(everything[out]) if held else None),
        train=found.rows(everything[~out]),
        empty=int((observations == 0).sum()),
        observed=int(observations.sum()),
        digest=digest,
    )


def config_of(job: Job, data: Data, settings: dpm.Settings) -> dict[str, Any]:
    """Return what `config.json` is to hold."""
    return {
        "command": "dpm",
        "job": job._asdict(),
        "settings": settings._asdict() | {"concentration": job.concentration},
        "corpus": {
            "input": job.input or EMBEDDED,
            "rows": len(data.rows.names),
            "held_out": int(data.rows.out.sum()),
            "empty": data.empty,
            "observations": data.observed,
            "variables": len(data.rows.variables.columns),
            "values": len(data.rows.variables.items),
            "digest": data.digest,
        },
        "versions": runs.versions(),
    }

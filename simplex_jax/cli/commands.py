"""The declaration of a model's commands, and loading its runs."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from simplex_jax.models import files, pipeline
from simplex_jax.models.records import Model, Plan
from simplex_jax.runtime import saved


class Other(NamedTuple):
    """Documents or rows that a fitted model has not seen, over its vocabulary."""

    data: Any  # the data for `Model.infer`
    names: Sequence[str]  # their names
    coverage: str  # a sentence on the share of the data covered by the model's vocabulary


class Transform(NamedTuple):
    """The command `transform`."""

    help: str  # its help
    ending: str  # default suffix of its file
    # `(fit, other, out, seed, every, progress) -> files written`; `every` asks for all shares
    write: Callable[[Any, Other, Path, int, bool, pipeline.Progress], list[Path]]
    every: str | None = None  # the help of `--all`; None for a model without it
    random: bool = True  # whether it is random, with a `--seed`


class Commands(NamedTuple):
    """Declaration of the commands of a model."""

    model: Model  # the model
    help: str  # the help of `fit`
    reading: Mapping[str, Callable]  # options for reading an input to fit, decorators by name
    file_reading: Mapping[str, Callable]  # those of them that also apply to other files
    # `(input, reading) -> data` as for the model's `fit`; the input is None for the embedded corpus
    read: Callable[[Path | None, dict[str, Any]], Any]
    # `(input, reading) -> reading`, with the options that depend on the input
    resolve_reading: Callable[[str | None, dict[str, Any]], dict[str, Any]]
    # `(fit, path, reading, model_reading) -> Other`, where `model_reading` are the options used to
    # read the data of the fit.
    other: Callable[[Any, Path, dict[str, Any], dict[str, Any]], Other]
    shown: Sequence[str]  # metrics that the progress shows
    announce: Callable[[Plan], str]  # `Plan -> lines` to print before a run
    outcome: Callable[[Any], str]  # `Fit -> lines` to print after it
    transform: Transform  # the command `transform`
    evaluate: click.Command  # the command `evaluate`
    more: Sequence[click.Command] = ()  # further commands
    of_embedded: Collection[str] = ()  # options of reading that apply to the embedded corpus
    # `(input, reading, typed) -> None`, raises a UsageError if an option on the command line has no
    # effect for this input; `typed` has flags by name.
    check_reading: Callable[[Path | None, dict[str, Any], dict[str, str]], None] = (
        lambda input, reading, typed: None
    )
    goal: Collection[str] = ()  # options of a goal, which ends a run in place of a length
    # `settings -> effective sample size` at which a run ends; None if it has a length
    target: Callable[[Any], float | None] = lambda settings: None
    # `settings -> requested devices` of each process; None for all
    devices: Callable[[Any], int | None] = lambda settings: None
    # Similarity of topics, see `matching.align`, for models with a given number of topics
    similarity: Callable | None = None
    # `Plan -> bytes by name`, "total" last, of device memory that a run needs; None if that is
    # unknown, and there is no `--dry-run`.
    memory: Callable[[Plan], Mapping[str, int]] | None = None
    remedy: str = ""  # how to reduce a run that does not fit into that memory
    # `(fit, plan, directory, progress) -> None`, which writes the results of each process for its
    # own data; None for a model that needs a single process.
    share: Callable[[Any, Plan, Path, pipeline.Progress], None] | None = None


def load(model: Model, directory: Path) -> tuple[Any, dict[str, Any]]:
    """Return the fit of a run, and the options used to read its data."""
    fitted = files.load(model, directory)
    source = saved.load_config(directory, model.name).get("source")
    reading = source.get("reading") if isinstance(source, dict) else None
    return fitted, reading if isinstance(reading, dict) else {}

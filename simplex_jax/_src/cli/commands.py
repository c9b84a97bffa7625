"""Declaration of a model's commands, and loading of its runs."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from simplex_jax._src.models import files, pipeline
from simplex_jax._src.models.records import Model, Plan
from simplex_jax._src.runtime import saved


class Other(NamedTuple):
    """Documents or rows that a fitted model has not seen, over its vocabulary."""

    data: Any  # as `Model.infer` accepts them
    names: Sequence[str]  # their names
    coverage: str  # a sentence on how much of them the vocabulary covers


class Transform(NamedTuple):
    """The command `transform`."""

    help: str  # its help
    ending: str  # default ending of the output file name
    # `(fit, other, out, seed, every, progress) -> files written`; `every` requests all proportions
    write: Callable[[Any, Other, Path, int, bool, pipeline.Progress], list[Path]]
    every: str | None = None  # the help of `--all`; None if the model has no such option
    # `(fit, out) -> files written` with the proportions of the documents of the run; None if INPUT
    # is needed
    own: Callable[[Any, Path], list[Path]] | None = None
    random: bool = True  # whether it is random, and so has a `--seed`


class Commands(NamedTuple):
    """Declaration of the commands of a model."""

    model: Model  # the model
    help: str  # the help of `fit`
    reading: Mapping[str, Callable]  # reading options of `fit`, decorators by name
    file_reading: Mapping[str, Callable]  # those that also apply to other files
    # `(input, reading) -> data` as for the model's `fit`; the input is None for the embedded corpus
    read: Callable[[Path | None, dict[str, Any]], Any]
    # `(input, reading) -> reading`, with the options that the input determines
    resolve_reading: Callable[[str | None, dict[str, Any]], dict[str, Any]]
    # `(fit, path, reading, model_reading) -> Other`, where `model_reading` are the reading options
    # of the fit.
    other: Callable[[Any, Path, dict[str, Any], dict[str, Any]], Other]
    shown: Sequence[str]  # metrics shown in the progress
    announce: Callable[[Plan], str]  # `Plan -> lines` to print before a run
    outcome: Callable[[Any], str]  # `Fit -> lines` to print after it
    transform: Transform  # the command `transform`
    evaluate: click.Command  # the command `evaluate`
    more: Sequence[click.Command] = ()  # further commands
    needed: str = ""  # options that an INPUT needs, for the example in the help
    of_embedded: Collection[str] = ()  # reading options that apply to the embedded corpus
    # `(input, reading, typed) -> None`, or a UsageError if an option on the command line has no
    # effect on this input; `typed` has the flags by name.
    check_reading: Callable[[Path | None, dict[str, Any], dict[str, str]], None] = (
        lambda input, reading, typed: None
    )
    goal: Collection[str] = ()  # options of a goal that ends a run instead of a fixed length
    named: str | None = None  # until when a run keeps names of topics; None if it has none
    # `(fit, plan, source, directory) -> fit`, with more results for the report
    complete: Callable[[Any, Plan, dict[str, Any], Path], Any] = lambda fitted, *run: fitted
    # `(fit, source, directory) -> commands` to name at the end of a run, by what they do; `source`
    # is as in `config.json`, with the input None for the embedded corpus
    following: Callable[[Any, dict[str, Any], str], dict[str, str]] = lambda *run: {}
    # `settings -> devices` requested per process; None for all
    devices: Callable[[Any], int | None] = lambda settings: None
    # Similarity of topics (see `matching.align`), for models with a given number of them
    similarity: Callable | None = None
    # `Plan -> bytes by name` of device memory that a run needs, "total" last; None if that is
    # unknown, so that there is no `--dry-run`.
    memory: Callable[[Plan], Mapping[str, int]] | None = None
    remedy: str = ""  # how to shrink a run that does not fit into device memory
    # `(fit, plan, directory, progress) -> None`, which writes each process's results for its data;
    # None for a model that a single process must fit.
    share: Callable[[Any, Plan, Path, pipeline.Progress], None] | None = None


def load(model: Model, directory: Path) -> tuple[Any, dict[str, Any]]:
    """Return the fit of a run, and the options with which its data were read."""
    fitted = files.load(model, directory)
    source = saved.load_config(directory, model.name).get("source")
    reading = source.get("reading") if isinstance(source, dict) else None
    return fitted, reading if isinstance(reading, dict) else {}

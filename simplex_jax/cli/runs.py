"""What the runs of all models have in common on the command line."""

import inspect
import itertools
import platform
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

import simplex_jax
from simplex_jax.cli import describe, options
from simplex_jax.runtime import directory as directories
from simplex_jax.runtime import output, saved
from simplex_jax.runtime.hooks import MetricsLog, Progress
from simplex_jax.runtime.saved import RunError

Job = TypeVar("Job", bound=NamedTuple)

_PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "scikit-learn")
# What --resume can be given with: the rest is decided by the run that goes on.
_WITH_RESUME = {"resume", "input", "checkpoint_every", "quiet", "debug"}


def check_lengths(given: dict[str, Any]) -> None:
    """Refuse more than one length."""
    lengths = [name for name in ("passes", "steps", "seconds") if given[name] is not None]
    if len(lengths) > 1:
        raise click.UsageError(f"give one of --{' and --'.join(lengths)}")


def check_with_resume(directory: Path) -> None:
    """Refuse options that a run that goes on has already."""
    if others := options.given_besides(_WITH_RESUME):
        raise click.UsageError(
            f"{others[0]} cannot change a run that goes on: --resume takes all settings from "
            f"{directory / 'config.json'}"
        )


def held_out(holdout: int | None, documents: int) -> int:
    """Return how many documents are held out: a tenth, at most 1,000, if nothing is said."""
    held = min(1000, documents // 10) if holdout is None else holdout
    if held >= documents:
        raise ValueError(f"--holdout {held} leaves none of the {documents} documents")
    return held


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    found = {"simplex_jax": simplex_jax.__version__, "python": platform.python_version()}
    return found | {name: metadata.version(name) for name in _PACKAGES}


def resumed(
    directory: Path,
    moved: Path | None,
    command: str,
    kind: Callable[..., Job],
    sound: Callable[[dict[str, Any]], bool],
    size: str = "num_topics",
) -> tuple[Job, dict[str, Any]]:
    """Return the job of an earlier run, and its configuration.

    Args:
        directory: Where the run is.
        moved: Where its input is now, if not where it was.
        command: The command of the run.
        kind: The record of its jobs, with an `input`.
        sound: Tells whether the values of a job, by field, are such that it can be done.
        size: A setting that must be there, a positive whole number.

    Raises:
        RunError: There is no run, or its configuration is damaged.
    """
    config = saved.load_config(directory, command, size)
    found = config.get("job")
    fields = inspect.signature(kind).parameters.keys()
    if not (isinstance(found, dict) and found.keys() == fields and sound(found)):
        raise RunError(f"{directory / 'config.json'}: it does not say how to go on")
    job = kind(**found)
    return (job._replace(input=str(moved.absolute())) if moved else job), config


def begin_job(
    new: Callable[[Path | None, dict[str, Any]], Job],
    earlier: Callable[[Path, Path | None], tuple[Job, dict[str, Any]]],
    given: dict[str, Any],
    *,
    input: Path | None,
    resume: Path | None,
    out: Path | None,
    overwrite: bool,
    say: Callable[[str], object],
) -> tuple[Job, dict[str, Any] | None]:
    """Return what the command line asks for and, if a run goes on, its configuration.

    Ends the program where the run that should go on has come to its end.

    Args:
        new: Makes a new job of the input and the options that are given.
        earlier: Reads a job that goes on, and its configuration; see `resumed`.
        given: The options, without those named here.
        input: The input.
        resume: The directory of the run that goes on, if one does.
        out: The directory that a new run writes, if it is named.
        overwrite: Whether files of an earlier run may be there.
        say: Where messages go.
    """
    if resume is None:
        check_lengths(given)
        job = new(input, given)
        if out is not None:
            output.check(out, overwrite=overwrite)
        return job, None
    check_with_resume(resume)
    found = earlier(resume, input)
    if saved.finished(resume):
        say(f"the run in {resume} has come to its end: nothing is left to do")
        click.get_current_context().exit()
    return found


def begin(
    config: dict[str, Any],
    files: Sequence[str],
    *,
    resume: Path | None,
    earlier: dict[str, Any] | None,
    out: Path | None,
    overwrite: bool,
) -> Path:
    """Return the directory of a run, whose `config.json` says what the run does.

    Args:
        config: What that is.
        files: Names of the files that a run of this command writes.
        resume: The directory of the run that goes on, if one does.
        earlier: Its configuration, which must be the same.
        out: The directory of a new run.
        overwrite: Whether files of an earlier run may be there.
    """
    if resume is not None and earlier is not None:
        check_same(earlier, config, resume)
        return resume
    place = out or free_directory(f"simplex-jax-{config['command']}")
    directory = directories.prepare(place, files, overwrite=overwrite)
    output.write_json(directory / "config.json", config)
    return directory


def hooks(directory: Path, shown: list[str], seconds: float | None, quiet: bool) -> list[Any]:
    """Return the hooks that log the metrics of a run and show its progress."""
    log = MetricsLog(directory / "metrics.jsonl")
    if quiet:
        return [log]
    describe.speaker(quiet)("compiling ...")
    return [log, Progress(shown, max_seconds=seconds)]


def end(directory: Path, command: str, fitted: Any, warnings: list[str], quiet: bool) -> None:
    """Say how a run has ended and where its files are; after a signal, end as the signal does."""
    say = describe.speaker(quiet)
    for warning in warnings:
        say(f"warning: {warning}")
    say(f"written to {directory}; open {directory / 'report.html'}")
    exit_if_interrupted(fitted.interrupted, command, directory)


def check_same(config: dict[str, Any], now: dict[str, Any], directory: Path) -> None:
    """Raise a ValueError if a run would not go on as it began."""
    if config["corpus"].get("digest") != now["corpus"]["digest"]:
        raise ValueError(
            f"{now['corpus']['input']}: this is not the corpus that the run in {directory} began "
            "with (another digest): put it back, or name it as INPUT if it has moved"
        )
    if config["settings"] != output.plain(now["settings"]):
        raise ValueError(
            f"{directory / 'config.json'}: its settings are not those that its job resolves to: "
            "another version of simplex-jax wrote it"
        )


def free_directory(name: str) -> Path:
    """Return `name`, or the first of `name-2`, `name-3` and so on that is not there."""
    names = itertools.chain([name], (f"{name}-{i}" for i in itertools.count(2)))
    return next(path for path in map(Path, names) if not path.exists())


def exit_if_interrupted(interrupted: Any, command: str, directory: Path) -> None:
    """End the program as a signal does, saying how to go on."""
    if interrupted is not None:
        click.echo(
            f"{interrupted.name} has ended the run before its time; go on with: "
            f"simplex-jax {command} --resume {directory}",
            err=True,
        )
        raise SystemExit(128 + interrupted)

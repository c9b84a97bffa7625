"""What the runs of all models have in common on the command line."""

import itertools
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import click

import simplex_jax
from simplex_jax.cli import options
from simplex_jax.runtime import output
from simplex_jax.runtime.saved import RunError

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


def job_of(config: dict[str, Any], directory: Path) -> dict[str, Any]:
    """Return what a configuration says of its job, unchecked but for being there."""
    found = config.get("job")
    if not isinstance(found, dict):
        raise no_job(directory)
    return found


def no_job(directory: Path) -> RunError:
    """Return the error for a configuration that does not say how to go on."""
    return RunError(f"{directory / 'config.json'}: it does not say how to go on")


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

"""Options shared by the commands of all models, and their values."""

import functools
import shlex
import tempfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from simplex_jax._src.arguments import MOST_SEED
from simplex_jax._src.cli.options import PATH, declared_option
from simplex_jax._src.corpus.files import STANDARD_INPUT
from simplex_jax._src.models.pipeline import Session, repeating
from simplex_jax._src.runtime import output

F = TypeVar("F", bound=Callable[..., Any])


_OUTPUTS = ("out", "plot", "report")  # options of files to write


def target(out: Path | None, input: Path, ending: str, overwrite: bool) -> Path:
    """Return the output file of a command for INPUT, checked before the long work begins.

    Raises an OSError if it exists, unless `overwrite`; if the command reads it, even with
    `overwrite`; or if it cannot be written.
    """
    name = "documents" if input == STANDARD_INPUT else input.absolute().name.split(".")[0]
    out = out or Path(f"{name}.{ending}")
    if out.exists() and not overwrite:
        raise FileExistsError(f"{out} exists: choose another --out, or pass --overwrite")
    place = output.place_of(out)
    if flag := _reader(out):
        raise FileExistsError(f"{out} is read as {flag}: choose another name to write to")
    try:
        with tempfile.TemporaryFile(dir=place.parent):  # The only reliable test.
            pass
    except OSError as error:
        raise type(error)(
            f"{out} cannot be written ({error.strerror}): choose another --out"
        ) from None
    return out


def _reader(out: Path) -> str:
    """Return the option or argument that names this file as one to read, or an empty string."""
    context = click.get_current_context()
    for option in context.command.params:
        path = context.params.get(option.name or "")
        if option.name in _OUTPUTS or not isinstance(path, Path) or not path.exists():
            continue
        if out.exists() and out.samefile(path):
            return (
                option.opts[0] if isinstance(option, click.Option) else option.human_readable_name
            )
    return ""


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Combine decorators into one, in the order of the help."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


common_options = together(
    click.option("--quiet", is_flag=True, help="Print nothing but errors."),
    click.option("--debug", is_flag=True, help="Show tracebacks."),
)
model_option = click.option(
    "--model", required=True, type=PATH, metavar="DIR", help="Directory of a run."
)
seed_option = click.option(
    "--seed", default=0, type=click.IntRange(0, MOST_SEED), help="Seed of all random numbers."
)


def run_options(name: str, *, dry_run: bool) -> Callable[[F], F]:
    """Return the options for held-out documents and the run directory, by default a new `name`."""
    memory = click.option(
        "--dry-run", is_flag=True, help="Read INPUT, print the device memory needed, and stop."
    )
    return together(
        declared_option(Session, "holdout", None),
        declared_option(Session, "holdout_seed", None),
        click.option(
            "--out",
            type=PATH,
            help=f"Directory for the files of the run.  [default: a new {name}*]",
        ),
        click.option("--overwrite", is_flag=True, help="Replace the run in --out."),
        click.option(
            "--resume",
            type=PATH,
            metavar="DIR",
            help="Continue the run in DIR, with the samples that it would have had without the "
            "interruption; another length or other devices may be given. All other settings are in "
            "its config.json; give INPUT only if the data have moved.",
        ),
        declared_option(Session, "checkpoint_every", Session.checkpoint_every),
        *([memory] if dry_run else []),
    )


def process_options(*, hidden: bool) -> Callable[[F], F]:
    """Return the options for several processes, hidden for models that do not support them."""
    option = functools.partial(click.option, hidden=hidden)
    return together(
        option(
            "--distributed",
            is_flag=True,
            help="Be one of several processes that share the documents. Start them together under "
            "SLURM, Open MPI 4 or Kubernetes, or anywhere with the next three options.",
        ),
        option("--coordinator", metavar="HOST:PORT", help="Where process 0 listens for others."),
        option("--processes", type=click.IntRange(1), metavar="N", help="Number of processes."),
        option(
            "--process", type=click.IntRange(0), metavar="I", help="Number of this process, from 0."
        ),
    )


def typed(names: Collection[str] | None = None) -> dict[str, str]:
    """Return the flags, by name, of the options given on the command line, among `names` if any."""
    context = click.get_current_context()
    flags = {option.name or "": option.opts[0] for option in context.command.params}
    return {
        name: flag
        for name, flag in flags.items()
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        and (names is None or name in names)
    }


def given(without: Collection[str], own: Mapping[str, Any]) -> list[str]:
    """Return the options of the command line as arguments, without some, and with own values."""
    context = click.get_current_context()
    typed_values = {name: context.params[name] for name in typed() if name not in without}
    values = typed_values | dict(own)
    arguments = []
    for option in context.command.params:
        if option.name not in values or values[option.name] is None:
            continue
        value = values[option.name]
        if isinstance(option, click.Option) and option.is_flag:
            arguments.append(option.opts[0])
            continue
        for one in value if option.multiple else [value]:
            arguments += [option.opts[0], _text(one)]
    return arguments


def _text(value: Any) -> str:
    if isinstance(value, Path):
        return shown(value)
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def shown(path: Path) -> str:
    """Return a path as a person would type it: relative if it is in the current folder."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def absolute(reading: dict[str, Any]) -> dict[str, Any]:
    """Return reading options for `config.json`, with absolute paths."""
    recorded = {
        name: str(value.absolute()) if isinstance(value, Path) else value
        for name, value in reading.items()
    }
    if recorded.get("stop_words") not in (None, "english", "none"):
        recorded["stop_words"] = str(Path(recorded["stop_words"]).absolute())
    return recorded


def input_path(input: Path) -> str:
    """Return an input for `config.json`: an absolute path, or `-` for standard input."""
    return str(input if input == STANDARD_INPUT else input.absolute())


def again(fitted: Any, config: Mapping[str, Any]) -> str:
    """Return the command that gives a fit again, however its run ended; "" if it has no update."""
    if not fitted.done:
        return ""
    given, input = config["given"], config["source"]["input"]
    more = {f"--{name.replace('_', '-')}": value for name, value in repeating(fitted).items()}
    last = [
        str(part) for flag, value in more.items() if flag not in given for part in (flag, value)
    ]
    inputs = [] if input is None else [shown(Path(input))]
    return shlex.join(["simplex-jax", config["command"], *inputs, *given, *last])

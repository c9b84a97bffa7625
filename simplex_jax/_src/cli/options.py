"""Options shared by the commands of all models, and their values."""

import functools
import os
import shlex
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import click
from click.core import ParameterSource

from simplex_jax._src.arguments import MOST_SEED
from simplex_jax._src.corpus.files import STANDARD_INPUT
from simplex_jax._src.models.pipeline import Session, repeating
from simplex_jax._src.options import Option, declarations, flag_of, plain_type
from simplex_jax._src.runtime import output

# Command-line options from declarations; see `simplex_jax._src.options`.


def declared_options(of: type) -> list[Callable]:
    """Return a decorator for each option of a dataclass that is on the command line."""
    defaults = of()
    return [
        declared_option(of, name, getattr(defaults, name))
        for name, declared, _ in declarations(of)
        if declared.command
    ]


class _Path(click.Path):
    """A non-empty path: an empty one would mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path."""
        if value == "":
            self.fail("the path is empty.", param, ctx)
        return Path(super().convert(value, param, ctx))  # type: ignore[arg-type]


PATH = _Path(path_type=Path)


def declared_option(of: type, name: str, default: Any, note: str = "") -> Callable:
    """Return a decorator for an option of a dataclass, with the command's default.

    A note ends its help.
    """
    declared, kind = {name: (declared, kind) for name, declared, kind in declarations(of)}[name]
    kind = plain_type(kind)
    help, attributes = declared.help, dict[str, Any](default=default)
    if note:
        help = f"{help.removesuffix('.')} ({note})."
    if declared.unset and default is not None:
        attributes["show_default"] = declared.unset
    elif declared.unset:
        help = f"{help}  [default: {declared.unset}]"
    if declared.parse is not None:
        attributes |= {"type": _Parsed(declared), "metavar": declared.metavar}
    elif kind is bool:
        attributes["is_flag"] = True
    elif declared.choices is not None:
        attributes["type"] = click.Choice(declared.offered or declared.choices)
        attributes["multiple"] = kind is not str
    elif declared.several:
        attributes["type"] = _Several(int(declared.least or 0), declared.hint)
        help = (
            f"{help} Several, such as 10,20,50, are fitted one by one and compared; after an "
            "interruption, repeat the command to continue."
        )
    elif Path in get_args(kind):
        attributes["type"] = PATH
    elif get_origin(kind) is tuple:
        attributes |= {
            "type": click.IntRange(int(declared.least or 0)),
            "nargs": len(get_args(kind)),
        }
    elif kind is int:
        largest = None if declared.most is None else int(declared.most)
        attributes["type"] = click.IntRange(int(declared.least or 0), largest)
    elif kind is float:
        low = 0 if declared.least is None else declared.least
        most, below = declared.most, declared.below
        attributes["type"] = _Number(
            *(low, most if below is None else below),
            min_open=declared.least is None,
            max_open=below is not None,
        )
    if declared.metavar is not None:
        attributes["metavar"] = declared.metavar
    return click.option(flag_of(name, declared), name, help=help, **attributes)


class _Several(click.ParamType):
    """A number, or a tuple of several separated by commas."""

    name = "NUMBER[,...]"

    def __init__(self, least: int, hint: str | None) -> None:
        self._least, self._hint = least, hint

    def convert(self, value: Any, param: Any, ctx: Any) -> int | tuple[int, ...]:
        """Return the number or numbers."""
        if not isinstance(value, str):
            return value
        kind: click.ParamType = click.IntRange(self._least)
        try:
            parts = [int(part) for part in value.split(",")]
        except ValueError:
            problem = f"{value!r} is not a whole number, or several with commas between them."
            self.fail(f"{problem} {self._hint}" if self._hint else problem, param, ctx)
        numbers = tuple(kind.convert(part, param, ctx) for part in parts)
        if len(set(numbers)) < len(numbers):
            self.fail(f"{value!r} has a number twice.", param, ctx)
        return numbers[0] if len(numbers) == 1 else numbers


class _Number(click.FloatRange):
    """A number that is not NaN, which `click.FloatRange` accepts."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the number."""
        number = super().convert(value, param, ctx)
        if number != number:
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


class _Parsed(click.ParamType):
    """A value that its declaration parses."""

    def __init__(self, declared: Option) -> None:
        self.name = declared.metavar or "value"
        self._declared = declared

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value."""
        if not isinstance(value, str) or self._declared.parse is None:
            return value
        try:
            return self._declared.parse(value)
        except ValueError as error:
            self.fail(f"{value!r} is not {self.name}: {error}.", param, ctx)


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
            f"{out} cannot be written ({error.strerror}): choose another file"
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


def compose(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Combine decorators into one, in the order of the help."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


common_options = compose(
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
    return compose(
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
    return compose(
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
    """Return the flags, by name, of the options given on the command line, among `names` if any.

    There are none outside a command.
    """
    context = click.get_current_context(silent=True)
    if context is None:
        return {}
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
    arguments: list[str] = []
    for option in context.command.params:
        if option.name not in values or values[option.name] is None:
            continue
        value = values[option.name]
        arguments += _typed(option, value)
    return arguments


def _typed(option: click.Parameter, value: Any) -> Iterator[str]:
    """Yield an option with a value as it is typed."""
    if isinstance(option, click.Option) and option.is_flag:
        yield (option.opts if value else option.secondary_opts or option.opts)[0]
        return
    for one in value if option.multiple else [value]:
        yield option.opts[0]
        if option.nargs > 1:
            yield from map(_text, one)
        else:
            yield _text(one)


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


def _as_input(name: str) -> str:
    """Return the name of a file that is not taken for a command or an option."""
    told = name == str(STANDARD_INPUT) or ((os.sep in name or "." in name) and name[0] != "-")
    return name if told else os.path.join(".", name)


def again(fitted: Any, config: Mapping[str, Any]) -> str:
    """Return the command that gives a fit again, however its run ended; "" if it has no update."""
    if not fitted.done:
        return ""
    given, input = config["given"], config["source"]["input"]
    more = {f"--{name.replace('_', '-')}": value for name, value in repeating(fitted).items()}
    last = [
        str(part) for flag, value in more.items() if flag not in given for part in (flag, value)
    ]
    inputs = [] if input is None else [_as_input(shown(Path(input)))]
    return shlex.join(["simplex-jax", config["command"], *inputs, *given, *last])

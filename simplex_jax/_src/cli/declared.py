"""Command-line options from declarations; see `simplex_jax._src.options`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_origin

import click

from simplex_jax._src.options import Option, declarations, flag_of, plain_type


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

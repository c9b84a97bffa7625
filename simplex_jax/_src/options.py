"""Options of models and readers, each declared once.

Options are the fields of a dataclass, each with a type, a default, a range and a help sentence.
From these come the options of the command line, the signatures and docstrings of Python functions,
the parameters of estimators and the tables in the documentation.
"""

import dataclasses
import functools
import inspect
import math
import types
from collections.abc import Callable, Sequence
from typing import (
    Any,
    Concatenate,
    ParamSpec,
    Protocol,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import numpy as np

from simplex_jax._src import arguments

D = TypeVar("D")
D2 = TypeVar("D2")
D3 = TypeVar("D3")
R = TypeVar("R")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
P = ParamSpec("P")


@dataclasses.dataclass(frozen=True)
class Option:
    """Declaration of an option, besides its type and its default."""

    help: str  # one or two sentences, for command, Python and estimator
    least: float | None = None  # the smallest number allowed; numbers without one must be positive
    most: float | None = None  # the largest number allowed, if there is a limit
    below: float | None = None  # an exclusive upper limit, if there is one
    choices: Sequence[str] | None = None  # the names allowed, for strings and tuples of strings
    # Choices that the command offers; baselines of the papers are in Python only
    offered: Sequence[str] | None = None
    unset: str | None = None  # the default in words, such as the meaning of None
    flag: str | None = None  # its name on the command line, if different
    command: bool = True  # whether the command has it
    # Its name in the estimator; None if it is not there, "" for the same name
    parameter: str | None = ""
    # Converts the typed text, for options that are not plain numbers, names or switches
    parse: Callable[[str], Any] | None = None
    # `(name, value) -> value`, in place of a range
    check: Callable[[str, Any], Any] | None = None
    several: bool = False  # whether the command accepts several integers, and runs with each
    # Whether a resumed run may change it, to run longer or on other devices
    changeable: bool = False
    metavar: str | None = None  # name of the value in the command's help
    # A sentence appended to the error when a list of numbers cannot be parsed
    hint: str | None = None


def option(help: str, *, default: T, kw_only: bool = True, **declared: Any) -> T:
    """Declare an option, with the attributes of `Option`, as a field of an `options` dataclass.

    The default is None if it depends on the data or on other options.
    """
    return dataclasses.field(
        default=default, kw_only=kw_only, metadata={"option": Option(help, **declared)}
    )


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(option,))
def options(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass that checks its values as the fields declare.

    Its own `__post_init__` is called with checked values, and raises a ValueError if they
    contradict each other.
    """
    rules = getattr(cls, "__post_init__", None)

    def check(self: Any) -> None:
        for name, declared, kind in declarations(type(self)):
            object.__setattr__(self, name, checked(name, getattr(self, name), declared, kind))
        if rules is not None:
            rules(self)

    cls.__post_init__ = check  # type: ignore[attr-defined]
    made = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
    made.__doc__ = f"{inspect.cleandoc(cls.__doc__ or '')}\n\nAttributes:\n    {described(made)}"
    return made


def declarations(of: type) -> tuple[tuple[str, Option, Any], ...]:
    """Return name, declaration and type of every option of a dataclass, in order."""
    return _declarations(of)


@functools.cache
def _declarations(of: type) -> tuple[tuple[str, Option, Any], ...]:
    hints = get_type_hints(of)
    return tuple(
        (field.name, field.metadata["option"], hints[field.name])
        for field in dataclasses.fields(of)
        if "option" in field.metadata
    )


def changeable(of: type) -> tuple[str, ...]:
    """Return the names of the options that a resumed run may change."""
    return tuple(name for name, declared, _ in declarations(of) if declared.changeable)


def plain_type(kind: Any) -> Any:
    """Return a type without None: `int` of `int | None`."""
    if get_origin(kind) in (Union, types.UnionType):
        members = [member for member in get_args(kind) if member is not type(None)]
        return members[0] if len(members) == 1 else kind
    return kind


def checked(name: str, value: Any, declared: Option, kind: Any) -> Any:
    """Return the value of an option, or raise a ValueError that names it."""
    if declared.check is not None:
        return declared.check(name, value)
    if value is None and kind is not plain_type(kind):
        return None
    kind = plain_type(kind)
    if declared.choices is not None:
        if kind is not str:
            return arguments.choices(name, value, declared.choices)
        arguments.choice(name, value, declared.choices)
        return value
    if kind is int:
        least = int(declared.least or 0)
        if declared.most is None:
            return arguments.at_least(name, value, least)
        return arguments.within(name, value, least, int(declared.most))
    if kind is float:
        return number(name, value, declared.least, declared.most, declared.below)
    if kind is bool and not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False; it is {value!r}")
    return value


def number(
    name: str,
    value: Any,
    least: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> float:
    """Return a finite number, positive or at least `least`, or raise a ValueError.

    It must be at most `most` and below `below`, if given.
    """
    try:
        result = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number; it is {value!r}") from None
    if not (math.isfinite(result) and (result > 0 if least is None else result >= least)):
        limits = "finite and positive" if least is None else f"finite and at least {least:g}"
        raise ValueError(f"{name} must be {limits}; it is {value}")
    if most is not None and result > most:
        raise ValueError(f"{name} must be at most {_limit(most)}; it is {value}")
    if below is not None and result >= below:
        raise ValueError(f"{name} must be below {_limit(below)}; it is {value}")
    return result


def _limit(most: float) -> str:
    return f"{most:,.0f}" if most < 1e9 else f"{most:g}"


def described(of: type) -> str:
    """Return the options of a dataclass as entries of a docstring, one per line.

    Positional ones come first, then its own, and then those of its bases.
    """
    fields = {field.name: field for field in dataclasses.fields(of)}

    def place(declaration: tuple[str, Option, Any]) -> tuple[bool, int]:
        name = declaration[0]
        base = next(i for i, kind in enumerate(of.__mro__) if name in vars(kind))
        return bool(fields[name].kw_only), base

    return "\n    ".join(
        entry(name, declared, fields[name].default)
        for name, declared, _ in sorted(declarations(of), key=place)
    )


def entry(name: str, declared: Option, default: Any) -> str:
    """Return the docstring entry of an option, under the name that it has there."""
    choices = f" One of {', '.join(declared.choices)}." if declared.choices else ""
    shown = declared.unset if declared.unset or default is None else _shown(default)
    return f"{name}: {declared.help}{choices}" + (f" Default: {shown}." if shown else "")


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else repr(value) if value != () else "none"


def table(of: type) -> str:
    """Return the options of a dataclass as a Markdown table for the documentation."""
    defaults = {field.name: field.default for field in dataclasses.fields(of)}
    lines = ["| option | values | default | what it is |", "|---|---|---|---|"]
    for name, declared, kind in declarations(of):
        value = defaults[name]
        default = value if isinstance(value, str) else _shown(value)
        if value is None or declared.unset:
            default = declared.unset or ""
        flag = f", `{flag_of(name, declared)}`" if declared.command else ""
        cells = f"`{name}`{flag}", _values(declared, kind), default, declared.help
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _values(declared: Option, kind: Any) -> str:
    """Return the allowed values of an option in words; "" if its help suffices."""
    kind = plain_type(kind)
    if declared.choices is not None:
        command = f"; the command: {', '.join(declared.offered)}" if declared.offered else ""
        return ", ".join(declared.choices) + command
    if declared.parse is not None and declared.metavar is not None:
        return declared.metavar.lower().replace("|", ", ")
    if kind is int:
        least = int(declared.least or 0)
        if declared.most is None:
            return f"integer, at least {least}"
        return f"integer, {least} to {int(declared.most)}"
    if kind is float:
        limits = ["positive" if declared.least is None else f"at least {declared.least:g}"]
        limits += [f"at most {_limit(declared.most)}"] if declared.most else []
        limits += [f"below {declared.below:g}"] if declared.below else []
        return f"number, {', '.join(limits)}"
    return "True, False" if kind is bool else ""


def flag_of(name: str, declared: Option) -> str:
    """Return the name of an option on the command line."""
    return declared.flag or f"--{name.replace('_', '-')}"


class _WithOptions(Protocol[P, T_co]):
    """Decorator returned by `with_options`, of functions of up to three data arguments.

    Data may be named; for type checkers, which cannot say so, they are positional.
    """

    @overload
    def __call__(self, function: Callable[[D, T_co], R]) -> Callable[Concatenate[D, P], R]: ...

    @overload
    def __call__(
        self, function: Callable[[D, D2, T_co], R]
    ) -> Callable[Concatenate[D, D2, P], R]: ...

    @overload
    def __call__(
        self, function: Callable[[D, D2, D3, T_co], R]
    ) -> Callable[Concatenate[D, D2, D3, P], R]: ...


def with_options(made: Callable[P, T]) -> _WithOptions[P, T]:
    """Give a function of data and options an explicit signature with one parameter per option.

    In its docstring, a line `{options}` is replaced by their entries.
    """

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        own = inspect.signature(made)
        *data, _ = inspect.signature(function).parameters.values()
        parameters = [*data, *own.parameters.values()]

        @functools.wraps(function)
        def explicit(*args: Any, **kwargs: Any) -> R:
            positional = args[len(data) :]
            named = {one.name: kwargs.pop(one.name) for one in data if one.name in kwargs}
            try:
                given = inspect.Signature(data).bind(*args[: len(data)], **named)
                own.bind(*positional, **kwargs)
            except TypeError as error:
                raise TypeError(f"{function.__name__}() {error}") from None
            return function(*given.args, cast(Any, made)(*positional, **kwargs))

        explicit.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            parameters, return_annotation=inspect.signature(function).return_annotation
        )
        if explicit.__doc__:
            # Python 3.13 takes the indentation out of docstrings, and others do not.
            text = inspect.cleandoc(explicit.__doc__)
            explicit.__doc__ = text.replace("{options}", described(cast(type, made)))
        return explicit

    return cast(_WithOptions[P, T], decorate)

"""Options of the models, each declared once.

A model declares its options as the fields of a dataclass, each with a type, a default, a range and
a help sentence. From these come its command-line options, the signatures and docstrings of its
Python functions, the parameters of its estimator and the tables in the documentation.
"""

import dataclasses
import functools
import inspect
import math
import types
import warnings
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

MOST_CONCENTRATION = 2.0**24
"""Largest concentration of a Dirichlet distribution: float32 still resolves one more token."""

KEPT = 20
"""Default number of posterior samples to keep of each chain."""

_MOST_KEPT = 10**9  # bytes of the samples kept by default

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
    unset: str | None = None  # meaning of None, in words
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


def again(name: str, *, default: T, of: type | None = None, **declared: Any) -> T:
    """Redeclare an option of `RunOptions`, or of another dataclass, with other attributes."""
    earlier = {name: entry for name, entry, _ in declarations(of or RunOptions)}[name]
    own = dataclasses.replace(earlier, **declared)
    return dataclasses.field(default=default, kw_only=True, metadata={"option": own})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(option, again))
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
    made.__doc__ = f"{inspect.cleandoc(cls.__doc__ or '')}\n\nAttributes:\n{described(made)}"
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
    return value


def concentration(
    help: str,
    *,
    default: Any,
    learn: Sequence[str] = ("learn",),
    several: bool = False,
    most: float = MOST_CONCENTRATION,
    **declared: Any,
) -> Any:
    """Declare a concentration: a number, or one of the words of `learn` to sample it.

    With `several`, it may also be a sequence of numbers.
    """

    def check(name: str, value: Any) -> Any:
        if isinstance(value, str):
            if value in learn:
                return value
            raise ValueError(f"{name} must be a number or {' or '.join(learn)}; it is {value!r}")
        if value is None and default is None:
            return None
        if several and np.ndim(value):
            return tuple(number(name, each, most=most) for each in value)
        return number(name, value, most=most)

    return option(
        help,
        default=default,
        check=check,
        parse=lambda text: text if text.startswith("learn") else number("it", text),
        metavar="|".join(("NUMBER", *learn)),
        **declared,
    )


def gamma_prior(name: str, unset: str, **declared: Any) -> Any:
    """Declare the Gamma prior of the concentration `name`, a pair of shape and rate."""

    def check(prior: str, value: Any) -> tuple[float, float] | None:
        if value is None:
            return None
        pair = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
        if len(pair) != 2:
            raise ValueError(f"{prior} must be a pair of shape and rate; it is {value!r}")
        shape, rate = (number(prior, part) for part in pair)
        return shape, rate

    return option(
        f"Shape and rate of the Gamma prior of {name}, if it is learned.",
        default=None,
        check=check,
        parse=lambda text: tuple(number("it", part) for part in text.split(",")),
        metavar="SHAPE,RATE",
        unset=unset,
        **declared,
    )


def check_priors(chosen: Any, *names: str) -> None:
    """Raise a ValueError if a prior is given for a concentration that is not learned."""
    for name in names:
        fixed = not isinstance(getattr(chosen, name), str)
        if fixed and getattr(chosen, f"{name}_prior") is not None:
            raise ValueError(f"{name}_prior cannot be combined with a fixed {name}")


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


def described(of: type, *, indent: int = 4) -> str:
    """Return the options of a dataclass as entries of a docstring, one per line."""
    defaults = {field.name: field.default for field in dataclasses.fields(of)}
    return "\n".join(
        " " * indent + entry(name, declared, defaults[name])
        for name, declared, _ in declarations(of)
    )


def entry(name: str, declared: Option, default: Any) -> str:
    """Return the docstring entry of an option, under the name that it has there."""
    choices = f" One of {', '.join(declared.choices)}." if declared.choices else ""
    shown = declared.unset if default is None else _shown(default)
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
        if value is None:
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


class _Taking(Protocol[P, T_co]):
    """Decorator returned by `takes`, for functions of one or three data arguments and options."""

    @overload
    def __call__(self, function: Callable[[D, T_co], R]) -> Callable[Concatenate[D, P], R]: ...

    @overload
    def __call__(
        self, function: Callable[[D, D2, D3, T_co], R]
    ) -> Callable[Concatenate[D, D2, D3, P], R]: ...


def takes(made: Callable[P, T]) -> _Taking[P, T]:
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
            try:
                inspect.Signature(data).bind(*args[: len(data)])
                own.bind(*positional, **kwargs)
            except TypeError as error:
                raise TypeError(f"{function.__name__}() {error}") from None
            return function(*args[: len(data)], cast(Any, made)(*positional, **kwargs))

        explicit.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            parameters, return_annotation=inspect.signature(function).return_annotation
        )
        if explicit.__doc__:
            entries = described(cast(type, made), indent=8).lstrip()
            explicit.__doc__ = explicit.__doc__.replace("{options}", entries)
        return explicit

    return cast(_Taking[P, T], decorate)


@options
class RunOptions:
    """Run options that all models have; a model redeclares those that differ."""

    batch_size: int | None = option(
        "Documents or rows in a batch.",
        default=None,
        least=1,
        unset="chosen by the size of the data",
    )
    passes: float | None = option(
        "Length of the run in passes over the data.",
        default=None,
        unset="200, unless steps or seconds are given",
        changeable=True,
    )
    steps: int | None = option(
        "Length in updates, instead.", default=None, least=1, changeable=True, parameter=None
    )
    seconds: float | None = option(
        "Length in seconds of training, instead.", default=None, changeable=True
    )
    eval_every: int | None = option(
        "Updates between evaluations.",
        default=None,
        least=1,
        unset="4 passes, or fewer in a large corpus; more if evaluations would take over a 20th of "
        "the time",
        changeable=True,
        parameter=None,
    )
    sample_every: int | None = option(
        "Updates between the posterior samples of means and intervals.",
        default=None,
        least=1,
        unset="a pass, or less in a large corpus; more if samples would take over a tenth of the "
        "time",
        parameter=None,
    )
    chains: int = option("Parallel chains.", default=1, least=1, parameter="n_chains")
    keep_samples: int | None = option(
        "Posterior samples to keep of each chain, evenly spaced over the last half of the run, or "
        "all of them if there are fewer. Each takes 4 bytes per topic and word, on disk, or in "
        "Python without samples_dir in memory.",
        default=None,
        least=0,
        unset=f"{KEPT}, or as many as take 1 GB if these are fewer",
        metavar="NUMBER",
    )
    seed: int = option(
        "Seed of all randomness.",
        default=0,
        least=0,
        most=arguments.MOST_SEED,
        parameter="random_state",
    )


def number_kept(given: int | None, chains: int, topics: int, words: int) -> int:
    """Return how many samples of topics a run keeps, and warn if that is less than the default."""
    if given is not None:
        return given
    each = 4 * chains * topics * words
    if (number := min(KEPT, _MOST_KEPT // each)) < KEPT:
        warnings.warn(
            f"the run keeps {number} posterior samples of the topics, not {KEPT}: each takes "
            f"{each / 1e9:.2g} GB. For more give their number (keep_samples, --keep-samples)",
            stacklevel=2,
        )
    return number


def as_json(settings: RunOptions) -> dict[str, Any]:
    """Return options in the form of `config.json`."""
    values = {name: getattr(settings, name) for name, _, _ in declarations(type(settings))}
    for name, value in values.items():
        if isinstance(value, np.ndarray | np.generic):
            values[name] = value.tolist()
        elif isinstance(value, tuple):
            values[name] = list(value)
    return values


def from_json(of: type[T], values: Any) -> T:
    """Return the options of `as_json`, or raise a ValueError for a missing or invalid one."""
    names = {name for name, _, _ in declarations(of)}
    if not isinstance(values, dict) or values.keys() != names:
        raise ValueError("options are missing or unknown")
    try:
        return of(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
    except TypeError as error:
        raise ValueError(str(error)) from None

"""Options that models have in common; see `simplex_jax._src.options`."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from simplex_jax._src import arguments
from simplex_jax._src.options import declarations, number, option, options
from simplex_jax._src.warn import warn_caller

MOST_CONCENTRATION = 2.0**24
"""Largest concentration of a Dirichlet distribution: float32 still resolves one more token."""

KEPT = 20
"""Default number of posterior samples to keep of each chain."""

_MOST_KEPT = 10**9  # bytes of the samples kept by default

T = TypeVar("T")


def override(name: str, *, default: T, of: type | None = None, **declared: Any) -> T:
    """Redeclare an option of `RunOptions`, or of another dataclass, with other attributes."""
    earlier = {name: entry for name, entry, _ in declarations(of or RunOptions)}[name]
    own = dataclasses.replace(earlier, **declared)
    return dataclasses.field(default=default, kw_only=True, metadata={"option": own})


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
        if several and np.ndim(value) > 1:
            shape = np.shape(value)
            raise ValueError(f"{name} must be one number or a list of them; its shape is {shape}")
        if several and np.ndim(value):
            return tuple(number(name, each, most=most) for each in value)
        return number(name, value, most=most)

    return option(
        help,
        default=default,
        check=check,
        parse=lambda text: text if text in learn or text[:5] == "learn" else number("it", text),
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


@options
class RunOptions:
    """Run options that all models have; a model redeclares those that differ."""

    batch_size: int | None = option(
        "Documents or rows in a batch, the part of the data that an update reads.",
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
        "Length of the run in updates, in place of passes.",
        default=None,
        least=1,
        changeable=True,
        parameter=None,
    )
    seconds: float | None = option(
        "Length of the run in seconds of training, in place of passes.",
        default=None,
        changeable=True,
    )
    eval_every: int | None = option(
        "Updates between evaluations on the held-out data.",
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
    chains: int = option(
        "Number of independent chains, run side by side.",
        default=1,
        least=1,
        parameter="n_chains",
    )
    keep_samples: int | None = option(
        "Posterior samples to keep of each chain, evenly spaced over the last half of the run, or "
        "all of them if there are fewer. Each takes 4 bytes per topic and word, on disk, or in "
        "Python without samples_dir in memory.",
        default=None,
        least=0,
        unset=f"{KEPT}; of more than two chains {2 * KEPT} in all; or as many as take 1 GB if "
        "these are fewer",
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
    usual = min(KEPT, math.ceil(2 * KEPT / chains))
    if (number := min(usual, _MOST_KEPT // each)) < usual:
        warn_caller(
            f"the run keeps {number} posterior samples of the topics, not {usual}: each takes "
            f"{each / 1e9:.2g} GB. For more give their number (keep_samples, --keep-samples)",
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

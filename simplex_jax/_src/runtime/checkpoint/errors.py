"""Errors of checkpoints, and the differences that they name."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

_ABSENT = object()
_MOST = 5  # differences in a message


class CheckpointError(ValueError):
    """A checkpoint that cannot be written or read, or belongs to another run."""

    __module__ = "simplex_jax.errors"  # where users find it


class CheckpointWarning(UserWarning):
    """A checkpoint is damaged, so an older one is used, or was written by other versions."""


class Damaged(Exception):
    """A checkpoint differs from what was written; caught in `Store`."""


def compare(saved: Any, expected: Any, show: Callable[[Any], str] = repr) -> None:
    """Raise a CheckpointError that names the fields in which two JSON values differ."""
    differences = list(_differences("", saved, expected, show))
    if differences:
        more = f"; and {len(differences) - _MOST} more" if len(differences) > _MOST else ""
        raise CheckpointError("; ".join(differences[:_MOST]) + more)


def _differences(name: str, saved: Any, expected: Any, show: Callable[[Any], str]) -> Iterator[str]:
    if isinstance(saved, Mapping) and isinstance(expected, Mapping):
        for key in {**saved, **expected}:
            values = saved.get(key, _ABSENT), expected.get(key, _ABSENT)
            yield from _differences(f"{name}.{key}" if name else key, *values, show)
    elif saved != expected or isinstance(saved, bool) != isinstance(expected, bool):
        old, new = (_short(value, show) for value in (saved, expected))
        yield f"{name} is {old} in the checkpoint and {new} in this run"


def _short(value: Any, show: Callable[[Any], str]) -> str:
    text = "absent" if value is _ABSENT else show(value)
    return text if len(text) <= 60 else text[:57] + "..."

"""Whether a checkpoint is that of this run."""

from collections.abc import Iterator, Mapping
from typing import Any

import jax

import simplex_jax
from simplex_jax.runtime.checkpoint.errors import CheckpointError

_ABSENT = object()
_MOST = 5


def random_flags() -> dict[str, Any]:
    """Return the settings of JAX that decide what its generators draw."""
    return {
        name: getattr(jax.config, name)
        for name in ("jax_default_prng_impl", "jax_threefry_partitionable", "jax_enable_x64")
    }


def versions() -> dict[str, str]:
    """Return what may change the rounding of a sample."""
    return {
        "simplex_jax": simplex_jax.__version__,
        "jax": jax.__version__,
        "device": jax.devices()[0].device_kind,
    }


def check(saved: Any, wanted: Any) -> None:
    """Raise a CheckpointError that names the fields in which two JSON values differ."""
    refuse(list(_differences("", saved, wanted)))


def refuse(differences: list[str]) -> None:
    """Raise a CheckpointError unless there are no differences."""
    if differences:
        more = f"; and {len(differences) - _MOST} more" if len(differences) > _MOST else ""
        raise CheckpointError("; ".join(differences[:_MOST]) + more)


def _differences(name: str, saved: Any, wanted: Any) -> Iterator[str]:
    if isinstance(saved, Mapping) and isinstance(wanted, Mapping):
        for key in {**saved, **wanted}:
            inner = f"{name}.{key}" if name else key
            yield from _differences(inner, saved.get(key, _ABSENT), wanted.get(key, _ABSENT))
    elif saved != wanted or isinstance(saved, bool) != isinstance(wanted, bool):
        yield f"{name} is {_short(saved)} in the checkpoint and {_short(wanted)} in this run"


def _short(value: Any) -> str:
    if value is _ABSENT:
        return "absent"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."

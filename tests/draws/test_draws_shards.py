"""Draws inside `shard_map`, where JAX tells what differs between devices from what does not.

Tracing shows it, on a mesh of one device as on one of many.
"""

from collections.abc import Callable

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec
from support.draw_cases import CASES, every_argument, every_draw, values_of

from simplex_jax._src.draws import native

EACH = PartitionSpec("devices")
wide_or_not = pytest.mark.parametrize("wide", [False, True], ids=["float32", "float64"])


def traced(function: Callable, argument: jax.Array, out_specs: PartitionSpec) -> None:
    mesh = jax.make_mesh((1,), ("devices",), axis_types=(AxisType.Auto,))
    inside = jax.shard_map(function, mesh=mesh, in_specs=EACH, out_specs=out_specs)
    jax.jit(inside).trace(argument)


def check_differs(function: Callable, argument: jax.Array) -> None:
    """The result may differ between devices: JAX must not take it to be equal on all."""
    traced(function, argument, EACH)
    with pytest.raises(ValueError, match="infer replication"):
        traced(function, argument, PartitionSpec())


@every_draw
@wide_or_not
def test_a_key_of_each_device(name: str, wide: bool, getkey: Callable[[], jax.Array]) -> None:
    case = CASES[name]
    with jax.enable_x64(wide):
        values = values_of(case, float)
        check_differs(lambda keys: case(keys[0], *values), getkey()[None])


@every_argument
@wide_or_not
def test_parameters_of_each_device(
    name: str, argument: str, wide: bool, getkey: Callable[[], jax.Array]
) -> None:
    case, key = CASES[name], getkey()
    with jax.enable_x64(wide):
        values = dict(zip(case.arguments, values_of(case, float), strict=True))
        check_differs(
            lambda value: case(key, *(values | {argument: value}).values()), values[argument]
        )


@pytest.mark.skipif(native.LIBRARY.prefix() is None, reason="no native code here")
def test_a_native_call_of_each_device() -> None:
    check_differs(native.normalise, np.zeros((1, 3), np.float32))

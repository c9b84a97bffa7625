"""Checks of arguments: a ValueError if the values are known, a mask under jit."""

import functools
import math
import operator
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, SupportsIndex, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

MOST_SEED = 2**32 - 1
"""Largest seed: JAX takes seeds modulo 2^32, so larger ones would repeat results."""

_LANES = 32
_LONG = 256


def as_float(name: str, value: ArrayLike) -> jax.Array:
    """Return ``value`` as a floating point array, or raise a ValueError that names it."""
    try:
        if isinstance(value, int) and not isinstance(value, bool):
            value = float(value)  # which may exceed int32
        elif isinstance(value, np.ndarray | np.integer) or is_numbers(value):
            host = np.asarray(value)
            value = host.astype(float) if host.dtype.kind in "iu" else host  # likewise
        array = jnp.asarray(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be a number or an array of numbers: {error}") from None
    if jnp.issubdtype(array.dtype, jnp.floating):
        return array if array.dtype.itemsize >= 4 else array.astype(jnp.float32)
    if jnp.issubdtype(array.dtype, jnp.integer):
        return array.astype(jnp.result_type(float))
    raise ValueError(f"{name} must be real numbers, not {array.dtype}")


def as_number(cell: Any) -> float:
    """Return a table cell as a number, or raise a ValueError or TypeError if it is not one.

    Python reads 1_0 as 10; in a table that is a name.
    """
    if (isinstance(cell, str) and "_" in cell) or (isinstance(cell, bytes) and b"_" in cell):
        raise ValueError(f"{cell!r} is not a number")
    return float(cell)


def at_least(name: str, value: SupportsIndex, least: int) -> int:
    """Return ``value`` as an int, or raise a ValueError unless it is at least ``least``."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least:
        raise ValueError(f"{name} must be an integer of at least {least}; it is {value!r}")
    return number


def integer(name: str, value: SupportsIndex) -> int:
    """Return ``value`` as an int, or raise a ValueError if it is not an integer.

    Options that are hashed need it: arrays of one number, as of `argmax`, cannot be.
    """
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be an integer; it is {value!r}") from None


def within(name: str, value: SupportsIndex, least: int, most: int) -> int:
    """Return ``value`` as an int, or raise a ValueError unless it is from ``least`` to ``most``."""
    number = at_least(name, value, least)
    if number > most:
        raise ValueError(f"{name} must be at most {most}; it is {number}")
    return number


def seed(value: SupportsIndex) -> int:
    """Return a seed as an int, or raise a ValueError unless it is from 0 to `MOST_SEED`."""
    return within("seed", value, 0, MOST_SEED)


def choice(name: str, value: Any, names: Iterable[str]) -> None:
    """Raise a ValueError unless ``value`` is one of some names."""
    if value not in (names := tuple(names)):
        raise ValueError(f"{name} must be one of {', '.join(names)}; it is {value!r}")


def choices(name: str, values: Any, names: Sequence[str]) -> tuple[str, ...]:
    """Return values as a tuple, or raise a ValueError unless each is one of some names."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        example = f"({names[0]!r},)"
        raise ValueError(f"{name} must be a sequence of names, say {example}; it is {values!r}")
    values = tuple(values)
    for value in values:
        choice(name, value, names)
    return values


def promote(**arguments: ArrayLike) -> list[jax.Array]:
    """Return the named arguments as floating point arrays of one common dtype."""
    arrays = [as_float(name, value) for name, value in arguments.items()]
    dtype = jnp.result_type(*arrays)
    return [array.astype(dtype) for array in arrays]


def nonnegatives(**arguments: ArrayLike) -> list[jax.Array]:
    """Return the named arguments as ``promote`` does, or raise a ValueError if one is below 0."""
    arrays = promote(**arguments)
    for name, array in zip(arguments, arrays, strict=True):
        require(name, array, nonnegative(array), "finite and at least 0")
    return arrays


def all_masked(or_zero: Collection[str] = (), **arguments: ArrayLike) -> list[jax.Array]:
    """Return the named arguments as ``promote`` and ``masked`` do; ``or_zero`` ones may be 0."""
    arrays = zip(arguments, promote(**arguments), strict=True)
    return [masked(name, array, or_zero=name in or_zero) for name, array in arrays]


def as_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape as a tuple, or raise a ValueError unless it has integers from 0 on."""
    if not isinstance(shape, Sequence):
        raise ValueError(f"shape must be a tuple of integers; it is {shape!r}")
    return tuple(at_least("shape", side, 0) for side in shape)


def common_shape(shape: Sequence[int] | None, /, **arguments: jax.Array) -> tuple[int, ...]:
    """Return the shape of a draw: that of the broadcast arguments, or ``shape`` if it fits."""
    shapes = [array.shape for array in arguments.values()]
    described = ", ".join(f"{name} {array.shape}" for name, array in arguments.items())
    try:
        broadcast = np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"the shapes of {described} do not broadcast") from None
    if shape is None:
        return broadcast
    shape = as_shape(shape)
    try:
        fits = np.broadcast_shapes(shape, broadcast) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"shape {shape} does not fit the broadcast of {described}")
    return shape


def with_rank(array: jax.Array, rank: int) -> jax.Array:
    """Return the array with leading axes of length 1, so that it has at least ``rank`` axes.

    Scalars are left alone. Where ranks agree, `jax_numpy_rank_promotion="raise"` allows
    broadcasting.
    """
    if not 0 < array.ndim < rank:
        return array
    return lax.expand_dims(array, range(rank - array.ndim))


def same_rank(*arrays: jax.Array) -> list[jax.Array]:
    """Return the arrays as ``with_rank`` does, all of one rank but for scalars."""
    rank = max(array.ndim for array in arrays)
    return [with_rank(array, rank) for array in arrays]


def pad(size: int) -> int:
    """Return the next multiple of 32 from 256 on: on CPUs XLA vectorises no other loop lengths.

    An odd length costs up to seven times as much as the next even one.
    """
    return size if size < _LONG else -(-size // _LANES) * _LANES


def flatten(shape: tuple[int, ...], *arrays: jax.Array) -> list[jax.Array]:
    """Return the arrays, broadcast to ``shape``, as padded vectors; ``unflatten`` inverts this.

    A length that is a multiple of 8 is left alone: there the copies cost more than they save.
    """
    size = math.prod(shape)
    padding = (0, 0 if size % 8 == 0 else pad(size) - size)
    return [
        jnp.pad(jnp.broadcast_to(array, shape).ravel(), padding, constant_values=1)
        for array in arrays
    ]


def unflatten(shape: tuple[int, ...], value: jax.Array) -> jax.Array:
    """Return the entries of a padded vector that are not padding, in ``shape``."""
    return value[: math.prod(shape)].reshape(shape)


def scalar(name: str, value: ArrayLike) -> jax.Array:
    """Return a finite and positive number, or raise a ValueError that names it.

    A traced number out of range becomes NaN.
    """
    number = as_float(name, value)
    if number.ndim:
        raise ValueError(f"{name} must be a scalar; its shape is {number.shape}")
    return _required(name, number, positive(number), "finite and positive")


def positives(name: str, value: ArrayLike) -> jax.Array:
    """Return the array, or raise a ValueError with its name unless it is finite and positive."""
    array = as_float(name, value)
    require(name, array, positive(array), "finite and positive")
    return array


def bounds(lower: ArrayLike, upper: ArrayLike) -> tuple[jax.Array, jax.Array]:
    """Return the bounds as arrays, or raise a ValueError unless the lower are below the upper."""
    low, high = promote(lower=lower, upper=upper)
    common_shape(None, lower=low, upper=high)
    low, high = jnp.broadcast_arrays(low, high)
    require("lower", low, low < high, "below upper")
    return low, high


def size(value: float) -> float:
    """Return a number of data as a float, or raise a ValueError unless it is finite and positive.

    A traced integer would be an int32, which cannot hold billions or the square of 50,000.
    """
    number = scalar("size", value)
    return cast(float, number) if isinstance(number, jax.core.Tracer) else float(value)


def tree(name: str, value: Any, allowed: str = "positive") -> Any:
    """Return a tree of parameters with arrays as leaves; a list of numbers is one array.

    Raise a ValueError that names leaf and index unless all are `allowed`: "positive", "nonnegative"
    or "finite". Traced numbers out of range become NaN.
    """
    checks: dict[str, tuple[Callable[[jax.Array], jax.Array], str]] = {
        "positive": (positive, "finite and positive"),
        "nonnegative": (nonnegative, "finite and at least 0"),
        "finite": (jnp.isfinite, "finite"),
    }
    valid, needs = checks[allowed]
    leaves, structure = jax.tree.flatten_with_path(value, is_leaf=is_numbers)
    arrays = []
    for path, leaf in leaves:
        where = name + jax.tree_util.keystr(path)
        array = as_float(where, leaf)
        arrays.append(_required(where, array, valid(array), needs))
    return jax.tree.unflatten(structure, arrays)


def is_numbers(node: Any) -> bool:
    """Return whether a node of a tree is a list of numbers: one vector, not a tree of scalars."""
    return isinstance(node, list) and all(isinstance(item, int | float) for item in node)


def require(name: str, value: jax.Array, valid: jax.Array, needs: str) -> None:
    """Raise a ValueError naming the argument unless all of ``valid``; under tracing do nothing."""
    if isinstance(valid, jax.core.Tracer) or np.asarray(valid).all():
        return
    where = tuple(int(i) for i in np.argwhere(~np.asarray(valid))[0])
    wrong = np.asarray(value)[where] if np.shape(value) else np.asarray(value)
    place = f" at index {where}" if where else ""
    raise ValueError(f"{name} must be {needs}; it is {wrong}{place}")


def _required(name: str, value: jax.Array, valid: jax.Array, needs: str) -> jax.Array:
    """Return ``value``, which `require` checked, with NaN where it is traced and not valid."""
    require(name, value, valid, needs)
    return jnp.where(valid, value, jnp.nan) if isinstance(valid, jax.core.Tracer) else value


def masked(name: str, value: jax.Array, *, or_zero: bool = False) -> jax.Array:
    """Return ``value`` with NaN where it is not positive (or 0); outside jit, raise an error."""
    if or_zero:
        valid, needs = nonnegative(value), "finite and at least 0"
    else:
        valid, needs = positive(value), "finite and positive"
    require(name, value, valid, needs)
    return jnp.where(valid, value, jnp.nan)


def _one_program(check: Callable[[Any], Any]) -> Callable[[jax.Array], Any]:
    """Return a check that compiles nothing if the values are known and in this process's memory.

    Elsewhere it is one program, not one per operation.
    """
    jitted = jax.jit(check, inline=True)

    @functools.wraps(check)
    def checked(value: jax.Array) -> Any:
        here = not isinstance(value, jax.core.Tracer) and value.is_fully_addressable
        if here and jax.default_backend() == "cpu":
            return check(np.asarray(value))
        return jitted(value)

    return checked


@_one_program
def positive(value: jax.Array) -> jax.Array:
    """Return where ``value`` is finite and at least the smallest normal number."""
    return (value >= jnp.finfo(value.dtype).tiny) & (value <= jnp.finfo(value.dtype).max)


@_one_program
def nonnegative(value: jax.Array) -> jax.Array:
    """Return where ``value`` is finite and at least zero."""
    return (value >= 0) & (value <= jnp.finfo(value.dtype).max)

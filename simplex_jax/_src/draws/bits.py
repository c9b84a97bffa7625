"""Random words for the draws, from a threefry hash that XLA fuses into the calling code."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def threefry2x32(
    key: tuple[jax.Array, jax.Array], counter: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    """Return the Threefry-2x32 hash (Salmon et al. 2011, 20 rounds) of counters, uint32.

    JAX's own CPU lowering rolls the rounds into a loop that passes over memory ten times and keeps
    one word of every two. Unrolled, a pair of words costs half as much as one of those.
    """
    first, second = key
    schedule = (first, second, first ^ second ^ jnp.uint32(_PARITY))
    x, y = counter[0] + schedule[0], counter[1] + schedule[1]
    for i in range(5):
        for rotation in _ROTATIONS[i % 2]:
            x = x + y
            y = x ^ ((y << rotation) | (y >> (32 - rotation)))
        x = x + schedule[(i + 1) % 3]
        y = y + schedule[(i + 2) % 3] + jnp.uint32(i + 1)
    return x, y


def _hashed(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    data = _data_of(key)
    words = data[0], data[1]
    for i in range(2, data.shape[0], 2):
        words = threefry2x32(words, (data[i], data[i + 1]))
    return words


def key_words(key: jax.Array) -> jax.Array:
    """Return the threefry key that `random_words` derives from any key, uint32 [2]."""
    data = _data_of(key)
    return data if data.shape == (2,) else jnp.stack(_hashed(key))


def _data_of(key: jax.Array) -> jax.Array:
    """Return the words of a key; raise a ValueError for an array of keys."""
    data = jax.random.key_data(key)
    if data.ndim != 1:
        raise ValueError(
            f"key must be a single key, not an array of keys of shape {data.shape[:-1]}: use "
            "jax.vmap to draw by each"
        )
    return data


def random_words(
    key: jax.Array,
    size: int,
    dtype: jnp.dtype,
    row: jax.Array | int = 0,
    columns: jax.Array | None = None,
    offset: ArrayLike = 0,
) -> tuple[jax.Array, jax.Array]:
    """Return two arrays of ``size`` random words as wide as ``dtype``, float32 or float64.

    All draws use these words, whatever the generator of the key: a key of another generator is
    hashed to a threefry key. Threefry fused into the draw is faster than calls to other generators.

    A row is one of 2^31 independent pairs of arrays: in a loop, counting rows is cheaper than a
    ``fold_in`` of the key. Columns select words of the row, integers [size], by default the first
    ones, so the draw for a numbered item need not depend on its position in an array. The offset is
    added to them: a slice that starts there gets the words of the whole array.
    """
    hashed = _hashed(key)
    wide = dtype == jnp.float64
    position = lax.iota(jnp.uint32, size) if columns is None else columns.astype(jnp.uint32)
    position = position + offset_of(offset)
    first = jnp.broadcast_to(2 * jnp.asarray(row).astype(jnp.uint32), (size,))
    blocks = [threefry2x32(hashed, (first + i, position)) for i in range(2 if wide else 1)]
    if not wide:
        return blocks[0]
    high, low = ((x.astype(jnp.uint64) << 32) | y.astype(jnp.uint64) for x, y in blocks)
    return high, low


def offset_of(value: ArrayLike) -> jax.Array:
    """Return the offset of a draw as a uint32; raise a ValueError unless it is one integer."""
    if isinstance(value, int | np.integer):
        if 0 <= int(value) < 2**32:
            return jnp.uint32(int(value))
    elif not np.ndim(value) and jnp.issubdtype(jnp.result_type(value), jnp.integer):
        return jnp.asarray(value).astype(jnp.uint32)
    raise ValueError(f"offset must be an integer from 0 to 2^32 - 1; it is {value!r}")


def zeros(key: jax.Array, dtype: jnp.dtype, *parameters: jax.Array) -> jax.Array:
    """Return zeros in the shape of parameters, to start a loop of draws with a key.

    Inside `shard_map` they vary over the mesh axes of the key and of all parameters, as what a loop
    starts with must if its results do.
    """
    inputs = (*parameters, key_words(key)[0])
    return jnp.zeros_like(sum(value.astype(dtype) for value in inputs))


def use_up(key: jax.Array) -> None:
    """Mark a key as used for JAX's key-reuse checker, which does not see that its words are.

    The result is dropped, so the compiled program does not contain it.
    """
    _data_of(key)
    jax.random.split(key)


# Refusal of derivatives of draws, which JAX would get wrong.
#
# Where rejection decides on a variate, the derivative of the accepted proposal is not that of the
# variate: acceptance depends on the parameters too. JAX has no reverse mode for the loops, but its
# forward mode passes through them, and counts have the derivative 0.

_REFUSED = (
    "draws have no derivative in their parameters: apply jax.lax.stop_gradient to these, which "
    "gives the derivative of all else given the draw"
)


@jax.custom_jvp
def refused(parameter: jax.Array) -> jax.Array:
    """Return a parameter of a draw; a derivative in it raises a ValueError."""
    return parameter


@refused.defjvp
def _refuse(primals: tuple, tangents: tuple) -> tuple:
    raise ValueError(_REFUSED)

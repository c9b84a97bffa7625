"""Random words for the draws, by a threefry that XLA fuses into what uses them."""

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

    JAX's own lowering for the CPU rolls the rounds into a loop that passes over memory ten times
    and keeps one word of each two. Written out, a pair of words costs half of one of those.
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
    data = jax.random.key_data(key)
    words = data[0], data[1]
    for i in range(2, data.shape[0], 2):
        words = threefry2x32(words, (data[i], data[i + 1]))
    return words


def key_words(key: jax.Array) -> jax.Array:
    """Return the two words of the threefry key that `random_words` makes of any key, uint32 [2]."""
    data = jax.random.key_data(key)
    return data if data.shape == (2,) else jnp.stack(_hashed(key))


def random_words(
    key: jax.Array,
    size: int,
    dtype: jnp.dtype,
    row: jax.Array | int = 0,
    columns: jax.Array | None = None,
    offset: ArrayLike = 0,
) -> tuple[jax.Array, jax.Array]:
    """Return two arrays of ``size`` random words as wide as ``dtype``, float32 or float64.

    Every draw takes its randomness from here, whatever the generator of the key: the words of a
    key that is not a threefry key are hashed to one. Threefry, fused into the draw, is faster than
    calls of the other generators.

    A row is one of 2^31 independent pairs of arrays: a loop counts rows for less than a ``fold_in``
    of the key would cost. Columns are the words of the row to return, integers [size], by default
    the first ones: a draw for an item with a number then does not depend on its place in an array.
    The offset is added to them: a slice of an array, from there on, has the words of that array.
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
    """Return the offset of a draw, a uint32, or raise a ValueError unless it is one integer."""
    if isinstance(value, int | np.integer):
        if 0 <= int(value) < 2**32:
            return jnp.uint32(int(value))
    elif not np.ndim(value) and jnp.issubdtype(jnp.result_type(value), jnp.integer):
        return jnp.asarray(value).astype(jnp.uint32)
    raise ValueError(f"offset must be an integer from 0 to 2^32 - 1; it is {value!r}")


def use_up(key: jax.Array) -> None:
    """Show JAX's check of the reuse of keys that a key is used, which its words do not show.

    What comes of it is dropped, and so it is not part of the compiled program.
    """
    jax.random.split(key)

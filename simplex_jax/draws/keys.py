"""Keys that native code splits, for large programs.

To XLA a split of a key is a loop of ten kernels, or one of more than a hundred operations where the
hash is written out: on a CPU it compiles for some 50 to 100 milliseconds, and an update has dozens
of them. A call of native code has nothing to compile. It returns the same words.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.random import define_prng_impl, threefry_2x32

from simplex_jax.draws import bits, native

_THREEFRY = "threefry2x32"
# Keys that come of a call each, so that taking one of them is nothing to compile either.
_FEW = 8


def by_native_code(key: jax.Array) -> jax.Array:
    """Return the same key, split and drawn from by native code where there is some.

    For keys within a jitted function. One that is not a threefry key comes back as it is.
    """
    if native.LIBRARY.prefix() is None or str(jax.random.key_impl(key)) != _THREEFRY:
        return key
    data = jax.random.key_data(key)
    bits.use_up(key)
    return jax.random.wrap_key_data(data, impl=_BY_NATIVE_CODE)


def random_words(key: jax.Array, size: int, dtype: jnp.dtype) -> tuple[jax.Array, jax.Array]:
    """Return the words of `bits.random_words`, by native code where there is some."""
    if dtype != jnp.float32 or native.LIBRARY.prefix() is None:
        return bits.random_words(key, size, dtype)
    pairs = _pairs(bits.key_words(key), 0, size)
    return pairs[:, 0], pairs[:, 1]


@functools.partial(jax.jit, static_argnames="size")
def _pairs(key: jax.Array, first: jax.Array | int, size: int) -> jax.Array:
    """Return the hashes of the counters `first`, `first` + 1, ..., uint32 [size, 2]."""
    by_native = functools.partial(native.hash_pairs, size=size)
    by_xla = functools.partial(pairs_by_xla, size=size)
    low = jnp.asarray(first).astype(jnp.uint32)
    return native.LIBRARY.lowered(by_native, by_xla, key, jnp.uint32(0), low)


def pairs_by_xla(key: jax.Array, high: jax.Array, low: jax.Array, *, size: int) -> jax.Array:
    """Hash as `native.hash_pairs` does, by JAX's own, of which GPUs have a kernel."""
    counters = jnp.stack([jnp.full(size, high), low + lax.iota(jnp.uint32, size)])
    return threefry_2x32((key[0], key[1]), counters).T


def _split(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    size = math.prod(shape)
    if not 0 < size <= _FEW:
        return _pairs(key, 0, size).reshape(*shape, 2)
    return jnp.concatenate([_pairs(key, i, 1) for i in range(size)]).reshape(*shape, 2)


def _random_bits(key: jax.Array, width: int, shape: tuple[int, ...]) -> jax.Array:
    pairs = _pairs(key, 0, math.prod(shape)).reshape(*shape, 2)
    high, low = pairs[..., 0], pairs[..., 1]
    if width == 64:
        return (high.astype(jnp.uint64) << 32) | low.astype(jnp.uint64)
    return (high ^ low).astype(f"uint{width}")


# The words are those of JAX where `jax_threefry_partitionable` is set, as it is by default.
_BY_NATIVE_CODE = define_prng_impl(
    key_shape=(2,),
    seed=lambda seed: jax.random.key_data(jax.random.key(seed, impl=_THREEFRY)),
    split=_split,
    random_bits=_random_bits,
    fold_in=lambda key, data: _pairs(key, data, 1)[0],
    name="threefry2x32 by native code",
    tag="fry",
)

"""Keys that native code splits.

An update has many splits, and XLA is slow to compile them (see docs/design.md). A call to native
code needs no compilation, and returns the same words.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.random import define_prng_impl, threefry_2x32
from jax.typing import ArrayLike

from simplex_jax._src.draws import bits, native

_THREEFRY = "threefry2x32"
_TAG = "simplex_jax"
# Up to this many keys, each is made by its own call: no slices need to be compiled.
_FEW = 8


def by_native_code(key: jax.Array) -> jax.Array:
    """Return the same key, with splits and draws in native code if available.

    For keys within a jitted function. A key that is not threefry is returned unchanged.
    """
    new = _wrapped(key)
    if new is not key:
        bits.use_up(key)
    return new


@functools.partial(jax.jit, static_argnames="number")
def split(key: jax.Array, number: int = 2) -> tuple[jax.Array, ...]:
    """Return the keys of `jax.random.split`, computed in native code if available.

    For keys outside jitted functions, where splitting and unpacking each compile a program.
    """
    return tuple(like(key, one) for one in jax.random.split(by_native_code(key), number))


def fold_in(key: jax.Array, data: ArrayLike) -> jax.Array:
    """Return `jax.random.fold_in(key, data)`, computed in native code if available."""
    # Of one type, and so one program.
    return _fold_in(key, np.uint32(data) if isinstance(data, int) else data)


@functools.partial(jax.jit, inline=True)
def _fold_in(key: jax.Array, data: ArrayLike) -> jax.Array:
    return like(key, jax.random.fold_in(_wrapped(key), data))


def _wrapped(key: jax.Array) -> jax.Array:
    if native.LIBRARY.prefix() is None or not jax.threefry_partitionable.value:
        return key
    if str(jax.random.key_impl(key)) != _THREEFRY:
        return key
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=_BY_NATIVE_CODE)


def to_jax_key(key: jax.Array) -> jax.Array:
    """Return the same key with JAX's own implementation, which `jax.random.poisson` requires."""
    if str(jax.random.key_impl(key)) != _TAG:
        return key
    data = jax.random.key_data(key)
    bits.use_up(key)
    return jax.random.wrap_key_data(data, impl=_THREEFRY)


def like(old: jax.Array, key: jax.Array) -> jax.Array:
    """Return a key in the form of `old`: raw, or typed with the same implementation."""
    data = jax.random.key_data(key)
    if jnp.issubdtype(old.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(old))
    return data


def words_by_native_code(
    key: jax.Array, size: int, dtype: jnp.dtype
) -> tuple[jax.Array, jax.Array]:
    """Return the words of `bits.random_words`, from native code if available."""
    if dtype != jnp.float32:
        return bits.random_words(key, size, dtype)

    def by_native(words: jax.Array) -> tuple[jax.Array, jax.Array]:
        pairs = native.hash_pairs(words, jnp.uint32(0), size=size)
        return pairs[:, 0], pairs[:, 1]

    def by_xla(words: jax.Array) -> tuple[jax.Array, jax.Array]:
        return bits.random_words(jax.random.wrap_key_data(words, impl=_THREEFRY), size, dtype)

    return native.LIBRARY.lowered("hash", by_native, by_xla, bits.key_words(key))


@functools.partial(jax.jit, static_argnames="size")
def _pairs(key: jax.Array, first: jax.Array | int, size: int) -> jax.Array:
    """Return the hashes of the counters `first`, `first` + 1, ..., uint32 [size, 2]."""
    if size > 2**32:
        raise ValueError(f"at most 2^32 words can be drawn with one key, not {size}: split the key")
    by_native = functools.partial(native.hash_pairs, size=size)
    by_xla = functools.partial(pairs_by_xla, size=size)
    return native.LIBRARY.lowered(
        "hash", by_native, by_xla, key, jnp.asarray(first).astype(jnp.uint32)
    )


def pairs_by_xla(key: jax.Array, first: jax.Array, *, size: int) -> jax.Array:
    """Hash as `native.hash_pairs` does, with JAX's own hash, which has a GPU kernel."""
    counters = jnp.stack([jnp.zeros(size, jnp.uint32), first + lax.iota(jnp.uint32, size)])
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


_BY_NATIVE_CODE = define_prng_impl(
    key_shape=(2,),
    seed=lambda seed: jax.random.key_data(jax.random.key(seed, impl=_THREEFRY)),
    split=_split,
    random_bits=_random_bits,
    fold_in=lambda key, data: _pairs(key, data, 1)[0],
    name="threefry2x32 by native code",
    tag=_TAG,
)

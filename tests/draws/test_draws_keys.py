"""Keys that native code splits give the words of JAX's own, to the bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import native_code

from simplex_jax.draws import bits, native
from simplex_jax.draws.categorical import choose, choose_by_xla
from simplex_jax.draws.keys import by_native_code, pairs_by_xla, random_words
from simplex_jax.native.library import Library


def data_of_split(shape):
    return lambda key: jax.random.key_data(jax.random.split(key, shape))


def nested(key):
    """What depends on keys of keys."""
    one, two = jax.random.split(jax.random.fold_in(key, 7))
    keys = jax.vmap(jax.random.fold_in, (None, 0))(one, jnp.arange(5))
    return jax.vmap(jax.random.normal)(keys), jax.random.permutation(two, 50)


USES = {
    "two": data_of_split(2),
    "eight": data_of_split(8),
    "nine": data_of_split(9),
    "none": data_of_split(0),
    "table": data_of_split((2, 3)),
    "large table": data_of_split((5, 7)),
    "folded": lambda key: jax.random.key_data(jax.random.fold_in(key, 2**31)),
    "bits of 8": lambda key: jax.random.bits(key, (3, 5), "uint8"),
    "bits of 32": lambda key: jax.random.bits(key, (100_003,)),
    "a single word": jax.random.bits,
    "whole numbers": lambda key: jax.random.randint(key, (20,), 0, 1000),
    "nested": nested,
}


def assert_same(x, y):
    jax.tree.map(np.testing.assert_array_equal, x, y)


@pytest.fixture
def library():
    native_code.needs(native.LIBRARY)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_words_are_those_of_jax(use, getkey):
    keys = jax.random.split(getkey(), 3)
    ours = jax.jit(lambda key: use(by_native_code(key)))
    assert_same(ours(keys[0]), use(keys[0]))
    assert_same(ours(jax.random.key_data(keys[0])), use(keys[0]))  # a key as JAX once had them
    assert_same(jax.vmap(ours)(keys), jax.vmap(use)(keys))


@pytest.mark.usefixtures("library")
def test_words_of_double_precision_are_those_of_jax(getkey):
    with jax.enable_x64(True):
        key = getkey()
        ours = jax.jit(lambda key: jax.random.normal(by_native_code(key), (5,)))(key)
        assert ours.dtype == jnp.float64
        assert_same(ours, jax.random.normal(key, (5,)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_words_of_draws_are_the_same(impl, dtype, seed):
    with jax.enable_x64(dtype == "float64"):
        key = jax.random.key(seed, impl=impl)
        expected = bits.random_words(key, 300, jnp.dtype(dtype))
        assert_same(random_words(key, 300, jnp.dtype(dtype)), expected)
        assert_same(random_words(by_native_code(key), 300, jnp.dtype(dtype)), expected)


def test_keys_of_other_generators_and_without_native_code_are_left_alone(getkey, monkeypatch):
    other = jax.random.key(0, impl="rbg")
    assert by_native_code(other) is other
    monkeypatch.setattr(Library, "prefix", lambda library: None)
    key = getkey()
    assert by_native_code(key) is key
    assert_same(random_words(key, 5, jnp.float32), bits.random_words(key, 5, jnp.float32))


@pytest.mark.usefixtures("library")
def test_a_key_is_used_up(seed):
    with jax.debug_key_reuse(True):
        key = jax.random.key(seed)
        new = by_native_code(key)
        jax.random.split(new)
        with pytest.raises(jax.errors.KeyReuseError):
            jax.random.split(new)
        with pytest.raises(jax.errors.KeyReuseError):
            jax.random.split(key)


def pairs_differ(key, hash_pairs=native.hash_pairs, **options):
    """Return whether hashes differ from those written out, of counters that begin anew at 0."""
    key, high, low, size = bits.key_words(key), jnp.uint32(9), jnp.uint32(2**32 - 400), 1003
    counters = jnp.full(size, high), low + jnp.arange(size, dtype=jnp.uint32)
    expected = jnp.stack(bits.threefry2x32((key[0], key[1]), counters), axis=1)
    return bool((hash_pairs(key, high, low, size=size, **options) != expected).any())


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("width", [4, 8, 16])
def test_hashes_are_those_written_out(width, getkey):
    assert not pairs_differ(getkey(), width=width)


def test_hashes_of_other_devices_are_those_written_out(getkey):
    assert not pairs_differ(getkey(), pairs_by_xla)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("width", [4, 8, 16])
@pytest.mark.parametrize(("categories", "size"), [(1, 5), (64, 1), (7, 1003)])
def test_choices_are_those_of_xla(categories, size, width, getkey):
    weights = jax.random.exponential(getkey(), (categories, size))
    weights = jnp.where(jax.random.bernoulli(getkey(), 0.3, weights.shape), 0, weights)
    weights = weights.at[-1, 0].set(jnp.nan)
    u = jax.random.uniform(getkey(), (size,))
    expected = choose_by_xla(weights, u)
    np.testing.assert_array_equal(native.choose(weights, u, width=width), expected)
    np.testing.assert_array_equal(choose(weights, u), expected)
    both = jax.vmap(choose, (0, None))(jnp.stack([weights, weights[::-1]]), u)
    np.testing.assert_array_equal(both[0], expected)
    np.testing.assert_array_equal(both[1], choose_by_xla(weights[::-1], u))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [("task.lows[row] + first + i", "task.lows[row] + i"), ("{} + task.highs[row]", "{}")],
)
def test_mutants_are_seen(old, new, tmp_path, getkey):
    prefix = native_code.mutated(native.LIBRARY, tmp_path, "kernels.inl", old, new)
    assert pairs_differ(getkey(), prefix=prefix)

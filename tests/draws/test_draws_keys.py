"""Keys that native code splits give the words of JAX's own, to the bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import native_code

from simplex_jax._src.draws import bits, native
from simplex_jax._src.draws.categorical import choose, choose_by_native_code
from simplex_jax._src.draws.keys import (
    by_native_code,
    fold_in,
    like,
    pairs_by_xla,
    split,
    to_jax_key,
    words_by_native_code,
)
from simplex_jax._src.native.library import Library


def data_of_split(shape):
    return lambda key: jax.random.key_data(jax.random.split(key, shape))


def nested(key):
    """What depends on keys of keys."""
    one, two = jax.random.split(jax.random.fold_in(key, 7))
    keys = jax.vmap(jax.random.fold_in, (None, 0))(one, jnp.arange(5))
    return jax.vmap(jax.random.normal)(keys), jax.random.permutation(two, 50)


KEY = jax.random.key(20_261_126)
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
        assert_same(words_by_native_code(key, 300, jnp.dtype(dtype)), expected)
        assert_same(words_by_native_code(by_native_code(key), 300, jnp.dtype(dtype)), expected)


def test_keys_of_other_generators_and_without_native_code_are_left_alone(getkey, monkeypatch):
    other = jax.random.key(0, impl="rbg")
    assert by_native_code(other) is other
    with jax.threefry_partitionable(False):  # whose words are others
        assert by_native_code(KEY) is KEY
    monkeypatch.setattr(Library, "prefix", lambda *_: None)
    key = getkey()
    assert by_native_code(key) is key
    assert_same(words_by_native_code(key, 5, jnp.float32), bits.random_words(key, 5, jnp.float32))


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_folding_and_likeness_keep_the_form_of_a_key(impl, seed):
    key = jax.random.key(seed, impl=impl)
    raw = jax.random.key_data(key)
    folded = jax.jit(fold_in)(key, 3)
    assert folded.dtype == key.dtype
    assert_same(jax.random.key_data(folded), jax.random.key_data(jax.random.fold_in(key, 3)))
    assert like(key, by_native_code(key)).dtype == key.dtype
    assert_same(jax.random.key_data(to_jax_key(by_native_code(key))), raw)
    assert_same(to_jax_key(jax.random.key_data(KEY)), jax.random.key_data(KEY))
    jax.random.poisson(to_jax_key(by_native_code(KEY)), 3.0)
    assert_same(like(raw, by_native_code(key)), raw)
    with jax.debug_key_reuse(True):  # folding does not use up a key
        jax.jit(lambda key: (fold_in(key, 1), fold_in(key, 2)))(key)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_split_keys_have_the_form_of_the_key(impl, seed):
    key = jax.random.key(seed, impl=impl)
    raw = jax.random.key_data(key)
    for number in (2, 3, 9):
        expected = jax.random.key_data(jax.random.split(key, number))
        assert all(one.dtype == key.dtype for one in split(key, number))
        assert_same(jnp.stack([jax.random.key_data(one) for one in split(key, number)]), expected)
        if impl == "threefry2x32":
            assert_same(jnp.stack(split(raw, number)), expected)
    with jax.debug_key_reuse(True):
        split(key)
        with pytest.raises(jax.errors.KeyReuseError):
            split(key)


@pytest.mark.usefixtures("library")
def test_more_words_than_a_key_has_are_refused():
    draw = lambda key: jax.random.bits(by_native_code(key), (2**16, 2**17))  # noqa: E731
    with pytest.raises(ValueError, match=r"2\^32 words .* one key"):
        jax.jit(draw).lower(KEY)


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


def pairs_differ(hash_pairs=native.hash_pairs, **options):
    """Return whether hashes differ from those written out, of counters that begin again at 0."""
    key, first, size = bits.key_words(KEY), jnp.uint32(2**32 - 400), 1003
    counters = jnp.zeros(size, jnp.uint32), first + jnp.arange(size, dtype=jnp.uint32)
    expected = jnp.stack(bits.threefry2x32((key[0], key[1]), counters), axis=1)
    return bool((hash_pairs(key, first, size=size, **options) != expected).any())


def rows_differ(**options):
    """Return whether hashes by several keys differ from those by one after the other."""
    zero, keys = jnp.uint32(0), jax.vmap(bits.key_words)(jax.random.split(KEY, 3))
    together = jax.vmap(lambda key: native.hash_pairs(key, zero, size=20, **options))(keys)
    alone = [native.hash_pairs(key, zero, size=20) for key in keys]
    return bool((together != jnp.stack(alone)).any())


@native_code.on_cpu(native.LIBRARY)
@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("width", [4, 8, 16])
def test_hashes_are_those_written_out(width):
    assert not pairs_differ(width=width)
    assert not rows_differ(width=width)


def test_hashes_of_other_devices_are_those_written_out():
    assert not pairs_differ(pairs_by_xla)


def choices_differ(chosen=native.choose, **options):
    """Return whether choices differ from XLA's, at ties too and where u is all of the total."""
    rng = np.random.default_rng(0)
    differ = []
    for categories, size in ((1, 5), (64, 1), (7, 1003)):
        weights = rng.exponential(size=(2, categories, size)).astype(np.float32)
        weights[rng.random(weights.shape) < 0.3] = 0
        weights[:, -1, 0] = np.nan
        weights[:, :, size // 2 :] = np.round(weights[:, :, size // 2 :])  # ties with u
        u = rng.choice([0, 0.25, 0.5, 0.75, 1, *rng.random(9)], (2, size)).astype(np.float32)
        both = jax.vmap(lambda w, u: chosen(w, u, **options))(weights, u)
        differ.append((both != jax.vmap(choose)(weights, u)).any())
    return bool(np.any(differ))


@native_code.on_cpu(native.LIBRARY)
@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("width", [4, 8, 16])
def test_choices_are_those_of_xla(width):
    assert not choices_differ(width=width)


@pytest.mark.slow
def test_choices_of_any_dtype_have_a_derivative_of_0():
    assert not choices_differ(choose_by_native_code)
    with jax.enable_x64(True):
        weights, u = jnp.array([[0.3], [0.7]]), jnp.array([0.5])
        assert int(choose_by_native_code(weights, u)[0]) == 1

    def chosen(weights):
        return jnp.sum(weights[choose_by_native_code(weights, jnp.full(1, 0.5))[0]])

    slope = jax.jit(jax.grad(chosen))(jnp.array([[0.3], [0.7]]))
    np.testing.assert_array_equal(slope, [[0], [1]])


MUTANTS = {
    "counters from 0": (pairs_differ, "task.firsts[row] + column)", "column)"),
    "of a short row too": (pairs_differ, "task.firsts[row] + column++", "column++"),
    "the key of the first row": (rows_differ, "[j] = task.keys[2 * row];", "[j] = task.keys[0];"),
    "rows that do not end": (rows_differ, "++row, column = 0", "column = 0"),
    "a tie is a choice": (choices_differ, "total[j] <= threshold[j]", "total[j] < threshold[j]"),
    "one category too many": (choices_differ, "k < task.categories - 1", "k < task.categories"),
}


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutants_are_seen(mutant, tmp_path):
    differ, old, new = MUTANTS[mutant]
    prefix = native_code.mutated(native.LIBRARY, tmp_path, "kernels.inl", old, new)
    assert differ(prefix=prefix)
    assert not differ()

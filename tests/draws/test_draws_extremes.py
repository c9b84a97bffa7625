"""No draw gives NaN at extreme arguments and words, or runs without end."""

import importlib
import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.draw_cases import CASES, assert_valid, every_draw, values_of
from support.marks import slow_but

from simplex_jax._src import draws
from simplex_jax._src.draws import rejection, uniform
from simplex_jax._src.draws.bits import random_words
from simplex_jax._src.native.library import Library


@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)])
def test_no_nan_at_extreme_arguments(dtype: type, getkey: Callable[[], jax.Array]) -> None:
    """Far beyond the documented range: still a number, and no loop without end."""
    info = np.finfo(dtype)
    with jax.enable_x64(dtype is np.float64):
        positive = np.array([info.tiny, 1e-20, 1e-6, 0.3, 1.0, 1e8, 1e20, 1e30], dtype)
        for draw in (draws.loggamma, draws.poisson):
            result = np.asarray(draw(getkey(), positive, (200, 8)))
            assert positive[np.isnan(result).any(axis=0)].tolist() == []
        starts = np.array([-np.inf, -info.max, -1e20, -1e4, 0, 88, 1e4, 1e20, info.max], dtype)
        x, a, h = (c.ravel() for c in np.meshgrid(starts, positive, positive))
        result = np.asarray(draws.cir(getkey(), x, a, h, (50, x.size)))
        wrong = np.isnan(result).any(axis=0)
        assert list(zip(x[wrong], a[wrong], h[wrong], strict=True)) == []
        rows = np.array(list(itertools.product(positive, repeat=2)), dtype)
        assert not np.isnan(np.asarray(draws.log_dirichlet(getkey(), rows, (50, 64)))).any()
        index = np.asarray(draws.categorical(getkey(), rows, (50, 64)))
        assert np.isin(index, (0, 1)).all()


BITS = (0, 1, 8, 9, 30, 31, 52, 62, 63)
WORDS = (0, -1, *(1 << bit for bit in BITS), *(~(1 << bit) for bit in (0, 31, 63)))


def pattern_words(
    key: jax.Array,
    size: int,
    dtype: jnp.dtype,
    row: jax.Array | int = 0,
    columns: jax.Array | None = None,
    offset: int = 0,
) -> tuple[jax.Array, jax.Array]:
    """Every pair of the words above, in turn, in place of random ones, up to a second round."""
    width = 64 if dtype == jnp.float64 else 32
    kind = np.uint64 if width == 64 else np.uint32
    words = np.unique(np.array([word % 2**width for word in WORDS], kind))
    position = jnp.arange(size) if columns is None else columns
    words = jnp.asarray(words)
    pair = words[position % words.size], words[position // words.size % words.size]
    return tuple(
        jnp.where(row < 6, *both)
        for both in zip(pair, random_words(key, size, dtype, row, columns, offset), strict=True)
    )


@pytest.fixture
def extreme_words(monkeypatch: pytest.MonkeyPatch):
    """Draws by XLA; test_draws_native.py has the others."""
    monkeypatch.setattr(Library, "prefix", lambda *_: None)
    for name in ("categorical", "cir", "gamma", "poisson"):
        module = importlib.import_module(f"simplex_jax._src.draws.{name}")
        monkeypatch.setattr(module, "random_words", pattern_words)
    jax.clear_caches()
    yield
    jax.clear_caches()


@every_draw
@pytest.mark.parametrize("dtype", slow_but([np.float32, np.float64], np.float32))
@pytest.mark.usefixtures("extreme_words")
def test_no_nan_at_extreme_words(name: str, dtype: type) -> None:
    """Zero, ones, single bits and their complements, in pairs, twice in every rejection loop."""
    case = CASES[name]
    with jax.enable_x64(dtype is np.float64):
        values = [v[:, None] for v in values_of(case, dtype)]
        x = case(jax.random.key(0), *values, shape=(6, 200))
        assert_valid(case, x)
        assert np.isfinite(np.asarray(x)).all()


def reject(key: jax.Array, row: jax.Array, columns: jax.Array, parameter: jax.Array) -> jax.Array:
    """A proposal that is always turned down."""
    del key, row, columns
    return jnp.full_like(parameter, -1)


@pytest.mark.parametrize("size", [5, 5000])
def test_rejection_loops_end(size: int) -> None:
    """With every proposal rejected: NaN, not a loop without end."""
    drawn = rejection.sample(jax.random.key(0), jnp.ones(size), reject)
    assert np.isnan(drawn).all()


@pytest.mark.parametrize("size", [5, 5000])
def test_a_variate_has_a_column_of_words(size: int, getkey: Callable[[], jax.Array]) -> None:
    """What is accepted is the row of the round: the first in which the own word allows it.

    Accepted one time in two, 200 numbers in 5,000 need a sixth round, and several sweeps are done.
    """

    def words(key: jax.Array, row: jax.Array | int, columns: jax.Array) -> jax.Array:
        return random_words(key, columns.shape[0], jnp.float32, row + 1, columns)[0]

    def propose(
        key: jax.Array, row: jax.Array, columns: jax.Array, parameter: jax.Array
    ) -> jax.Array:
        return jnp.where(words(key, row, columns) & 1, jnp.full_like(parameter, row), -1)

    key = getkey()
    result = rejection.sample(key, jnp.ones(size), propose)
    rows = range(2, 60, 2)  # 0 and 1 are the caller's
    allowed = np.stack([words(key, row, jnp.arange(size)) & 1 for row in rows])
    np.testing.assert_array_equal(result, 2 + 2 * allowed.argmax(axis=0))


@pytest.mark.parametrize("word", [0x1FFFFFFF, 0x07FFFFFF, 0x00FFFFFF, 0x0000FFFF, 0x000000FF])
def test_cir_is_a_number_where_the_normal_cancels_the_drift(word, monkeypatch):
    """z = -sqrt(2 rest) to the last bits, and a gamma too small to hide what rounding leaves."""
    module = importlib.import_module("simplex_jax._src.draws.cir")
    words = jnp.array([0x3FFFFFFE, word | 1], jnp.uint32)
    first = uniform.exponential(words[:1], jnp.float32)[0]
    z = uniform.normal(words[1:], jnp.float32)[0]
    assert z < 0
    monkeypatch.setattr(
        module, "random_words", lambda key, size, *_, **__: tuple(jnp.full(size, w) for w in words)
    )
    monkeypatch.setattr(module.gamma, "standard_gamma", lambda key, a, *_: jnp.full_like(a, 1e-30))
    rate = (z**2 / 2 + first) * (1 + 1e-7 * jnp.arange(-2000, 2000))
    log_theta = jnp.log(rate * jnp.expm1(0.5)).astype(jnp.float32)
    step = module.step_of(jnp.float32(0.5))
    drawn = jax.jit(module.cir_by_xla, static_argnums=5)(
        jax.random.key(0), log_theta, jnp.float32(1e-3), step, 0, log_theta.shape
    )
    assert not jnp.isnan(drawn).any()

"""No draw gives NaN or runs without end at extreme arguments, words, and rejections alone."""

import importlib
import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference_laws as laws
import statistics_checks as checks
from draw_cases import CASES, assert_valid, every_draw, values_of
from scipy import stats

from simplex_jax import draws
from simplex_jax.draws import uniform


@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)])
def test_no_nan_at_extreme_arguments(dtype: type, getkey: Callable[[], jax.Array]) -> None:
    """Far beyond the documented range: still a number, and no loop without end."""
    info = np.finfo(dtype)
    with jax.enable_x64(dtype is np.float64):
        positive = np.array([info.tiny, 1e-20, 1e-6, 0.3, 1.0, 1e8, 1e20, 1e30], dtype)
        for draw in (draws.loggamma, draws.poisson):
            found = np.asarray(draw(getkey(), positive, (200, 8)))
            assert positive[np.isnan(found).any(axis=0)].tolist() == []
        starts = np.array([-np.inf, -info.max, -1e20, -1e4, 0, 88, 1e4, 1e20, info.max], dtype)
        x, a, h = (c.ravel() for c in np.meshgrid(starts, positive, positive))
        found = np.asarray(draws.cir(getkey(), x, a, h, (50, x.size)))
        wrong = np.isnan(found).any(axis=0)
        assert list(zip(x[wrong], a[wrong], h[wrong], strict=True)) == []
        rows = np.array(list(itertools.product(positive, repeat=2)), dtype)
        assert not np.isnan(np.asarray(draws.log_dirichlet(getkey(), rows, (50, 64)))).any()
        index = np.asarray(draws.categorical(getkey(), rows, (50, 64)))
        assert np.isin(index, (0, 1)).all()


BITS = (0, 1, 8, 9, 30, 31, 52, 62, 63)
WORDS = (0, -1, *(1 << bit for bit in BITS), *(~(1 << bit) for bit in (0, 31, 63)))


def pattern_words(key: jax.Array, size: int, dtype: jnp.dtype) -> tuple[jax.Array, jax.Array]:
    """Every pair of the words above, in turn, in place of random ones."""
    del key
    width = 64 if dtype == jnp.float64 else 32
    kind = np.uint64 if width == 64 else np.uint32
    words = np.unique(np.array([word % 2**width for word in WORDS], kind))
    position = np.arange(size)
    second = position // words.size % words.size
    return jnp.asarray(words[position % words.size]), jnp.asarray(words[second])


@pytest.fixture
def extreme_words(monkeypatch: pytest.MonkeyPatch):
    for name in ("categorical", "cir", "gamma", "poisson"):
        module = importlib.import_module(f"simplex_jax.draws.{name}")
        monkeypatch.setattr(module, "random_words", pattern_words)
    jax.clear_caches()
    yield
    jax.clear_caches()


@every_draw
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.usefixtures("extreme_words")
def test_no_nan_at_extreme_words(name: str, dtype: type) -> None:
    """Zero, ones, single bits and their complements, in pairs, in every round of a rejection loop.

    So most entries end in the fallback, whose incomplete gamma functions are slow for large
    parameters: 1e4 is the largest here.
    """
    case = CASES[name]
    with jax.enable_x64(dtype is np.float64):
        values = [jnp.minimum(v, 1e4)[:, None] for v in values_of(case, dtype)]
        x = case(jax.random.key(0), *values, shape=(6, 200))
        assert_valid(case, x)
        assert np.isfinite(np.asarray(x)).all()


def reject(key: jax.Array, parameter: jax.Array) -> jax.Array:
    """A proposal that is always turned down."""
    del key
    return jnp.full_like(parameter, -1)


@pytest.mark.parametrize("name", ["gamma", "poisson"])
def test_leftovers_of_the_rejection_loops_are_exact(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every proposal rejected only the fallback is left; false-alarm rate 1e-3 each.

    Up to 1e3, beyond which the float32 incomplete gamma function of JAX that the fallback inverts
    loses digits (and rejections become so rare that it is reached with probability 1e-40).
    """
    module = importlib.import_module(f"simplex_jax.draws.{name}")
    monkeypatch.setattr(module, "_propose", reject)
    jax.clear_caches()
    key = jax.random.key(seed)
    parameters = np.float32([0.2, 1.0, 15.0, 100.0, 1e3])[:, None]
    p_values: dict[object, float] = {}
    if name == "gamma":
        samples = np.asarray(draws.loggamma(key, parameters, (5, 4000)), np.float64)
        for a, x in zip(parameters[:, 0], samples, strict=True):
            law = laws.cir_law(float(a), 0.0)
            p_values |= checks.prefixed(float(a), checks.check_law(x, law, bins=50, ulps=8.0))
    else:
        samples = np.asarray(draws.poisson(key, parameters, (5, 4000)), np.float64)
        for rate, x in zip(parameters[:, 0], samples, strict=True):
            law = stats.poisson(float(rate))
            p_values[(float(rate), "dkwm")] = checks.dkwm(
                x, law.cdf, left_cdf=lambda k, law=law: law.cdf(np.ceil(k) - 1)
            )
            p_values[(float(rate), "variance")] = checks.variance_z(
                x, rate, rate, float(rate) + 3 * float(rate) ** 2
            )
    jax.clear_caches()
    assert checks.family(p_values) == {}


@pytest.mark.parametrize("word", [0x1FFFFFFF, 0x07FFFFFF, 0x00FFFFFF, 0x0000FFFF, 0x000000FF])
def test_cir_is_a_number_where_the_normal_cancels_the_drift(word, monkeypatch):
    """z = -sqrt(2 rest) to the last bits, and a gamma too small to hide what rounding leaves."""
    module = importlib.import_module("simplex_jax.draws.cir")
    words = jnp.array([0x3FFFFFFE, word | 1], jnp.uint32)
    first = uniform.exponential(words[:1], jnp.float32)[0]
    z = uniform.normal(words[1:], jnp.float32)[0]
    assert z < 0
    monkeypatch.setattr(
        module, "random_words", lambda key, size, dtype: tuple(jnp.full(size, w) for w in words)
    )
    monkeypatch.setattr(module.gamma, "standard_gamma", lambda key, a: jnp.full_like(a, 1e-30))
    rate = (z**2 / 2 + first) * (1 + 1e-7 * jnp.arange(-2000, 2000))
    log_theta = jnp.log(rate * jnp.expm1(0.5)).astype(jnp.float32)
    drawn = jax.jit(module._cir.__wrapped__, static_argnums=4)(
        jax.random.key(0), log_theta, jnp.float32(1e-3), jnp.float32(0.5), log_theta.shape
    )
    assert not jnp.isnan(drawn).any()

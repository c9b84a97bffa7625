"""What all draws promise besides their law: shapes, dtypes, keys, transformations, bad arguments.

Nothing here is statistical but `test_leftovers_of_the_rejection_loops_are_exact`.
"""

import functools
import importlib
import itertools
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference_laws as laws
import statistics_checks as checks
from scipy import stats

from simplex_jax import draws


class Case(NamedTuple):
    """A draw with valid arguments of batch shape [6] that reach all its branches."""

    draw: Callable[..., jax.Array]
    arguments: dict[str, np.ndarray]
    bad: dict[str, tuple[float, ...]]  # values that are not allowed, by argument

    @property
    def event(self) -> tuple[int, ...]:
        """Shape of one result."""
        return (4,) if self.draw is draws.log_dirichlet else ()

    def __call__(self, key: jax.Array, *values, shape: tuple[int, ...] | None = None) -> jax.Array:
        return self.draw(key, **dict(zip(self.arguments, values, strict=True)), shape=shape)


def array(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


NOT_FINITE = (np.nan, np.inf, -np.inf)
NOT_POSITIVE = (*NOT_FINITE, 0.0, -0.0, -1.0, -1e-45, 1e-45)
ROWS = np.geomspace(1e-4, 1e3, 24).astype(np.float32).reshape(6, 4)
CASES = {
    "loggamma": Case(
        draws.loggamma,
        {"shape_parameter": array(1e-6, 0.3, 1.0, 7.0, 1e4, 1e8)},
        {"shape_parameter": NOT_POSITIVE},
    ),
    "poisson": Case(
        draws.poisson,
        {"rate": array(0.0, 1e-3, 2.0, 11.0, 1e4, 1e9)},
        {"rate": (*NOT_FINITE, -1.0, -1e-30)},
    ),
    "cir": Case(
        draws.cir,
        {
            "log_theta": array(-np.inf, -1e4, -1.0, 2.0, 7.0, 18.0),
            "shape_parameter": array(0.01, 1e-6, 0.5, 3.0, 1e3, 1e8),
            "step_size": array(0.5, 50.0, 1e-6, 0.1, 1e-3, 2.0),
        },
        {
            "log_theta": (np.nan, np.inf),
            "shape_parameter": NOT_POSITIVE,
            "step_size": NOT_POSITIVE,
        },
    ),
    "log_dirichlet": Case(
        draws.log_dirichlet, {"concentration": ROWS}, {"concentration": NOT_POSITIVE}
    ),
    "categorical": Case(
        draws.categorical, {"weights": ROWS}, {"weights": (*NOT_FINITE, -1.0, -1e-30)}
    ),
}
ARGUMENTS = [(name, argument) for name, case in CASES.items() for argument in case.arguments]

SHAPE = (50, 6)

every_draw = pytest.mark.parametrize("name", CASES)
every_argument = pytest.mark.parametrize(("name", "argument"), ARGUMENTS)


def values_of(case: Case, dtype: type = np.float32) -> list[jax.Array]:
    return [jnp.asarray(value, dtype) for value in case.arguments.values()]


def assert_valid(case: Case, x: jax.Array) -> None:
    x = np.asarray(x)
    assert not np.isnan(x).any()
    if case.draw is draws.categorical:
        assert ((x >= 0) & (x < 4)).all()


def assert_same_up_to_rounding(x: jax.Array, expected: np.ndarray) -> None:
    """Counts and indices are equal; logs may differ by XLA's choice of fused multiply-adds.

    That is 4 units in the last place of the largest log in the last axis (of its neighbours in a
    Dirichlet row, from which a common normaliser was taken).
    """
    x = np.asarray(x)
    if (expected == np.floor(expected)).all():
        np.testing.assert_array_equal(x, expected)
        return
    size = np.maximum(np.abs(expected).max(axis=-1, keepdims=True), 1.0)
    size = np.where(expected.shape[-1] == 4, size, np.maximum(np.abs(expected), 1.0))
    wrong = np.abs(x - expected) > 4 * np.spacing(size.astype(np.float32))
    assert not wrong.any(), (x[wrong][:5], expected[wrong][:5])


@functools.cache
def jitted(name: str) -> Callable[..., jax.Array]:
    """The draw compiled for SHAPE, once for all tests; compiling is what takes the time here."""
    return jax.jit(partial(CASES[name], shape=SHAPE))


# Shapes and dtypes


@every_draw
def test_shapes(name: str, getkey: Callable[[], jax.Array]) -> None:
    case = CASES[name]
    values = values_of(case)
    for shape in (None, (6,), (5, 6), (2, 5, 6), (0, 6)):
        x = jax.eval_shape(partial(case, shape=shape), getkey(), *values)
        assert x.shape == ((6,) if shape is None else shape) + case.event
    if name not in ("log_dirichlet", "categorical"):
        scalars = [v[2] for v in values]
        for shape in (None, ()):
            assert jax.eval_shape(partial(case, shape=shape), getkey(), *scalars).shape == ()
    assert case(getkey(), *values, shape=(0, 6)).shape == (0, 6, *case.event)
    x = np.asarray(case(getkey(), *values, shape=SHAPE))
    assert x.shape == SHAPE + case.event
    assert_valid(case, x)
    assert (x[0] != x).any(axis=0)[2:].all(), "draws of one call must differ"


def test_arguments_broadcast(getkey: Callable[[], jax.Array]) -> None:
    key, x = getkey(), jnp.ones
    assert jax.eval_shape(draws.cir, key, x((3, 1)), x(4), 0.5).shape == (3, 4)
    assert jax.eval_shape(draws.cir, key, 0.0, x((2, 1, 4)), x((3, 1))).shape == (2, 3, 4)
    dirichlet = jax.eval_shape(partial(draws.log_dirichlet, shape=(3, 4)), key, x((3, 1, 5)))
    assert dirichlet.shape == (3, 4, 5)
    index = jax.eval_shape(partial(draws.categorical, shape=(3, 4)), key, x((3, 1, 5)))
    assert index.shape == (3, 4)


@every_draw
def test_dtypes(name: str, getkey: Callable[[], jax.Array]) -> None:
    """float32 unless the arguments are float64; whole numbers and half floats give float32."""
    case = CASES[name]

    def result(dtype: type) -> np.dtype:
        values = [np.ones((3,) + v.shape[1:], dtype) for v in case.arguments.values()]
        return jax.eval_shape(case, getkey(), *values).dtype

    real = {np.float32: jnp.float32, np.float16: jnp.float32, np.int32: jnp.float32}
    for given, expected in real.items():
        assert result(given) == (jnp.int32 if name == "categorical" else expected)
    with jax.enable_x64(True):
        for given, expected in {np.float32: jnp.float32, np.float64: jnp.float64}.items():
            assert result(given) == (jnp.int32 if name == "categorical" else expected)


def test_python_numbers_do_not_change_the_dtype(getkey: Callable[[], jax.Array]) -> None:
    with jax.enable_x64(True):
        draw = partial(draws.cir, shape_parameter=0.5, step_size=0.1)
        assert jax.eval_shape(draw, getkey(), jnp.zeros(3, jnp.float32)).dtype == jnp.float32


@every_draw
def test_float32_draws_are_the_same_under_x64(name: str, seed: int) -> None:
    case = CASES[name]
    outside = np.asarray(case(jax.random.key(seed), *values_of(case), shape=SHAPE))
    with jax.enable_x64(True):
        inside = np.asarray(case(jax.random.key(seed), *values_of(case), shape=SHAPE))
    np.testing.assert_array_equal(inside, outside)


# Transformations and keys


@every_draw
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_jit_equals_eager(name: str, impl: str, seed: int) -> None:
    case, key = CASES[name], jax.random.key(seed, impl=impl)
    eager = case(key, *values_of(case), shape=SHAPE)
    assert_valid(case, eager)
    np.testing.assert_array_equal(jitted(name)(key, *values_of(case)), eager)


@every_draw
def test_vmap_over_keys_equals_loop(name: str, getkey: Callable[[], jax.Array]) -> None:
    case, keys = CASES[name], jax.random.split(getkey(), 7)
    draw = partial(case, shape=SHAPE)
    together = jax.vmap(lambda key: draw(key, *values_of(case)))(keys)
    alone = np.stack([draw(key, *values_of(case)) for key in keys])
    assert_same_up_to_rounding(together, alone)


@every_draw
def test_vmap_over_arguments_equals_loop(name: str, getkey: Callable[[], jax.Array]) -> None:
    case, keys = CASES[name], jax.random.split(getkey(), 6)
    draw = partial(case, shape=(100,))
    values = values_of(case)
    together = jax.vmap(draw)(keys, *values)
    alone = np.stack([draw(keys[i], *(v[i] for v in values)) for i in range(6)])
    assert_same_up_to_rounding(together, alone)


@every_draw
def test_scan_equals_loop(name: str, getkey: Callable[[], jax.Array]) -> None:
    case, keys = CASES[name], jax.random.split(getkey(), 5)
    draw = partial(case, shape=SHAPE)
    values = values_of(case)
    _, scanned = jax.lax.scan(lambda carry, key: (carry, draw(key, *values)), None, keys)
    alone = np.stack([draw(key, *values) for key in keys])
    assert_same_up_to_rounding(scanned, alone)


@every_draw
def test_new_values_compile_nothing(name: str, getkey: Callable[[], jax.Array]) -> None:
    """One trace per shape: under jit, and in eager calls."""
    case = CASES[name]
    values = values_of(case)
    other = [jnp.asarray(np.asarray(v)[::-1]) for v in values]
    first, second, third = getkey(), getkey(), getkey()
    case(first, *values, shape=SHAPE)
    jitted(name)(first, *values)
    with assert_no_compilation():
        case(second, *other, shape=SHAPE)
        jitted(name)(third, *other)


class assert_no_compilation:
    """Fail if XLA compiles anything inside the block."""

    _EVENT = "/jax/core/compile/backend_compile_duration"

    def __enter__(self) -> None:
        self.compiled = 0
        self.open = True
        jax.monitoring.register_event_duration_secs_listener(self._listen)

    def _listen(self, event: str, duration: float, **_: object) -> None:
        if self.open:
            self.compiled += event == self._EVENT

    def __exit__(self, *_: object) -> None:
        self.open = False
        assert self.compiled == 0


def test_assert_no_compilation_sees_one() -> None:
    with pytest.raises(AssertionError), assert_no_compilation():  # noqa: PT012
        jax.jit(lambda x: x * 3.25 + 17.0)(jnp.ones(23))


@every_draw
def test_key_reuse_is_seen_and_never_done(name: str, seed: int) -> None:
    """JAX's checker accepts a draw, and refuses a second one with the same key."""
    case, key = CASES[name], jax.random.key(seed)
    with jax.debug_key_reuse(True):
        assert_valid(case, case(key, *values_of(case), shape=(3, 6)))
        with pytest.raises(jax.errors.KeyReuseError):
            case(key, *values_of(case), shape=(3, 6))


# Bad arguments


@every_argument
def test_bad_values_raise_when_eager(
    name: str, argument: str, getkey: Callable[[], jax.Array]
) -> None:
    case = CASES[name]
    for bad in case.bad[argument]:
        values = {k: v.copy() for k, v in case.arguments.items()}
        values[argument][(3,) + (0,) * (values[argument].ndim - 1)] = bad
        with pytest.raises(ValueError, match=rf"\b{argument}\b"):
            case(getkey(), *values.values())


@every_argument
def test_bad_values_give_nan_under_jit(
    name: str, argument: str, getkey: Callable[[], jax.Array]
) -> None:
    """In the rows that have a bad value, and in no other."""
    case, key, draw = CASES[name], getkey(), jitted(name)
    for bad in case.bad[argument]:
        values = {k: v.copy() for k, v in case.arguments.items()}
        values[argument][(3,) + (0,) * (values[argument].ndim - 1)] = bad
        x = np.asarray(draw(key, *values.values()))
        marked = x == -1 if case.draw is draws.categorical else np.isnan(x)
        assert marked[:, 3].all(), f"{argument} = {bad} gave {x[0, 3]}"
        assert not marked[:, [0, 1, 2, 4, 5]].any()


@every_argument
def test_arguments_that_are_no_numbers(
    name: str, argument: str, getkey: Callable[[], jax.Array]
) -> None:
    case = CASES[name]
    for bad in ("one", None, 1j, {"a": 1.0}, [[1.0], [1.0, 2.0]], np.array(["x"]), object()):
        with pytest.raises(ValueError, match=rf"\b{argument}\b"):
            case(getkey(), *(case.arguments | {argument: bad}).values())


@every_draw
def test_wrong_shapes(name: str, getkey: Callable[[], jax.Array]) -> None:
    case = CASES[name]
    values = values_of(case)
    first = next(iter(case.arguments))
    for shape in ((5,), (6, 5), (), (1,)):
        with pytest.raises(ValueError, match=first):
            case(getkey(), *values, shape=shape)


def test_shapes_that_do_not_broadcast(getkey: Callable[[], jax.Array]) -> None:
    with pytest.raises(ValueError, match=r"shape_parameter \(3,\)"):
        draws.cir(getkey(), jnp.zeros(2), jnp.ones(3), 0.1)
    for draw in (draws.log_dirichlet, draws.categorical):
        for bad in (jnp.float32(1.0), jnp.ones((3, 0))):
            with pytest.raises(ValueError, match="concentration|weights"):
                draw(getkey(), bad)


def test_rows_without_weight(getkey: Callable[[], jax.Array]) -> None:
    weights = jnp.array([[1.0, 2.0], [0.0, 0.0]])
    with pytest.raises(ValueError, match="weights"):
        draws.categorical(getkey(), weights)
    index = np.asarray(jax.jit(draws.categorical)(getkey(), weights))
    assert index[0] in (0, 1)
    assert index[1] == -1


# Extremes: no NaN for any valid argument at any random word


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
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


WORDS = (0, -1, *(1 << bit for bit in range(64)), *(~(1 << bit) for bit in (0, 1, 31, 62, 63)))


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
        x = case(jax.random.key(0), *values, shape=(6, 1500))
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

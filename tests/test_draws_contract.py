"""What all draws promise besides their law: shapes, dtypes, keys, transformations, bad arguments.

Nothing here is statistical but `test_leftovers_of_the_rejection_loops_are_exact`.
"""

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

every_draw = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
every_argument = pytest.mark.parametrize(("name", "argument"), ARGUMENTS)
every_key = pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])


def values_of(case: Case, dtype: type = np.float32) -> list[jax.Array]:
    return [jnp.asarray(value, dtype) for value in case.arguments.values()]


def assert_valid(case: Case, x: jax.Array) -> None:
    x = np.asarray(x)
    assert not np.isnan(x).any()
    if case.draw is draws.categorical:
        assert ((x >= 0) & (x < 4)).all()


# Shapes and dtypes


@every_draw
@every_key
def test_shapes(case: Case, impl: str, seed: int) -> None:
    key = jax.random.key(seed, impl=impl)
    values = values_of(case)
    for shape in (None, (6,), (5, 6), (2, 5, 6), (0, 6)):
        x = case(key, *values, shape=shape)
        assert x.shape == ((6,) if shape is None else shape) + case.event
        assert_valid(case, x)
    if case.draw not in (draws.log_dirichlet, draws.categorical):
        assert case(key, *(v[2] for v in values)).shape == ()
        assert case(key, *(v[2] for v in values), shape=()).shape == ()
    many = np.asarray(case(key, *values, shape=(200, 6)))
    assert (many[0] != many).any(axis=0)[1:].all(), "draws of one call must differ"


def test_arguments_broadcast(getkey: Callable[[], jax.Array]) -> None:
    x = draws.cir(getkey(), jnp.zeros((3, 1)), jnp.ones(4), 0.5)
    assert x.shape == (3, 4)
    assert draws.cir(getkey(), 0.0, jnp.ones((2, 1, 4)), jnp.ones((3, 1))).shape == (2, 3, 4)
    assert draws.log_dirichlet(getkey(), jnp.ones((3, 1, 5)), (3, 4)).shape == (3, 4, 5)
    assert draws.categorical(getkey(), jnp.ones((3, 1, 5)), (3, 4)).shape == (3, 4)


@every_draw
def test_dtypes(case: Case, getkey: Callable[[], jax.Array]) -> None:
    integer = case.draw is draws.categorical
    for given, result in ((jnp.float32, jnp.float32), (jnp.float16, jnp.float32)):
        values = [jnp.ones((3,) + v.shape[1:], given) for v in case.arguments.values()]
        assert case(getkey(), *values).dtype == (jnp.int32 if integer else result)
    whole = [np.ones((3,) + v.shape[1:], np.int64) for v in case.arguments.values()]
    assert case(getkey(), *whole).dtype == (jnp.int32 if integer else jnp.float32)
    with jax.enable_x64(True):
        x = case(getkey(), *values_of(case, np.float64))
        assert x.dtype == (jnp.int32 if integer else jnp.float64)
        assert_valid(case, x)
        assert case(getkey(), *values_of(case)).dtype == (jnp.int32 if integer else jnp.float32)


def test_python_numbers_do_not_change_the_dtype(getkey: Callable[[], jax.Array]) -> None:
    with jax.enable_x64(True):
        x = draws.cir(getkey(), jnp.zeros(3, jnp.float32), 0.5, 0.1)
        assert x.dtype == jnp.float32


@every_draw
def test_float32_draws_are_the_same_under_x64(case: Case, seed: int) -> None:
    outside = np.asarray(case(jax.random.key(seed), *values_of(case), shape=(50, 6)))
    with jax.enable_x64(True):
        inside = np.asarray(case(jax.random.key(seed), *values_of(case), shape=(50, 6)))
    np.testing.assert_array_equal(inside, outside)


# Transformations and keys


@every_draw
@every_key
def test_jit_equals_eager(case: Case, impl: str, seed: int) -> None:
    key = jax.random.key(seed, impl=impl)
    eager = case(key, *values_of(case), shape=(300, 6))
    jitted = jax.jit(partial(case, shape=(300, 6)))(key, *values_of(case))
    np.testing.assert_array_equal(jitted, eager)


@every_draw
def test_vmap_over_keys_equals_loop(case: Case, getkey: Callable[[], jax.Array]) -> None:
    keys = jax.random.split(getkey(), 7)
    draw = partial(case, shape=(100, 6))
    together = jax.vmap(lambda key: draw(key, *values_of(case)))(keys)
    alone = np.stack([draw(key, *values_of(case)) for key in keys])
    np.testing.assert_array_equal(together, alone)


@every_draw
def test_vmap_over_arguments_equals_loop(case: Case, getkey: Callable[[], jax.Array]) -> None:
    keys = jax.random.split(getkey(), 6)
    draw = partial(case, shape=(100,))
    values = values_of(case)
    together = jax.vmap(draw)(keys, *values)
    alone = np.stack([draw(keys[i], *(v[i] for v in values)) for i in range(6)])
    np.testing.assert_array_equal(together, alone)


@every_draw
def test_scan_equals_loop(case: Case, getkey: Callable[[], jax.Array]) -> None:
    keys = jax.random.split(getkey(), 5)
    draw = partial(case, shape=(100, 6))
    values = values_of(case)
    _, scanned = jax.lax.scan(lambda carry, key: (carry, draw(key, *values)), None, keys)
    alone = np.stack([draw(key, *values) for key in keys])
    np.testing.assert_array_equal(scanned, alone)


@every_draw
def test_one_trace_per_shape(case: Case, getkey: Callable[[], jax.Array]) -> None:
    """Under jit, and in eager calls, which must not compile again for new values either."""
    traces = 0

    @jax.jit
    def draw(key, *values):
        nonlocal traces
        traces += 1
        return case(key, *values, shape=(11, 6))

    values = values_of(case)
    other = [v[::-1] for v in values]
    draw(getkey(), *values)
    draw(getkey(), *other)
    assert traces == 1
    case(getkey(), *values, shape=(12, 6))
    key = getkey()
    with assert_no_compilation():
        case(key, *other, shape=(12, 6))


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
@every_key
def test_no_key_is_used_twice(case: Case, impl: str, seed: int) -> None:
    with jax.debug_key_reuse(True):
        jax.clear_caches()  # the check is made while tracing
        x = case(jax.random.key(seed, impl=impl), *values_of(case), shape=(3, 6))
        assert_valid(case, x)


@every_draw
def test_key_reuse_by_the_caller_is_seen(case: Case, seed: int) -> None:
    key = jax.random.key(seed)
    with jax.debug_key_reuse(True):
        case(key, *values_of(case), shape=(3, 6))
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
    """Exactly in the rows that have one, and the other rows are untouched."""
    case = CASES[name]
    key = getkey()
    draw = jax.jit(partial(case, shape=(50, 6)))
    good = np.asarray(draw(key, *values_of(case)))
    for bad in case.bad[argument]:
        values = {k: v.copy() for k, v in case.arguments.items()}
        values[argument][(3,) + (0,) * (values[argument].ndim - 1)] = bad
        x = np.asarray(draw(key, *values.values()))
        marked = x == -1 if case.draw is draws.categorical else np.isnan(x)
        assert marked[:, 3].all(), f"{argument} = {bad} gave {x[0, 3]}"
        rest = [0, 1, 2, 4, 5]
        assert not marked[:, rest].any()
        if case.draw is not draws.log_dirichlet:
            np.testing.assert_array_equal(x[:, rest], good[:, rest])


@every_argument
def test_arguments_that_are_no_numbers(
    name: str, argument: str, getkey: Callable[[], jax.Array]
) -> None:
    case = CASES[name]
    for bad in ("one", None, 1j, {"a": 1.0}, [[1.0], [1.0, 2.0]], np.array(["x"]), object()):
        with pytest.raises(ValueError, match=rf"\b{argument}\b"):
            case(getkey(), *(case.arguments | {argument: bad}).values())


@every_draw
def test_wrong_shapes(case: Case, getkey: Callable[[], jax.Array]) -> None:
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
def test_no_nan_at_extreme_words(case: Case, dtype: type) -> None:
    """All pairs of 38 (float64: 71) extreme words: zero, ones, single bits and their complements."""
    with jax.enable_x64(dtype is np.float64):
        for row in range(6):
            values = [v[row] for v in values_of(case, dtype)]
            x = case(jax.random.key(0), *values, shape=(5100,))
            assert_valid(case, x)
            if case.draw is not draws.categorical:
                assert np.isfinite(np.asarray(x)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_nan_at_extreme_arguments(dtype: type, getkey: Callable[[], jax.Array]) -> None:
    """Far beyond the documented range, up to the last float: still a number."""
    info = np.finfo(dtype)
    with jax.enable_x64(dtype is np.float64):
        positive = np.array([info.tiny, 1e-20, 1e-6, 0.3, 1.0, 1e8, 1e20, info.max], dtype)
        for draw in (draws.loggamma, draws.poisson):
            assert not np.isnan(np.asarray(draw(getkey(), positive, (200, 8)))).any()
        starts = np.array([-np.inf, -info.max, -1e20, -1e4, 0, 88, 1e4, 1e20, info.max], dtype)
        x, a, h = (c.ravel() for c in np.meshgrid(starts, positive, positive))
        found = np.asarray(draws.cir(getkey(), x, a, h, (50, x.size)))
        wrong = np.isnan(found).any(axis=0)
        assert list(zip(x[wrong], a[wrong], h[wrong], strict=True)) == []
        rows = np.array(list(itertools.product(positive, repeat=2)), dtype)
        assert not np.isnan(np.asarray(draws.log_dirichlet(getkey(), rows, (50, 64)))).any()
        index = np.asarray(draws.categorical(getkey(), rows, (50, 64)))
        assert np.isin(index, (0, 1)).all()


def reject(key: jax.Array, parameter: jax.Array) -> jax.Array:
    """A proposal that is always turned down."""
    del key
    return jnp.full_like(parameter, -1)


@pytest.mark.parametrize("name", ["gamma", "poisson"])
def test_leftovers_of_the_rejection_loops_are_exact(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every proposal rejected only the fallback is left; false-alarm rate 1e-3 each."""
    module = importlib.import_module(f"simplex_jax.draws.{name}")
    monkeypatch.setattr(module, "_propose", reject)
    jax.clear_caches()
    key = jax.random.key(seed)
    parameters = np.float32([0.2, 1.0, 15.0, 1e3, 1e5])[:, None]
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

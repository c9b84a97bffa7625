"""What all draws promise besides their law: shapes, dtypes, keys, transforms, bad arguments."""

import functools
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.draw_cases import CASES, SHAPE, assert_valid, every_argument, every_draw, values_of

from simplex_jax._src import draws


def assert_same_up_to_rounding(x: jax.Array, expected: np.ndarray) -> None:
    """Counts and indices are equal; logs may differ by XLA's choice of fused multiply-adds.

    That is 8 units in the last place of the largest log in the last axis (of its neighbours in a
    Dirichlet row, from which a common normaliser was taken).
    """
    x = np.asarray(x)
    if (expected == np.floor(expected)).all():
        np.testing.assert_array_equal(x, expected)
        return
    size = np.maximum(np.abs(expected).max(axis=-1, keepdims=True), 1.0)
    size = np.where(expected.shape[-1] == 4, size, np.maximum(np.abs(expected), 1.0))
    wrong = np.abs(x - expected) > 8 * np.spacing(size.astype(np.float32))
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
        values = [np.ones((3, *v.shape[1:]), dtype) for v in case.arguments.values()]
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
@pytest.mark.parametrize("impl", ["threefry2x32", pytest.param("rbg", marks=pytest.mark.slow)])
def test_jit_equals_eager(name: str, impl: str, seed: int) -> None:
    case, key = CASES[name], jax.random.key(seed, impl=impl)
    eager = case(key, *values_of(case), shape=SHAPE)
    assert_valid(case, eager)
    np.testing.assert_array_equal(jitted(name)(key, *values_of(case)), eager)


@pytest.mark.slow
@every_draw
def test_vmap_over_keys_equals_loop(name: str, getkey: Callable[[], jax.Array]) -> None:
    case, keys = CASES[name], jax.random.split(getkey(), 7)
    draw = partial(case, shape=SHAPE)
    together = jax.vmap(lambda key: draw(key, *values_of(case)))(keys)
    alone = np.stack([draw(key, *values_of(case)) for key in keys])
    assert_same_up_to_rounding(together, alone)


@pytest.mark.slow
@every_draw
def test_vmap_over_arguments_equals_loop(name: str, getkey: Callable[[], jax.Array]) -> None:
    case, keys = CASES[name], jax.random.split(getkey(), 6)
    draw = partial(case, shape=(100,))
    values = values_of(case)
    together = jax.vmap(draw)(keys, *values)
    alone = np.stack([draw(keys[i], *(v[i] for v in values)) for i in range(6)])
    assert_same_up_to_rounding(together, alone)


@pytest.mark.slow
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
    with pytest.raises(AssertionError), assert_no_compilation():
        jax.jit(lambda x: x * 3.25 + 17.0)(jnp.ones(23))


@every_draw
def test_key_reuse_is_seen_and_never_done(name: str, seed: int) -> None:
    """JAX's checker accepts a draw, and refuses a second one with the same key."""
    case, key = CASES[name], jax.random.key(seed)
    with jax.debug_key_reuse(True):
        assert_valid(case, case(key, *values_of(case), shape=(3, 6)))
        with pytest.raises(jax.errors.KeyReuseError):
            case(key, *values_of(case), shape=(3, 6))


# Derivatives


@every_argument
@pytest.mark.parametrize("wide", [False, True], ids=["float32", "float64"])
def test_derivatives_are_refused(
    name: str, argument: str, wide: bool, getkey: Callable[[], jax.Array]
) -> None:
    """By both modes and all precisions; without this, forward mode gave those of proposals."""
    case, key = CASES[name], getkey()
    with jax.enable_x64(wide):
        values = dict(zip(case.arguments, values_of(case, float), strict=True))

        def total(value: jax.Array) -> jax.Array:
            return case(key, *(values | {argument: value}).values()).sum().astype(float)

        def forward(value: jax.Array) -> jax.Array:
            return jax.jvp(total, (value,), (value,))[1]

        for derivative in (forward, jax.grad(total)):
            if name == "categorical":  # an index has the derivative 0
                assert (derivative(values[argument]) == 0).all()
                continue
            with pytest.raises(ValueError, match="stop_gradient"):
                jax.eval_shape(derivative, values[argument])
        cut = jax.grad(lambda x: (x * total(jax.lax.stop_gradient(x))).sum())
        assert jax.eval_shape(cut, values[argument]).shape == values[argument].shape


def test_derivatives_of_directions(getkey: Callable[[], jax.Array]) -> None:
    """In the concentration: refused where a draw may be rejected, so not in three dimensions."""
    key = getkey()
    for p in (2, 3, 4):
        mean = jnp.eye(p)[0]

        def forward(k: jax.Array, mean: jax.Array = mean) -> jax.Array:
            return jax.jvp(lambda k: draws.von_mises_fisher(key, mean, k), (k,), (k,))[1]

        if p == 3:
            assert jax.eval_shape(forward, 2.0).shape == (3,)
            continue
        with pytest.raises(ValueError, match="stop_gradient"):
            jax.eval_shape(forward, 2.0)


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
    for shape in (5, "6", np.array([6])):
        with pytest.raises(ValueError, match=r"shape must be|at least 0"):
            case(getkey(), *values, shape=shape)


@every_draw
def test_several_keys_need_vmap(name: str, seed: int) -> None:
    """Those that forget it would have draws of one key, or of a hash of all."""
    case = CASES[name]
    for keys in (jax.random.split(jax.random.key(seed), 2), jax.random.PRNGKey(seed)[None]):
        with pytest.raises(ValueError, match=r"^key .*jax\.vmap"):
            case(keys, *values_of(case), shape=(2, 6))


def test_shapes_that_do_not_broadcast(getkey: Callable[[], jax.Array]) -> None:
    with pytest.raises(ValueError, match=r"shape_parameter \(3,\)"):
        draws.cir(getkey(), jnp.zeros(2), jnp.ones(3), 0.1)
    for draw in (draws.log_dirichlet, draws.categorical):
        for bad in (jnp.float32(1.0), jnp.ones((3, 0))):
            with pytest.raises(ValueError, match=r"concentration|weights"):
                draw(getkey(), bad)


def test_rows_without_weight(getkey: Callable[[], jax.Array]) -> None:
    weights = jnp.array([[1.0, 2.0], [0.0, 0.0]])
    with pytest.raises(ValueError, match="weights"):
        draws.categorical(getkey(), weights)
    index = np.asarray(jax.jit(draws.categorical)(getkey(), weights))
    assert index[0] in (0, 1)
    assert index[1] == -1

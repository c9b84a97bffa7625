"""The native draws beside those of XLA: the same words of randomness give the same variates.

Their law is tested with that of the others, in test_draws_gamma.py, _poisson.py and _cir.py.
"""

import functools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import native_code
from support.draw_cases import CASES, values_of
from support.marks import slow_but
from test_draws_cir import SETTINGS
from test_draws_cir import rejections as cir_rejections
from test_draws_extremes import WORDS
from test_draws_gamma import gamma_rejections
from test_draws_poisson import rejections as poisson_rejections

from simplex_jax._src import draws
from simplex_jax._src.draws import cir, gamma, native
from simplex_jax._src.draws.cir import cir_by_xla, step_of
from simplex_jax._src.draws.gamma import loggamma_by_xla, normalise
from simplex_jax._src.draws.poisson import poisson_by_xla

pytestmark = native_code.on_cpu(native.LIBRARY)

SIZE = 100_000
START, START_OF_CIR = "static_cast<uint32_t>(first),", "static_cast<uint32_t>(first_column);"
KEY = jax.random.key(0)


def shapes(seed, low=1e-6, high=1e8):
    rng = np.random.default_rng(seed)
    return jnp.asarray(np.exp(rng.uniform(np.log(low), np.log(high), SIZE)), jnp.float32)


def assert_close(x, expected, *, limit=4e-6, few=0):
    """Equal up to rounding, but for the few whose proposal it lets in or keeps out."""
    x, expected = np.asarray(x, np.float64), np.asarray(expected, np.float64)
    np.testing.assert_array_equal(np.isfinite(x), np.isfinite(expected))
    wrong = np.abs(x - expected) > limit * (1 + np.abs(expected))
    assert wrong.sum() <= few, (x[wrong][:5], expected[wrong][:5])


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="another platform may run the other one")
def test_the_draws_of_xla_are_not_traced_where_they_cannot_run(monkeypatch):
    """That would take longer than to trace the rest of an update."""
    monkeypatch.setattr(gamma, "loggamma_by_xla", lambda *_, **__: 1 / 0)
    assert draws.loggamma(KEY, jnp.ones(17)).shape == (17,)


def test_gammas_are_those_of_xla(getkey, seed):
    key, a = getkey(), shapes(seed)
    expected = jax.jit(lambda: loggamma_by_xla(key, a, 0, (SIZE,)))()
    assert_close(draws.loggamma(key, a), expected, few=2)


def test_counts_are_those_of_xla(getkey, seed):
    """Counts, rounded once more, differ by rounding above 2^24 alone."""
    key, rate = getkey(), shapes(seed, high=1e9).at[:2].set(jnp.array([0.0, 10.0]))
    expected = jax.jit(lambda: poisson_by_xla(key, rate, (SIZE,)))()
    assert_close(draws.poisson(key, rate), expected, limit=2e-7, few=2)


@pytest.mark.parametrize("h", [0.01, 0.5, 45.0])
def test_transitions_are_those_of_xla(h, getkey, seed):
    key, a = getkey(), shapes(seed)
    log_theta = jnp.log(a) + jax.random.normal(getkey(), a.shape)
    log_theta = log_theta.at[::50].set(-jnp.inf)
    # Where the rate is large and the shape larger, the result is the difference of numbers of the
    # size of the shape, and an ulp of an exponential moves it by some.
    step = step_of(jnp.float32(h))
    expected = jax.jit(lambda: cir_by_xla(key, log_theta, a, step, 0, (SIZE,)))()
    assert_close(draws.cir(key, log_theta, a, h), expected, limit=2e-5, few=5)


@pytest.mark.parametrize("size", [1, 5, 16, 10_007])
def test_log_probabilities_are_those_of_xla(size, getkey):
    weights = 30 * jax.random.normal(getkey(), (3, size)) - 200
    weights = weights.at[:, :: size // 2 + 2].set(-1e30).at[1, 0].set(100.0)
    log_p, total = native.normalise(weights)
    assert_close(log_p, jax.nn.log_softmax(weights, axis=-1), limit=1e-6)
    assert_close(total, jax.nn.logsumexp(weights, axis=-1, keepdims=True), limit=1e-6)


def test_log_probabilities_of_a_row_are_those_of_the_row_alone(getkey):
    weights = jax.random.normal(getkey(), (2, 3, 4099))
    for alone, together in zip(native.normalise(weights[1, 2]), normalise(weights), strict=True):
        np.testing.assert_array_equal(alone, together[1, 2])
    for one, mapped in zip(normalise(weights), jax.vmap(normalise)(weights), strict=True):
        np.testing.assert_array_equal(one, mapped)


@pytest.mark.parametrize(
    "row", [[1.0, np.nan, 3.0], [-np.inf, -np.inf], [np.inf, 0.0], [-np.inf, 0]]
)
def test_log_probabilities_of_numbers_without_a_total(row):
    log_p, _ = native.normalise(jnp.asarray(row, jnp.float32))
    np.testing.assert_array_equal(log_p, jax.nn.log_softmax(jnp.asarray(row, jnp.float32)))


def test_log_probabilities_have_their_derivative(getkey):
    weights, some = jax.random.normal(getkey(), (2, 3, 40))
    result = jax.grad(lambda x: jnp.vdot(normalise(x)[0], some) + 2 * normalise(x)[1].sum())
    other = jax.grad(
        lambda x: jnp.vdot(jax.nn.log_softmax(x), some) + 2 * jax.nn.logsumexp(x, axis=-1).sum()
    )
    np.testing.assert_allclose(result(weights), other(weights), atol=2e-6)


@pytest.mark.parametrize("width", [4, 8])
def test_variates_do_not_depend_on_the_width_of_vectors(width, getkey, seed):
    key, a = getkey(), shapes(seed)
    step = step_of(jnp.float32(0.3))
    for wide, narrow in [
        (
            native.loggamma(key, a, 0, (SIZE,)),
            native.loggamma(key, a, 0, (SIZE,), width=width),
        ),
        (
            native.poisson(key, a, (SIZE,)),
            native.poisson(key, a, (SIZE,), width=width),
        ),
        (
            native.cir(key, jnp.log(a), a, step, 0, (SIZE,)),
            native.cir(key, jnp.log(a), a, step, 0, (SIZE,), width=width),
        ),
        (native.normalise(jnp.log(a))[0], native.normalise(jnp.log(a), width=width)[0]),
    ]:
        np.testing.assert_array_equal(wide, narrow)


@pytest.mark.parametrize("module", [gamma, cir])
@pytest.mark.parametrize("lowering", slow_but(["native", "xla"], "native"))
def test_a_variate_does_not_depend_on_others(module, lowering, getkey, seed):
    """Those that begin an array are those of the shorter array, whatever was rejected."""
    a, key, half = shapes(seed, high=10.0), getkey(), SIZE // 2

    def drawn(a):
        if module is gamma:
            draw = native.loggamma if lowering == "native" else loggamma_by_xla
            return draw(key, a, 0, a.shape)
        draw = native.cir if lowering == "native" else cir_by_xla
        return draw(key, jnp.log(a), a, step_of(jnp.float32(0.5)), 0, a.shape)

    drawn = jax.jit(drawn)
    np.testing.assert_array_equal(drawn(a)[:half], drawn(a[:half]))


def parts_differ(draw_gamma, draw_cir, key, a):
    """Return whether an array that is drawn in three parts has other variates than at once."""
    step = step_of(jnp.float32(0.5))

    @jax.jit
    def drawn(a, offset):
        return jnp.stack(
            [
                draw_gamma(key, a, offset, a.shape),
                draw_cir(key, jnp.log(a), a, step, offset, a.shape),
            ]
        )

    third = a.size // 3
    parts = [drawn(a[first : first + third], first) for first in range(0, 3 * third, third)]
    return bool((np.concatenate(parts, axis=1) != drawn(a[: 3 * third], 0)).any())


@pytest.mark.parametrize("lowering", slow_but(["native", "xla"], "native"))
def test_parts_of_an_array_are_the_array(lowering, getkey, seed):
    """Those of XLA up to rounding."""
    a, key = shapes(seed, high=10.0), getkey()
    if lowering == "native":
        assert not parts_differ(native.loggamma, native.cir, key, a)
        return
    half, last = SIZE // 2, SIZE - SIZE // 2
    assert_close(
        loggamma_by_xla(key, a[half:], half, (last,)), draws.loggamma(key, a)[half:], few=2
    )


def test_each_row_of_a_vmap_has_its_offset(getkey, seed):
    a, key = shapes(seed)[:600], getkey()
    together = jax.vmap(lambda a, first: draws.loggamma(key, a, offset=first))(
        a.reshape(2, 300), jnp.asarray([0, 300])
    )
    np.testing.assert_array_equal(together.ravel(), draws.loggamma(key, a))


@pytest.mark.parametrize("offset", [-1, 2**32, 0.5, [0, 1]])
def test_an_offset_is_one_integer(offset, getkey):
    with pytest.raises(ValueError, match=r"offset .* 0 to"):
        draws.loggamma(getkey(), 1.0, offset=offset)


@pytest.mark.parametrize(
    ("of_theta", "of_a", "of_h"),
    [
        ((3, 5, 7), (3, 5, 7), ()),
        ((3, 5, 7), (7,), ()),
        ((3, 5, 7), (5, 1), (3, 1, 1)),
        ((), (1, 7), (5, 1)),
        ((3, 5, 7), (1, 5, 7), (1, 1, 1)),
    ],
)
def test_arguments_broadcast(of_theta, of_a, of_h, getkey, seed):
    rng, key = np.random.default_rng(seed), getkey()
    log_theta, a, h = (
        jnp.asarray(rng.uniform(0.1, 3, shape), jnp.float32) for shape in (of_theta, of_a, of_h)
    )
    shape = np.broadcast_shapes(of_theta, of_a, of_h)
    whole = [jnp.broadcast_to(x, shape) for x in (log_theta, a, h)]
    np.testing.assert_array_equal(draws.cir(key, log_theta, a, h), draws.cir(key, *whole))


def test_rows_of_a_vmap_are_draws_of_their_own(getkey, seed):
    keys, a = jax.random.split(getkey(), 6).reshape(2, 3), shapes(seed)[:700]
    h = jnp.asarray([0.1, 2.0])

    def draw(key, h):
        return draws.cir(key, 0.3, a, h)

    together = jax.jit(jax.vmap(jax.vmap(draw, in_axes=(0, None))))(keys, h)
    single = [[draw(key, h) for key in row] for row, h in zip(keys, h, strict=True)]
    np.testing.assert_array_equal(together, jnp.asarray(single))


def test_without_the_library_xla_draws(tmp_path):
    """Switched off in a process of its own: a library that is loaded stays."""
    code = (
        "import jax, numpy as np\n"
        "from simplex_jax import draws\n"
        "from simplex_jax._src.draws import native\n"
        "assert native.LIBRARY.prefix() is None\n"
        "assert 'switches it off' in native.LIBRARY.why_not()\n"
        "np.save('x.npy', draws.loggamma(jax.random.key(5), 0.5, (1000,)))\n"
    )
    environment = os.environ | {"SIMPLEX_JAX_NATIVE": "0"}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, env=environment)
    assert_close(draws.loggamma(jax.random.key(5), 0.5, (1000,)), np.load(tmp_path / "x.npy"))


@pytest.mark.slow
def test_no_nan_at_extreme_words(tmp_path):
    """Zero, ones, single bits and their complements, in pairs, in three rounds of rejection."""
    words = ", ".join(f"{word % 2**32}u" for word in WORDS)
    prefix = native_code.mutated(
        native.LIBRARY,
        tmp_path,
        "formulas.inl",
        "  threefry(key, one, two);\n",
        f"""
  const uint32_t kWords[] = {{{words}}};
  const uint32_t count = sizeof(kWords) / 4;
  threefry(key, one, two);
  for (int j = 0; row < 6 && j < WIDTH; ++j) {{
    one[j] = kWords[columns[j] % count];
    two[j] = kWords[columns[j] / count % count];
  }}
""",
    )
    for log_theta, shape, step in zip(*map(jnp.asarray, values_of(CASES["cir"])), strict=True):
        draw = native.cir(KEY, log_theta, shape, step_of(step), 0, (2000,), prefix=prefix)
        assert np.isfinite(draw).all()
    for shape in jnp.asarray(values_of(CASES["loggamma"])[0]):
        assert np.isfinite(native.loggamma(KEY, shape, 0, (2000,), prefix=prefix)).all()
    for rate in jnp.asarray(values_of(CASES["poisson"])[0]):
        assert np.isfinite(native.poisson(KEY, rate, (2000,), prefix=prefix)).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("surely | (~never & below) ? k", "surely | ~never ? k"),
        ("-rate * deviance", "-0.9f * rate * deviance"),
        ("count += v < tail ?", "count += v <= 1.05f * tail ?"),
        ("return needed ? propose_count(key, row,", "return needed ? propose_count(key, 2,"),
    ],
    ids=["nothing rejected", "a wide law", "more at small rates", "the same proposal again"],
)
def test_mutants_of_counts_are_seen(old, new, tmp_path, getkey):
    prefix = native_code.mutated(
        native.LIBRARY, tmp_path, native_code.file_with(native.LIBRARY, old), old, new
    )

    def mutant(key, rate, shape):
        return native.poisson(key, rate, shape, prefix=prefix)

    rates = (0.5, 5.0, 15.0, 100.0, 1e4)
    assert poisson_rejections(mutant, getkey(), rates, 200_000)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("taken = (y > -1.0f) & (", "taken = Integers{} & ("),
        ("small & ~surely_small(y, two)", "small"),
    ],
    ids=["Marsaglia and Tsang", "small shapes"],
)
def test_a_bound_that_is_asked_first_changes_no_draw(old, new, tmp_path, getkey):
    prefix = native_code.mutated(
        native.LIBRARY, tmp_path, native_code.file_with(native.LIBRARY, old), old, new
    )
    a = jnp.exp(jnp.linspace(-14, 18, 2_000_000))
    key = getkey()
    draws = native.loggamma(key, a, 0, a.shape), native.loggamma(key, a, 0, a.shape, prefix=prefix)
    np.testing.assert_array_equal(*draws)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        *((f"draws.offsets[row] + {at}", at) for at in (START, START_OF_CIR)),
        ("words(key, 1, at + start,", "words(key, 1, at,"),
        ("load(left.places + i) + start", "load(left.places + i)"),
    ],
)
def test_forgotten_offsets_are_seen(old, new, tmp_path, getkey, seed):
    prefix = native_code.mutated(native.LIBRARY, tmp_path, "kernels.inl", old, new)
    mutant = [functools.partial(draw, prefix=prefix) for draw in (native.loggamma, native.cir)]
    assert parts_differ(*mutant, getkey(), shapes(seed, high=10.0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("draw", "old", "new"),
    [
        ("loggamma", "return taken ? d * cube : constant(-1);", "return d * cube;"),
        ("loggamma", "2 * (round + 1), column", "2, column"),
        ("loggamma", "-0.75f * d", "-0.3f * d"),
        ("loggamma", "exponential(one) / valid : ratio;", "exponential(one) : ratio;"),
        ("loggamma", "below ? -x :", "below ? constant(0) :"),
        ("loggamma", "below = y <= 0.0f;", "below = y == y;"),
        ("loggamma", "fresh = exponential(one) / shape", "fresh = load(asked_ratios + i)"),
        ("loggamma", "kInverseE = 0.36787944117144233f", "kInverseE = 0.3f"),
        ("loggamma", "(shape - 1.0f) * log_x - shape * y", "constant(0)"),
        ("loggamma", "(0.5f - y / 6.0f)", "(2.0f - y / 6.0f)"),
        ("cir", "left.number += !taken[j];", ""),
        ("cir", "fresh = exponential(one) / shape", "fresh = load(asked_ratios + i)"),
        ("cir", "load(block.values + i) + load(log_scale + i)", "load(block.values + i)"),
        ("cir", "ratio = given ? over / x", "ratio = given ? first / x"),
        ("cir", "(empty ? constant(1.0f) : constant(0.5f))", "0.5f"),
        ("cir", "twice = root(2.0f * larger", "twice = root(2.02f * larger"),
    ],
    ids=[
        "nothing rejected",
        "the same proposal again",
        "a bound that is none",
        "boost of another shape",
        "small: accepted below 1",
        "small: never above 1",
        "small: the rejected exponential again",
        "small: a wrong split",
        "small: accepted above 1",
        "small: a bound that is none",
        "small: nothing rejected",
        "small: the rejected exponential again, CIR",
        "small: no scale",
        "small: the time from zero",
        "no boost at zero",
        "rate too large",
    ],
)
def test_mutants_are_seen(draw, old, new, tmp_path, getkey):
    prefix = native_code.mutated(
        native.LIBRARY, tmp_path, native_code.file_with(native.LIBRARY, old), old, new
    )

    if draw == "loggamma":

        def mutant(key, a, shape):
            return native.loggamma(key, a, 0, shape, prefix=prefix)

        assert gamma_rejections(mutant, getkey(), 200_000)
    else:

        def mutant(key, log_theta, a, h, shape):
            return native.cir(key, log_theta, a, step_of(h), 0, shape, prefix=prefix)

        assert cir_rejections(mutant, getkey(), SETTINGS, 100_000)

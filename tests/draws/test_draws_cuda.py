"""Draws of GPUs are those of CPUs, bit for bit; their law is tested with those.

Both are compiled from the same formulas, without contracted operations.
"""

import ctypes
import functools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import gpus

from simplex_jax._src.draws import native
from simplex_jax._src.draws.cir import step_of
from simplex_jax._src.native.library import Library

SIZES = {"gpu": 1_000_000, "emulated": 20_000}
places = pytest.mark.parametrize("place", gpus.PLACES)


def shapes(seed, place, low=1e-6, high=1e8):
    """Shapes or rates of all sizes, and some that are none."""
    rng = np.random.default_rng(seed)
    values = np.exp(rng.uniform(np.log(low), np.log(high), SIZES[place]))
    values[:6] = [0.0, -1.0, np.nan, np.inf, 1e-38, 3e38]
    return jnp.asarray(values, jnp.float32)


def assert_same(place, draw, *arguments):
    on_cpu, on_gpu = gpus.results(native.LIBRARY, place, draw, *arguments)
    np.testing.assert_array_equal(on_cpu, on_gpu)


def log_gamma(key, a, offset, prefix=None):
    return native.loggamma(key, a, offset, a.shape, prefix=prefix)


def transition(key, log_theta, a, step, offset, prefix=None):
    return native.cir(key, log_theta, a, step, offset, log_theta.shape, prefix=prefix)


@places
@pytest.mark.parametrize("offset", [0, 12_345])
def test_gammas(place, offset, getkey, seed):
    assert_same(place, log_gamma, getkey(), shapes(seed, place), jnp.uint32(offset))


@places
def test_counts(place, getkey, seed):
    def count(key, rate, prefix=None):
        return native.poisson(key, rate, rate.shape, prefix=prefix)

    assert_same(place, count, getkey(), shapes(seed, place, high=1e9))


@places
@pytest.mark.parametrize("h", [0.01, 0.5, 45.0])
def test_transitions(place, h, getkey, seed):
    key, a = getkey(), shapes(seed, place)
    log_theta = jnp.log(jnp.abs(a)) + jax.random.normal(getkey(), a.shape)
    log_theta = log_theta.at[::50].set(-jnp.inf)
    # The steps are made once: functions of XLA round otherwise on each machine.
    assert_same(place, transition, key, log_theta, a, step_of(jnp.float32(h)), jnp.uint32(7))


@places
def test_rows_with_parameters_of_other_lengths(place, getkey):
    """A shape for each column, a step for each row, a key for each of some chains."""
    keys = jax.random.split(getkey(), 3)
    log_theta = jax.random.normal(getkey(), (3, 200, 77))
    a = jnp.exp(4 * jax.random.normal(getkey(), (77,)))
    step = step_of(jnp.linspace(0.1, 2.0, 200)[:, None])

    def draw(keys, log_theta, a, step, prefix=None):
        one = functools.partial(transition, prefix=prefix)
        return jax.vmap(lambda key, x: one(key, x, a, step, jnp.uint32(0)))(keys, log_theta)

    assert_same(place, draw, keys, log_theta, a, step)


@pytest.mark.parametrize("error", [0, 209])
def test_a_library_for_other_gpus_is_not_used(error, tmp_path, monkeypatch):
    """Of one that loads, `SimplexProbe` says with which error its kernels would end here."""
    (tmp_path / "_cuda.so").touch()
    loaded = SimpleNamespace(SimplexProbe=lambda: error)
    library = Library(tmp_path, (), f"probed{error}", cuda=())
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(ctypes, "CDLL", lambda path: loaded)
    assert library.prefix("cuda") == (None if error else library.name)
    assert "not run here" in library.why_not("cuda")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("draw", "old", "new"),
    [
        ("gamma", "2 * (round + 1), column, shape", "2, column, shape"),
        ("gamma", "words(key, 1, column, one, two);", "words(key, 0, column, one, two);"),
        ("gamma", "valid + 1.0f : valid", "valid : valid"),
        ("gamma", "draws.offsets[row] +", ""),
        ("cir", "return value + log_scale.at(row, column);", "return value;"),
        ("cir", "(empty ? 1.0f : 0.5f)", "0.5f"),
    ],
)
def test_mutants_are_seen(draw, old, new, getkey, seed):
    prefix = gpus.emulation(native.LIBRARY, old, new)
    with gpus.on("emulated"):
        key, a = getkey(), shapes(seed, "emulated")
        if draw == "gamma":
            expected, mutant = (log_gamma(key, a, 5, prefix=p) for p in (None, prefix))
        else:
            given = key, jnp.log(a), a, step_of(jnp.float32(0.5)), 5
            expected, mutant = (transition(*given, prefix=p) for p in (None, prefix))
        assert not np.array_equal(expected, mutant, equal_nan=True)

"""`draws.categorical` against its weights."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import statistics_checks as checks

from simplex_jax._src import draws

SIZE = 200_000


def weight_vectors() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    spiky = rng.gamma(0.05, size=97)
    return {
        "two": np.array([0.3, 0.7]),
        "three with zeros": np.array([0.0, 1.0, 0.0, 2.0, 0.0]),
        "uniform 100": np.ones(100),
        "prime 97, sparse": spiky,
        "decreasing": np.geomspace(1.0, 1e-6, 40),
        "increasing": np.geomspace(1e-6, 1.0, 40),
        "huge": np.array([1.0, 2.0, 3.0]) * 1e30,
        "tiny": np.array([1.0, 2.0, 3.0]) * 1e-30,
        "range": np.array([1e-30, 1.0, 1e30, 3e30]),
        "1024": rng.gamma(1.0, size=1024),
    }


def rejections(draw, key: jax.Array, size: int = SIZE) -> dict[object, float]:
    """Chi-square for every weight vector, as one family at a false-alarm rate of 1e-3."""
    p_values: dict[object, float] = {}
    for number, (name, weights) in enumerate(weight_vectors().items()):
        weights = weights.astype(np.float32)
        index = np.asarray(draw(jax.random.fold_in(key, number), jnp.asarray(weights), (size,)))
        assert index.dtype == np.int32
        observed = np.bincount(index, minlength=weights.size)
        probabilities = weights.astype(np.float64) / weights.astype(np.float64).sum()
        p_values[name] = checks.chi_square(observed, probabilities)
    return checks.family(p_values)


@pytest.mark.parametrize("impl", ["threefry2x32", pytest.param("rbg", marks=pytest.mark.slow)])
def test_categorical_law(impl: str, seed: int) -> None:
    """Ten weight vectors, 2e5 draws each; false-alarm rate 1e-3."""
    assert rejections(draws.categorical, jax.random.key(seed, impl=impl)) == {}


@pytest.mark.slow
def test_categorical_mutants_are_rejected(getkey: Callable[[], jax.Array]) -> None:
    def tilted(key, weights, shape):
        return draws.categorical(key, weights * jnp.linspace(1, 1.05, weights.size), shape)

    def off_by_one(key, weights, shape):
        return jnp.minimum(draws.categorical(key, weights, shape) + 1, weights.size - 1)

    assert rejections(tilted, getkey()) != {}
    assert rejections(off_by_one, getkey()) != {}


@pytest.mark.parametrize("k", [1, 2, 3, 7, 16, 17, 1000, 100_000])
def test_zero_weights_are_never_chosen(k: int, getkey: Callable[[], jax.Array]) -> None:
    """One positive weight, at the start, in the middle, at the end: always that one."""
    for place in {0, k // 2, k - 1}:
        for size in (1.0, 1e-30, 1e30):
            weights = jnp.zeros(k).at[place].set(size)
            index = draws.categorical(getkey(), weights, (200 if k < 50_000 else 10,))
            np.testing.assert_array_equal(index, place)


def test_sparse_rows_choose_positive_weights_only(getkey: Callable[[], jax.Array]) -> None:
    """Random sparse rows of many magnitudes, 1e5 of them."""
    rng = np.random.default_rng(8)
    weights = rng.random((100_000, 23)) * 10.0 ** rng.uniform(-30, 7, (100_000, 23))
    weights *= rng.random(weights.shape) < 0.3
    weights[:, 11] += (weights.sum(-1) == 0) * 1e-20
    weights = weights.astype(np.float32)
    index = np.asarray(draws.categorical(getkey(), jnp.asarray(weights)))
    assert index.shape == (100_000,)
    assert (np.take_along_axis(weights, index[:, None], 1) > 0).all()


def test_rows_are_independent_and_use_their_own_weights(getkey: Callable[[], jax.Array]) -> None:
    """Batch [3, 4, 5] broadcast to [20000, 3, 4]; one family, false-alarm rate 1e-3."""
    weights = np.random.default_rng(5).random((3, 4, 5)).astype(np.float32)
    index = np.asarray(draws.categorical(getkey(), jnp.asarray(weights), (20_000, 3, 4)))
    p_values = {}
    for place in np.ndindex(3, 4):
        observed = np.bincount(index[:, *place], minlength=5)
        exact = weights[place].astype(np.float64)
        p_values[place] = checks.chi_square(observed, exact / exact.sum())
    # Two neighbouring rows together: 25 cells of a product law.
    joint = np.bincount(5 * index[:, 0, 0] + index[:, 0, 1], minlength=25)
    product = np.outer(weights[0, 0], weights[0, 1]).astype(np.float64).ravel()
    p_values["joint"] = checks.chi_square(joint, product / product.sum())
    assert checks.family(p_values) == {}


def test_sum_of_weights_may_overflow(getkey: Callable[[], jax.Array]) -> None:
    """The weights are finite, their sum is not: still the right law (false-alarm rate 1e-6)."""
    weights = jnp.array([1.0, 2.0, 1.0]) * 1.6e38
    index = np.asarray(draws.categorical(getkey(), weights, (100_000,)))
    assert checks.chi_square(np.bincount(index, minlength=3), np.array([0.25, 0.5, 0.25])) > 1e-6


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="GPUs have subnormal numbers")
def test_subnormal_weights_count_as_zero(getkey: Callable[[], jax.Array]) -> None:
    """As documented: the smallest normal weight is chosen, and all subnormal ones are refused."""
    tiny = np.finfo(np.float32).tiny
    assert (draws.categorical(getkey(), np.array([0.99 * tiny, tiny]), (1000,)) == 1).all()
    with pytest.raises(ValueError, match="positive somewhere"):
        draws.categorical(getkey(), np.array([1e-40, 1e-39], np.float32))

"""Streaming moments against those of the samples, and against the law they are of."""

import inspect
import types

import numpy as np
import pytest

from simplex_jax._src.runtime import moments


def draws(seed, shape):
    return np.random.default_rng(seed).dirichlet(np.ones(3), shape).astype(np.float32)


def test_moments_are_those_of_the_samples():
    samples = draws(0, (10, 1, 2))
    seen = moments.Moments((1, 2, 3))
    for sample in samples:
        seen.add(sample)
    mean, sd = seen.pooled()
    assert seen.samples == 10
    assert mean.dtype == sd.dtype == np.float32
    np.testing.assert_allclose(mean, samples[:, 0].mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(sd, samples[:, 0].std(axis=0, ddof=1), rtol=1e-4)


def test_chains_are_pooled_as_matched():
    samples = draws(1, (7, 3, 4))
    order = np.array([[0, 1, 2, 3], [2, 0, 3, 1], [3, 2, 1, 0]])
    seen = moments.Moments((3, 4, 3))
    for sample in samples:
        seen.add(sample)
    mean, sd = seen.pooled(order)
    matched = np.concatenate([samples[:, chain, rows] for chain, rows in enumerate(order)])
    np.testing.assert_allclose(mean, matched.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(sd, matched.std(axis=0, ddof=1), rtol=1e-4)


@pytest.mark.parametrize("conditional", [False, True])
def test_chains_without_a_topic_are_left_out(conditional):
    samples = draws(1, (7, 3, 4))
    order = np.array([[0, 1, 2, 3], [2, 0, 3, 1], [3, 2, 1, 0]])
    shared = np.array([[True] * 4, [True, False, True, False], [False, False, True, True]])
    seen = moments.Moments((3, 4, 3), conditional)
    for sample in samples:
        seen.add(sample, sample if conditional else 0.0)
    mean, sd = seen.pooled(order, shared)
    for k in range(4):
        rows = np.concatenate([samples[:, c, order[c, k]] for c in range(3) if shared[c, k]])
        within = rows.mean(axis=0) if conditional else 0.0
        np.testing.assert_allclose(mean[k], rows.mean(axis=0), rtol=1e-5)
        np.testing.assert_allclose(sd[k] ** 2, rows.var(axis=0, ddof=1) + within, rtol=1e-4)


def test_one_sample_has_no_deviation():
    seen = moments.Moments((1, 2), conditional=True)
    seen.add([[0.5, 0.2]], [[0.1, 0.1]])
    assert np.isnan(seen.pooled()[1]).all()


def test_saved_moments_go_on_as_if_nothing_had_happened():
    samples, variances = draws(2, (6, 2, 2)), draws(3, (6, 2, 2))
    whole, first, second = (moments.Moments((2, 2, 3), True) for _ in range(3))
    for i in range(6):
        whole.add(samples[i], variances[i])
        (first if i < 4 else second).add(samples[i], variances[i])
        if i == 3:
            second.load(first.save())
    for one, other in zip(second.pooled(), whole.pooled(), strict=True):
        np.testing.assert_array_equal(one, other)


def deviation(module, rng, size=4000):
    """The sd of x by conditional moments, x | a ~ Beta(a, 1), a = 1 or 3: exactly 0.2864..."""
    a = rng.choice([1.0, 3.0], (size, 1))
    mean = a / (a + 1)
    seen = module.Moments((1,), conditional=True)
    for m, v in zip(mean, mean * (1 - mean) / (a + 2), strict=True):
        seen.add(m, v)
    return float(seen.pooled()[1])


def test_the_law_of_total_variance(seed):
    """Within 0.006, more than 5 standard errors; without its first or second part 0.02 off."""
    mean = (1 / 2 + 3 / 4) / 2
    exact = ((1 / 3 + 3 / 5) / 2 - mean**2) ** 0.5
    assert deviation(moments, np.random.default_rng(seed)) == pytest.approx(exact, abs=0.006)
    source = inspect.getsource(moments)
    for old, new in [(" + within)", ")"), ("squares * share", "0 * squares * share")]:
        assert source.count(old) == 1
        mutant = types.ModuleType("mutant")
        exec(compile(source.replace(old, new), "mutant", "exec"), mutant.__dict__)
        result = deviation(mutant, np.random.default_rng(seed))
        assert result != pytest.approx(exact, abs=0.006)

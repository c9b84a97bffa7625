"""Rules for step sizes: each against the closed form that it inverts, and in a chain.

Tolerances are of at least four standard errors, stated with the test.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from baselines import step_rules, transitions

from simplex_jax._src import base, batches, estimators, gradient_noise, step_sizes


def test_inflation_is_as_asked_where_it_is_largest():
    shape = {"x": np.array([800.1, 100.1, 0.1]), "y": np.array(30.0)}
    variance = {"x": np.array([1600.0, 9000.0, 0.0]), "y": np.array(60.0)}
    h = step_sizes.for_inflation(shape, variance, 0.2)
    growth = {
        name: np.asarray(transitions.stationary_inflation(variance[name], h)) / shape[name]
        for name in shape
    }
    # 2 artanh(0.2 * 100.1 / 9000), of the second.
    assert float(h) == pytest.approx(2 * np.arctanh(0.2 * 100.1 / 9000), rel=1e-5)
    assert growth["x"][1] == pytest.approx(0.2, rel=1e-5)
    assert growth["x"][0] < 0.2
    assert growth["y"] < 0.2


def test_small_noise_leaves_the_largest_step():
    assert float(step_sizes.for_inflation(10.0, 0.0)) == 10.0
    assert float(step_sizes.for_inflation(10.0, 0.99, 0.1, largest=3.0)) == 3.0
    assert float(step_sizes.for_inflation(10.0, 1.01, 0.1)) < 6.1


def test_at_the_step_from_measured_noise_scir_has_the_inflation_asked_for(getkey):
    """Measured over 20,000 batches: a variance, and so a growth, has a standard error of 1.5%."""
    labels = jnp.repeat(jnp.arange(3), jnp.array([60, 30, 10]))
    stream, p = batches.uniform(labels, 10), np.array([0.6, 0.3, 0.1])
    estimator = estimators.categorical(100)
    measured = gradient_noise.variance(estimator, getkey(), jnp.zeros(3), stream, 20_000)
    a, variance = 0.5 + 100 * p, 100**2 * p * (1 - p) / 10
    h = step_sizes.for_inflation(a, measured, 0.6)
    growth = np.asarray(transitions.scir_over_batches(a, a, h, 1000, variance).variance) / a - 1
    assert growth.max() == pytest.approx(0.6, rel=0.06)


def test_gradient_noise_is_the_asked_fraction_of_the_injected():
    variance = {"x": np.array([4.0, 200.0]), "y": np.array([1.0])}
    h = float(step_rules.for_gradient_noise(variance, 0.05))
    assert h**2 * 200 / (2 * h) == pytest.approx(0.05)
    scale = {"x": np.array([10.0, 0.1]), "y": np.array([1.0])}
    h = float(step_rules.for_gradient_noise(variance, 0.05, preconditioner=scale))
    assert (h * 10) ** 2 * 4 / (2 * h * 10) == pytest.approx(0.05)
    # The stationary variance of x' = x + h (g - k x) + sqrt(2 h) xi grows by that, to first order.
    k, noise = 1.0, 200.0
    h = float(step_rules.for_gradient_noise(noise, 0.05))
    recursion = lambda noise: (2 * h + h**2 * noise) / (1 - (1 - h * k) ** 2)  # noqa: E731
    assert recursion(noise) / recursion(0.0) - 1 == pytest.approx(0.05)


class State(NamedTuple):
    position: jax.Array
    step: jax.Array


class Info(NamedTuple):
    acceptance: jax.Array


TRACES = []


def update(key, state, batch, *, step_size, scale):
    """Random walks on normal laws, 64 of them, with one proposal deviation."""
    TRACES.append(1)
    key_walk, key_accept = jax.random.split(key)
    walk = step_size * jax.random.normal(key_walk, state.position.shape)
    proposal = state.position + walk
    log_ratio = (state.position**2 - proposal**2) / (2 * scale**2)
    accepted = jnp.log(jax.random.uniform(key_accept, log_ratio.shape)) < log_ratio
    position = jnp.where(accepted, proposal, state.position)
    return State(position, state.step + 1), Info(jnp.exp(jnp.minimum(log_ratio, 0)))


def random_walk(scale, step_size):
    return base.Kernel(init=None, update=base.bind(update, step_size=step_size, scale=scale))


def adapt(getkey, scale=1.0, start=0.0, **options):
    state = State(jnp.full(64, start), jnp.zeros((), jnp.int32))
    stream = batches.full(jnp.zeros(1))
    build = base.bind(random_walk, jnp.asarray(scale))
    return float(step_sizes.adapt(getkey(), build, state, stream, **options))


@pytest.mark.parametrize(("target", "scale", "initial"), [(0.44, 1.0, 0.1), (0.7, 30.0, 500.0)])
def test_adaptation_finds_the_step_of_the_target(target, scale, initial, getkey):
    """Random walks accept (2 / pi) arctan(2 scale / h) on average: h is known; 5% off at most.

    Over seeds the standard deviation is below 1%.
    """
    h = adapt(getkey, scale, target=target, initial=initial, num_steps=600)
    assert h == pytest.approx(2 * scale / np.tan(np.pi * target / 2), rel=0.05)


def test_adaptation_traces_once_whatever_the_numbers(getkey):
    adapt(getkey, num_steps=5)
    before = len(TRACES)
    for options in ({"num_steps": 7}, {"target": 0.3}, {"initial": 2.0}, {"scale": 3.0}):
        adapt(getkey, **{"num_steps": 5, **options})
    assert len(TRACES) == before


def test_adaptation_takes_a_nan_acceptance_for_a_rejection(getkey):
    class Stuck(NamedTuple):
        acceptance: jax.Array

    def stuck(step_size):
        return base.Kernel(
            init=None, update=lambda key, state, batch: (state, Stuck(jnp.array(jnp.nan)))
        )

    state = State(jnp.zeros(2), jnp.zeros((), jnp.int32))
    h = step_sizes.adapt(getkey(), stuck, state, batches.none, num_steps=100)
    assert 0 < float(h) < 1e-3


def test_the_step_of_mirrored_langevin_dynamics_has_the_least_bound():
    given = {"distance": 2.1, "lipschitz": 15.0, "dimension": 3}

    def bound(h, steps, variance):
        return 2.1**2 / (2 * h * steps) + h * (15.0 * 3 + variance)

    for steps, variance in ((50, 0.0), (1000, 0.0), (1000, 250.0)):
        h = float(step_rules.for_mirror_langevin(steps, variance=variance, **given))
        least = 2.1 * np.sqrt(2 * (15.0 * 3 + variance) / steps)
        assert bound(h, steps, variance) == pytest.approx(least, rel=1e-5)
        assert least < min(bound(c * h, steps, variance) for c in (0.8, 1.2))
    assert float(step_rules.for_mirror_langevin(1, **given)) == pytest.approx(1 / 15)
    large = float(step_rules.for_mirror_langevin(10**10, **given))  # beyond int32
    assert large == pytest.approx(2.1 / np.sqrt(2e10 * 45), rel=1e-5)
    for name in given:
        with pytest.raises(ValueError, match=name):
            step_rules.for_mirror_langevin(10, **given | {name: 0})
    with pytest.raises(ValueError, match="variance"):
        step_rules.for_mirror_langevin(10, variance=-1.0, **given)


def test_half_the_sum_of_concentrations_bounds_the_dual_curvature(getkey):
    """Hsieh et al. (2018), examples 1 and 2, have the whole sum: W is A log(1 + sum e^y) - a y."""
    curvature = jax.hessian(lambda y: jnp.log1p(jnp.exp(y).sum()))
    points = 5 * jax.random.normal(getkey(), (200, 3))
    largest = jnp.linalg.eigvalsh(jax.vmap(curvature)(points)).max()
    assert 0.3 < float(largest) < 0.5 + 1e-6
    two_alike = jnp.linalg.eigvalsh(curvature(jnp.array([20.0, 20.0, -20.0])))
    assert float(two_alike.max()) == pytest.approx(0.5, abs=1e-6)


def test_bad_input_is_named(getkey):
    rule = step_sizes.for_inflation
    for value in (0.0, -1.0, np.nan, np.inf):
        for name in ("shape", "inflation", "largest"):
            values = {"shape": 1.0, "variance": 1.0, "inflation": 0.1, "largest": 1.0, name: value}
            with pytest.raises(ValueError, match=name):
                rule(values.pop("shape"), values.pop("variance"), **values)
        with pytest.raises(ValueError, match="fraction"):
            step_rules.for_gradient_noise(1.0, value)
        with pytest.raises(ValueError, match="preconditioner"):
            step_rules.for_gradient_noise(1.0, preconditioner=value)
        for name in ("target", "initial"):
            with pytest.raises(ValueError, match=name):
                adapt(getkey, **{name: value})
    for wrong in (rule, lambda shape, value: step_rules.for_gradient_noise(value)):
        for value in (-1.0, np.nan, np.inf):
            with pytest.raises(ValueError, match="variance"):
                wrong(1.0, value)
            assert np.isnan(jax.jit(wrong)(1.0, value))
    assert np.isnan(jax.jit(rule)(-1.0, 1.0))
    with pytest.raises(ValueError, match="an exact gradient"):
        step_rules.for_gradient_noise(np.zeros(3))
    with pytest.raises(ValueError, match=r"^variance .*'a'"):
        rule({"a": 1.0, "b": 2.0}, {"a": 1.0})
    with pytest.raises(ValueError, match="below 1"):
        adapt(getkey, target=1.0)
    with pytest.raises(ValueError, match="num_steps"):
        adapt(getkey, num_steps=0)
    with pytest.raises(ValueError, match="NaN"):
        adapt(getkey, start=np.nan, num_steps=5)
    state = State(jnp.zeros(2), jnp.zeros((), jnp.int32))
    silent = base.Kernel(init=None, update=lambda key, state, batch: (state, ()))
    with pytest.raises(ValueError, match="acceptance"):
        step_sizes.adapt(getkey(), lambda h: silent, state, batches.full(jnp.zeros(1)))


def test_a_list_of_numbers_is_one_array():
    """Its entries were leaves, each of which met all entries of the other argument."""
    shape, variance = [800.1, 0.1], [1600.0, 0.1]
    h = float(step_sizes.for_inflation(shape, np.array(variance)))
    assert h == float(step_sizes.for_inflation(np.array(shape), variance))
    assert h == float(step_sizes.for_inflation(np.array(shape), np.array(variance)))
    scale = np.array([1.0, 0.01])
    assert float(
        step_rules.for_gradient_noise([4.0, 200.0], preconditioner=scale)
    ) == pytest.approx(0.05)


def test_shapes_that_do_not_fit_are_told():
    with pytest.raises(ValueError, match=r"shape \(3,\), variance \(4,\) do not broadcast"):
        step_sizes.for_inflation(np.ones(3), np.ones(4))
    with pytest.raises(ValueError, match=r"variance \(3,\), preconditioner \(4,\)"):
        step_rules.for_gradient_noise(np.ones(3), preconditioner=np.ones(4))

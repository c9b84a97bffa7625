"""`draws.cir` against the exact transition law, over its whole range of parameters.

One family of checks: 200 settings, each with 1e5 draws (1e6 in the slow test), each checked by
DKWM in log space, z of the mean and of the variance of the normal scores, 200-bin chi-square, and
z of mean and variance of log theta' and of theta' against their exact moments wherever the kurtosis
is moderate. Holm's procedure holds the false-alarm rate of the whole family at 1e-3. The float32
arguments are exact by definition: the reference takes those very values in float64. A draw may be
off by one unit in the last place of log theta' (of 1 if that is larger), which is forgiven.
"""

import functools
import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import reference_laws as laws
from support import statistics_checks as checks

from simplex_jax._src import draws

Draw = Callable[..., jax.Array]


class Setting(NamedTuple):
    log_theta: float
    shape_parameter: float
    step_size: float


def as_dtype(setting: Setting, dtype: type) -> Setting:
    return Setting(*(float(dtype(value)) for value in setting))


def designed_settings() -> list[Setting]:
    steps = (1e-6, 1e-4, 1e-2, 0.3, 1.0, 7.0, 50.0)
    result = []
    # Degrees of freedom 2a by noncentralities 2r, the step varying along the diagonals.
    degrees = (2e-4, 2e-2, 0.2, 2.0, 20.0, 200.0, 2e3)
    noncentralities = (1e-3, 0.1, 10.0, 1e3, 1e5, 1e7, 1e9)
    for (i, df), (j, nc) in itertools.product(enumerate(degrees), enumerate(noncentralities)):
        h = steps[(i + j) % len(steps)]
        result.append(Setting(float(np.log(nc / 2) + np.log(np.expm1(h))), df / 2, h))
    # A third of the product of the extremes and of what lies between.
    shapes = (1e-6, 1e-4, 1e-2, 0.3, 1.0, 3.7, 100.0, 1e4, 1e6, 1e8)
    times = (1e-6, 1e-3, 0.1, 1.0, 10.0, 50.0)
    starts = (-np.inf, -1e4, -100.0, -10.0, -1.0, 3.0, 20.0)
    levels = itertools.product(enumerate(starts), enumerate(shapes), enumerate(times))
    result += [Setting(x, a, h) for (i, x), (j, a), (k, h) in levels if (i + j + k) % 3 == 0]
    # Starts in the stationary law, where a fitted model lives, and rates around ten.
    result += [Setting(float(np.log(a)), a, h) for a in (0.02, 0.6, 30.0) for h in (0.01, 0.5)]
    result += [
        Setting(float(np.log(r)), 0.02, float(np.log(2))) for r in (6.0, 7.5, 8.5, 11.0, 40.0)
    ]
    return [as_dtype(s, np.float32) for s in result]


SETTINGS = designed_settings()


@functools.lru_cache(maxsize=512)
def transition_law(setting: Setting) -> tuple[checks.Law, laws.Moments, laws.Moments]:
    """The law of log theta', and the moments of log theta' and of theta'."""
    rate, log_s = laws.cir_rate(setting.log_theta, setting.step_size)
    a = setting.shape_parameter
    logs, linear, s = laws.cir_log_moments(a, rate), laws.cir_moments(a, rate), np.exp(log_s)
    return (
        laws.cir_law(a, rate).shifted(log_s),
        logs._replace(mean=logs.mean + log_s),
        laws.Moments(s * linear.mean, s**2 * linear.variance, s**4 * linear.fourth),
    )


def check_setting(x: np.ndarray, setting: Setting, dtype: type) -> dict[str, float]:
    law, logs, linear = transition_law(setting)
    p_values = checks.check_law(x, law, dtype=dtype)
    if not np.isfinite(x).all():
        return p_values | {"finite": 0.0}
    off = float(np.mean(checks.float_resolution(x, dtype)))
    if logs.kurtosis < 30:
        p_values["log mean"] = checks.mean_z(x, logs.mean, logs.variance, resolution=off)
        p_values["log variance"] = checks.variance_z(x, *logs, resolution=off)
    if linear.kurtosis < 30:
        theta = np.exp(x)
        off *= linear.mean
        p_values["theta mean"] = checks.mean_z(theta, *linear[:2], resolution=off)
        p_values["theta variance"] = checks.variance_z(theta, *linear, resolution=off)
    return p_values


def rejections(
    draw: Draw, key: jax.Array, settings: list[Setting], size: int, dtype: type = np.float32
) -> dict[object, float]:
    """Draw `size` values at each setting, in groups of one compiled shape, and test the family.

    The level is that of the family of all SETTINGS, so a part of them is tested as in the whole.
    """
    p_values: dict[object, float] = {}
    group = max(1, 2_500_000 // size)
    for first in range(0, len(settings), group):
        part = settings[first : first + group]
        padded = part + [part[-1]] * (group - len(part))
        columns = [jnp.asarray(np.array(c, dtype)[:, None]) for c in zip(*padded, strict=True)]
        x = np.asarray(draw(jax.random.fold_in(key, first), *columns, shape=(group, size)))
        assert x.dtype == dtype
        for setting, row in zip(part, x.astype(np.float64), strict=False):
            p_values |= checks.prefixed(setting, check_setting(row, setting, dtype))
    return checks.family(p_values, level=1e-3 * len(settings) / len(SETTINGS))


def test_design() -> None:
    """The settings reach the corners that the docstring of `draws.cir` promises."""
    assert len(SETTINGS) == 200
    x, a, h = (np.array(c) for c in zip(*SETTINGS, strict=True))
    assert np.isneginf(x).any()
    assert x[np.isfinite(x)].min() == -1e4
    assert x.max() > 19
    np.testing.assert_allclose([a.min(), a.max(), h.min(), h.max()], [1e-6, 1e8, 1e-6, 50.0])


def test_transition_law(getkey: Callable[[], jax.Array]) -> None:
    """Every third setting; false-alarm rate 3e-4."""
    assert rejections(draws.cir, getkey(), SETTINGS[::3], 100_000) == {}


def test_transition_law_in_mixed_blocks(getkey: Callable[[], jax.Array]) -> None:
    """Small shapes, nearly always and hardly ever empty, beside each other and beside larger ones.

    False-alarm rate 3e-4.
    """

    def mixed(key, log_theta, a, h, shape):
        return draws.cir(key, log_theta.T, a.T, h.T, shape[::-1]).T

    settings = [s for s in SETTINGS if s.shape_parameter <= 0.25][::2]
    settings += [s for s in SETTINGS if s.shape_parameter > 0.25][::6]
    empty = [np.exp(-laws.cir_rate(s.log_theta, s.step_size)[0]) for s in settings]
    assert len(settings) > 50
    assert min(empty) < 1e-3
    assert np.median(empty) > 0.9
    assert rejections(mixed, getkey(), settings, 40_000) == {}


@pytest.mark.slow
def test_transition_law_with_a_million_draws(getkey: Callable[[], jax.Array]) -> None:
    """False-alarm rate 1e-3."""
    assert rejections(draws.cir, getkey(), SETTINGS, 1_000_000) == {}


@pytest.mark.slow
def test_transition_law_in_double_precision(getkey: Callable[[], jax.Array]) -> None:
    """Every eighth setting at float64 values that float32 does not have; false-alarm rate 1e-3."""
    settings = [s._replace(shape_parameter=s.shape_parameter * 1.1) for s in SETTINGS[::8]]
    with jax.enable_x64(True):
        assert rejections(draws.cir, getkey(), settings, 100_000, np.float64) == {}


@pytest.mark.slow
def test_two_half_steps_equal_one_step(getkey: Callable[[], jax.Array]) -> None:
    """The semigroup property, which needs no reference but the law of one step."""

    def twice(key, log_theta, a, h, shape):
        first, second = jax.random.split(key)
        return draws.cir(second, draws.cir(first, log_theta, a, h / 2, shape), a, h / 2)

    # Rounding of the middle value is an error of its own: leave out steps where it would be seen.
    settings = [s for s in SETTINGS if s.step_size >= 0.3 and s.log_theta < 5][::4]
    assert rejections(twice, getkey(), settings, 100_000) == {}


# Planted mutants: each must be rejected by the very checks above.


def shape_too_large(key, log_theta, a, h, shape):
    return draws.cir(key, log_theta, 1.02 * a, h, shape)


def noncentrality_too_large(key, log_theta, a, h, shape):
    return draws.cir(key, log_theta + np.log(1.01), a, h, shape)


def noise_too_large(key, log_theta, a, h, shape):
    mean = jnp.exp(log_theta - h) - a * jnp.expm1(-h)
    theta = mean + 1.1 * (jnp.exp(draws.cir(key, log_theta, a, h, shape)) - mean)
    return jnp.log(jnp.maximum(theta, jnp.finfo(theta.dtype).tiny))


def without_decay(key, log_theta, a, h, shape):
    return draws.cir(key, log_theta + h, a, h, shape)


def with_jax_poisson(key, log_theta, a, h, shape):
    rate = jnp.exp(log_theta) / jnp.expm1(h)
    count_key, gamma_key = jax.random.split(key)
    count = jax.random.poisson(count_key, rate, shape).astype(rate.dtype)
    return jnp.log(-jnp.expm1(-h)) + draws.loggamma(gamma_key, a + count)


def absorbing_zero(key, log_theta, a, h, shape):
    return jnp.where(jnp.isneginf(log_theta), -jnp.inf, draws.cir(key, log_theta, a, h, shape))


def underflowing_theta(key, log_theta, a, h, shape):
    x = draws.cir(key, log_theta, a, h, shape)
    return jnp.where(x < jnp.log(jnp.finfo(x.dtype).tiny), -jnp.inf, x)


def offset(key, log_theta, a, h, shape):
    return draws.cir(key, log_theta, a, h, shape) + 1e-3


MUTANTS = (
    shape_too_large,
    noncentrality_too_large,
    noise_too_large,
    without_decay,
    absorbing_zero,
    underflowing_theta,
    offset,
)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.__name__)
def test_mutants_are_rejected(mutant: Draw, getkey: Callable[[], jax.Array]) -> None:
    """On every tenth setting only: what is rejected there is rejected in the whole family."""
    assert rejections(mutant, getkey(), SETTINGS[::10], 100_000) != {}


@pytest.mark.slow
def test_jax_poisson_is_rejected_at_large_rates(getkey: Callable[[], jax.Array]) -> None:
    large = [s for s in SETTINGS if 1e6 < laws.cir_rate(s.log_theta, s.step_size)[0] < 1e9]
    settings = [s for s in large if s.shape_parameter < 1e4][:6]
    assert rejections(draws.cir, getkey(), settings, 100_000) == {}
    result = rejections(with_jax_poisson, getkey(), settings, 100_000)
    assert len({setting for setting, _ in result}) >= 3


def test_rounding_of_short_steps_is_as_documented(getkey: Callable[[], jax.Array]) -> None:
    """A rounded result adds a twelfth of the squared spacing to a variance of 2 h / theta.

    Variances of so many draws are off by 1.5% less than once in 1e6 times.
    """
    theta = np.array([1e8, 1e8, 1e6, 1e8], np.float32)
    h = np.array([1.5e-3, 1e-4, 1e-6, 1e-6], np.float32)
    centre = np.log(theta)
    spacing = np.spacing(centre).astype(np.float64)
    # Starts as a chain has them, here and there between the floats around.
    start = (centre + np.arange(-250, 250)[:, None] * spacing).astype(np.float32)
    result = np.asarray(draws.cir(getkey(), np.tile(start, (500, 1)), theta, h), np.float64)
    start = np.exp(np.tile(start, (500, 1)).astype(np.float64))
    moved = np.exp(result) - (start * np.exp(-h) - theta * np.expm1(-h))
    excess = (moved**2 / (2 * start * h)).mean(axis=0) - 1
    documented = spacing**2 / 12 * theta / (2 * h)
    assert np.abs(excess - documented)[:3].max() < 0.015
    np.testing.assert_allclose(documented[:3], [0.01, 0.15, 0.04], rtol=0.06)
    assert documented[1:3].min() > 2 * 0.015  # so that a law that is not rounded would be seen
    assert (np.log(start[:, 3]).astype(np.float32) == result[:, 3].astype(np.float32)).all()

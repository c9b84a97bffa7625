r"""Distributions of processes with exact transitions: CIR, SCIR, Ornstein-Uhlenbeck and others.

Means, variances and moment generating functions at a given time; all arguments broadcast against
each other. The CIR process with a general rate b and volatility sigma,

.. math:: d\theta = (\sigma^2 / 2) (a - b \theta) dt + \sigma \sqrt{\theta} dW,

is 1 / b times the unit process of Baker et al. 2018 at the time sigma^2 b t / 2; the defaults b = 1
and sigma^2 = 2 are theirs. Arguments out of range raise a ValueError, and give NaN under `jit`.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from simplex_jax._src import arguments

_SIGMA = math.sqrt(2)


class Moments(NamedTuple):
    """Mean and variance, arrays of one shape."""

    mean: jax.Array
    variance: jax.Array


def cir(
    theta: ArrayLike,
    shape: ArrayLike,
    time: ArrayLike,
    *,
    rate: ArrayLike = 1.0,
    sigma: ArrayLike = _SIGMA,
) -> Moments:
    r"""Moments after a given time of the CIR process of Gamma(shape, rate), started at theta.

    In unit time s, with phi = b theta, the mean is :math:`\phi e^{-s} + a (1 - e^{-s})` and the
    variance :math:`2 \phi (e^{-s} - e^{-2s}) + a (1 - e^{-s})^2` (Baker et al. 2018, Corollary
    3.2).

    Args:
        theta: Start, at least 0.
        shape: Stationary shape a, positive.
        time: Time, positive.
        rate: Stationary rate b, positive.
        sigma: Volatility, positive.

    Example:
        >>> from baselines import transitions
        >>> print(*transitions.cir(5.0, 2.0, 100.0, rate=4.0))
        0.5 0.125
    """
    return scir(theta, *_one_step(shape, time), rate=rate, sigma=sigma)


def cir_log_mgf(
    s: ArrayLike,
    theta: ArrayLike,
    shape: ArrayLike,
    time: ArrayLike,
    *,
    rate: ArrayLike = 1.0,
    sigma: ArrayLike = _SIGMA,
) -> jax.Array:
    r"""Log of E[exp(s theta_t)] of the CIR process started at theta; arguments as in `cir`.

    In units of the rate, :math:`-a \log(1 - s (1 - e^{-t})) + \theta\, s e^{-t} / (1 - s (1 -
    e^{-t}))` (Baker et al. 2018, Theorem 3.1); infinite if :math:`s (1 - e^{-t}) \ge 1`.
    """
    return scir_log_mgf(s, theta, *_one_step(shape, time), rate=rate, sigma=sigma)


def scir(
    theta: ArrayLike,
    shapes: ArrayLike,
    step_sizes: ArrayLike,
    *,
    rate: ArrayLike = 1.0,
    sigma: ArrayLike = _SIGMA,
) -> Moments:
    r"""Moments of SCIR after M steps, given the shapes that its batches estimated.

    With the time :math:`T_m = h_{m+1} + \dots + h_M` left after step m and its weight
    :math:`w_m = e^{-T_m} (1 - e^{-h_m})`, in units of the rate,

    .. math::
        \mathrm{E}\,\theta_M = \theta_0 e^{-T_0} + \sum_m w_m \hat a_m, \qquad
        \mathrm{Var}\,\theta_M = 2 \theta_0 e^{-T_0} (1 - e^{-T_0})
            + \sum_m w_m \big(2 (1 - e^{-T_m}) + w_m\big)\, \hat a_m

    the first two cumulants of `scir_log_mgf`.

    Args:
        theta: Start, at least 0.
        shapes: Estimated shapes, positive, [M, ...]; the trailing axes broadcast against the rest.
        step_sizes: Steps h, positive: one for all, or [M, ...], likewise.
        rate: Rate, positive.
        sigma: Volatility, positive.
    """
    theta, shapes, rate, time, remaining, weights = _unit(theta, shapes, step_sizes, rate, sigma)
    decayed = theta * jnp.exp(-time)
    mean = decayed + (weights * shapes).sum(axis=0)
    spread = weights * (weights - 2 * jnp.expm1(-remaining)) * shapes
    variance = -2 * decayed * jnp.expm1(-time) + spread.sum(axis=0)
    return Moments(mean / rate, variance / rate**2)


def scir_log_mgf(
    s: ArrayLike,
    theta: ArrayLike,
    shapes: ArrayLike,
    step_sizes: ArrayLike,
    *,
    rate: ArrayLike = 1.0,
    sigma: ArrayLike = _SIGMA,
) -> jax.Array:
    r"""Log of E[exp(s theta_M)] of SCIR after M steps, given the shapes that its batches estimated.

    In units of the rate, with the time T_m left after step m,

    .. math::
        \frac{\theta_0\, s e^{-T_0}}{1 - s (1 - e^{-T_0})}
            - \sum_m \hat a_m \log \frac{1 - s (1 - e^{-T_{m-1}})}{1 - s (1 - e^{-T_m})}

    infinite if :math:`s (1 - e^{-T_0}) \ge 1`. Baker et al. 2018, Theorem 3.1, give it for equal
    steps and relative to the exact process, and pair :math:`\hat a_m` with the time since the
    start, m h, instead of the time left, (M - m) h; that is a different distribution unless the
    estimates are exchangeable.

    Args:
        s: Argument of the function, real.
        theta: Start, at least 0.
        shapes: Estimated shapes, positive, [M, ...]; the trailing axes broadcast against the rest.
        step_sizes: Steps h, positive: one for all, or [M, ...], likewise.
        rate: Rate, positive.
        sigma: Volatility, positive.

    Example: the mean is the derivative at 0.

        >>> import jax, jax.numpy as jnp
        >>> from baselines import transitions
        >>> shapes = jnp.array([1.0, 7.0])
        >>> mean = jax.grad(transitions.scir_log_mgf)(0.0, 2.0, shapes, 0.5)
        >>> print(mean.round(4), transitions.scir(2.0, shapes, 0.5).mean.round(4))
        3.7287 3.7287
    """
    theta, shapes, rate, time, remaining, weights = _unit(theta, shapes, step_sizes, rate, sigma)
    s = arguments.as_float("s", s)
    s = arguments.with_rank(s, remaining.ndim - 1) / rate
    each_s = arguments.with_rank(s, remaining.ndim)
    room = 1 + s * jnp.expm1(-time)
    finite = room > 0
    # Elsewhere take logarithms of 1, as a NaN would spoil other gradients.
    later = jnp.where(finite, 1 + each_s * jnp.expm1(-remaining), 1)
    factors = jnp.log1p(-jnp.where(finite, each_s * weights / later, 0))
    start = theta * s * jnp.exp(-time) / jnp.where(finite, room, 1)
    value = start - (shapes * factors).sum(axis=0)
    return jnp.where(finite, value, jnp.where(jnp.isnan(room), jnp.nan, jnp.inf))


def stationary_inflation(
    variance: ArrayLike, step_size: ArrayLike, *, rate: ArrayLike = 1.0, sigma: ArrayLike = _SIGMA
) -> jax.Array:
    r"""Variance that independent estimates of the shape add to a stationary SCIR.

    :math:`\mathrm{Var}[\hat a] \tanh(h / 2)` in units of the rate, the limit of Corollary 3.2 of
    Baker et al. 2018.

    Args:
        variance: Variance of the estimated shape over batches, at least 0.
        step_size: Step h, positive.
        rate: Rate, positive.
        sigma: Volatility, positive.
    """
    masked = arguments.all_masked(
        ("variance",), variance=variance, step_size=step_size, rate=rate, sigma=sigma
    )
    variance, h, rate, sigma = arguments.same_rank(*masked)
    return variance * jnp.tanh(sigma**2 * rate * h / 4) / rate**2


def scir_over_batches(
    theta: ArrayLike,
    shape: ArrayLike,
    step_size: ArrayLike,
    num_steps: ArrayLike,
    variance: ArrayLike,
    *,
    rate: ArrayLike = 1.0,
    sigma: ArrayLike = _SIGMA,
) -> Moments:
    r"""Moments of SCIR after M equal steps, over independent batches.

    The mean is that of the exact process; the variance is larger by :math:`(1 - e^{-2 M h}) \tanh(h
    / 2) \mathrm{Var}[\hat a]` in units of the rate (Baker et al. 2018, Corollary 3.2).

    Args:
        theta: Start, at least 0.
        shape: Mean of the estimated shapes, the exact shape, positive.
        step_size: Step h, positive.
        num_steps: Number of steps M, positive.
        variance: Variance of the estimated shape over batches, at least 0.
        rate: Rate, positive.
        sigma: Volatility, positive.
    """
    h, m = arguments.same_rank(*arguments.all_masked((), step_size=step_size, num_steps=num_steps))
    exact = cir(theta, shape, m * h, rate=rate, sigma=sigma)
    inflation = stationary_inflation(variance, h, rate=rate, sigma=sigma)
    sigma, rate, m, h = arguments.same_rank(jnp.asarray(sigma), jnp.asarray(rate), m, h)
    elapsed = jnp.square(sigma) * rate * m * h
    parts = arguments.same_rank(exact.variance, jnp.expm1(-elapsed), inflation)
    return exact._replace(variance=parts[0] - parts[1] * parts[2])


def ornstein_uhlenbeck(
    log_theta: ArrayLike,
    mean: ArrayLike,
    precision: ArrayLike,
    time: ArrayLike,
    *,
    sigma: ArrayLike = _SIGMA,
    variance: ArrayLike = 0.0,
    step_size: ArrayLike | None = None,
) -> Moments:
    r"""Moments after a given time of log theta under `samplers.gbm`.

    With :math:`s = \sigma^2 p t / 2`, log theta is normal with mean :math:`m + e^{-s} (\log\theta_0
    - m)` and variance :math:`(1 - e^{-2s}) / p`. If m is estimated from independent batches, in
    steps of length h, the variance over batches is larger by :math:`(1 - e^{-2s}) \tanh(\sigma^2 p
    h / 4) \mathrm{Var}[\hat m]`.

    Args:
        log_theta: Start, finite.
        mean: Stationary mean m, finite.
        precision: Stationary precision p, positive.
        time: Time, positive: the number of steps times h.
        sigma: Volatility, positive.
        variance: Variance of the estimated mean over batches, at least 0.
        step_size: Step h, positive; by default a single step.

    Example:
        >>> from baselines import transitions
        >>> print(*transitions.ornstein_uhlenbeck(3.0, -1.0, 4.0, 100.0))
        -1.0 0.25
    """
    h = time if step_size is None else step_size
    precision, time, sigma, variance, h = arguments.all_masked(
        ("variance",), precision=precision, time=time, sigma=sigma, variance=variance, step_size=h
    )
    log_theta, mean = arguments.promote(log_theta=log_theta, mean=mean)
    shape = arguments.common_shape(
        None,
        log_theta=log_theta,
        mean=mean,
        precision=precision,
        time=time,
        sigma=sigma,
        variance=variance,
        step_size=h,
    )
    given = precision, time, sigma, variance, h, log_theta, mean
    precision, time, sigma, variance, h, log_theta, mean = arguments.same_rank(*given)
    speed = sigma**2 * precision / 2
    inflated = 1 / precision + jnp.tanh(speed * h / 2) * variance
    return Moments(
        jnp.broadcast_to(mean + jnp.exp(-speed * time) * (log_theta - mean), shape),
        jnp.broadcast_to(-jnp.expm1(-2 * speed * time) * inflated, shape),
    )


def geometric_brownian(
    theta: ArrayLike, drift: ArrayLike, time: ArrayLike, *, sigma: ArrayLike = _SIGMA
) -> Moments:
    r"""Moments of log theta, a normal, under :math:`d\theta = \mu \theta dt + \sigma \theta dW`.

    The mean is :math:`\log\theta_0 + (\mu - \sigma^2 / 2) t` and the variance sigma^2 t, which is
    unbounded.

    Args:
        theta: Start, positive.
        drift: mu, finite.
        time: Time, positive.
        sigma: Volatility, positive.
    """
    theta, time, sigma = arguments.all_masked((), theta=theta, time=time, sigma=sigma)
    drift = arguments.as_float("drift", drift)
    arguments.common_shape(None, theta=theta, drift=drift, time=time, sigma=sigma)
    theta, drift, time, sigma = arguments.same_rank(theta, drift, time, sigma)
    mean = jnp.log(theta) + (drift - sigma**2 / 2) * time
    return Moments(mean, jnp.broadcast_to(sigma**2 * time, mean.shape))


def lognormal(log: Moments) -> Moments:
    """Moments of theta if log theta is normal with the given ones.

    Example:
        >>> import math
        >>> from baselines import transitions
        >>> print(*transitions.lognormal(transitions.Moments(0.0, 2 * math.log(2.0))))
        2.0 12.0
    """
    mean = jnp.exp(log.mean + log.variance / 2)
    return Moments(mean, jnp.expm1(log.variance) * mean**2)


def _one_step(shape: ArrayLike, time: ArrayLike) -> tuple[jax.Array, jax.Array]:
    return arguments.as_float("shape", shape)[None], arguments.as_float("time", time)[None]


def _unit(
    theta: ArrayLike, shapes: ArrayLike, step_sizes: ArrayLike, rate: ArrayLike, sigma: ArrayLike
) -> tuple[jax.Array, ...]:
    """Return theta b, shapes, b, T_0, T_m and w_m of the unit process."""
    theta, shapes, h, rate, sigma = arguments.all_masked(
        ("theta",), theta=theta, shapes=shapes, step_sizes=step_sizes, rate=rate, sigma=sigma
    )
    h = h if h.ndim else h[None]
    if shapes.ndim == 0 or h.shape[0] not in (1, shapes.shape[0]):
        raise ValueError(
            "shapes must be [M, ...] and step_sizes one number or [M, ...]; "
            f"their shapes are {shapes.shape} and {h.shape}"
        )
    rest = arguments.common_shape(
        None, theta=theta, shapes=shapes[0], step_sizes=h[0], rate=rate, sigma=sigma
    )
    shapes, h = (
        x.reshape(x.shape[0], *[1] * (len(rest) + 1 - x.ndim), *x.shape[1:]) for x in (shapes, h)
    )
    theta, rate, sigma = (arguments.with_rank(x, len(rest)) for x in (theta, rate, sigma))
    speed = arguments.with_rank(sigma**2 * rate / 2, len(rest) + 1)
    steps = jnp.broadcast_to(speed * h, (shapes.shape[0], *rest))
    remaining = jnp.cumsum(steps[::-1], axis=0)[::-1] - steps
    weights = -jnp.exp(-remaining) * jnp.expm1(-steps)
    return theta * rate, shapes, rate, remaining[0] + steps[0], remaining, weights

"""Mean-reverting geometric Brownian motion and its stochastic version, for lognormal posteriors."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src import arguments, schedules
from simplex_jax._src.base import Batch, Kernel, PyTree, freeze
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.samplers import expanded, positive
from simplex_jax._src.samplers.euler import State
from simplex_jax._src.samplers.positive import LogEvidence, init
from simplex_jax._src.schedules import StepSize

__all__ = ["Info", "LogEvidence", "State", "build", "init", "update"]


class Info(NamedTuple):
    """Diagnostics of one update, all scalars, means over coordinates.

    Attributes:
        step_size: The step size used.
        mean: Mean of log theta in the estimated distribution.
        precision: Its precision.
        relaxation: Length of the step in relaxation times, sigma^2 precision h / 2; the
            autocorrelation of log theta after one step is exp(-relaxation).
        clamped: Fraction of estimated precisions that were negative and set to 0.
    """

    step_size: jax.Array
    mean: jax.Array
    precision: jax.Array
    relaxation: jax.Array
    clamped: jax.Array


def update(
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    estimator: Estimator,
    mean: PyTree,
    precision: PyTree,
    sigma: PyTree,
    step_size: StepSize,
) -> tuple[State, Info]:
    """Estimate the evidence from the batch and move every log theta by its normal transition."""
    h = schedules.evaluate(step_size, state.step)

    def transition(
        key: jax.Array, log_theta: jax.Array, *inputs: jax.Array
    ) -> tuple[jax.Array, ...]:
        m, p, volatility, weighted, sharpness = inputs
        p_hat = jnp.broadcast_to(p + jnp.maximum(sharpness, 0), log_theta.shape)
        m_hat = (p * m + weighted) / p_hat
        time = volatility**2 * p_hat * h.astype(log_theta.dtype) / 2
        noise = jax.random.normal(key, log_theta.shape, log_theta.dtype)
        spread = jnp.sqrt(-jnp.expm1(-2 * time) / p_hat)
        end = log_theta - jnp.expm1(-time) * (m_hat - log_theta) + spread * noise
        return end, m_hat, p_hat, time

    parameters = {"mean": mean, "precision": precision, "sigma": sigma}
    state, (centre, sharpness, time), (_, precisions) = positive.move(
        key, state, batch, estimator, LogEvidence, parameters, transition
    )
    clamped = expanded.mean([value < 0 for value in precisions])
    return state, Info(h, centre, sharpness, time, clamped)


def build(
    estimator: Estimator,
    mean: PyTree,
    precision: PyTree,
    step_size: StepSize,
    *,
    sigma: PyTree = 2**0.5,
) -> Kernel:
    r"""Sample positive numbers with lognormal posteriors by exact transitions of a diffusion.

    The prior is :math:`\log\theta \sim N(m_0, 1/p_0)`, and the likelihood is that of
    `LogEvidence`, estimated from the batch: :math:`\hat p = p_0` + precision and
    :math:`\hat m = (p_0 m_0` + weighted) :math:`/ \hat p`. The process

    .. math::
        d\theta = \tfrac{\sigma^2}{2}\,\theta\,\big(1 + p\,(m - \log\theta)\big)\,dt
            + \sigma\,\theta\; dW

    leaves that lognormal distribution invariant: log theta is an Ornstein-Uhlenbeck process. In a
    time h, with :math:`s = \sigma^2 \hat p h / 2`, it moves exactly to

    .. math::
        \log\theta' = \hat m + e^{-s}\,(\log\theta - \hat m)
            + \sqrt{(1 - e^{-2 s}) / \hat p}\;\xi, \qquad \xi \sim N(0, 1)

    Baker et al. 2018, section 2.3, propose geometric Brownian motion, which has no stationary
    distribution: the variance of log theta grows without bound in :math:`d\theta = \mu\theta\,dt +
    \sigma\theta\,dW`. The process above adds mean reversion, and reduces to it as p -> 0 with p m
    fixed, :math:`\mu = \sigma^2 (1 + p m) / 2`.

    sigma only sets the time scale: with sigma^2 = 2 / p the step size is in relaxation times. With
    exact evidence any h leaves the posterior invariant. If m_hat is estimated but the precision is
    exact, the mean of log theta stays correct and its variance grows by Var[m_hat] tanh(s / 2). An
    estimated precision adds a bias of order h.

    Args:
        estimator: Estimates the full-data evidence, a `LogEvidence`; its
            position is log theta.
        mean: Prior means of log theta, finite: an array that broadcasts to the leaves of the
            position, or a tree of them with the structure of the position.
        precision: Prior precisions of log theta, finite and positive, likewise.
        step_size: h, positive, or a schedule of the number of updates.
        sigma: Volatility, finite and positive, likewise.

    Returns:
        A kernel over log theta. Its `init` takes theta, a tree of positive arrays.

    Raises:
        ValueError: `mean`, `precision`, `sigma` or `step_size` is out of range.

    Example: a scale measured three times with relative errors of about 0.5.

        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import estimators
        >>> from simplex_jax.samplers import gbm
        >>> def evidence_of(key, log_theta, x):
        ...     return gbm.LogEvidence(4 * jnp.log(x).sum(), jnp.asarray(4.0 * len(x)))
        >>> estimator = estimators.subsampled(evidence_of, size=3)
        >>> kernel = gbm.build(estimator, mean=0.0, precision=1.0, step_size=0.1)
        >>> state = kernel.init(jax.random.key(0), 1.0)
        >>> state, info = kernel.update(jax.random.key(1), state, jnp.array([2.0, 3.0, 1.5]))
        >>> print(f"{info.precision:.1f} {info.mean:.3f}")
        13.0 0.676
    """
    schedules.check(step_size)
    parameters = {
        "mean": arguments.tree("mean", mean, "finite"),
        "precision": arguments.tree("precision", precision),
        "sigma": arguments.tree("sigma", sigma),
    }
    return freeze(
        init,
        update,
        {"estimator": estimator},
        of_init={"parameters": parameters},
        **parameters,
        step_size=step_size,
    )

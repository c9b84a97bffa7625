"""The Cox-Ingersoll-Ross process on the positive numbers, and its stochastic version, SCIR."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src import arguments, draws, schedules
from simplex_jax._src.base import Batch, Kernel, PyTree, freeze
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.samplers import expanded, positive
from simplex_jax._src.samplers.euler import State
from simplex_jax._src.samplers.positive import Evidence, init
from simplex_jax._src.schedules import StepSize

__all__ = ["Evidence", "Info", "State", "build", "init", "update"]


class Info(NamedTuple):
    """Diagnostics of one update of CIR, all scalars, means over coordinates.

    Attributes:
        step_size: The step size used.
        shape: Shape of the estimated gamma distribution.
        rate: Its rate.
        relaxation: Length of the step in relaxation times, sigma^2 rate h / 2; the autocorrelation
            of theta after one step is exp(-relaxation).
        clamped: Fraction of estimated counts and exposures that were negative and set to 0.
    """

    step_size: jax.Array
    shape: jax.Array
    rate: jax.Array
    relaxation: jax.Array
    clamped: jax.Array


def update(
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    estimator: Estimator,
    shape: PyTree,
    rate: PyTree,
    sigma: PyTree,
    step_size: StepSize,
) -> tuple[State, Info]:
    """Estimate the evidence from the batch and move every coordinate by its CIR transition."""
    h = schedules.evaluate(step_size, state.step)

    def transition(
        key: jax.Array, log_theta: jax.Array, *inputs: jax.Array
    ) -> tuple[jax.Array, ...]:
        a, b, volatility, n_hat, exposure = inputs
        a_hat = jnp.broadcast_to(a + jnp.maximum(n_hat, 0), log_theta.shape)
        b_hat = jnp.broadcast_to(b + jnp.maximum(exposure, 0), log_theta.shape)
        # phi = b theta is the unit process d phi = (a - phi) ds + sqrt(2 phi) dW at this time s.
        time = volatility**2 * b_hat * h.astype(log_theta.dtype) / 2
        log_b = jnp.log(b_hat)
        end = draws.cir(key, log_theta + log_b, a_hat, time) - log_b
        return end, a_hat, b_hat, time

    parameters = {"shape": shape, "rate": rate, "sigma": sigma}
    state, (a_hat, b_hat, time), (counts, exposures) = positive.move(
        key, state, batch, estimator, Evidence, parameters, transition
    )
    clamped = expanded.mean([value < 0 for value in counts + exposures])
    return state, Info(h, a_hat, b_hat, time, clamped)


def build(
    estimator: Estimator,
    shape: PyTree,
    rate: PyTree,
    step_size: StepSize,
    *,
    sigma: PyTree = 2**0.5,
) -> Kernel:
    r"""Sample positive numbers with gamma posteriors by exact transitions of CIR processes.

    Each theta has the prior Gamma(shape, rate) and the likelihood of `Evidence`,
    estimated from the batch: :math:`\hat a` = shape + counts and :math:`\hat b` = rate + exposure.
    The process

    .. math::
        d\theta = \tfrac{\sigma^2}{2}\,(a - b\,\theta)\,dt + \sigma \sqrt{\theta}\; dW

    leaves Gamma(a, b) invariant, and with :math:`s = \sigma^2 \hat b h / 2` moves theta in a time h
    to

    .. math::
        \theta' \mid \theta \sim \frac{1 - e^{-s}}{2 \hat b}\,
            \chi^2\Big(2 \hat a,\; 2 \hat b\,\theta \frac{e^{-s}}{1 - e^{-s}}\Big)

    (Baker et al. 2018, equations 2.1 to 2.3, at b = 1 and sigma^2 = 2; the general process of Cox,
    Ingersoll and Ross 1985, with speed kappa and mean mu, is kappa = sigma^2 b / 2, mu = a / b).
    sigma only sets the time scale: with sigma^2 = 2 / b the step size is in relaxation times.

    There is no discretisation error: with exact evidence any h leaves the posterior invariant. If
    only the counts are estimated, the mean stays correct and the variance grows by Var[a_hat]
    tanh(s / 2) / b^2 (Corollary 3.2). If the exposure is estimated too, the
    mean has a bias of order h, because the drift is linear in both estimates but the transition is
    not.

    Args:
        estimator: Estimates the full-data evidence, an `Evidence`; its position
            is log theta.
        shape: Prior shapes, finite and positive: an array that broadcasts to the leaves of the
            position, or a tree of them with the structure of the position.
        rate: Prior rates, of the same form as the shapes.
        step_size: h, positive, or a schedule of the number of updates.
        sigma: Volatility, of the same form as the shapes.

    Returns:
        A kernel over log theta. Its `init` takes theta, a tree of positive arrays.

    Raises:
        ValueError: `shape`, `rate`, `sigma` or `step_size` is out of range.

    Example: the rate of a counter that saw 3, 5 and 1 events in three successive hours.

        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import estimators
        >>> from simplex_jax.samplers import cir
        >>> def evidence_of(key, log_theta, events):
        ...     return cir.Evidence(events.sum(), jnp.asarray(len(events), float))
        >>> estimator = estimators.subsampled(evidence_of, size=3)
        >>> kernel = cir.build(estimator, shape=0.5, rate=1.0, step_size=0.1)
        >>> state = kernel.init(jax.random.key(0), 1.0)
        >>> state, info = kernel.update(jax.random.key(1), state, jnp.array([3, 5, 1]))
        >>> float(info.shape), float(info.rate)
        (9.5, 4.0)
    """
    schedules.check(step_size)
    parameters = {
        "shape": arguments.tree("shape", shape),
        "rate": arguments.tree("rate", rate),
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

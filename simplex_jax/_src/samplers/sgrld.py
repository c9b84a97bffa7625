"""SGRLD, stochastic gradient Riemannian Langevin dynamics (Patterson and Teh 2013)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src import schedules
from simplex_jax._src.base import Batch, Kernel, PyTree
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.samplers import expanded
from simplex_jax._src.samplers.expanded import State, init
from simplex_jax._src.schedules import StepSize

__all__ = ["Info", "State", "build", "init", "update"]


class Info(NamedTuple):
    """Diagnostics of one update of SGRLD, all scalars.

    Attributes:
        step_size: The step size used.
        total: Sum of theta of a row, mean over rows; its stationary mean is the sum of alpha.
        reflected: Fraction of coordinates that were reflected at 0, where the bias comes from.
        smallest: Smallest log-probability.
    """

    step_size: jax.Array
    total: jax.Array
    reflected: jax.Array
    smallest: jax.Array


def update(
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    estimator: Estimator,
    alpha: PyTree,
    step_size: StepSize,
) -> tuple[State, Info]:
    """Estimate the counts from the batch and take one reflected Euler step."""
    h = schedules.evaluate(step_size, state.step)
    state, log_thetas, reflected = expanded.reflected(
        key,
        state,
        batch,
        h,
        expanded.natural_drift,
        estimator=estimator,
        alpha=alpha,
        counts_in_total=False,
    )
    total = expanded.mean([jnp.exp(expanded.log_sum(leaf)) for leaf in log_thetas])
    return state, Info(h, total, reflected, expanded.smallest(state.position))


def build(
    estimator: Estimator, alpha: PyTree, step_size: StepSize, *, total: str = "carried"
) -> Kernel:
    r"""SGRLD: expanded-mean Riemannian Langevin dynamics of a Dirichlet posterior.

    For every coordinate j, with counts :math:`\hat n` estimated from the batch, their sum
    :math:`\hat n_\cdot`, and omega = theta / sum(theta),

    .. math::
        \theta_j' = \Big| \theta_j + h\,(\alpha_j - \theta_j + \hat n_j - \omega_j \hat n_\cdot)
            + \sqrt{2 h \theta_j}\; \xi_j \Big|, \qquad \xi_j \sim N(0, 1)

    (Patterson and Teh 2013, equation 10, whose step is epsilon = 2 h: drift epsilon / 2, noise
    variance epsilon theta. The constants published with their code, and those of Baker et al. 2018,
    equation 1.2, are values of our h). As h -> 0 the stationary distribution is the posterior of
    theta under independent Gamma(alpha_j, 1) priors: omega ~ Dirichlet(alpha + n), and the total ~
    Gamma(sum alpha, 1). At h > 0 the step and its reflection are biased, badly so where alpha_j +
    n_j < 1; `samplers.scir` has no such error. Stability needs h well below sum(theta) / n.

    A value that is exactly 0 after the step is set to the smallest normal number of its dtype.

    Args:
        estimator: Estimates the full-data counts, see `simplex_jax.estimators`.
        alpha: Prior concentrations, finite and positive: an array that broadcasts to the leaves of
            the position, or a tree of them with the structure of the position.
        step_size: h, positive and below 2, where the step starts to diverge; or a schedule of the
            number of updates.
        total: The sum of theta: "carried" from update to update, as in the paper, or "refreshed",
            drawn from Gamma(sum alpha, 1) before every step, which removes the bias that a carried
            total has with latent assignments.

    Returns:
        A kernel over log-probabilities.

    Raises:
        ValueError: `alpha`, `step_size` or `total` is out of range.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import estimators
        >>> from simplex_jax.samplers import sgrld
        >>> kernel = sgrld.build(estimators.categorical(size=4), alpha=0.1, step_size=0.01)
        >>> state = kernel.init(jax.random.key(0), jnp.full(3, 1 / 3))
        >>> state, info = kernel.update(jax.random.key(1), state, jnp.array([0, 0, 0, 1]))
        >>> print(jnp.exp(state.position).sum().round(5))
        1.0
    """
    return expanded.kernel(update, estimator, alpha, step_size, total=total, below=2.0)

"""Reflected Euler steps of SCIR's process, to separate the effects of exactness and scale."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src import schedules
from simplex_jax._src.base import Batch, Kernel, PyTree
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.samplers import expanded
from simplex_jax._src.samplers.expanded import Leaf, State, init
from simplex_jax._src.schedules import StepSize

__all__ = ["Info", "State", "build", "init", "update"]


class Info(NamedTuple):
    """Diagnostics of one update of reflected CIR, all scalars."""

    step_size: jax.Array  # the step size used
    # Fraction of coordinates that were reflected at 0, where the bias comes from
    reflected: jax.Array
    smallest: jax.Array  # smallest log-probability


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
    state, _, reflected = expanded.reflected(
        key, state, batch, h, _drift, estimator=estimator, alpha=alpha, counts_in_total=True
    )
    return state, Info(h, reflected, expanded.smallest(state.position))


def _drift(leaf: Leaf) -> jax.Array:
    return leaf.prior + jnp.maximum(leaf.counts, 0) - jnp.exp(leaf.log_theta)


def build(
    estimator: Estimator, alpha: PyTree, step_size: StepSize, *, total: str = "carried"
) -> Kernel:
    r"""Reflected Euler steps of the CIR processes that `samplers.scir` moves exactly.

    For every coordinate j, with :math:`\hat a_j = \alpha_j + \hat n_j` estimated from the batch,

    .. math::
        \theta_j' = \Big| \theta_j + h\,(\hat a_j - \theta_j) + \sqrt{2 h \theta_j}\; \xi_j \Big|,
        \qquad \xi_j \sim N(0, 1)

    SCIR differs from SGRLD in two ways: it has no discretisation error, and its theta sums to about
    the number of data instead of sum(alpha), where an Euler step is stiff. This kernel has SCIR's
    scale and SGRLD's discretisation, to separate the two. It is a baseline; use `samplers.scir` to
    sample.

    Args:
        estimator: Estimates the full-data counts, see `simplex_jax.estimators`.
        alpha: Prior concentrations, finite and positive: an array that broadcasts to the leaves of
            the position, or a tree of them with the structure of the position.
        step_size: h, positive and below 2, where the step starts to diverge; or a schedule of the
            number of updates.
        total: "carried", or "refreshed" from Gamma(sum of prior and counts, 1) before every step.

    Returns:
        A kernel over log-probabilities.

    Raises:
        ValueError: `alpha`, `step_size` or `total` is out of range.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import estimators
        >>> from baselines import reflected_cir
        >>> kernel = reflected_cir.build(estimators.categorical(size=4), alpha=0.1, step_size=0.1)
        >>> state = kernel.init(jax.random.key(0), jnp.full(3, 1 / 3))
        >>> state, info = kernel.update(jax.random.key(1), state, jnp.array([0, 0, 0, 1]))
        >>> print(jnp.exp(state.position).sum().round(5))
        1.0
    """
    return expanded.kernel(update, estimator, alpha, step_size, total=total, below=2.0)

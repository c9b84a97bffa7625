"""Counts for the simplex kernels from log likelihoods that are not functions of counts."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from simplex_jax._src import arguments
from simplex_jax._src.base import Batch, Position, PyTree, bind
from simplex_jax._src.estimators import CountsOf, Estimator, subsampled
from simplex_jax._src.geometry import simplex
from simplex_jax._src.gradients.densities import LogLikelihood, gradient_of


def counts(log_likelihood: LogLikelihood, size: float, total: PyTree = None) -> Estimator:
    r"""Generalised counts of a log likelihood on the simplex, for the simplex kernels.

    A log likelihood L of log-probabilities acts on a kernel like the counts

    .. math::
        c_j = \omega_j \frac{\partial L}{\partial \omega_j}
            = \frac{\partial L}{\partial \log \omega_j},

    scaled by N/n for a batch of n. For multinomial data these are the counts, and for a mixture the
    expected counts. SGRLD, SMLD and RLD use only :math:`c_j - \omega_j c_\cdot`, so they accept
    counts of either sign. SCIR, SGRHMC and reflected CIR need nonnegative counts: give a `total`,
    see `with_total`.

    Args:
        log_likelihood: `(log_probabilities, batch) -> scalar`, summed over the batch. The
            log-probabilities are a tree with leaves [..., K], differentiated without the
            constraint, so any function that equals L on the simplex will do.
        size: N. The length of the batch's leading axis is n.
        total: None, or s of `with_total`.

    Raises:
        ValueError: `size` or `total` is not positive; when used, `log_likelihood` does not return
            a scalar.

    Example: seven of ten draws are category 0 or 1, which cannot be distinguished.

        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import gradients
        >>> def log_likelihood(log_omega, batch):
        ...     omega = jnp.exp(log_omega)
        ...     return jnp.where(batch == 0, jnp.log(omega[0] + omega[1]), log_omega[2]).sum()
        >>> estimator = gradients.counts(log_likelihood, size=10)
        >>> omega, batch = jnp.array([0.1, 0.3, 0.6]), jnp.array([0] * 7 + [1] * 3)
        >>> c, _ = estimator.estimate(jax.random.key(0), (), jnp.log(omega), batch)
        >>> print(c.round(2))
        [1.75 5.25 3.  ]
    """
    estimator = subsampled(counts_of(log_likelihood), size)
    return estimator if total is None else with_total(estimator, total)


def counts_of(log_likelihood: LogLikelihood) -> CountsOf:
    """Return `(key, log_probabilities, batch) -> counts`, the generalised counts of a batch.

    Pass it to `estimators.subsampled` or `estimators.control_variate`.

    Args:
        log_likelihood: `(log_probabilities, batch) -> scalar`, summed over the batch.
    """
    return bind(_counts_of, log_likelihood)


def _counts_of(
    log_likelihood: LogLikelihood, key: jax.Array, position: Position, batch: Batch
) -> Position:
    del key
    return gradient_of("log_likelihood", log_likelihood)(position, batch)


def with_total(estimator: Estimator, total: PyTree) -> Estimator:
    r"""Make the generalised counts sum to s in every row, which SCIR needs.

    SGRLD's drift depends only on :math:`c_j - \omega_j c_\cdot`, so the counts :math:`c_j' = c_j -
    \omega_j c_\cdot + s\, \omega_j` leave the distribution of omega unchanged, while SCIR's total
    becomes Gamma(sum(alpha) + s). Choose s large enough for :math:`c_j' \ge 0` everywhere, that is
    :math:`s \ge \sum_k \omega_k L_k - L_j` with :math:`L_j = \partial L / \partial \omega_j`: SCIR
    sets negative counts to 0, which is a bias (its `Info.clamped` shows how often). For a mixture
    of categories the number of data is enough; otherwise, use the largest difference between two of
    the L_j.

    SCIR holds the counts fixed during a step, and is exact if they do not depend on omega. If they
    do, it is a first-order method, with a bias of O(h) at step size h. A larger s slows mixing:
    omega moves at a rate proportional to h / (sum(alpha) + s).

    Args:
        estimator: An estimator of counts, leaves [..., K].
        total: s, positive: a number, or an array [..., 1] that broadcasts to the rows, or a tree
            of them with the structure of the position.

    Raises:
        ValueError: `total` is not positive; when used, it does not fit the position.

    Example: a likelihood that favours equal probabilities, whose counts are negative.

        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax._src import gradients
        >>> estimator = gradients.counts(
        ...     lambda log_omega, batch: -2 * (jnp.exp(log_omega) ** 2).sum(), size=1)
        >>> inputs = jax.random.key(0), (), jnp.log(jnp.array([0.2, 0.8])), jnp.zeros(1)
        >>> print(estimator.estimate(*inputs)[0].round(2))
        [-0.16 -2.56]
        >>> print(gradients.with_total(estimator, 4.0).estimate(*inputs)[0].round(2))
        [1.18 2.82]
    """
    totals = arguments.tree("total", total)
    for array in jax.tree.leaves(totals):
        if array.ndim and array.shape[-1] != 1:
            raise ValueError(f"total must be [..., 1], one for each row; it is {array.shape}")
    return Estimator(init=estimator.init, estimate=bind(_with_total, estimator.estimate, totals))


def _with_total(
    estimate: Callable[..., Any],
    total: PyTree,
    key: jax.Array,
    memory: PyTree,
    position: Position,
    batch: Batch,
) -> tuple[Position, PyTree]:
    counts, memory = estimate(key, memory, position, batch)
    leaves, structure = jax.tree.flatten(position)
    totals = simplex.like("total", total, position)
    leaves_with_total = [
        c + jnp.exp(log_omega) * (s - c.sum(axis=-1, keepdims=True))
        for c, log_omega, s in zip(
            simplex.counts_like(counts, position), leaves, totals, strict=True
        )
    ]
    return jax.tree.unflatten(structure, leaves_with_total), memory

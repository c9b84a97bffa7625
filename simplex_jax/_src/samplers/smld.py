"""SMLD, stochastic mirrored Langevin dynamics (Hsieh, Kavis, Rolland and Cevher 2018)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src import arguments, schedules
from simplex_jax._src.base import Batch, Kernel, Position, PyTree, freeze, static
from simplex_jax._src.draws.keys import to_jax_key
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.geometry import simplex
from simplex_jax._src.samplers import expanded
from simplex_jax._src.schedules import StepSize

__all__ = ["Info", "State", "build", "init", "update"]


class State(NamedTuple):
    """State of SMLD.

    Attributes:
        position: Log-probabilities, leaves [..., K], normalised along the last axis. They also
            represent the dual variable, which matters only up to a shift.
        step: Number of updates done, int32.
        memory: The memory of the estimator.
        dual: The dual variable of the linearised variant, leaves [..., K]; None otherwise.
    """

    position: Position
    step: jax.Array
    memory: PyTree
    dual: PyTree


class Info(NamedTuple):
    """Diagnostics of one update of SMLD, all scalars.

    Attributes:
        step_size: The step size used.
        stiffness: Largest h sum(a_hat) / 2 of a row, a bound on h times the curvature of the dual
            potential. The Euler step is unstable above 2 and accurate far below 1.
        smallest: Smallest log-probability.
    """

    step_size: jax.Array
    stiffness: jax.Array
    smallest: jax.Array


def init(
    key: jax.Array,
    position: Position,
    *,
    estimator: Estimator,
    alpha: PyTree | None = None,
    reference: int | None = None,
    linearised: bool = False,
) -> State:
    """Start from probability vectors, leaves [..., K]; positive weights are normalised.

    `alpha` is only checked against the position.

    Raises:
        ValueError: The position has an entry that is not finite and positive (the dual variable
            of a zero is infinite), `alpha` does not broadcast to it, or `reference` is not one of
            its categories.
    """
    reference = _checked_reference(reference, linearised)
    log_omega = simplex.interior(simplex.log_position(position))
    if alpha is not None:
        simplex.like("alpha", alpha, log_omega)
    for leaf in jax.tree.leaves(log_omega):
        if reference is not None and not -leaf.shape[-1] <= reference < leaf.shape[-1]:
            raise ValueError(f"reference {reference} is not one of {leaf.shape[-1]} categories")
    dual = None
    if linearised:
        # The inverse of omega_l / omega_reference = 1 + y_l.
        dual = jax.tree.map(
            lambda leaf: jnp.expm1(leaf - jnp.take(leaf, jnp.array([reference]), axis=-1)),
            log_omega,
        )
    return State(log_omega, jnp.zeros((), jnp.int32), estimator.init(key), dual)


def update(
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    estimator: Estimator,
    alpha: PyTree,
    step_size: StepSize,
    reference: int | None = None,
) -> tuple[State, Info]:
    """Estimate the counts from the batch and take one Euler step of the dual variable."""
    key_estimate, key_noise = jax.random.split(key)
    h = schedules.evaluate(step_size, state.step)
    estimate, memory = estimator.estimate(
        to_jax_key(key_estimate), state.memory, state.position, batch
    )

    leaves, structure = jax.tree.flatten(state.position)
    counts = simplex.counts_like(estimate, state.position)
    priors = simplex.like("alpha", alpha, state.position)
    duals = leaves if state.dual is None else jax.tree.leaves(state.dual)
    new_duals, totals = [], []
    for leaf, y, n_hat, prior, key_leaf in zip(
        leaves, duals, counts, priors, jax.random.split(key_noise, len(leaves)), strict=True
    ):
        a_hat = jnp.broadcast_to(prior + n_hat, leaf.shape)
        total = a_hat.sum(axis=-1, keepdims=True)
        step = h.astype(leaf.dtype)
        noise = jax.random.normal(key_leaf, leaf.shape, leaf.dtype)
        change = step * (a_hat - total * jnp.exp(leaf)) + jnp.sqrt(2 * step) * noise
        if reference is not None:
            change = change.at[..., reference].set(0)
        new_duals.append(y + change)
        totals.append(total.ravel())

    dual = None
    if state.dual is not None:
        dual = jax.tree.unflatten(structure, new_duals)
        # log max(0, 1 + y), with the smallest normal number instead of 0 to keep it finite
        new_duals = [jnp.log(jnp.maximum(1 + y, jnp.finfo(y.dtype).tiny)) for y in new_duals]
    position = jax.tree.unflatten(structure, [simplex.normalise(y) for y in new_duals])
    stiffness = h * jnp.concatenate(totals).max() / 2
    info = Info(h, stiffness, expanded.smallest(position))
    return State(position, state.step + 1, memory, dual), info


def _checked_reference(reference: int | None, linearised: bool) -> int | None:
    if linearised and reference is None:
        raise ValueError("linearised needs a reference category: give reference=")
    return None if reference is None else arguments.integer("reference", reference)


def build(
    estimator: Estimator,
    alpha: PyTree,
    step_size: StepSize,
    *,
    reference: int | None = None,
    linearised: bool = False,
) -> Kernel:
    r"""SMLD with the entropic mirror map: unconstrained Langevin dynamics of log omega.

    With counts :math:`\hat n` estimated from the batch, :math:`\hat a = \alpha + \hat n` and sum
    :math:`\hat a_\cdot`,

    .. math::
        y_j' = y_j + h\,(\hat a_j - \hat a_\cdot\, \omega_j) + \sqrt{2 h}\; \xi_j,
        \qquad \omega = \mathrm{softmax}(y), \qquad \xi_j \sim N(0, 1)

    The dual potential :math:`W(y) = -\sum_j a_j y_j + a_\cdot \log \sum_j e^{y_j}` is convex even
    for a sparse Dirichlet (Hsieh et al. 2018, equation 3.7), and Dirichlet(a) is stationary as h ->
    0.

    - By default all K coordinates move alike. W does not change along (1, ..., 1), so the noise in
      that direction does not reach omega.
    - With a `reference` category, its y stays 0 and the others are the paper's dual variable,
      log(omega_j / omega_reference). Choose a category with many counts: a sparse one makes all the
      others mix slowly.
    - `linearised=True` is the paper's "SMLD-approximate", for comparison: omega_j proportional to
      :math:`\max(0, 1 + y_j)` instead of :math:`e^{y_j}`, at least the smallest normal number. **It
      does not sample the posterior**: the mean is right, but the variance is off by a factor of
      order a_reference / a_j.

    Args:
        estimator: Estimates the full-data counts, see `simplex_jax.estimators`.
        alpha: Prior concentrations, finite and positive: an array that broadcasts to the leaves of
            the position, or a tree of them with the structure of the position.
        step_size: h, positive, or a schedule of the number of updates.
        reference: The reference category, None for the symmetric form.
        linearised: Use the linearised exponential; needs a `reference`.

    Returns:
        A kernel over log-probabilities.

    Raises:
        ValueError: `alpha` or `step_size` is out of range, `reference` is not an integer, or
            `linearised` lacks one.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import estimators
        >>> from simplex_jax.samplers import smld
        >>> kernel = smld.build(estimators.categorical(size=4), alpha=0.1, step_size=0.01)
        >>> state = kernel.init(jax.random.key(0), jnp.full(3, 1 / 3))
        >>> state, info = kernel.update(jax.random.key(1), state, jnp.array([0, 0, 0, 1]))
        >>> print(jnp.exp(state.position).sum().round(5), info.stiffness < 0.1)
        1.0 True
    """
    schedules.check(step_size)
    reference = _checked_reference(reference, linearised)
    return freeze(
        static(init, reference=reference, linearised=linearised),
        static(update, reference=reference),
        {"estimator": estimator, "alpha": arguments.tree("alpha", alpha)},
        step_size=step_size,
    )

"""Langevin and Riemannian Langevin dynamics on the simplex, in four coordinate systems."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from baselines import proposals
from baselines.parameterisations import EXPANDED_MEAN, Parameterisation
from simplex_jax._src import arguments, draws, gradients, schedules
from simplex_jax._src.base import Batch, Kernel, Position, PyTree, freeze, static
from simplex_jax._src.batches import length
from simplex_jax._src.draws.keys import to_jax_key
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.geometry import simplex
from simplex_jax._src.gradients import LogLikelihood, precise
from simplex_jax._src.samplers import expanded
from simplex_jax._src.samplers.expanded import State
from simplex_jax._src.schedules import StepSize

__all__ = ["Info", "State", "build", "init", "update"]


class Info(NamedTuple):
    """Diagnostics of one update of Langevin dynamics, all scalars."""

    step_size: jax.Array  # the step size used
    # Probability that a proposal is accepted, mean over rows; without the Metropolis correction,
    # the fraction of rows whose proposal stayed on the simplex.
    acceptance: jax.Array
    smallest: jax.Array  # smallest log-probability


def init(
    key: jax.Array,
    position: Position,
    *,
    estimator: Estimator,
    alpha: PyTree,
    parameterisation: Parameterisation,
) -> State:
    """Start from probability vectors, leaves [..., K]; positive weights are normalised.

    An expanded parameterisation draws the total of the weights from its stationary distribution.

    Raises:
        ValueError: The position has an entry that is not finite and positive, or `alpha` does not
            fit it.
    """
    key_memory, key_total = jax.random.split(key)
    log_omega = simplex.log_position(position)
    for leaf in jax.tree.leaves(log_omega):
        arguments.require("position", jnp.exp(leaf), leaf > -jnp.inf, "positive everywhere")
    priors = simplex.broadcast("alpha", alpha, log_omega)
    log_total = None
    if parameterisation.expanded:
        leaves, structure = jax.tree.flatten(log_omega)
        totals = [
            draws.loggamma(k, prior.sum(axis=-1, keepdims=True))
            for k, prior in zip(jax.random.split(key_total, len(leaves)), priors, strict=True)
        ]
        log_total = jax.tree.unflatten(structure, totals)
    return State(log_omega, jnp.zeros((), jnp.int32), estimator.init(key_memory), log_total)


def update(
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    estimator: Estimator,
    alpha: PyTree,
    step_size: StepSize,
    log_likelihood: LogLikelihood | None,
    parameterisation: Parameterisation,
    riemannian: bool,
    metropolis: int | None,
) -> tuple[State, Info]:
    """Estimate the counts from the batch, take one Euler step, and accept or reject it."""
    key_estimate, key_end, key_move, key_accept = jax.random.split(key, 4)
    if metropolis is not None and length(batch, "batch") != metropolis:
        raise ValueError(
            f"metropolis needs exact counts, so every batch must be all {metropolis} data; "
            f"this one has {length(batch)}: use batches.full, or metropolis=None"
        )
    h = schedules.evaluate(step_size, state.step)
    proposer = proposals.Proposer(parameterisation, riemannian)
    estimate, memory = estimator.estimate(
        to_jax_key(key_estimate), state.memory, state.position, batch
    )
    counts = simplex.counts_like(estimate, state.position)
    priors = simplex.broadcast("alpha", alpha, state.position)
    log_w = state.position
    if state.log_total is not None:
        log_w = jax.tree.map(jnp.add, log_w, state.log_total)
    leaves, structure = jax.tree.flatten(log_w)
    moves = [
        proposals.propose(key_leaf, leaf, prior, n_hat, h.astype(leaf.dtype), proposer)
        for key_leaf, leaf, prior, n_hat in zip(
            jax.random.split(key_move, len(leaves)), leaves, priors, counts, strict=True
        )
    ]
    end = jax.tree.unflatten(structure, [simplex.normalise(move.end) for move in moves])

    if metropolis is None:
        ratios = [jnp.where(move.outside, -jnp.inf, 0) for move in moves]
    else:
        estimate, _ = estimator.estimate(to_jax_key(key_end), memory, end, batch)
        counts_end = simplex.counts_like(estimate, state.position)
        ratios = [
            proposals.log_ratio(
                move, prior, n, m, h.astype(n.dtype), proposer, log_likelihood is None
            )
            for move, prior, n, m in zip(moves, priors, counts, counts_end, strict=True)
        ]
        if log_likelihood is None:
            # Counts that depend on the position need their likelihood: NaN, not a wrong chain.
            ratios = [
                jnp.where(_equal(n, m), ratio, jnp.nan)
                for ratio, n, m in zip(ratios, counts, counts_end, strict=True)
            ]
        else:
            of = precise("log_likelihood", log_likelihood)
            gain = of(end, batch) - of(state.position, batch)
            ratios = [gain + sum(ratio.sum() for ratio in ratios)]

    accepted = _accept(key_accept, ratios)
    if len(accepted) < len(leaves):  # one test for all leaves
        accepted = accepted * len(leaves)
    accept = jax.tree.unflatten(structure, accepted)
    position = jax.tree.map(_choose, accept, end, state.position)
    log_total = None
    if state.log_total is not None:
        sums = jax.tree.unflatten(structure, [expanded.log_sum(move.end) for move in moves])
        log_total = jax.tree.map(_choose, accept, sums, state.log_total)
    acceptance = expanded.mean([jnp.exp(jnp.minimum(ratio, 0)) for ratio in ratios])
    info = Info(h, acceptance, expanded.smallest(position))
    return State(position, state.step + 1, memory, log_total), info


def _accept(key: jax.Array, ratios: Sequence[jax.Array]) -> list[jax.Array]:
    """Return 1 with probability min(1, exp(ratio)), else 0, and NaN for NaN."""
    return [
        jnp.where(
            jnp.isnan(ratio),
            jnp.nan,
            (-jax.random.exponential(k, ratio.shape) <= ratio).astype(ratio.dtype),
        )
        for k, ratio in zip(jax.random.split(key, len(ratios)), ratios, strict=True)
    ]


def _choose(accept: jax.Array, end: jax.Array, start: jax.Array) -> jax.Array:
    accept = accept[..., None]
    return jnp.where(accept > 0, end, jnp.where(accept == 0, start, jnp.nan)).astype(start.dtype)


def _equal(counts: jax.Array, others: jax.Array) -> jax.Array:
    """Return the rows whose counts agree up to rounding.

    Counts of data do, and they determine their likelihood. Counts that change by less than the
    tolerance in a step change the log ratio by at most that much times the change of log omega.
    """
    return (jnp.abs(counts - others) <= 1e-4 * (1 + jnp.abs(counts))).all(axis=-1)


def build(
    estimator: Estimator,
    alpha: PyTree,
    step_size: StepSize,
    *,
    parameterisation: Parameterisation = EXPANDED_MEAN,
    riemannian: bool = True,
    metropolis: int | None = None,
    log_likelihood: LogLikelihood | None = None,
) -> Kernel:
    r"""Langevin and Riemannian Langevin dynamics on the simplex, Metropolis-corrected or not.

    In coordinates theta of the simplex, with a metric G and counts estimated from the batch,

    .. math::
        \theta' = \theta + h\,\Big( G^{-1} \nabla \log p(\theta \mid x)
            + \sum_k \partial_k (G^{-1})_{\cdot k} \Big) + \sqrt{2 h}\; G^{-1/2}\, \xi,
        \qquad \xi \sim N(0, I)

    (Patterson and Teh 2013, equations 2 to 4, whose step is epsilon = 2 h, and Table 1; for these
    metrics the sum above equals their two curvature terms.) See `geometry.parameterisations` for
    the coordinates and their metrics. `EXPANDED_MEAN` with its Fisher metric is the step of
    `samplers.sgrld`, the paper's choice: the others are unstable or mix slowly where probabilities
    are small. The natural ones with their Fisher metric and no correction diverge if a
    concentration is far below 1: at alpha = 0.001 log-probabilities reach -1e17.

    With `metropolis` the step is a proposal (with |theta| for the mirrored `EXPANDED_MEAN`)
    accepted with the probability that leaves the posterior exactly invariant. Rows are accepted
    independently, unless `log_likelihood` couples them. Without `metropolis` the bias is O(h), and
    in `REDUCED_MEAN` a row whose proposal leaves the simplex does not move. Exact is not fast: at
    alpha = 0.04, with two of four categories empty and equal initial probabilities, chains in the
    natural coordinates with their Euclidean metric had the exact marginals, in log space too, after
    40,000 steps of h = 0.5, but not after 6,000 of h = 0.2. Those of `EXPANDED_MEAN`, which
    accepted 0.9% of their steps, had them after neither.

    Args:
        estimator: Estimates the full-data counts, see `simplex_jax.estimators`; for other
            likelihoods `gradients.counts`.
        alpha: Prior concentrations, finite and positive: an array that broadcasts to the leaves of
            the position, or a tree of them with the structure of the position.
        step_size: h, positive, or a schedule of the number of updates; below 2 for the Fisher
            metric of `EXPANDED_MEAN` without correction, where the step otherwise diverges.
        parameterisation: One of `geometry.parameterisations`.
        riemannian: Use the Fisher metric; otherwise the Euclidean one of the coordinates.
        metropolis: None for no correction, or the number N of data. The correction needs exact
            counts: every batch must be all N data, which is checked, and the estimator must not be
            random.
        log_likelihood: `(log_probabilities, batch) -> scalar`, for a Metropolis correction if the
            counts are its derivatives (the function given to `gradients.counts`). Without it counts
            are assumed to be those of data, n_j in sum_j n_j log omega_j: the chain becomes NaN if
            they depend on the position.

    Returns:
        A kernel over log-probabilities.

    Raises:
        ValueError: An argument is out of range, or `log_likelihood` is given without `metropolis`
            or missing with it and `gradients.counts`; when used, a batch is not all the data.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import estimators
        >>> from baselines.parameterisations import REDUCED_NATURAL
        >>> from baselines import rld
        >>> kernel = rld.build(estimators.categorical(size=4), 0.1, 0.1, riemannian=False,
        ...                    parameterisation=REDUCED_NATURAL, metropolis=4)
        >>> state = kernel.init(jax.random.key(0), jnp.full(3, 1 / 3))
        >>> state, info = kernel.update(jax.random.key(1), state, jnp.array([0, 0, 0, 1]))
        >>> print(jnp.exp(state.position).sum().round(5), info.acceptance > 0.5)
        1.0 True
    """
    if metropolis is not None:
        metropolis = arguments.at_least("metropolis", metropolis, 1)
        if log_likelihood is None and _are_derivatives(estimator):
            # Equal counts at both ends would prove nothing: derivatives miss jumps.
            raise ValueError(
                "counts that are derivatives of a log likelihood need it for the Metropolis "
                "correction: give the function of gradients.counts as log_likelihood too"
            )
    elif log_likelihood is not None:
        raise ValueError("log_likelihood is for the Metropolis correction: give metropolis too")
    diverges = metropolis is None and riemannian and parameterisation is EXPANDED_MEAN
    schedules.check(step_size, below=2.0 if diverges else math.inf)
    options = {"riemannian": riemannian, "metropolis": metropolis}
    return freeze(
        static(init, parameterisation=parameterisation),
        static(update, parameterisation=parameterisation, **options),
        {"estimator": estimator, "alpha": arguments.tree("alpha", alpha)},
        step_size=step_size,
        log_likelihood=log_likelihood,
    )


def _are_derivatives(estimator: Estimator) -> bool:
    """Return whether counts are derivatives of a log likelihood, as from `gradients.counts`.

    Derivatives miss the jumps of a log likelihood.
    """

    def are(node: PyTree) -> bool:
        return isinstance(node, Partial) and node.func is gradients._counts_of

    return any(map(are, jax.tree.leaves(estimator.estimate, is_leaf=are)))

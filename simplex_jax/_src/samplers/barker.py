"""The Barker proposal with a Metropolis correction (Livingstone and Zanella 2022)."""

import jax
import jax.numpy as jnp

from simplex_jax._src import arguments, schedules
from simplex_jax._src.base import Batch, Kernel, PyTree, freeze, static
from simplex_jax._src.gradients import LogDensity
from simplex_jax._src.samplers import metropolis, skewed
from simplex_jax._src.samplers.metropolis import Info, State, init
from simplex_jax._src.schedules import StepSize

__all__ = ["Info", "State", "build", "init", "update"]


def update(
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    log_density: LogDensity,
    step_size: StepSize,
    preconditioner: PyTree,
    needs_batch: bool = False,
) -> tuple[State, Info]:
    """Propose a step whose signs follow the gradient, and accept it or stay."""
    key_move, key_accept = jax.random.split(key)
    h = schedules.evaluate(step_size, state.step)
    value_and_slope = metropolis.value_and_slope_of(log_density, batch, needs_batch)
    x = state.position
    value, slope = value_and_slope(x)
    end = skewed.step(key_move, x, slope, h, preconditioner)
    value_end, slope_end = value_and_slope(end)

    def gain(x: jax.Array, y: jax.Array, g: jax.Array, g_end: jax.Array) -> jax.Array:
        # log of (1 + exp((x - y) g)) / (1 + exp((y - x) g')), the ratio of the sign probabilities
        return jnp.sum(jax.nn.softplus((x - y) * g) - jax.nn.softplus((y - x) * g_end))

    gains = jax.tree.map(gain, x, end, slope, slope_end)
    log_ratio = value_end - value + sum(jax.tree.leaves(gains))
    acceptance, choose = metropolis.decide(key_accept, log_ratio, value, h)
    info = Info(step_size=h, acceptance=acceptance, log_density=choose(value_end, value))
    return State(choose(end, x), state.step + 1), info


def build(
    log_density: LogDensity,
    step_size: StepSize,
    *,
    preconditioner: PyTree = 1.0,
    needs_batch: bool = False,
) -> Kernel:
    r"""Barker's proposal: steps whose signs follow the gradient, exact at every step size.

    Every coordinate moves by a normal increment z of variance 2 h M, whose sign is kept with a
    probability that depends on its gradient g,

    .. math::
        x' = x + b z, \qquad P(b = 1) = \frac{1}{1 + e^{-z g}}, \quad b = -1 \text{ otherwise},

    and the proposal is accepted with probability

    .. math::
        \min\Big( 1,\; \frac{\pi(x')}{\pi(x)} \prod_i
            \frac{1 + e^{(x_i - x'_i)\, g_i(x)}}{1 + e^{(x'_i - x_i)\, g_i(x')}} \Big)

    (Livingstone and Zanella 2022, *The Barker proposal: combining robustness and efficiency in
    gradient-based MCMC*, algorithm 2 with normal increments, whose sigma^2 is 2 h M). At small
    steps it is Langevin dynamics with step h. The gradient determines the direction but not the
    distance: with steps that are too long, or in the far tail, chains move slowly where Langevin
    proposals do not move at all. `samplers.sgbd` is the minibatch version, without the correction.

    Args:
        log_density: `(position) -> scalar`, which need not be normalised; -inf or NaN outside the
            support.
        step_size: h, positive, or a schedule of the number of updates. An acceptance of about 0.4
            to 0.6 is efficient.
        preconditioner: M, finite and positive: an array that broadcasts to the leaves of the
            position, or a tree of them with its structure. Variances from a rough fit work well.
        needs_batch: The log density is `(position, batch) -> scalar`; batches are the full data, or
            whatever else the density is conditional on.

    Returns:
        A kernel over trees of real arrays. All of them are accepted or rejected together: use
        `simplex_jax.chains` for many independent chains.

    Raises:
        ValueError: `step_size` or `preconditioner` is out of range.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches, chains, run
        >>> from simplex_jax.samplers import barker
        >>> one = barker.build(lambda x: -(((x - 3) / 2) ** 2).sum() / 2, step_size=3.0)
        >>> kernel = chains(one, 4000)
        >>> state = kernel.init(jax.random.key(0), jnp.zeros(1))
        >>> state, _ = run(jax.random.key(1), kernel, state, batches.none, 50)
        >>> print(state.position.mean().round(), state.position.std().round())
        3.0 2.0
    """
    schedules.check(step_size)
    scales = arguments.tree("preconditioner", preconditioner)
    options = {"needs_batch": needs_batch}
    return freeze(
        static(init, **options),
        static(update, **options),
        {"log_density": log_density},
        step_size=step_size,
        preconditioner=scales,
    )

"""Rules for step sizes: from an estimator's measured noise, or the acceptance rate."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from simplex_jax._src import arguments
from simplex_jax._src.base import Kernel, PyTree, State, as_pytree, current_step
from simplex_jax._src.batches import Stream

# Constants of Hoffman and Gelman 2014, section 3.2.
_GAMMA, _T0, _KAPPA = 0.05, 10.0, 0.75


def for_inflation(
    shape: PyTree, variance: PyTree, inflation: float = 0.1, *, largest: float = 10.0
) -> jax.Array:
    r"""Return the largest SCIR step that inflates no variance by more than a given fraction.

    Batches add :math:`\mathrm{Var}[\hat a_j] \tanh(h / 2)` to the variance :math:`a_j` of theta_j
    (Baker et al. 2018, Corollary 3.2, in the limit of many steps), so

    .. math:: h = \min_j\; 2\, \mathrm{artanh}(\text{inflation} \; a_j / \mathrm{Var}[\hat a_j])

    This is for independent batches: those of one epoch of `batches.shuffled` are negatively
    dependent and add less. For `samplers.cir` with another rate and volatility this is sigma^2 b h
    / 2.

    Args:
        shape: Means of the estimated shapes a_j, including the prior, positive: a tree of arrays.
        variance: Their variances over batches, at least 0: `gradients.variance` of the counts'
            estimator. A tree of the same structure.
        inflation: Largest relative increase of a variance, positive.
        largest: Upper limit of the step, for batches that never add that much, positive. At 10 the
            autocorrelation is 5e-5.

    Returns:
        The step, a scalar; NaN where values cannot be checked and are out of range.

    Raises:
        ValueError: An argument is out of range, or the trees differ in structure.

    Example: 1,000 data in batches of 10, with four fifths in one category.

        >>> from simplex_jax import step_sizes
        >>> print(step_sizes.for_inflation(800.1, 1000**2 * 0.8 * 0.2 / 10).round(4))
        0.01
    """
    fraction, limit = arguments.all_masked(inflation=inflation, largest=largest)
    bounds = []
    for a, v in zip(leaves("shape", shape), leaves_like("variance", variance, shape), strict=True):
        arguments.common_shape(None, shape=a, variance=v)
        a, v = arguments.same_rank(a, v)
        ratio = (
            fraction * arguments.masked("shape", a) / arguments.masked("variance", v, or_zero=True)
        )
        bound = 2 * jnp.arctanh(jnp.where(ratio < 1, ratio, 0))
        bounds.append(jnp.where(ratio >= 1, jnp.inf, jnp.where(ratio < 1, bound, jnp.nan)))
    return jnp.minimum(smallest(bounds), limit)


class Accepting(Protocol):
    """The Info of a kernel with a Metropolis correction."""

    @property
    def acceptance(self) -> jax.Array:
        """The probability that the proposal is accepted."""


class _Averages(NamedTuple):
    error: jax.Array  # H bar of the paper
    log_step: jax.Array
    log_average: jax.Array


def adapt(
    key: jax.Array,
    build: Callable[[jax.Array], Kernel],
    state: State,
    stream: Stream,
    *,
    target: float = 0.574,
    initial: float = 0.1,
    num_steps: int = 500,
) -> jax.Array:
    r"""Return a step size at which a Metropolis-corrected kernel has a target acceptance rate.

    Dual averaging (Hoffman and Gelman 2014, section 3.2.1): after the m-th update, which accepted
    with probability alpha_m,

    .. math::
        \bar H_m = \Big(1 - \frac{1}{m + t_0}\Big) \bar H_{m-1} + \frac{\delta - \alpha_m}{m + t_0},
        \qquad \log h_{m+1} = \log(10 h_1) - \frac{\sqrt m}{\gamma} \bar H_m,

    and the result is exp of the average of log h with weights m^-kappa, which forgets the start;
    gamma = 0.05, t_0 = 10, kappa = 0.75. The target is not invariant during adaptation: run a new
    chain with the result.

    Args:
        key: A PRNG key.
        build: `(step_size) -> kernel`, whose info has an `acceptance`, a probability. It is called
            with a traced step size. Acceptance is averaged over chains, and NaN counts as a
            rejection as long as the state stays finite. Bind arrays to it, as in the example: those
            in a closure are compiled into the program, and every new closure recompiles.
        state: Initial state, ideally near the mode.
        stream: Batches, as for the driver.
        target: Acceptance delta, between 0 and 1; 0.574 is best for Langevin proposals in many
            dimensions (Roberts and Rosenthal 1998).
        initial: First step h_1, positive.
        num_steps: Number of updates.

    Returns:
        The step, a scalar.

    Raises:
        ValueError: An argument is out of range, the kernel has no acceptance, or the chain
            became NaN.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches, bind, step_sizes
        >>> from simplex_jax.samplers import barker
        >>> def log_density(x, scales):
        ...     return -((x / scales) ** 2).sum() / 2
        >>> build = bind(barker.build, bind(log_density, scales=jnp.array([1.0, 2.0])))
        >>> state = build(0.1).init(jax.random.key(0), jnp.ones(2))
        >>> h = step_sizes.adapt(jax.random.key(1), build, state, batches.none)
        >>> bool(1.0 < h < 4.0)
        True
    """
    num_steps = arguments.at_least("num_steps", num_steps, 1)
    first, delta = arguments.all_masked(initial=initial, target=target)
    arguments.require("target", delta, delta < 1, "below 1")
    # Weak types would change the state's type in the loop.
    state = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.asarray(leaf).dtype), state)
    step, sound = _adapt(key, as_pytree(build), state, as_pytree(stream), delta, first, num_steps)
    if not isinstance(sound, jax.core.Tracer) and not sound:
        raise ValueError(
            "the chain became NaN: start with a smaller `initial` or a state nearer the mode"
        )
    return jnp.where(sound, step, jnp.nan)


@jax.jit
def _adapt(
    key: jax.Array,
    build: Callable[[jax.Array], Kernel],
    state: State,
    stream: Stream,
    target: jax.Array,
    initial: jax.Array,
    num_steps: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    key_update, key_stream = jax.random.split(key)
    centre = jnp.log(10 * initial)

    def body(i: jax.Array, carry: tuple[State, _Averages]) -> tuple[State, _Averages]:
        state, (error, log_step, log_average) = carry
        kernel = build(jnp.exp(log_step))
        batch = stream(key_stream, current_step(state))
        state, info = kernel.update(jax.random.fold_in(key_update, i), state, batch)
        accepted = jnp.mean(jnp.nan_to_num(_acceptance(info))).astype(log_step.dtype)

        m = (i + 1).astype(log_step.dtype)
        error = error + ((target - accepted) - error) / (m + _T0)
        log_step = centre - jnp.sqrt(m) / _GAMMA * error
        log_average = log_average + m**-_KAPPA * (log_step - log_average)
        return state, _Averages(error, log_step, log_average)

    start = _Averages(jnp.zeros_like(centre), jnp.log(initial), jnp.log(initial))
    state, averages = jax.lax.fori_loop(0, num_steps, body, (state, start))
    nans = [jnp.isnan(leaf).any() for leaf in jax.tree.leaves(state.position)]
    return jnp.exp(averages.log_average), ~jnp.stack(nans).any()


def _acceptance(info: Accepting) -> jax.Array:
    try:
        return info.acceptance
    except AttributeError:
        raise ValueError("build must return a kernel whose info has `acceptance`") from None


def leaves(name: str, tree: PyTree) -> list[jax.Array]:
    """Return the leaves as float arrays, at least one."""
    arrays = [arguments.as_float(name, leaf) for leaf in _flatten(tree)[0]]
    if not arrays:
        raise ValueError(f"{name} must have at least one leaf")
    return arrays


def leaves_like(name: str, tree: PyTree, model: PyTree) -> list[jax.Array]:
    """Return the leaves of a tree with the structure of `model`; a single array is repeated."""
    structure, own = _flatten(model)[1], _flatten(tree)[1]
    if jax.tree_util.treedef_is_leaf(own):
        return leaves(name, tree) * structure.num_leaves
    if own != structure:
        raise ValueError(
            f"{name} must be one array or have the structure {structure}; its structure is {own}"
        )
    return leaves(name, tree)


def _flatten(tree: PyTree) -> tuple[list[Any], Any]:
    """Return leaves and structure; a list of numbers is one array."""
    return jax.tree.flatten(tree, is_leaf=arguments.is_numbers)


def smallest(arrays: list[jax.Array]) -> jax.Array:
    """Return the smallest entry of all."""
    return jnp.concatenate([array.ravel() for array in arrays]).min()

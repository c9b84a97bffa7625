"""Estimators made from log densities by automatic differentiation: gradients, and counts from them.

Euclidean kernels (`samplers.sgld` and its relatives) take the gradient of the log posterior with
respect to their position, a tree of real arrays. Simplex kernels take counts, which can also be
computed from any log likelihood of log-probabilities: see `counts`.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from jax.tree_util import Partial

from simplex_jax._src import arguments
from simplex_jax._src.base import Batch, Position, PyTree, bind, static
from simplex_jax._src.batches import Visit, length, on_device
from simplex_jax._src.estimators import CountsOf, Estimator, no_memory, subsampled
from simplex_jax._src.geometry import simplex

# Gradients of a log posterior from batches, and exact gradients of a log density.

LogDensity: TypeAlias = Callable[..., jax.Array]
"""`(position) -> scalar`, or `(position, batch) -> scalar`; need not be normalised."""

LogLikelihood: TypeAlias = Callable[[Position, Batch], jax.Array]
"""`(position, batch) -> scalar`: the SUM over the data of the batch, not scaled."""


def posterior(log_prior: LogDensity, log_likelihood: LogLikelihood, size: float) -> Estimator:
    r"""Gradient of the log posterior from a batch of n of N data, unbiased.

    .. math::
        \nabla \log p(x) + \frac{N}{n} \sum_{i \in \text{batch}} \nabla \log p(d_i \mid x)

    (Welling and Teh 2011, equation 4.)

    Args:
        log_prior: `(position) -> scalar`.
        log_likelihood: `(position, batch) -> scalar`, summed over the batch.
        size: N. The length of the batch's leading axis is n.

    Raises:
        ValueError: `size` is not positive; when used, a function does not return a scalar.

    Example: the mean of unit normals under a standard normal prior.

        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import gradients
        >>> estimator = gradients.posterior(
        ...     lambda mu: -(mu**2) / 2, lambda mu, x: -((x - mu) ** 2).sum() / 2, size=100)
        >>> gradient, _ = estimator.estimate(
        ...     jax.random.key(0), (), jnp.array(1.0), jnp.array([2.0, 3.0]))
        >>> float(gradient)  # -1 + 100 / 2 (1 + 2)
        149.0
    """
    size = arguments.size(size)
    return Estimator(init=no_memory, estimate=bind(_posterior, log_prior, log_likelihood, size))


def _posterior(
    log_prior: LogDensity,
    log_likelihood: LogLikelihood,
    size: float,
    key: jax.Array,
    memory: PyTree,
    position: Position,
    batch: Batch,
) -> tuple[Position, PyTree]:
    scale = size / length(batch, "batch")
    prior = gradient_of("log_prior", log_prior)(position)
    likelihood = gradient_of("log_likelihood", log_likelihood)(position, batch)
    return jax.tree.map(lambda p, g: p + scale * g, prior, likelihood), memory


def density(log_density: LogDensity, *, needs_batch: bool = False) -> Estimator:
    """Exact gradient of a log density.

    Args:
        log_density: `(position) -> scalar`; the batch is ignored.
        needs_batch: Whether it is `(position, batch) -> scalar`, with the full data as batch.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import gradients
        >>> estimator = gradients.density(lambda x: -(x**2).sum() / 2)
        >>> gradient, _ = estimator.estimate(jax.random.key(0), (), jnp.array([1.0, -2.0]), None)
        >>> gradient.tolist()
        [-1.0, 2.0]
    """
    exact = _density_of_batch if needs_batch else _density
    return Estimator(init=no_memory, estimate=bind(exact, log_density))


def _density(
    log_density: LogDensity, key: jax.Array, memory: PyTree, position: Position, batch: Batch
) -> tuple[Position, PyTree]:
    return gradient_of("log_density", log_density)(position), memory


def _density_of_batch(
    log_density: LogDensity, key: jax.Array, memory: PyTree, position: Position, batch: Batch
) -> tuple[Position, PyTree]:
    return gradient_of("log_density", log_density)(position, batch), memory


def start(estimator: Estimator, position: PyTree) -> Position:
    """Return a copy of a position as floating point arrays, checked to be able to start a chain.

    An exact `density` that needs no batch is evaluated there.

    Raises:
        ValueError: The position is empty or not finite, or the density or its gradient is not
            finite there. Traced values are not checked.
    """
    position = arguments.tree("position", position, "finite")
    if not jax.tree.leaves(position):
        raise ValueError("position must have at least one leaf")
    estimate = estimator.estimate
    if isinstance(estimate, Partial) and estimate.func is _density:
        value, gradient = jax.value_and_grad(_scalar("log_density", estimate.args[0]))(position)
        needs = "finite where the chain starts"
        arguments.require("the log density", value, jnp.isfinite(value), needs)
        for path, leaf in jax.tree.leaves_with_path(gradient):
            name = f"the gradient of the log density at position{jax.tree_util.keystr(path)}"
            arguments.require(name, leaf, jnp.isfinite(leaf), needs)
    # Donating the state to an update deletes its arrays; the caller's position must survive that.
    return jax.tree.map(jnp.copy, position)


def gradient_of(name: str, function: Callable[..., jax.Array]) -> Callable[..., PyTree]:
    """Return the gradient in the first argument of a function, which must return a real scalar."""
    return jax.grad(_scalar(name, function))


def value_and_gradient_of(
    name: str, function: Callable[..., jax.Array]
) -> Callable[..., tuple[jax.Array, PyTree]]:
    """Return a function's value and gradient; it must return a real scalar, as `precise` says."""
    return jax.value_and_grad(precise(name, function))


def precise(name: str, function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """Return a log density for Metropolis tests: a real scalar in single precision or better.

    In bfloat16 values near -1,000 are rounded to 4 nats, and tests accept wrongly.
    """
    scalar = _scalar(name, function)

    def checked(*inputs: PyTree) -> jax.Array:
        value = scalar(*inputs)
        if value.dtype.itemsize < 4:
            raise ValueError(
                f"{name} returned {value.dtype}, too coarse for a Metropolis test: cast its terms "
                "to float32 before they are summed"
            )
        return value

    return checked


def _scalar(name: str, function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    def checked(*inputs: PyTree) -> jax.Array:
        value = jnp.asarray(function(*inputs))
        if value.shape or not jnp.issubdtype(value.dtype, jnp.floating):
            raise ValueError(
                f"{name} must return a real scalar, summed over its whole input; "
                f"it returned {value.dtype} of shape {value.shape}"
            )
        return value

    return checked


def like(name: str, tree: PyTree, position: Position) -> Position:
    """Return a tree in the dtypes of the position; raise a ValueError unless they match."""
    structures: list[Any] = [jax.tree.structure(position), jax.tree.structure(tree)]
    shapes = [[jnp.shape(leaf) for leaf in jax.tree.leaves(arrays)] for arrays in (position, tree)]
    if structures[0] != structures[1] or shapes[0] != shapes[1]:
        raise ValueError(
            f"{name} must have the structure and shapes of the position, {structures[0]} with "
            f"{shapes[0]}; it is {structures[1]} with {shapes[1]}"
        )
    return jax.tree.map(lambda x, leaf: jnp.asarray(x, leaf.dtype), tree, position)


# Counts for the simplex kernels from log likelihoods that are not functions of counts.


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


# Control variates: gradient estimates relative to a position with known full-data gradient.


class Reference(NamedTuple):
    """A position where the gradient of the full-data log likelihood is known.

    Attributes:
        position: The position.
        gradient: The gradient there, a tree like it.
    """

    position: Position
    gradient: Position


def control_variate(
    log_prior: LogDensity,
    log_likelihood: LogLikelihood,
    size: float,
    reference: Position,
    reference_gradient: Position,
) -> Estimator:
    r"""Gradient of the log posterior relative to a reference, ideally a mode.

    .. math::
        \nabla \log p(x) + g_{\text{ref}} + \frac{N}{n} \sum_{i \in \text{batch}}
            \big( \nabla \log p(d_i \mid x) - \nabla \log p(d_i \mid x_{\text{ref}}) \big)

    is unbiased. Its variance is proportional to the squared distance from the reference (Baker,
    Fearnhead, Fox and Nemeth 2019, *Control variates for stochastic gradient MCMC*, equation 7,
    whose reference gradient includes the prior's).

    Args:
        log_prior: `(position) -> scalar`.
        log_likelihood: `(position, batch) -> scalar`, summed over the batch.
        size: N. The length of the batch's leading axis is n.
        reference: A position.
        reference_gradient: The gradient of the full-data log likelihood there, from
            `full_gradient`.

    Raises:
        ValueError: `size` is not positive, or the reference or its gradient is not finite; when
            used, the reference does not match the position.

    Example: at the reference, every batch gives the exact gradient.

        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import gradients
        >>> x, mode = jnp.array([0.5, 3.0, 1.0]), jnp.array(1.125)
        >>> def log_likelihood(mu, batch):
        ...     return -((batch - mu) ** 2).sum() / 2
        >>> estimator = gradients.control_variate(
        ...     lambda mu: -(mu**2) / 2, log_likelihood, len(x), mode,
        ...     gradients.full_gradient(log_likelihood, mode, x))
        >>> gradient, _ = estimator.estimate(jax.random.key(0), (), mode, x[:1])
        >>> float(gradient)
        0.0
    """
    size = arguments.size(size)
    fixed = Reference(
        arguments.tree("reference", reference, "finite"),
        arguments.tree("reference_gradient", reference_gradient, "finite"),
    )
    estimate = bind(_control_variate, log_prior, log_likelihood, size, fixed)
    return Estimator(init=no_memory, estimate=estimate)


def _control_variate(
    log_prior: LogDensity,
    log_likelihood: LogLikelihood,
    size: float,
    reference: Reference,
    key: jax.Array,
    memory: PyTree,
    position: Position,
    batch: Batch,
) -> tuple[Position, PyTree]:
    """Estimate the gradient at a position, given that of `size` data at a reference."""
    reference = Reference(
        like("the reference", reference.position, position),
        like("the reference gradient", reference.gradient, position),
    )
    scale = size / length(batch, "batch")
    gradient = gradient_of("log_likelihood", log_likelihood)
    estimate = jax.tree.map(
        lambda p, g, at_position, at_reference: p + g + scale * (at_position - at_reference),
        gradient_of("log_prior", log_prior)(position),
        reference.gradient,
        gradient(position, batch),
        gradient(reference.position, batch),
    )
    return estimate, memory


def mode(
    log_prior: LogDensity,
    log_likelihood: LogLikelihood,
    data: PyTree,
    start: Position,
    *,
    optimiser: Any = None,
    steps: int = 200,
    block_size: int = 4096,
) -> Reference:
    r"""Return a mode of the log posterior and the log likelihood's gradient there.

    Both are what `control_variate` needs: `control_variate(log_prior, log_likelihood, N,
    *mode(...))`; Baker et al. 2019, section 3, take them as known. The objective is minus the log
    posterior over N, by passes over all the data, block by block.

    Args:
        log_prior: `(position) -> scalar`.
        log_likelihood: `(position, batch) -> scalar`, summed over the batch.
        data: All the data, leaves [N, ...].
        start: Where to begin, any tree of real arrays.
        optimiser: An optax optimiser, or None for `optax.lbfgs()`, whose line search makes several
            passes a step.
        steps: Number of updates of the optimiser, at least 1.
        block_size: Number of data processed at once, which bounds the memory.

    Returns:
        The position and the gradient of the full-data log likelihood there. At a mode that is minus
        the gradient of the log prior: the difference shows how near it is. A control variate is
        unbiased at any position, and the nearer the mode the smaller its variance.

    Raises:
        ValueError: `start`, `data`, `steps` or `block_size` is invalid, a log density is not a
            scalar, or the optimiser left the finite numbers: give another start or a smaller
            learning rate.
        ImportError: Optax is not installed.

    Example: N = 4 unit normals under a standard normal prior; the mode is their sum over 5.

        >>> import jax.numpy as jnp
        >>> from simplex_jax import gradients
        >>> x = jnp.array([1.0, 2.0, 3.0, 4.0])
        >>> position, gradient = gradients.mode(
        ...     lambda mu: -(mu**2) / 2, lambda mu, x: -((x - mu) ** 2).sum() / 2, x, 0.0)
        >>> print(position.round(3), gradient.round(3))
        2.0 2.0
    """
    import optax  # type: ignore[import-untyped]

    size = length(data)
    steps = arguments.at_least("steps", steps, 1)
    block_size = arguments.at_least("block_size", block_size, 1)
    data, start = on_device(data), arguments.tree("start", start, "finite")
    log_prior, log_likelihood = (
        _scalar("log_prior", log_prior),
        _scalar("log_likelihood", log_likelihood),
    )
    optimiser = optax.with_extra_args_support(optax.lbfgs() if optimiser is None else optimiser)

    # Data are an argument of the program: as a constant they would be copied into it.
    @jax.jit
    def descend(position: Position, data: PyTree) -> Position:
        def loss(position: Position) -> jax.Array:
            log_p = log_prior(position) + _over_blocks(log_likelihood, position, data, block_size)
            return -log_p / size

        def step(carry: tuple, _: None) -> tuple:
            position, state = carry
            value, slope = jax.value_and_grad(loss)(position)
            change, state = optimiser.update(
                slope, state, position, value=value, grad=slope, value_fn=loss
            )
            return (optax.apply_updates(position, change), state), None

        return lax.scan(step, (position, optimiser.init(position)), length=steps)[0][0]

    position = descend(start, data)
    return Reference(
        arguments.tree("the mode that the optimiser found", position, "finite"),
        full_gradient(log_likelihood, position, data, block_size=block_size),
    )


def _over_blocks(
    log_likelihood: LogLikelihood, position: Position, data: PyTree, block_size: int
) -> jax.Array:
    """Return the full-data log likelihood; its derivative recomputes each block."""
    blocks, remainder = divmod(length(data), block_size)

    @functools.partial(jax.checkpoint, static_argnums=2)
    def of_block(position: Position, start: jax.Array | int, size: int) -> jax.Array:
        block = jax.tree.map(lambda x: lax.dynamic_slice_in_dim(x, start, size), data)
        return log_likelihood(position, block)

    def add(total: jax.Array, i: jax.Array) -> tuple[jax.Array, None]:
        return total + of_block(position, i * block_size, block_size), None

    total = jnp.zeros(())
    if blocks:
        total, _ = lax.scan(add, total, jnp.arange(blocks))
    if remainder:
        total += of_block(position, blocks * block_size, remainder)
    return total


def running(
    log_prior: LogDensity,
    log_likelihood: LogLikelihood,
    data: PyTree,
    reference: Position,
    *,
    block_size: int = 4096,
) -> Estimator:
    """`control_variate` whose reference periodically moves to the chain, at one pass over the data.

    Batches are those of `batches.visits(stream, every)`. When a visit is due, the position becomes
    the reference and its gradient is recomputed before the estimate (SVRG Langevin dynamics: Dubey
    et al. 2016, *Variance reduction in stochastic gradient Langevin dynamics*, algorithm 2). About
    one visit per epoch costs as much as the batches.

    Args:
        log_prior: `(position) -> scalar`.
        log_likelihood: `(position, batch) -> scalar`, summed over the batch.
        data: All the data, leaves [N, ...].
        reference: The first reference, with the structure and shapes of the position.
        block_size: Number of data that the pass processes at once.

    Raises:
        ValueError: `data`, `reference` or `block_size` is invalid; when used, the batch is not
            one of `batches.visits`, or the reference does not match the position.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches, gradients, run
        >>> from simplex_jax.samplers import sgld
        >>> x = jnp.linspace(-1.0, 3.0, 50)
        >>> estimator = gradients.running(
        ...     lambda mu: -(mu**2) / 2, lambda mu, x: -((x - mu) ** 2).sum() / 2, x, 0.0)
        >>> stream = batches.visits(batches.uniform(x, 5), every=10)
        >>> kernel = sgld.build(estimator, step_size=0.01)
        >>> state = kernel.init(jax.random.key(0), jnp.array(0.0))
        >>> state, trace = run(jax.random.key(1), kernel, state, stream, 500)
        >>> print(round(float(trace[100:].mean())))
        1
    """
    length(data)
    block_size = arguments.at_least("block_size", block_size, 1)
    data, reference = on_device(data), arguments.tree("reference", reference, "finite")
    init = static(_init_running, block_size=block_size)
    estimate = static(_running, block_size=block_size)
    return Estimator(
        bind(init, log_likelihood, data, reference),
        bind(estimate, log_prior, log_likelihood, data),
    )


def _init_running(
    log_likelihood: LogLikelihood,
    data: PyTree,
    reference: Position,
    key: jax.Array,
    *,
    block_size: int,
) -> Reference:
    gradient = full_gradient(log_likelihood, reference, data, block_size=block_size)
    return Reference(reference, gradient)


def _running(
    log_prior: LogDensity,
    log_likelihood: LogLikelihood,
    data: PyTree,
    key: jax.Array,
    memory: Reference,
    position: Position,
    batch: Visit,
    *,
    block_size: int,
) -> tuple[Position, Reference]:
    if not isinstance(batch, Visit):
        raise ValueError("batch must be batches.Visit: make the stream with batches.visits")

    def refresh() -> Reference:
        gradient = full_gradient(log_likelihood, position, data, block_size=block_size)
        return Reference(
            like("the position", position, memory.position),
            like("the position", gradient, memory.position),
        )

    memory = lax.cond(batch.now, refresh, lambda: memory)
    size = length(data)
    return _control_variate(
        log_prior, log_likelihood, size, memory, key, memory, position, batch.batch
    )


def full_gradient(
    log_likelihood: LogLikelihood, position: Position, data: PyTree, *, block_size: int = 4096
) -> Position:
    """Return the gradient of the full-data log likelihood, summed block by block.

    Args:
        log_likelihood: `(position, batch) -> scalar`, summed over the batch.
        position: Where to evaluate it, any tree of real arrays.
        data: Leaves [N, ...].
        block_size: Number of data processed at once, which bounds the memory.

    Raises:
        ValueError: `position`, `data` or `block_size` is invalid.

    Example:
        >>> import jax.numpy as jnp
        >>> from simplex_jax import gradients
        >>> float(gradients.full_gradient(
        ...     lambda mu, x: -((x - mu) ** 2).sum() / 2, jnp.array(1.0), jnp.arange(5.0)))
        5.0
    """
    block_size = arguments.at_least("block_size", block_size, 1)
    data, position = on_device(data), arguments.tree("position", position, "finite")
    blocks, remainder = divmod(length(data), block_size)
    gradient = gradient_of("log_likelihood", log_likelihood)

    def add(total: Position, batch: Batch) -> Position:
        return jax.tree.map(jnp.add, total, gradient(position, batch))

    def block(i: jax.Array, total: Position) -> Position:
        return add(
            total,
            jax.tree.map(lambda x: lax.dynamic_slice_in_dim(x, i * block_size, block_size), data),
        )

    total = jax.tree.map(jnp.zeros_like, position)
    if blocks:
        total = lax.fori_loop(0, blocks, block, total)
    if remainder:
        total = add(total, jax.tree.map(lambda x: x[blocks * block_size :], data))
    return total

"""Control variates: gradient estimates relative to a position with known full-data gradient."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax._src import arguments
from simplex_jax._src.base import Batch, Position, PyTree, bind
from simplex_jax._src.batches import Visit, length, on_device
from simplex_jax._src.estimators import Estimator, no_memory
from simplex_jax._src.gradients.densities import LogDensity, LogLikelihood, gradient_of, like


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
    target = _Posterior(log_prior, log_likelihood)
    estimate = bind(_control_variate, _ControlVariate(target, size, fixed))
    return Estimator(init=no_memory, estimate=estimate)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Posterior:
    """A log posterior."""

    log_prior: LogDensity
    log_likelihood: LogLikelihood

    def difference(
        self, size: float, reference: Reference, position: Position, batch: Batch
    ) -> Position:
        """Estimate the gradient at a position, given that of `size` data at a reference."""
        reference = Reference(
            like("the reference", reference.position, position),
            like("the reference gradient", reference.gradient, position),
        )
        scale = size / length(batch, "batch")
        gradient = gradient_of("log_likelihood", self.log_likelihood)
        return jax.tree.map(
            lambda p, g, at_position, at_reference: p + g + scale * (at_position - at_reference),
            gradient_of("log_prior", self.log_prior)(position),
            reference.gradient,
            gradient(position, batch),
            gradient(reference.position, batch),
        )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _ControlVariate:
    """A log posterior of N data, with a reference."""

    posterior: _Posterior
    size: float  # N
    reference: Reference


def _control_variate(
    variate: _ControlVariate, key: jax.Array, memory: PyTree, position: Position, batch: Batch
) -> tuple[Position, PyTree]:
    del key
    posterior, size, reference = variate.posterior, variate.size, variate.reference
    return posterior.difference(size, reference, position, batch), memory


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
        ValueError: `start`, `data`, `steps` or `block_size` is invalid, or the optimiser left the
            finite numbers: give another start or a smaller learning rate.
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

    Batches are `batches.Visit`. When one is due, the position becomes the reference and its
    gradient is recomputed before the estimate (SVRG Langevin dynamics: Dubey et al. 2016, *Variance
    reduction in stochastic gradient Langevin dynamics*, algorithm 2). Make the stream with
    `batches.visits(stream, every)`. About one visit per epoch costs as much as the batches.

    Args:
        log_prior: `(position) -> scalar`.
        log_likelihood: `(position, batch) -> scalar`, summed over the batch.
        data: All the data, leaves [N, ...].
        reference: The first reference, with the structure and shapes of the position.
        block_size: Number of data that the pass processes at once.

    Raises:
        ValueError: `data`, `reference` or `block_size` is invalid; when used, the batch is not a
            `Visit` or the reference does not match the position.

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
    variate = _Running(_Posterior(log_prior, log_likelihood), data, block_size)
    return Estimator(init=bind(_init_running, variate, reference), estimate=bind(_running, variate))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Running:
    """A log posterior and all its data."""

    posterior: _Posterior
    data: PyTree
    block_size: int = dataclasses.field(metadata={"static": True})

    def gradient(self, position: Position) -> Position:
        """Return the gradient of the full-data log likelihood."""
        log_likelihood = self.posterior.log_likelihood
        return full_gradient(log_likelihood, position, self.data, block_size=self.block_size)


def _init_running(variate: _Running, reference: Position, key: jax.Array) -> Reference:
    del key
    return Reference(reference, variate.gradient(reference))


def _running(
    variate: _Running, key: jax.Array, memory: Reference, position: Position, batch: Visit
) -> tuple[Position, Reference]:
    del key
    if not isinstance(batch, Visit):
        raise ValueError("batch must be batches.Visit: make the stream with batches.visits")

    def refresh() -> Reference:
        return Reference(
            like("the position", position, memory.position),
            like("the position", variate.gradient(position), memory.position),
        )

    memory = lax.cond(batch.now, refresh, lambda: memory)
    size = length(variate.data)
    return variate.posterior.difference(size, memory, position, batch.batch), memory


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
    position = arguments.tree("position", position, "finite")
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

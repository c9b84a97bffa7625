"""Kernels as optax gradient transformations, for existing training loops.

This needs `pip install optax`; nothing else here imports it but `gradients.mode`.
"""

import inspect
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src import arguments
from simplex_jax._src.base import Build, Info, Position, PyTree, State, bind, build_name
from simplex_jax._src.estimators import Estimator, no_memory
from simplex_jax._src.samplers import cir, dirichlet_paths, gbm, scir, sgrhmc, sgrld, smld

ON_SIMPLEX = {scir.build, sgrhmc.build, sgrld.build, smld.build}
_OF_OTHER_ESTIMATES = {cir.build, gbm.build, dirichlet_paths.build}  # than gradients and counts


class OptaxState(NamedTuple):
    """State of `to_optax`."""

    chain: State  # the kernel's state without its position, which the parameters are
    key: jax.Array  # key of the next update
    info: Info  # diagnostics of the last update, zeros before the first


def to_optax(build: Build, key: jax.Array, size: float = 1, **options: Any) -> Any:
    r"""Return a kernel as an `optax.GradientTransformationExtraArgs`, which samples parameters.

    A training loop passes the gradient of a loss, and adds what `update` returns to the parameters:
    they become the next sample. With `optax.multi_transform` or `optax.masked` some parameters are
    sampled and the others are optimised; `optax.chain` clips gradients before they are used, which
    biases the samples where it clips.

    The loss is the average over data of

    - minus the log posterior, for a kernel of R^d (`sgld`, `sghmc`, `sgnht`, `sgbd`), or
    - minus the log likelihood of log-probabilities, for a simplex kernel (`scir`, `sgrld`,
      `sgrhmc`, `smld`): the prior is the kernel's `alpha`. Minus its gradient, times `size`, are
      the generalised counts of `gradients.counts`, and leaves [..., K] of the parameters are
      normalised log-probabilities, for example from `jax.nn.log_softmax`. Kernels that need
      nonnegative counts set negative ones to 0.

    Args:
        build: `build` of a sampler that takes an estimator as its first argument.
        key: The PRNG key of the chain. Several chains need several: `jax.vmap` a function of a key
            that calls `to_optax`.
        size: N, the number of data that the loss averages over; 1 if the loss is a sum over all.
        **options: The other arguments of `build`. A step size may be an optax schedule.

    Returns:
        The transformation. `update` needs the parameters; the state has the kernel's `info`.

    Raises:
        ImportError: Optax is not installed.
        ValueError: `build` does not take gradients or counts; `size` is not positive; when used,
            there are no parameters, they have fewer than 32 bits, or those of a simplex kernel are
            not normalised log-probabilities or have one of -inf.

    Example: weights of a mixture are sampled, given the average log likelihood of the data.

        >>> import jax, jax.numpy as jnp, optax
        >>> from simplex_jax import to_optax
        >>> from simplex_jax.samplers import scir
        >>> x = jnp.array([0, 0, 0, 1])
        >>> def loss(log_p):
        ...     return -log_p[x].mean()
        >>> sampler = to_optax(scir.build, jax.random.key(0), size=4, alpha=0.5, step_size=1.0)
        >>> log_p = jnp.log(jnp.full(3, 1 / 3))
        >>> def step(carry, _):
        ...     log_p, state = carry
        ...     updates, state = sampler.update(jax.grad(loss)(log_p), state, log_p)
        ...     log_p = optax.apply_updates(log_p, updates)
        ...     return (log_p, state), log_p
        >>> _, trace = jax.lax.scan(step, (log_p, sampler.init(log_p)), length=4000)
        >>> print(jnp.exp(trace).mean(axis=0).round(1))  # (3.5, 1.5, 0.5) / 5.5
        [0.6 0.3 0.1]
    """
    import optax  # type: ignore[import-untyped]

    sampler = getattr(build, "func", build)
    first = next(iter(inspect.signature(sampler).parameters), None)
    if first == "log_density" or sampler in _OF_OTHER_ESTIMATES:
        raise ValueError(
            "to_optax is for samplers that take an estimator of gradients, such as sgld, or of "
            f"counts, such as scir: not for {build_name(build)}"
        )
    kernel = build(Estimator(no_memory, bind(_counts_or_gradient, arguments.size(size))), **options)

    def init(params: Position) -> OptaxState:
        key_init, key_run = jax.random.split(key)
        jax.tree.map(_check_precise, params)
        start = params
        if sampler in ON_SIMPLEX:
            jax.tree.map(_check_normalised, params)
            jax.tree.map(_check_inside, params)
            # Probabilities may underflow; the position is the parameters, not this.
            tiny = jnp.finfo(jnp.float32).tiny
            start = jax.tree.map(lambda leaf: jnp.maximum(jnp.exp(leaf), tiny), params)
        chain = kernel.init(key_init, start)
        info = jax.eval_shape(kernel.update, key_run, chain, params)[1]
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), info)
        # The position would be the caller's arrays, which a loop may donate together with this.
        return OptaxState(chain._replace(position=()), key_run, zeros)

    def update(
        updates: PyTree, state: OptaxState, params: PyTree | None = None, **extra: Any
    ) -> tuple[PyTree, OptaxState]:
        if params is None:
            raise ValueError("to_optax samples the parameters: call update(updates, state, params)")
        key_update, key_next = jax.random.split(state.key)
        chain = state.chain._replace(position=params)
        chain, info = kernel.update(key_update, chain, updates)
        change = jax.tree.map(jnp.subtract, chain.position, params)
        return change, OptaxState(chain._replace(position=()), key_next, info)

    return optax.GradientTransformationExtraArgs(init, update)


def _counts_or_gradient(
    size: float, key: jax.Array, memory: PyTree, position: Position, batch: Position
) -> tuple[Position, PyTree]:
    """Return minus N times the gradient of the loss, which is the batch."""
    return jax.tree.map(lambda g: -jnp.asarray(size, g.dtype) * g, batch), memory


def _check_precise(leaf: jax.Array) -> None:
    """Raise a ValueError for numbers that would swallow the changes of small steps."""
    dtype = jnp.result_type(leaf)
    if jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).bits < 32:
        raise ValueError(
            f"to_optax samples parameters of 32 or 64 bits; these are {dtype}: keep a copy of them "
            "in float32, and cast it in the loss"
        )


def _check_normalised(log_p: jax.Array) -> None:
    total = jax.nn.logsumexp(log_p, axis=-1)
    needs = "normalised log-probabilities, such as those of jax.nn.log_softmax"
    arguments.require(
        "the log of the sum of exp(parameters)", total, abs(total) < 1e-3, f"0: {needs}"
    )


def _check_inside(log_p: jax.Array) -> None:
    needs = "finite: no change can be added to a probability of 0"
    arguments.require("log-probabilities of this sampler", log_p, log_p > -jnp.inf, needs)

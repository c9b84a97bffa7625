"""Kernels as BlackJAX sampling algorithms, for its loops and tools.

This needs `pip install blackjax`; nothing else here imports it.
"""

from typing import Any

import jax

from simplex_jax._src.base import Info, Kernel, Position, State, current_step
from simplex_jax._src.batches import Stream


def to_blackjax(kernel: Kernel, stream: Stream, key: jax.Array) -> Any:
    """Return a kernel with its batches as a `blackjax.base.SamplingAlgorithm`.

    Its functions are those of BlackJAX, `init(position, rng_key) -> state` and `step(rng_key,
    state) -> (state, info)`, with the kernel's state and info. The batch of a step is
    `stream(key, state.step)`: `run` uses the same batches if `key` is the second key of
    `jax.random.split` of its own key. `run_inference_algorithm` and
    `store_only_expectation_values` of `blackjax.util` accept the result like any other algorithm.
    Unlike `run` they do not stop at a NaN, keep the trace on the device, and compile the data into
    their program.

    Adaptation: `blackjax.window_adaptation` is for BlackJAX's own Hamiltonian kernels. The Info of
    `barker`, `gmc`, `mamla` and `mapla` has an `acceptance`, which
    `blackjax.adaptation.step_size.dual_averaging_adaptation` and `step_sizes.adapt` use;
    `step_sizes` has rules for the other kernels.

    Args:
        kernel: A kernel. For several chains with the same batches use `simplex_jax.chains`;
            `jax.vmap` of `init` and `step` gives the same samples, but gathers the batch again for
            each chain.
        stream: A stream of batches, see `batches`.
        key: The PRNG key of the batches. It is the same at every step, so that `batches.shuffled`
            has its epochs.

    Returns:
        The algorithm, a pair of pure functions that can be traced, vmapped and scanned.

    Raises:
        ImportError: BlackJAX is not installed.

    Example:
        >>> import blackjax, jax, jax.numpy as jnp
        >>> from simplex_jax import batches, estimators, to_blackjax
        >>> from simplex_jax.samplers import scir
        >>> kernel = scir.build(estimators.categorical(size=4), alpha=0.1, step_size=0.5)
        >>> stream = batches.uniform(jnp.array([0, 0, 0, 1]), 2)
        >>> algorithm = to_blackjax(kernel, stream, jax.random.key(0))
        >>> state, (states, info) = blackjax.util.run_inference_algorithm(
        ...     jax.random.key(1), algorithm, 50, initial_position=jnp.ones(3))
        >>> int(state.step), states.position.shape
        (50, (50, 3))
    """
    from blackjax.base import SamplingAlgorithm  # type: ignore[import-untyped]

    def init(position: Position, rng_key: jax.Array) -> State:
        return kernel.init(rng_key, position)

    def step(rng_key: jax.Array, state: State) -> tuple[State, Info]:
        return kernel.update(rng_key, state, stream(key, current_step(state)))

    return SamplingAlgorithm(init, step)

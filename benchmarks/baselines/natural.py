r"""Stochastic natural-gradient steps for the topics of LDA, which the variational baselines share.

Topic k has weights lambda_k [V]. A batch of documents says, by a local step, how many tokens of the
corpus have word w and topic k, and the weights move towards the prior plus these counts,

.. math:: \lambda \leftarrow (1 - \rho) \lambda + \rho (\beta + \hat n)

(Hoffman, Blei and Bach 2010, Algorithm 2). The methods differ in what the local step does, and in
what it takes for the topics: see `geometric` and `arithmetic`.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src import arguments, draws, schedules
from simplex_jax._src.base import Batch, Kernel, bind, static
from simplex_jax._src.corpus import device
from simplex_jax._src.corpus.device import DeviceCorpus
from simplex_jax._src.geometry import simplex
from simplex_jax._src.geometry.digamma import digamma
from simplex_jax._src.models.lda.kernel import Config, Counts, Given, Info, State
from simplex_jax._src.schedules import StepSize

# The weights start at independent Gamma(100, 1 / 100) times the topics given, as in the code of
# Hoffman et al.: equal topics would stay equal.
_NOISE_SHAPE = 100.0


class Weights(NamedTuple):
    """What these methods keep: the `sampler` of the state.

    Attributes:
        weights: Of topics and words, [K, V]; the topics are these, normalised.
        memory: What the local step keeps.
    """

    weights: jax.Array
    memory: Any


class Step(NamedTuple):
    """What a step tells: the `sampler` of the info.

    Attributes:
        step_size: The step size used, a scalar.
        local: What the local step keeps, after it.
    """

    step_size: jax.Array
    local: Any


def kernel(
    counts: Counts,
    config: Config,
    step_size: StepSize,
    shape: tuple[int, int],
    log_topics_of: Callable[[jax.Array], jax.Array],
) -> Kernel:
    """Return the kernel of a variational method.

    Args:
        counts: The local step: an estimate of the counts of the corpus.
        config: The concentrations.
        step_size: rho, above 0 and at most 1, or a schedule of it.
        shape: (K, V).
        log_topics_of: Weights [K, V] to what the local step takes for the log topics.

    Raises:
        ValueError: The step size is out of range.
    """
    schedules.check_share(step_size)
    return Kernel(
        init=bind(static(_init, shape=shape), counts, config),
        update=bind(static(_update, log_topics_of=log_topics_of), counts, step_size),
    )


def batch_size_of(batch_size: int, corpus: DeviceCorpus) -> int:
    """Return a batch size of at most the number of documents, or raise a ValueError."""
    return min(arguments.at_least("batch_size", batch_size, 1), device.size(corpus))


def check_shape(shape: tuple[int, int], corpus: DeviceCorpus) -> tuple[int, int]:
    """Return (K, V), or raise a ValueError unless there is a topic and the corpus has V words."""
    if len(shape) != 2:
        raise ValueError(f"shape must be (K, V); it is {shape!r}")
    num_topics, num_words = (arguments.at_least("shape", side, 1) for side in shape)
    if (last := int(jnp.max(corpus.tokens))) >= num_words:
        raise ValueError(f"shape has {num_words} words and the corpus word number {last}")
    return num_topics, num_words


def geometric(weights: jax.Array) -> jax.Array:
    """Return E log phi of phi_k ~ Dirichlet(lambda_k), [K, V]."""
    return digamma(weights) - digamma(jnp.sum(weights, axis=-1, keepdims=True))


def arithmetic(weights: jax.Array) -> jax.Array:
    """Return log E phi of phi_k ~ Dirichlet(lambda_k), [K, V]."""
    return simplex.normalise(jnp.log(weights))


def _init(
    counts: Counts,
    config: Config,
    key: jax.Array,
    position: jax.Array,
    *,
    shape: tuple[int, int],
) -> State:
    log_topics = starting_topics(position, shape)
    key_noise, key_memory = jax.random.split(key)
    noise = draws.loggamma(key_noise, jnp.full(shape, _NOISE_SHAPE, log_topics.dtype))
    # About a token of each word for each topic.
    log_scale = math.log(shape[1] / _NOISE_SHAPE)
    weights = (config.beta + jnp.exp(log_topics + noise + log_scale)).astype(log_topics.dtype)
    # A state may be donated to jitted code, and must not share arrays with the kernel.
    return State(
        position=arithmetic(weights),
        step=jnp.zeros((), jnp.int32),
        alpha=jnp.copy(config.alpha),
        beta=jnp.copy(config.beta),
        sampler=Weights(weights, counts.init(key_memory)),
    )


def starting_topics(position: jax.Array, shape: tuple[int, int]) -> jax.Array:
    """Return the logarithm of the topics that a kernel starts at, or raise a ValueError."""
    log_topics = simplex.log_probabilities(position)
    if log_topics.shape != shape:
        raise ValueError(f"position must be topics of shape {shape}; it has {log_topics.shape}")
    return log_topics


def _update(
    counts: Counts,
    step_size: StepSize,
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    log_topics_of: Callable[[jax.Array], jax.Array],
) -> tuple[State, Info]:
    """Estimate the counts from the batch and move the weights towards them."""
    weights, memory = state.sampler
    rho = schedules.evaluate(step_size, state.step).astype(weights.dtype)
    rho = jnp.where((rho > 0) & (rho <= 1), rho, jnp.nan)
    new, memory = counts.estimate(Given(state.alpha), key, memory, log_topics_of(weights), batch)
    weights = ((1 - rho) * weights + rho * (state.beta + new)).astype(weights.dtype)
    state = State(
        arithmetic(weights), state.step + 1, state.alpha, state.beta, Weights(weights, memory)
    )
    tokens = jnp.sum(new, axis=-1).astype(weights.dtype)
    return state, Info(tokens, Step(rho, memory))

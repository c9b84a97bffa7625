"""The kernel of LDA: a sampler of the simplex for the topics, and learned concentrations."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from simplex_jax import draws, schedules
from simplex_jax.base import Batch, Kernel, bind, static
from simplex_jax.corpus import device
from simplex_jax.corpus.device import DeviceCorpus
from simplex_jax.models import concentrations, lda_counts, local
from simplex_jax.models.concentrations import Evidence, Prior
from simplex_jax.models.lda_counts import Counts, Local, Shard
from simplex_jax.samplers import reflected_cir, scir, sgrhmc, sgrld, smld
from simplex_jax.schedules import StepSize


class Sampler(NamedTuple):
    """The two functions of a simplex kernel, with the options that suit latent assignments."""

    init: Callable
    update: Callable


SAMPLERS = {
    "scir": Sampler(static(scir.init, total="refreshed"), scir.update),
    "sgrld": Sampler(static(sgrld.init, total="refreshed"), sgrld.update),
    "sgrhmc": Sampler(static(sgrhmc.init, total="refreshed"), sgrhmc.update),
    "smld": Sampler(smld.init, smld.update),
    # Of the last word, for want of a better one: a reference must be the same for all topics.
    "smld-approximate": Sampler(
        static(smld.init, reference=-1, linearised=True), static(smld.update, reference=-1)
    ),
    "reflected-cir": Sampler(static(reflected_cir.init, total="refreshed"), reflected_cir.update),
}


class State(NamedTuple):
    """State of LDA.

    Attributes:
        position: Logarithm of the topics, [K, V].
        step: Number of updates done, int32.
        alpha: Concentrations of the topic proportions, [K].
        beta: Concentrations of the topics, [V] or [K, V].
        sampler: What else the sampler of the topics keeps: its state without position and step.
    """

    position: jax.Array
    step: jax.Array
    alpha: jax.Array
    beta: jax.Array
    sampler: Any


class Info(NamedTuple):
    """What an update tells.

    Attributes:
        topic_tokens: Tokens of the corpus in each topic, counted or estimated, [K].
        sampler: The Info of the sampler of the topics.
    """

    topic_tokens: jax.Array
    sampler: Any


class Means(NamedTuple):
    """Concentrations as given: fixed, or the prior means of learned ones.

    Attributes:
        alpha: Of topic proportions, [K].
        beta: Of topics, [V] or [K, V].
    """

    alpha: jax.Array
    beta: jax.Array


def means_of(alpha: ArrayLike, beta: ArrayLike, shape: tuple[int, int]) -> Means:
    """Return concentrations in full, or raise a ValueError that names them."""
    full = shape if np.ndim(beta) == 2 else shape[1:]
    return Means(lda_counts.proportions(alpha, shape[0]), lda_counts.positive("beta", beta, full))


def kernel(
    counts: Counts,
    means: Means,
    sampler: str,
    step_size: StepSize,
    *,
    learner: Callable | None = None,
    follow: str | None = None,
) -> Kernel:
    """Return the kernel of LDA.

    Args:
        counts: The estimate of the counts.
        means: The concentrations.
        sampler: Name of the sampler of the topics.
        step_size: Its step size.
        learner: `(key, state) -> state`, called where a `Visit` says so; without one, batches are
            no visits.
        follow: How alpha follows the evidence in the memory of the counts, see
            `concentrations.move`; None leaves it alone.
    """
    schedules.check(step_size)
    return Kernel(
        init=bind(static(_init, sampler=sampler), counts, means),
        update=bind(
            static(_update, sampler=sampler, follow=follow), counts, learner, step_size, means
        ),
    )


def memoised(
    corpus: DeviceCorpus,
    means: Means,
    step_size: StepSize,
    *,
    shape: tuple[int, int],
    sampler: str,
    how: Local,
    learn_alpha: str | None,
    learn_beta: str | None,
    batch_size: int,
    shard: Shard | None = None,
) -> Kernel:
    """Return the kernel of LDA with memoised counts, whose documents may be a shard of all."""
    counts = lda_counts.memoised(corpus, shape, how, shard)
    if not (learn_alpha or learn_beta):
        return kernel(counts, means, sampler, step_size)
    learn = {"learn_alpha": learn_alpha, "learn_beta": learn_beta}
    learner = bind(
        static(_learn_from_labels, **learn, batch_size=batch_size, shard=shard), corpus, means
    )
    return kernel(counts, means, sampler, step_size, learner=learner)


def _init(
    counts: Counts, means: Means, key: jax.Array, position: jax.Array, *, sampler: str
) -> State:
    state = SAMPLERS[sampler].init(key, position, estimator=counts.given(means.alpha))
    # A state may be donated to jitted code, and must not share arrays with the kernel.
    return _outer(state, jnp.copy(means.alpha), jnp.copy(means.beta))


def _outer(inner: Any, alpha: jax.Array, beta: jax.Array) -> State:
    rest = inner._replace(position=None, step=None)
    return State(inner.position, inner.step, alpha, beta, rest)


def _update(
    counts: Counts,
    learner: Callable | None,
    step_size: StepSize,
    means: Means,
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    sampler: str,
    follow: str | None,
) -> tuple[State, Info]:
    """Move the topics, and the concentrations where they are learned."""
    if learner is not None:
        key, key_learn = jax.random.split(key)
        batch, now = batch
        state = lax.cond(now, lambda: learner(key_learn, state), lambda: state)
    if follow is not None:
        key, key_follow = jax.random.split(key)
    inner, info = SAMPLERS[sampler].update(
        key,
        state.sampler._replace(position=state.position, step=state.step),
        batch,
        estimator=counts.given(state.alpha),
        alpha=state.beta,
        step_size=step_size,
    )
    alpha = state.alpha
    if follow is not None:
        h = schedules.at(step_size, state.step)
        known, prior = inner.memory.evidence, Prior(means.alpha)
        alpha = concentrations.move(key_follow, alpha, known, prior, follow, h)
    tokens = inner.memory.topic_tokens.astype(state.position.dtype)
    return _outer(inner, alpha, state.beta), Info(tokens, info)


def _learn_from_labels(
    corpus: DeviceCorpus,
    means: Means,
    key: jax.Array,
    state: State,
    *,
    batch_size: int,
    learn_alpha: str | None,
    learn_beta: str | None,
    shard: Shard | None,
) -> State:
    """Draw concentrations given all labels; and the topics anew, which beta leaves behind."""
    keys = jax.random.split(key, 5)
    memory = state.sampler.memory
    if learn_alpha:
        known = _corpus_evidence(keys[0], state.alpha, memory.labels, corpus, batch_size, shard)
        alpha = concentrations.move(keys[1], state.alpha, known, Prior(means.alpha), learn_alpha)
        state = state._replace(alpha=alpha)
    if learn_beta:
        known = concentrations.evidence(keys[2], state.beta, memory.counts.T)
        beta = concentrations.move(keys[3], state.beta, known, Prior(means.beta), learn_beta)
        # beta was drawn with the topics integrated out, and they must now be drawn given it.
        position = draws.log_dirichlet(keys[4], beta + memory.counts)
        state = state._replace(beta=beta, position=position)
    return state


def _corpus_evidence(
    key: jax.Array,
    alpha: jax.Array,
    labels: jax.Array,
    corpus: DeviceCorpus,
    batch_size: int,
    shard: Shard | None,
) -> Evidence:
    """Draw what the labels of all documents say about alpha, block by block."""
    blocks = device.blocks(device.size(corpus), batch_size)
    if shard is not None:
        key = jax.random.fold_in(key, lax.axis_index(shard.axis))

    def block(i, known):
        counts = local.count_labels(labels, device.select(corpus, blocks[i]), alpha.shape[0])
        new = concentrations.evidence(jax.random.fold_in(key, i), alpha, counts)
        return concentrations.add(known, new)

    start = concentrations.no_evidence(alpha.shape[0], alpha.dtype)
    known = lax.fori_loop(0, blocks.shape[0], block, start)
    return known if shard is None else lax.psum(known, shard.axis)

"""Latent Dirichlet allocation: the posterior of topics by any simplex kernel.

Topic k is a distribution phi_k ~ Dirichlet(beta) over V words, document d has proportions
theta_d ~ Dirichlet(alpha) over K topics, and a token has a topic z ~ theta_d and a word ~ phi_z.
The position is log phi, [K, V]. Given the assignments z, the posterior of phi is
Dirichlet(beta + counts), so SCIR, SGRLD and SMLD need only an estimate of the counts.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from simplex_jax._src import arguments, batches, schedules
from simplex_jax._src.base import Kernel
from simplex_jax._src.batches import Stream
from simplex_jax._src.corpus import device
from simplex_jax._src.corpus.device import DeviceCorpus, HostCorpus, Pages
from simplex_jax._src.models.lda import control, kernel, sharding
from simplex_jax._src.models.lda.kernel import (
    TOTALS,
    Info,
    Local,
    Means,
    Memory,
    Setup,
    State,
    streamed_counts,
    subsampled_counts,
)
from simplex_jax._src.models.lda.seeds import Seeds
from simplex_jax._src.models.topics.concentrations import LEARN
from simplex_jax._src.samplers.rows import sums
from simplex_jax._src.schedules import StepSize, polynomial_decay

__all__ = [
    "ALPHA",
    "BETA",
    "COUNTS",
    "SAMPLERS",
    "TOTALS",
    "Info",
    "State",
    "build",
    "build_streaming",
    "check_batch_size",
    "check_names",
    "default_batch_size",
    "default_step",
    "mean_topics",
]

COUNTS = ("memoised", "subsampled", "control-variate")
SAMPLERS = tuple(kernel.SAMPLERS)

ALPHA, BETA = 0.1, 0.05
"""Default concentrations of topic proportions, per topic, and of topics, per word."""


def default_batch_size(documents: int, tokens: int, shape: tuple[int, int]) -> int:
    """Return a batch size at which drawing the topics costs a quarter of drawing the labels.

    A topic update touches K V numbers whatever the batch, each at about the cost of a token.
    Therefore the last batch of a pass is at least half as large as the others. Sizes below D are
    multiples of 64, so that a power-of-two number of devices can share them.
    """
    least = max(1, -(-4 * documents * shape[0] * shape[1] // max(tokens, 1)))
    batches = max(1, min(documents // least, -(-documents // 64)))
    while batches > 1:
        size = -(-documents // (64 * batches)) * 64
        last = documents % size
        if not 0 < last < size // 2:
            return min(documents, size)
        batches -= 1
    return documents


class Step(NamedTuple):
    """A step size: constant if tau is 0, else `schedules.polynomial_decay(*step)`."""

    initial: float
    tau: float = 0.0
    kappa: float = 0.0


AFRESH = 32.0
"""A step size of SCIR that draws topics anew: exp(-32) of the old topics remains."""


def default_step(sampler: str, counts: str, method: str | None = None) -> Step:
    """Return the default step size.

    With memoised counts any step of SCIR is exact and a long one mixes fastest: after h = 5 the
    topics hardly depend on where they were. With estimated counts the default is the schedule of
    the SCIR paper, which also suits SGRHMC, whose scale is the same. SGRLD and
    SMLD use the steps of Patterson and Teh. For SMLD these are unstable on topics of more than a
    few hundred tokens, and stable steps hardly move. Labels drawn with the topics integrated out
    need topics that are drawn anew.
    """
    if method == "integrated":
        return Step(AFRESH)
    if sampler == "scir" and counts == "memoised":
        return Step(5.0)
    if sampler in ("scir", "sgrhmc"):
        return Step(0.5, tau=10, kappa=0.33)
    return Step(0.01, tau=1000, kappa=0.6)


def build(
    corpus: DeviceCorpus | HostCorpus | Pages,
    shape: tuple[int, int],
    *,
    alpha: ArrayLike = ALPHA,
    beta: ArrayLike = BETA,
    learn_alpha: str | None = None,
    learn_beta: str | None = None,
    seeds: Seeds | None = None,
    sampler: str = "scir",
    total: str | None = None,
    counts: str = "memoised",
    local_step: Local | None = None,
    step_size: StepSize | None = None,
    batch_size: int | None = None,
    devices: Sequence[jax.Device] | None = None,
) -> tuple[Kernel, Stream]:
    """Return the kernel of LDA's topics, and the stream of its batches of documents.

    Learned concentrations have exponential priors with the means `alpha` and `beta`. With memoised
    counts they are drawn from their conditionals given all labels, topics integrated out, once a
    pass; the sampler stays exact. With subsampled counts, every update moves alpha by the CIR
    process of its conditional, estimated from the batch; beta cannot be learned from a batch.

    Args:
        corpus: The corpus, `device.to_device(counts)`; if devices share it,
            `device.on_host(counts)`; if it is on disk, `device.pages(lengths, batch_size)`, with
            memoised counts and a fixed alpha.
        shape: (K, V), numbers of topics and words.
        alpha: Concentration of a document's topic proportions, per topic (not the sum), a scalar
            or [K].
        beta: Concentration of a topic, per word, a scalar, [V] or [K, V].
        learn_alpha: "learn" learns one common to all topics, "learn-asymmetric" one for each, and
            None neither.
        learn_beta: The same for words.
        seeds: Pseudo-counts added to beta for some words of some topics; not with a learned beta.
        sampler: One of `SAMPLERS`; "smld-approximate" is for comparisons.
        total: How samplers of unnormalised weights treat a topic's total weight: "refreshed" draws
            it from its law before every step, the default; "carried" keeps it from step to step, as
            Patterson and Teh (2013) and Baker et al. (2018, algorithm 1) do. With "carried", the
            law of the topics is biased even if the sampler's own law is not. Those papers start
            from independent Gamma(1, 1) weights: give `init` such weights, whose sum is the first
            total.
        counts: "memoised", "subsampled" or "control-variate".
        local_step: How labels are drawn; by default one sweep with memoised counts, else ten, with
            a burn-in of five. Estimated counts start from no labels and need the burn-in.
        step_size: Step size of the sampler or a schedule; see `default_step`.
        batch_size: Documents per batch; see `default_batch_size`.
        devices: Devices that share the documents, with memoised counts. On CPUs SCIR's topics are
            shared too: the position has K rows or a few more, the same number for each device, see
            `sharding.topics_of`. With collapsed sweeps, any number of devices that divides
            `batch_size` gives the same samples.

    Returns:
        A kernel and a stream of batches. The kernel's `init` takes topics [K, V], or weights that
        it normalises; its position is the logarithm of the topics. Batches are document ids, int32
        [batch_size], or a `batches.Visit` of them; with pages, `update` takes a `counts.Page` in
        their place, see `pages.Files`.

    Raises:
        ValueError: An argument is out of range or not one of the names.

    Example:
        >>> import jax, jax.numpy as jnp, scipy.sparse as sp
        >>> from simplex_jax import run
        >>> from simplex_jax._src.corpus import device
        >>> from simplex_jax._src.models.lda import model as lda
        >>> counts = sp.csr_array([[3, 2, 0, 0], [2, 3, 0, 0], [0, 0, 2, 3], [0, 0, 3, 2]])
        >>> kernel, stream = lda.build(device.to_device(counts), (2, 4))
        >>> state = kernel.init(jax.random.key(0), jnp.ones((2, 4)))
        >>> state, trace = run(jax.random.key(1), kernel, state, stream, num_steps=50)
        >>> trace.shape
        (50, 2, 4)
    """
    check_names(sampler, counts, learn_alpha, learn_beta, seeded=seeds is not None)
    shards = _shards(devices, counts)
    documents, tokens = _size(corpus, devices)
    if batch_size is None:
        batch_size = default_batch_size(documents, tokens, shape)
    batch_size = check_batch_size(batch_size, documents)
    means = _means(alpha, beta, shape, learn_alpha, learn_beta, seeds)
    local_step = _local(local_step, counts)
    if local_step.method == "integrated":
        check_integrated(sampler, counts, total, step_size)
    if step_size is None:
        step_size = _schedule(sampler, counts, local_step.method)
    if counts == "memoised":
        share, shard_documents = -(-batch_size // shards), -(-documents // shards)
        setup = Setup(
            shape=shape,
            sampler=sampler,
            total=total,
            local_step=local_step,
            learn_alpha=learn_alpha,
            learn_beta=learn_beta,
            batch_size=share,
        )
        if isinstance(corpus, HostCorpus) and devices:
            schedules.check(step_size)
            lda_kernel = sharding.memoised(corpus, devices, means, step_size, setup)
        else:
            lda_kernel = kernel.memoised(_on_device(corpus), means, step_size, setup=setup)
        stream = device.block_stream(shard_documents, share)
        if learn_alpha or learn_beta:
            # Not in the first pass, before which there are no labels to learn from.
            stream = batches.visits(stream, -(-shard_documents // share), first=1)
        return lda_kernel, stream
    on_device = _on_device(corpus)
    stream = device.uniform_stream(on_device, batch_size)
    if counts == "control-variate":
        estimate = control.control_variate(on_device, shape, local_step, batch_size)
        stream = batches.visits(stream, -(-documents // batch_size))
        return kernel.kernel(estimate, means, sampler, step_size, total=total), stream
    learn = learn_alpha is not None
    estimate = subsampled_counts(on_device, shape, local_step, batch_size, learn=learn)
    lda_kernel = kernel.kernel(estimate, means, sampler, step_size, total=total, follow=learn_alpha)
    return lda_kernel, stream


def build_streaming(
    documents: int,
    shape: tuple[int, int],
    *,
    alpha: ArrayLike = ALPHA,
    beta: ArrayLike = BETA,
    learn_alpha: str | None = None,
    seeds: Seeds | None = None,
    sampler: str = "scir",
    total: str | None = None,
    local_step: Local | None = None,
    step_size: StepSize | None = None,
) -> Kernel:
    """Return the kernel of LDA's topics for streamed documents, with subsampled counts.

    Batches are `device.Documents` with no tokens of others, drawn uniformly without replacement
    from a corpus of `documents`. For other arguments and errors see `build`.
    """
    check_names(sampler, "subsampled", learn_alpha)
    if step_size is None:
        step_size = _schedule(sampler, "subsampled")
    local_step = _local(local_step, "subsampled")
    estimate = streamed_counts(documents, shape, local_step, learn=learn_alpha is not None)
    means = _means(alpha, beta, shape, learn_alpha, None, seeds)
    return kernel.kernel(estimate, means, sampler, step_size, total=total, follow=learn_alpha)


def mean_topics(state: State, seeds: Seeds | None = None) -> jax.Array:
    """Return the posterior mean of the topics given the labels, [K, V].

    With memoised counts n this is (beta + n) / sum(beta + n), with seeds included in beta. It
    averages to the posterior mean with less noise than the topics themselves (Rao-Blackwell). With
    estimated counts, which are not labels, the topics themselves are returned. Leading axes, such
    as chains, are kept.
    """
    memory = state.sampler.memory
    if not isinstance(memory, Memory):
        return jnp.exp(state.position)
    mean = concentrations(state, seeds) / totals(state, memory.topic_tokens, seeds)
    return mean[..., : state.alpha.shape[-1], :]


def concentrations(state: State, seeds: Seeds | None = None) -> jax.Array:
    """Return those of the topics given the labels, beta + n of memoised counts n, [rows, V]."""
    counts = state.sampler.memory.counts
    total = _rows_of(state, state.beta) + counts
    return total if seeds is None else seeds.added(total)


def totals(state: State, topic_tokens: jax.Array, seeds: Seeds | None = None) -> jax.Array:
    """Return the sums of `concentrations`, [rows, 1], from the tokens of each topic, [K]."""
    total = _rows_of(state, topic_tokens[..., None]) + _rows_of(state, sums(state.beta))
    return total if seeds is None else total + seeds.totals(total.shape[-2])[:, None]


def others(state: State, seeds: Seeds | None = None) -> jax.Array:
    """Return what `totals` has besides each word, [rows, V], for words of more than half of it.

    Unlike a difference of the two it does not lose the few tokens beside millions: integers are
    subtracted, whose sum may wrap around where the difference fits.
    """
    counts = state.sampler.memory.counts
    tokens = jnp.sum(counts, axis=-1, keepdims=True, dtype=counts.dtype) - counts
    beta, total = _rows_of(state, state.beta), _rows_of(state, sums(state.beta))
    if seeds is not None:
        beta = seeds.added(jnp.broadcast_to(beta, counts.shape))
        total = total + seeds.totals(counts.shape[-2])[:, None]
    return tokens + (total - beta)


def _rows_of(state: State, array: jax.Array) -> jax.Array:
    """Return an array [K, n], or [n] for all topics, with as many rows as the counts, or one."""
    counts = state.sampler.memory.counts
    if array.ndim < counts.ndim:
        return array[..., None, :]
    spare = counts.shape[-2] - array.shape[-2]
    return jnp.pad(array, [(0, 0)] * (array.ndim - 2) + [(0, spare), (0, 0)], constant_values=1)


def check_names(
    sampler: str,
    counts: str,
    learn_alpha: str | None = None,
    learn_beta: str | None = None,
    *,
    seeded: bool = False,
) -> None:
    """Raise a ValueError unless these names, as for `build`, are valid and compatible."""
    arguments.choice("sampler", sampler, kernel.SAMPLERS)
    arguments.choice("counts", counts, COUNTS)
    for name, value in {"learn_alpha": learn_alpha, "learn_beta": learn_beta}.items():
        if value not in (None, *LEARN):
            raise ValueError(f"{name} must be one of {', '.join(LEARN)} or None; it is {value!r}")
    if learn_beta and counts != "memoised":
        raise ValueError("beta can be learned with memoised counts only; give a number")
    if learn_beta and seeded:
        raise ValueError("beta cannot be learned with seed words: give a number, or one per word")
    if learn_alpha and counts == "control-variate":
        raise ValueError("alpha can be learned with memoised or subsampled counts; give a number")


def check_integrated(sampler: str, counts: str, total: str | None, step_size: Any) -> None:
    """Raise a ValueError unless these are compatible with topics integrated out."""
    if sampler != "scir" or counts != "memoised" or total not in (None, TOTALS[0]):
        raise ValueError(
            "the local step 'integrated' draws topics anew, by scir with memoised counts and a "
            f"refreshed total; sampler is {sampler!r}, counts {counts!r} and total {total!r}"
        )
    if step_size not in (None, AFRESH):
        raise ValueError(
            "the local step 'integrated' draws topics anew: leave step_size out; it is "
            f"{step_size!r}"
        )


def check_batch_size(batch_size: int, documents: int) -> int:
    """Return the batch size as an int, or raise a ValueError unless it is one from 1 to D."""
    if arguments.at_least("batch_size", batch_size, 1) > documents:
        raise ValueError(f"batch_size must be between 1 and {documents}; it is {batch_size!r}")
    return int(batch_size)


def _size(
    corpus: DeviceCorpus | HostCorpus | Pages, devices: Sequence[jax.Device] | None
) -> tuple[int, int]:
    """Return the numbers of documents and of tokens."""
    if isinstance(corpus, Pages):
        return device.size(corpus), int(corpus.starts[-1])
    if isinstance(corpus, HostCorpus):
        return len(corpus.lengths), int(corpus.lengths.sum())
    if devices:
        raise ValueError("corpus is already on a device: give device.on_host(counts) to share it")
    return device.size(corpus), corpus.tokens.shape[0]


def _on_device(corpus: DeviceCorpus | HostCorpus | Pages) -> Any:
    return device.to_device(corpus) if isinstance(corpus, HostCorpus) else corpus


def _means(
    alpha: ArrayLike,
    beta: ArrayLike,
    shape: tuple[int, int],
    learn_alpha: str | None,
    learn_beta: str | None,
    seeds: Seeds | None,
) -> Means:
    if learn_beta and np.ndim(beta) == 2:
        raise ValueError("beta must be a scalar or [V] if it is learned")
    for name, value, learn in (("alpha", alpha, learn_alpha), ("beta", beta, learn_beta)):
        if learn == "learn" and np.ndim(value) and len(set(np.ravel(value).tolist())) > 1:
            raise ValueError(f"{name} must be one number if a common one is learned")
    return kernel.means_of(alpha, beta, shape, seeds)


def _local(local_step: Local | None, counts: str) -> Local:
    default = Local() if counts == "memoised" else Local(sweeps=10, burn_in=5)
    return default if local_step is None else local_step


def _shards(devices: Sequence[jax.Device] | None, counts: str) -> int:
    if not devices:
        return 1
    if counts != "memoised":
        raise ValueError("devices can share the documents with memoised counts only")
    if len(set(devices)) < len(devices):
        raise ValueError("devices must be distinct")
    return len(devices)


def _schedule(sampler: str, counts: str, method: str | None = None) -> StepSize:
    step = default_step(sampler, counts, method)
    return polynomial_decay(*step) if step.tau else step.initial

"""Latent Dirichlet allocation: the posterior of topics by any simplex kernel.

Topic k is a distribution phi_k ~ Dirichlet(beta) over V words, document d has proportions
theta_d ~ Dirichlet(alpha) over K topics, and a token has a topic z ~ theta_d and a word ~ phi_z.
The position is log phi, [K, V]. Given the assignments z, the posterior of phi is
Dirichlet(beta + counts), so SCIR, SGRLD and SMLD need only an estimate of the counts.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from simplex_jax._src import arguments, batches, schedules
from simplex_jax._src.base import Kernel
from simplex_jax._src.batches import Stream
from simplex_jax._src.corpus import device
from simplex_jax._src.corpus.device import DeviceCorpus, HostCorpus, Pages
from simplex_jax._src.models.lda import kernel, sharding
from simplex_jax._src.models.lda.kernel import (
    SAMPLERS,
    TOTALS,
    Config,
    Memory,
    State,
)
from simplex_jax._src.models.lda.seeds import Seeds, as_seeds
from simplex_jax._src.models.topics import data
from simplex_jax._src.models.topics import engine as engines
from simplex_jax._src.models.topics.concentrations import LEARN, GammaPrior, initial_concentration
from simplex_jax._src.schedules import StepSize
from simplex_jax._src.sharded_rows import sums

COUNTS = ("memoised", "subsampled")

ALPHA, BETA = 0.1, 0.05
"""Default concentrations of topic proportions, per topic, and of topics, per word.

"""

FIRST = {"alpha": ALPHA, "beta": BETA}
"""Default prior means of learned concentrations, where they start."""


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


def default_step(sampler: str, counts: str) -> float | tuple[float, float, float]:
    """Return the default step size, a constant or the arguments of `step_sizes.polynomial_decay`.

    With memoised counts any step of SCIR is exact and a long one mixes fastest: after h = 5 the
    topics hardly depend on where they were. With estimated counts the default is the schedule of
    the SCIR paper, which also suits SGRHMC, whose scale is the same. SGRLD and
    SMLD use the steps of Patterson and Teh. For SMLD these are unstable on topics of more than a
    few hundred tokens, and stable steps hardly move.
    """
    if sampler == "scir" and counts == "memoised":
        return 5.0
    if sampler in ("scir", "sgrhmc"):
        return 0.5, 10.0, 0.33
    return 0.01, 1000.0, 0.6


def build(
    corpus: Any,
    shape: tuple[int, int],
    *,
    alpha: ArrayLike | str = ALPHA,
    beta: ArrayLike | str = BETA,
    alpha_prior: GammaPrior = None,
    beta_prior: GammaPrior = None,
    seeds: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
    sampler: str = "scir",
    total: str | None = None,
    counts: str = "memoised",
    local: str | None = None,
    sweeps: int | None = None,
    burn_in: int | None = None,
    expected: bool = False,
    engine: str | None = None,
    step_size: StepSize | tuple[float, float, float] | None = None,
    batch_size: int | None = None,
    devices: Sequence[jax.Device] | None = None,
) -> tuple[Kernel, Stream]:
    """Return the kernel of LDA's topics, and the stream of its batches of documents.

    With memoised counts learned concentrations are drawn from their conditionals given all labels,
    topics integrated out, once a pass; the sampler stays exact. With subsampled counts, every
    update moves alpha by the CIR process of its conditional, estimated from the batch; beta cannot
    be learned from a batch.

    Args:
        corpus: What `fit` takes: a corpus, texts, or a table of counts [D, V].
        shape: (K, V), numbers of topics and words.
        alpha: Concentration of a document's topic proportions, per topic (not the sum), a scalar
            or [K]; or "learn" for one common to all topics, "learn-asymmetric" for one for each.
        beta: Concentration of a topic, per word, a scalar, [V] or [K, V]; or the same words.
        alpha_prior: Shape and rate of the Gamma prior of a learned alpha, whose first value is the
            prior mean; by default an exponential prior of mean 0.1.
        beta_prior: The same for beta, by default of mean 0.05.
        seeds: Pseudo-counts added to beta for n pairs of a topic and a word, `(topics, words,
            weight)`: integers [n] twice, and a number or numbers [n]. Not with a learned beta.
        sampler: "scir", "sgrld", "sgrhmc" or "smld".
        total: How samplers of unnormalised weights treat a topic's total weight: "refreshed" draws
            it from its distribution before every step, the default; "carried" keeps it from step to
            step, as Patterson and Teh (2013) and Baker et al. (2018, algorithm 1) do. With
            "carried", the distribution of the topics is biased even if the sampler's own is not.
            Those papers start from independent Gamma(1, 1) weights: give `init` such weights, whose
            sum is the first total.
        counts: "memoised" or "subsampled".
        local: How labels are drawn: "collapsed", the default, or "blocked".
        sweeps: Gibbs sweeps over a batch; by default one with memoised counts, else ten.
        burn_in: Number of first sweeps whose counts are discarded; by default half of those of
            subsampled counts, which start from no labels.
        expected: Count the probabilities of the labels in place of the labels: less noise, at the
            cost of K updates a token. Only for blocked sweeps with subsampled counts.
        engine: "native" or "xla"; by default the one that works here.
        step_size: Step size of the sampler, a number, the arguments of
            `step_sizes.polynomial_decay`, or a schedule; by default that of `fit`.
        batch_size: Documents per batch; by default as in `fit`.
        devices: Devices that share the documents, with memoised counts. On CPUs SCIR's topics are
            shared too: the position has K rows or a few more, the same number for each device. With
            collapsed sweeps, any number of devices that divides `batch_size` gives the same
            samples.

    Returns:
        A kernel and a stream of batches. The kernel's `init` takes topics [K, V], or weights that
        it normalises; its position is the logarithm of the topics. Batches are document ids, int32
        [batch_size], shortest documents first; give both to `run`.

    Raises:
        ValueError: An argument is out of range or not one of the names.

    Example:
        >>> import jax, jax.numpy as jnp, scipy.sparse as sp
        >>> from simplex_jax import lda, run
        >>> counts = sp.csr_array([[3, 2, 0, 0], [2, 3, 0, 0], [0, 0, 2, 3], [0, 0, 3, 2]])
        >>> kernel, stream = lda.build(counts, (2, 4))
        >>> state = kernel.init(jax.random.key(0), jnp.ones((2, 4)))
        >>> state, trace = run(jax.random.key(1), kernel, state, stream, num_steps=50)
        >>> trace.shape
        (50, 2, 4)
    """
    if not isinstance(corpus, DeviceCorpus | HostCorpus | Pages):  # as those who fit have it
        documents = data.as_data(corpus)
        if (words := data.size_of(documents).words) != shape[1]:
            raise ValueError(
                f"shape must be (K, {words}), for the words of the corpus; it is {shape}"
            )
        corpus = data.on_host(documents)
    number, tokens = _size(corpus)
    if batch_size is None:
        batch_size = default_batch_size(number, tokens, shape)
    config = configure(
        shape,
        alpha=alpha,
        beta=beta,
        alpha_prior=alpha_prior,
        beta_prior=beta_prior,
        seeds=None if seeds is None else as_seeds(seeds, shape),
        sampler=sampler,
        total=total,
        counts=counts,
        local=local,
        sweeps=sweeps,
        burn_in=burn_in,
        expected=expected,
        engine=engine,
        step_size=step_size,
        batch_size=check_batch_size(batch_size, number),
    )
    return build_from(corpus, config, devices)


def configure(
    shape: tuple[int, int],
    *,
    alpha: ArrayLike | str = ALPHA,
    beta: ArrayLike | str = BETA,
    alpha_prior: GammaPrior = None,
    beta_prior: GammaPrior = None,
    seeds: Seeds | None = None,
    sampler: str = "scir",
    total: str | None = None,
    counts: str = "memoised",
    local: str | None = None,
    sweeps: int | None = None,
    burn_in: int | None = None,
    expected: bool = False,
    engine: str | None = None,
    step_size: StepSize | tuple[float, float, float] | None = None,
    batch_size: int = 0,
) -> Config:
    """Return the configuration of a kernel with all defaults filled in; see `build`.

    This is where the arguments of a kernel are checked: what takes a `Config` trusts it.
    """
    if shape[0] < 1 or shape[1] < 1:
        raise ValueError(f"there must be at least one topic and one word; the shape is {shape}")
    local = local or "collapsed"
    seeded, memoised = seeds is not None, counts == "memoised"
    check_names(sampler, counts, alpha, beta, seeded=seeded, local=local, total=total)
    default = 1 if memoised else 10
    sweeps = default if sweeps is None else arguments.at_least("sweeps", sweeps, 1)
    default = 0 if memoised else sweeps // 2
    burn_in = default if burn_in is None else arguments.at_least("burn_in", burn_in, 0)
    _check_sweeps(local, sweeps, burn_in, expected=expected, memoised=memoised)
    if step_size is None:
        step_size = default_step(sampler, counts)
    if isinstance(step_size, tuple):
        step_size = schedules.polynomial_decay(*step_size)
    schedules.check(step_size)
    full = shape if np.ndim(beta) == 2 else shape[1:]
    first_alpha, learn_alpha, alpha_shape = initial_concentration(
        "alpha", alpha, alpha_prior, ALPHA, shape[:1]
    )
    first_beta, learn_beta, beta_shape = initial_concentration("beta", beta, beta_prior, BETA, full)
    return Config(
        alpha=first_alpha,
        beta=first_beta,
        seeds=seeds,
        step_size=step_size,
        shape=shape,
        learn_alpha=learn_alpha,
        learn_beta=learn_beta,
        alpha_shape=alpha_shape,
        beta_shape=beta_shape,
        sampler=sampler,
        total=total or (TOTALS[0] if SAMPLERS[sampler].weighted else None),
        counts=counts,
        local=local,
        sweeps=sweeps,
        burn_in=burn_in,
        expected=expected,
        engine=engines.resolve(engine, shape[0]),
        batch_size=batch_size,
    )


def build_from(
    corpus: DeviceCorpus | HostCorpus | Pages,
    config: Config,
    devices: Sequence[jax.Device] | None = None,
) -> tuple[Kernel, Stream]:
    """Return the kernel and the stream of `build`, from a configuration."""
    documents, _ = _size(corpus)
    _check_devices(corpus, config, devices)
    shards = len(devices) if devices else 1
    share, shard_documents = -(-config.batch_size // shards), -(-documents // shards)
    config = dataclasses.replace(config, batch_size=share)
    if isinstance(corpus, HostCorpus) and devices:
        built = sharding.memoised(corpus, devices, config)
    else:
        on_device: Any = device.to_device(corpus) if isinstance(corpus, HostCorpus) else corpus
        built = kernel.kernel_of(kernel.source_of(on_device, config))
        if config.counts == "subsampled":
            return built, device.uniform_stream(on_device, config.batch_size)
    stream = device.block_stream(shard_documents, share)
    if config.learn_alpha or config.learn_beta:
        # Not in the first pass, before which there are no labels to learn from.
        stream = batches.visits(stream, -(-shard_documents // share), first=1)
    return built, stream


def _check_devices(
    corpus: DeviceCorpus | HostCorpus | Pages,
    config: Config,
    devices: Sequence[jax.Device] | None,
) -> None:
    """Raise a ValueError unless the devices can share the documents."""
    if not devices:
        return
    if config.counts != "memoised":
        raise ValueError("devices can share the documents with memoised counts only")
    if len(set(devices)) < len(devices):
        raise ValueError("devices must be distinct")
    if isinstance(corpus, DeviceCorpus):
        raise ValueError("corpus is already on a device: give device.on_host(counts) to share it")


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


def prior(state: State, seeds: Seeds | None = None) -> jax.Array:
    """Return the concentrations of the topics without tokens, beta, [rows, V]."""
    beta = jnp.broadcast_to(_rows_of(state, state.beta), state.sampler.memory.counts.shape)
    return beta if seeds is None else seeds.added(beta)


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
    total = _rows_of(state, sums(state.beta))
    if seeds is not None:
        total = total + seeds.totals(counts.shape[-2])[:, None]
    return tokens + (total - prior(state, seeds))


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
    alpha: ArrayLike | str = ALPHA,
    beta: ArrayLike | str = BETA,
    *,
    seeded: bool = False,
    local: str = "collapsed",
    total: str | None = None,
) -> None:
    """Raise a ValueError unless these arguments of `build` are names and go together."""
    given = {
        "sampler": (sampler, SAMPLERS),
        "counts": (counts, COUNTS),
        "local": (local, engines.METHODS),
        "total": (total or TOTALS[0], TOTALS),
    }
    for name, (value, names) in given.items():
        arguments.choice(name, value, names)
    if total is not None and not SAMPLERS[sampler].weighted:
        raise ValueError(f"total is that of weights, and {sampler} moves none: leave it out")
    for name, concentration in {"alpha": alpha, "beta": beta}.items():
        if isinstance(concentration, str) and concentration not in LEARN:
            known = ", ".join(LEARN)
            raise ValueError(f"{name} must be a number or one of {known}; it is {concentration!r}")
    if isinstance(beta, str) and counts != "memoised":
        raise ValueError("beta can be learned with memoised counts only; give a number")
    if isinstance(beta, str) and seeded:
        raise ValueError("beta cannot be learned with seed words: give a number, or one per word")


def _check_sweeps(local: str, sweeps: int, burn_in: int, *, expected: bool, memoised: bool) -> None:
    if burn_in >= sweeps:
        raise ValueError(f"burn_in must be below sweeps, {sweeps}; it is {burn_in}")
    if expected and local != "blocked":
        raise ValueError("expected counts need the blocked local step")
    if memoised and (expected or burn_in):
        raise ValueError("memoised counts use the last labels: leave out burn_in and expected")


def check_batch_size(batch_size: int, documents: int) -> int:
    """Return the batch size as an int, or raise a ValueError unless it is one from 1 to D."""
    if arguments.at_least("batch_size", batch_size, 1) > documents:
        raise ValueError(f"batch_size must be between 1 and {documents}; it is {batch_size!r}")
    return int(batch_size)


def _size(corpus: DeviceCorpus | HostCorpus | Pages) -> tuple[int, int]:
    """Return the numbers of documents and of tokens."""
    if isinstance(corpus, Pages):
        return device.size(corpus), int(corpus.starts[-1])
    if isinstance(corpus, HostCorpus):
        return len(corpus.lengths), int(corpus.lengths.sum())
    return device.size(corpus), corpus.tokens.shape[0]

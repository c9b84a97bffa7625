"""Stochastic collapsed variational Bayes of order zero for LDA (Foulds et al. 2013)."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from baselines import entries, natural
from baselines.entries import Entries
from simplex_jax._src import arguments, schedules
from simplex_jax._src.base import Kernel, bind, static
from simplex_jax._src.batches import Stream
from simplex_jax._src.corpus import device
from simplex_jax._src.corpus.device import DeviceCorpus
from simplex_jax._src.models.lda import model as lda
from simplex_jax._src.models.lda.kernel import Counts, Given, Info, State
from simplex_jax._src.schedules import Schedule, StepSize, polynomial_decay

__all__ = ["Info", "State", "build", "default_document_step_size", "default_step_size"]


def default_step_size() -> Schedule:
    """Return the paper's schedule of the topics, 10 / (1000 + t)^0.9 after t updates."""
    return polynomial_decay(10 * 1000**-0.9, tau=1000, kappa=0.9)


def default_document_step_size() -> Schedule:
    """Return the paper's schedule of a document, 1 / (10 + t)^0.9 after t of its tokens."""
    return polynomial_decay(10**-0.9, tau=10, kappa=0.9)


def build(
    corpus: DeviceCorpus,
    shape: tuple[int, int],
    *,
    alpha: ArrayLike = 0.1,
    beta: ArrayLike = 0.01,
    step_size: StepSize | None = None,
    document_step_size: StepSize | None = None,
    burn_in: int = 1,
    batch_size: int = 100,
) -> tuple[Kernel, Stream]:
    r"""Return the kernel of SCVB0 for LDA, and its stream of batches.

    A document of C_d tokens goes through its distinct words, each as often as it occurs at once
    ("clumped"), `burn_in` + 1 times; at a word w that occurs m times, after t tokens,

    .. math::
        \gamma_k \propto (N_{kw} + \beta_w) \frac{N_{dk} + \alpha_k}{N_k + \sum_v \beta_v}, \qquad
        N_{dk} \leftarrow (1 - \rho_t)^m N_{dk} + (1 - (1 - \rho_t)^m) C_d \gamma_k

    and with the m gamma of the last time, C tokens in the corpus and C_B in the batch,

    .. math:: N_{kw} \leftarrow (1 - \rho) N_{kw} + \rho \frac{C}{C_B} \sum m \gamma_k

    (Foulds et al. 2013, Algorithm 1). Here N_d starts at C_d / K at every visit of a document, not
    at random, and so need not be kept.

    The words are gone through one after the other, at about a microsecond each on a CPU and 100
    topics; an accelerator takes far longer.

    Args:
        corpus: The corpus, `device.to_device(counts)`.
        shape: (K, V), numbers of topics and words.
        alpha: Concentration of topic proportions, per topic, a scalar or [K].
        beta: Concentration of topics, per word, a scalar, [V] or [K, V].
        step_size: rho, above 0 and at most 1, or a schedule of it; see `default_step_size`.
        document_step_size: rho_t, likewise, of the number of tokens of the document gone through;
            see `default_document_step_size`.
        burn_in: Passes over a document before the one that counts.
        batch_size: Documents a batch, cut to those that there are.

    Returns:
        A kernel whose `init` takes topics [K, V], to which noise is given, and whose position is
        the logarithm of the topics, N + beta normalised; and a stream of uniform batches of
        distinct documents. N + beta is `state.sampler.weights`.

    Raises:
        ValueError: An argument is out of range.

    Example:
        >>> import jax, jax.numpy as jnp, scipy.sparse as sp
        >>> from simplex_jax import run
        >>> from simplex_jax._src.corpus import device
        >>> from baselines import scvb0
        >>> counts = sp.csr_array([[3, 2, 0, 0], [2, 3, 0, 0], [0, 0, 2, 3], [0, 0, 3, 2]])
        >>> kernel, stream = scvb0.build(device.to_device(counts), (2, 4), step_size=0.1)
        >>> state = kernel.init(jax.random.key(0), jnp.ones((2, 4)))
        >>> state, _ = run(jax.random.key(1), kernel, state, stream, num_steps=50)
        >>> jnp.exp(state.position).sum(axis=1).round(3).tolist()
        [1.0, 1.0]
    """
    shape = natural.check_shape(shape, corpus)
    config = lda.configure(shape, alpha=alpha, beta=beta)
    batch_size = natural.batch_size_of(batch_size, corpus)
    passes = arguments.at_least("burn_in", burn_in, 0) + 1
    if step_size is None:
        step_size = default_step_size()
    if document_step_size is None:
        document_step_size = default_document_step_size()
    schedules.check_share(document_step_size, "document_step_size")
    estimate = bind(static(_estimate, passes=passes), entries.of(corpus), document_step_size)
    counts = Counts(init=bind(_nothing), estimate=estimate)
    kernel = natural.kernel(counts, config, step_size, shape, natural.arithmetic)
    return kernel, device.uniform_stream(corpus, batch_size)


def _nothing(key: jax.Array) -> tuple:
    del key
    return ()


def _estimate(
    known: Entries,
    document_step_size: StepSize,
    given: Given,
    key: jax.Array,
    memory: tuple,
    log_topics: jax.Array,
    ids: jax.Array,
    *,
    passes: int,
) -> tuple[jax.Array, tuple]:
    """Return the expected counts of the batch, scaled to the corpus."""
    del key
    dtype = log_topics.dtype
    topics = jnp.exp(log_topics - jnp.max(log_topics, axis=0)).T  # up to a factor for each word
    alpha = given.alpha.astype(dtype)
    num_topics = alpha.shape[0]
    mine = device.select(known.corpus, ids)
    sizes = known.lengths[ids].astype(dtype)

    def document(d: jax.Array, total: jax.Array) -> jax.Array:
        start, length, tokens = mine.starts[d], mine.lengths[d], sizes[d]

        def word(i: jax.Array, loop: tuple) -> tuple:
            in_document, t, total = loop
            place = start + i % length
            w, m = known.corpus.tokens[place], known.counts[place].astype(dtype)
            gamma = topics[w] * (in_document + alpha)
            gamma = gamma / jnp.sum(gamma)
            rho = schedules.evaluate(document_step_size, t).astype(dtype)
            rho = jnp.where((rho > 0) & (rho <= 1), rho, jnp.nan)
            kept = (1 - rho) ** m
            in_document = kept * in_document + (1 - kept) * tokens * gamma
            counted = jnp.where(i >= (passes - 1) * length, m, 0)
            return in_document, t + m, total.at[w].add(counted * gamma)

        start_at = (jnp.full(num_topics, tokens / num_topics), jnp.zeros((), dtype), total)
        return lax.fori_loop(0, passes * length, word, start_at)[2]

    total = lax.fori_loop(0, ids.shape[0], document, jnp.zeros_like(topics))
    scale = jnp.sum(known.lengths).astype(dtype) / jnp.maximum(jnp.sum(sizes), 1)
    return scale * total.T, memory

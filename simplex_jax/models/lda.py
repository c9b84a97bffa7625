"""Latent Dirichlet allocation: the posterior of topics by any kernel of the simplex.

Topic k is a distribution phi_k ~ Dirichlet(beta) over V words, document d has proportions
theta_d ~ Dirichlet(alpha) over K topics, and a token has a topic z ~ theta_d and a word ~ phi_z.
The position is log phi, [K, V]; given the assignments z its posterior is Dirichlet(beta + counts),
so that an estimate of the counts is all that SCIR, SGRLD or SMLD need.
"""

from typing import NamedTuple

from jax.typing import ArrayLike

from simplex_jax.base import Kernel
from simplex_jax.batches import Stream
from simplex_jax.corpus import device
from simplex_jax.corpus.device import DeviceCorpus
from simplex_jax.models.lda_counts import (
    ONE_SWEEP,
    Local,
    concentrations,
    control_variate,
    memoised,
    subsampled,
)
from simplex_jax.samplers import scir, sgrld, smld
from simplex_jax.schedules import StepSize, polynomial_decay

COUNTS = ("memoised", "subsampled", "control-variate")
SAMPLERS = ("scir", "sgrld", "smld")


def default_batch_size(documents: int, tokens: int, shape: tuple[int, int]) -> int:
    """Return a batch size at which drawing the topics costs no more than drawing the labels.

    A topic update touches K V numbers whatever the batch: batches of about as many tokens.
    """
    wanted = -(-documents * shape[0] * shape[1] // max(tokens, 1))
    return max(1, min(documents, wanted))


class Step(NamedTuple):
    """A step size, constant where tau is 0, else `schedules.polynomial_decay(*step)`."""

    initial: float
    tau: float = 0.0
    kappa: float = 0.0


def default_step(sampler: str, counts: str) -> Step:
    """Return the step size used where none is given.

    With memoised counts any step of SCIR is exact and a long one mixes fastest: after h = 5 the
    topics have all but forgotten where they were. With estimated counts it is the schedule of the
    SCIR paper. SGRLD and SMLD take the steps that Patterson and Teh published; for SMLD that is
    beyond stability on topics of more than a few hundred tokens, and stable steps hardly move.
    """
    if sampler != "scir":
        return Step(0.01, tau=1000, kappa=0.6)
    return Step(5.0) if counts == "memoised" else Step(0.5, tau=10, kappa=0.33)


def build(
    corpus: DeviceCorpus,
    shape: tuple[int, int],
    *,
    alpha: ArrayLike = 0.1,
    beta: ArrayLike = 0.05,
    sampler: str = "scir",
    counts: str = "memoised",
    how: Local = ONE_SWEEP,
    step_size: StepSize | None = None,
    batch_size: int | None = None,
) -> tuple[Kernel, Stream]:
    """Return the kernel of LDA's topics, and the stream of batches of documents that it eats.

    Args:
        corpus: The corpus, `device.to_device(counts)`.
        shape: (K, V), numbers of topics and words.
        alpha: Concentration of a document's topic proportions, per topic (not the sum), a scalar
            or [K].
        beta: Concentration of a topic, per word, a scalar, [V] or [K, V].
        sampler: "scir", "sgrld" or "smld".
        counts: "memoised", "subsampled" or "control-variate".
        how: The local step.
        step_size: Step size of the sampler or a schedule of it; see `default_step`.
        batch_size: Documents a batch; see `default_batch_size`.

    Returns:
        A kernel whose `init` takes topics [K, V] and whose position is their logarithm, and a
        stream of document ids, int32 [batch_size].

    Raises:
        ValueError: An argument is out of range or not one of the names.

    Example:
        >>> import jax, jax.numpy as jnp, scipy.sparse as sp
        >>> from simplex_jax import run
        >>> from simplex_jax.corpus import device
        >>> from simplex_jax.models import lda
        >>> counts = sp.csr_array([[3, 2, 0, 0], [2, 3, 0, 0], [0, 0, 2, 3], [0, 0, 3, 2]])
        >>> kernel, stream = lda.build(device.to_device(counts), (2, 4))
        >>> state = kernel.init(jax.random.key(0), jnp.ones((2, 4)))
        >>> state, trace = run(jax.random.key(1), kernel, state, stream, num_steps=50)
        >>> trace.shape
        (50, 2, 4)
    """
    if sampler not in SAMPLERS:
        raise ValueError(f"sampler must be one of {', '.join(SAMPLERS)}; it is {sampler!r}")
    if counts not in COUNTS:
        raise ValueError(f"counts must be one of {', '.join(COUNTS)}; it is {counts!r}")
    documents = device.size(corpus)
    if batch_size is None:
        batch_size = default_batch_size(documents, corpus.tokens.shape[0], shape)
    if not isinstance(batch_size, int) or not 1 <= batch_size <= documents:
        raise ValueError(
            f"batch_size must be an integer between 1 and {documents}; it is {batch_size!r}"
        )
    beta = concentrations("beta", beta, shape)
    if counts == "memoised":
        estimator = memoised(corpus, shape, alpha, how)
        stream = device.block_stream(corpus, batch_size)
    else:
        stream = device.uniform_stream(corpus, batch_size)
        if counts == "subsampled":
            estimator = subsampled(corpus, shape, alpha, how, batch_size)
        else:
            passes = -(-documents // batch_size)
            estimator = control_variate(corpus, shape, alpha, how, batch_size, refresh=passes)
    if step_size is None:
        step = default_step(sampler, counts)
        step_size = polynomial_decay(*step) if step.tau else step.initial
    if sampler == "smld":
        return smld.build(estimator, alpha=beta, step_size=step_size), stream
    module = scir if sampler == "scir" else sgrld
    return module.build(estimator, alpha=beta, step_size=step_size, total="refreshed"), stream

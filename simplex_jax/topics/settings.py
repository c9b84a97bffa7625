"""The settings of a run: everything that decides it, with what was left out filled in."""

from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.sparse as sp
from jax.typing import ArrayLike

from simplex_jax import schedules
from simplex_jax.corpus import Corpus
from simplex_jax.corpus.store import Stored
from simplex_jax.draws import arguments
from simplex_jax.models import lda, lda_counts
from simplex_jax.runtime import session

# Concentrations where none is given; of learned ones the first value and the prior mean.
ALPHA, BETA = 0.1, 0.05
_FIRST = {"alpha": ALPHA, "beta": BETA}
_LEARN = {
    "alpha": {"learn": "vector", "learn-symmetric": "symmetric"},
    "beta": {"learn": "symmetric", "learn-vector": "vector"},
}


class Size(NamedTuple):
    """The size of a corpus.

    Attributes:
        documents: D.
        tokens: Number of tokens.
        words: V.
    """

    documents: int
    tokens: int
    words: int


class Settings(NamedTuple):
    """Everything that decides a run, with its defaults resolved; every entry can go into JSON.

    Attributes:
        num_topics: K.
        alpha: Concentration of topic proportions, per topic; one number or K of them. Where it is
            learned, its first value and its prior mean.
        beta: Concentration of topics, per word; one number or V of them. Where it is learned, its
            first value and its prior mean.
        learn_alpha: None, "symmetric" or "vector".
        learn_beta: None, "symmetric" or "vector".
        sampler: One of `models.lda.SAMPLERS`.
        counts: "memoised", "subsampled" or "control-variate".
        local: "collapsed" or "blocked".
        sweeps: Gibbs sweeps over a batch.
        burn_in: Of these, the first whose counts are not used.
        expected: Whether expected counts stand for drawn ones.
        step_size: First step size.
        tau: Steps after which the step size decays; 0 for a constant one.
        kappa: Exponent of the decay.
        batch_size: Documents in a batch.
        num_steps: Updates, or None if time ends the run.
        seconds: Training time that ends the run, or None.
        eval_every: Updates between evaluations and posterior samples.
        chains: Chains side by side.
        devices: Devices that share the documents.
        keep_samples: Samples of the topics to keep, at most.
        seed: Seed of all randomness.
    """

    num_topics: int
    alpha: float | tuple[float, ...]
    beta: float | tuple[float, ...]
    learn_alpha: str | None
    learn_beta: str | None
    sampler: str
    counts: str
    local: str
    sweeps: int
    burn_in: int
    expected: bool
    step_size: float
    tau: float
    kappa: float
    batch_size: int
    num_steps: int | None
    seconds: float | None
    eval_every: int
    chains: int
    devices: int
    keep_samples: int
    seed: int


def resolve(
    corpus: Corpus | sp.csr_array | Stored,
    num_topics: int,
    *,
    alpha: ArrayLike | str = ALPHA,
    beta: ArrayLike | str = BETA,
    sampler: str = "scir",
    counts_estimate: str | None = None,
    local: str | None = None,
    sweeps: int | None = None,
    burn_in: int | None = None,
    expected: bool = False,
    step_size: float | None = None,
    batch_size: int | None = None,
    passes: float | None = None,
    steps: int | None = None,
    seconds: float | None = None,
    eval_every: int | None = None,
    chains: int = 1,
    devices: int | None = None,
    keep_samples: int = 0,
    seed: int = 0,
) -> Settings:
    """Return the settings of a run with everything that was left out filled in.

    Args:
        corpus: A corpus, a table of its counts [D, V], or a corpus on disk; only its size matters.
        num_topics: K.
        alpha: Concentration of topic proportions, per topic (not the sum): a number, K of them,
            "learn" for one of each topic that is sampled along, "learn-symmetric" for a common one.
            Different alphas with a common beta are what Wallach, Mimno and McCallum (2009)
            recommend. Not learned with control-variate counts.
        beta: Concentration of topics, per word: a number, V of them, "learn" for a common one that
            is sampled along, "learn-vector" for one of each word; memoised counts only.
        sampler: One of `models.lda.SAMPLERS`.
        counts_estimate: "memoised" (the default), "subsampled" (that of a corpus on disk, which
            knows no other) or "control-variate".
        local: "collapsed" (the default) or "blocked" (that with `expected`).
        sweeps: Gibbs sweeps over a batch; 1 with memoised counts, else 10.
        burn_in: Of these, the first whose counts are not used; half of those of estimated counts.
        expected: Use expected counts; not with memoised ones.
        step_size: A constant step size, no schedule; by default that of `lda.default_step`.
        batch_size: In documents; see `lda.default_batch_size`.
        passes: Length of the run in passes over the corpus, 200 by default.
        steps: Its length in updates.
        seconds: Its length in seconds of training.
        eval_every: Updates between evaluations and posterior samples; a 50th of the run or, if it
            ends by time, a pass.
        chains: Chains side by side, with starts and random numbers of their own.
        devices: Devices that share the documents, with memoised counts; by default all of JAX's
            that can without changing the batches. With collapsed sweeps and a given alpha their
            number changes no sample.
        keep_samples: Samples of the topics to keep, evenly spaced over the second half of the run.
        seed: Seed of all randomness.

    Raises:
        ValueError: An option is out of range; the message names it.

    Example:
        >>> import scipy.sparse as sp
        >>> from simplex_jax import topics
        >>> settings = topics.resolve(sp.csr_array([[3, 0], [0, 2]]), 2, alpha="learn", passes=50)
        >>> settings.alpha, settings.learn_alpha, settings.counts, settings.num_steps
        (0.1, 'vector', 'memoised', 50)
    """
    documents, tokens, words = size_of(corpus)
    stored = isinstance(corpus, Stored)
    if counts_estimate is None:
        counts_estimate = "subsampled" if stored else "memoised"
    if stored and counts_estimate != "subsampled":
        raise ValueError(
            f"a corpus on disk is sampled with counts_estimate='subsampled', not "
            f"{counts_estimate!r}: give its counts as an array if they fit into memory"
        )
    num_topics = arguments.at_least("num_topics", num_topics, 1)
    first_alpha, learn_alpha = prior("alpha", alpha, num_topics)
    first_beta, learn_beta = prior("beta", beta, words)
    lda.check_names(sampler, counts_estimate, learn_alpha, learn_beta)
    memoised = counts_estimate == "memoised"
    if batch_size is None:
        batch_size = lda.default_batch_size(documents, tokens, (num_topics, words))
    batch_size = lda.check_batch_size(batch_size, documents)
    per_pass = -(-documents // batch_size)
    length = session.length(
        per_pass, passes=passes, steps=steps, seconds=seconds, eval_every=eval_every
    )
    seed = session.check_seed(seed)
    if sweeps is None:
        sweeps = 1 if memoised else 10
    default = lda.default_step(sampler, counts_estimate)
    settings = Settings(
        num_topics=num_topics,
        alpha=first_alpha,
        beta=first_beta,
        learn_alpha=learn_alpha,
        learn_beta=learn_beta,
        sampler=sampler,
        counts=counts_estimate,
        local=local or ("blocked" if expected else "collapsed"),
        sweeps=sweeps,
        burn_in=(0 if memoised else sweeps // 2) if burn_in is None else burn_in,
        expected=expected,
        step_size=default.initial
        if step_size is None
        else schedules.constant("step_size", step_size),
        tau=default.tau if step_size is None else 0.0,
        kappa=default.kappa if step_size is None else 0.0,
        batch_size=batch_size,
        num_steps=length.steps,
        seconds=length.seconds,
        eval_every=length.eval_every,
        chains=arguments.at_least("chains", chains, 1),
        devices=_sharing(devices, batch_size, documents, memoised),
        keep_samples=arguments.at_least("keep_samples", keep_samples, 0),
        seed=seed,
    )
    check = lda_counts.check_memoised if memoised else lda_counts.check
    check((num_topics, words), local_step(settings))
    return settings


def _sharing(devices: int | None, batch_size: int, documents: int, memoised: bool) -> int:
    """Return the largest number of devices that does not change the batches, hence no sample."""
    there = len(jax.devices())
    wanted = there if devices is None else arguments.at_least("devices", devices, 1)
    if wanted > there:
        raise ValueError(f"devices must be at most {there}, which is all there are; not {wanted}")
    if not memoised:
        return 1
    if batch_size == documents:
        return wanted
    return max(n for n in range(1, wanted + 1) if batch_size % n == 0)


def size_of(corpus: Corpus | sp.csr_array | Stored, among: np.ndarray | None = None) -> Size:
    """Return the numbers of documents, tokens and words; `among` some documents of one on disk."""
    if isinstance(corpus, Stored):
        if among is None:
            return Size(corpus.documents, corpus.tokens, len(corpus.vocabulary))
        tokens = int((corpus.starts[among + 1] - corpus.starts[among]).sum())
        return Size(len(among), tokens, len(corpus.vocabulary))
    counts = corpus.counts if isinstance(corpus, Corpus) else corpus
    return Size(counts.shape[0], int(counts.sum()), counts.shape[1])


def prior(name: str, value: Any, count: int) -> tuple[float | tuple[float, ...], str | None]:
    """Return concentrations as plain numbers, and how they are learned.

    Args:
        name: "alpha" or "beta".
        value: As for `resolve`.
        count: How many there are: K or V.

    Returns:
        The numbers, one or `count` of them, where they are learned the first value and prior mean;
        and None, "symmetric" or "vector".

    Raises:
        ValueError: They are out of range or too many, or there is no such way to learn them.

    Example:
        >>> prior("alpha", "learn", 3), prior("beta", [0.5, 1.0], 2)
        ((0.1, 'vector'), ((0.5, 1.0), None))
    """
    if isinstance(value, str):
        modes = _LEARN[name]
        if value not in modes:
            raise ValueError(f"{name} must be a number or one of {', '.join(modes)}; not {value!r}")
        return _FIRST[name], modes[value]
    lda_counts.positive(name, value, (count,))
    array = np.asarray(value, np.float64)
    return array.tolist() if array.ndim == 0 else tuple(array.tolist()), None


def local_step(settings: Settings) -> lda_counts.Local:
    """Return the local step of a run."""
    return lda_counts.Local(settings.local, settings.sweeps, settings.burn_in, settings.expected)


def step_size(settings: Settings) -> schedules.StepSize:
    """Return the step size or schedule of a run."""
    if not settings.tau:
        return settings.step_size
    return schedules.polynomial_decay(settings.step_size, settings.tau, settings.kappa)

"""Topics of a corpus: latent Dirichlet allocation from counts to a summary of its posterior."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from simplex_jax import schedules
from simplex_jax.corpus import Corpus, device, from_counts
from simplex_jax.draws import arguments
from simplex_jax.evaluate import perplexity
from simplex_jax.evaluate.moments import Moments
from simplex_jax.models import inference, lda, lda_counts
from simplex_jax.runtime.driver import run
from simplex_jax.runtime.hooks import Event, Hook

_EVALUATIONS = 50
_MAX_STEPS = 2**31 - 1


class Settings(NamedTuple):
    """Everything that decides a run, with its defaults resolved.

    Attributes:
        num_topics: K.
        alpha: Concentration of topic proportions, per topic.
        beta: Concentration of topics, per word.
        sampler: "scir", "sgrld" or "smld".
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
        seed: Seed of all randomness.
    """

    num_topics: int
    alpha: float
    beta: float
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
    seed: int


class Fit(NamedTuple):
    """A fitted topic model.

    Attributes:
        mean: Posterior mean of the topics, float32 [K, V].
        sd: Posterior standard deviation, float32 [K, V]; NaN where there is a single sample.
        samples: Number of posterior samples behind them, from the second half of the run.
        proportions: Topic proportions of the documents given the mean topics, float32 [D, K].
        prevalence: Expected share of the documents' tokens in each topic, float [K].
        metrics: One record per evaluation: step, documents and passes visited, seconds,
            tokens_per_second (of the documents visited, in training) and, with held-out documents,
            perplexity and perplexity_average; for SMLD its stiffness, unstable above 2.
        settings: The settings, resolved.
        state: Last state of the kernel.
    """

    mean: np.ndarray
    sd: np.ndarray
    samples: int
    proportions: np.ndarray
    prevalence: np.ndarray
    metrics: list[dict[str, float]]
    settings: Settings
    state: object


def resolve(
    counts: sp.csr_array,
    num_topics: int,
    *,
    alpha: float = 0.1,
    beta: float = 0.05,
    sampler: str = "scir",
    counts_estimate: str = "memoised",
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
    seed: int = 0,
) -> Settings:
    """Return the settings of a run with everything that was left out filled in; see `fit`."""
    num_topics = arguments.at_least("num_topics", num_topics, 1)
    if counts_estimate not in lda.COUNTS:
        raise ValueError(
            f"counts_estimate must be one of {', '.join(lda.COUNTS)}; it is {counts_estimate!r}"
        )
    if sum(length is not None for length in (passes, steps, seconds)) > 1:
        raise ValueError("give at most one of passes, steps and seconds")
    for name, value in {"passes": passes, "steps": steps, "seconds": seconds}.items():
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{name} must be positive; it is {value}")
    memoised = counts_estimate == "memoised"
    documents = counts.shape[0]
    if batch_size is None:
        batch_size = lda.default_batch_size(
            documents, int(counts.sum()), (num_topics, counts.shape[1])
        )
    if not 1 <= batch_size <= documents:
        raise ValueError(f"batch_size must be between 1 and {documents}; it is {batch_size}")
    per_pass = -(-documents // batch_size)
    steps = None if steps is None else arguments.at_least("steps", steps, 1)
    num_steps = None
    if seconds is None:
        length = (200 if passes is None else passes) * per_pass if steps is None else steps
        if length > _MAX_STEPS:
            raise ValueError(
                f"{length:g} steps are more than a run can number: give fewer passes or steps"
            )
        num_steps = max(1, round(length))
    if not 0 <= seed < 2**63:
        raise ValueError(f"seed must be between 0 and 2^63 - 1; it is {seed}")
    if eval_every is None:
        eval_every = per_pass if num_steps is None else max(1, num_steps // _EVALUATIONS)
    if eval_every < 1:
        raise ValueError(f"eval_every must be positive; it is {eval_every}")
    if sweeps is None:
        sweeps = 1 if memoised else 10
    if burn_in is None:
        burn_in = 0 if memoised else sweeps // 2
    default = lda.default_step(sampler, counts_estimate)
    settings = Settings(
        num_topics=num_topics,
        alpha=float(alpha),
        beta=float(beta),
        sampler=sampler,
        counts=counts_estimate,
        local=local or "collapsed",
        sweeps=sweeps,
        burn_in=burn_in,
        expected=expected,
        step_size=default.initial if step_size is None else float(step_size),
        tau=default.tau if step_size is None else 0.0,
        kappa=default.kappa if step_size is None else 0.0,
        batch_size=batch_size,
        num_steps=num_steps,
        seconds=seconds,
        eval_every=eval_every if num_steps is None else min(eval_every, num_steps),
        seed=int(seed),
    )
    for name in ("alpha", "beta", "step_size"):
        value = getattr(settings, name)
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be finite and positive; it is {value}")
    if sampler not in lda.SAMPLERS:
        raise ValueError(f"sampler must be one of {', '.join(lda.SAMPLERS)}; it is {sampler!r}")
    lda_counts.check((num_topics, counts.shape[1]), local_step(settings))
    return settings


def fit(
    corpus: Corpus | sp.csr_array,
    num_topics: int,
    *,
    heldout: tuple[sp.csr_array, sp.csr_array] | None = None,
    documents: Corpus | sp.csr_array | None = None,
    hooks: Sequence[Hook] = (),
    **options: object,
) -> Fit:
    """Sample the topics of a corpus.

    Args:
        corpus: A corpus, or a table of its counts [D, V].
        num_topics: Number of topics K.
        heldout: Observed and target counts of other documents, to measure perplexity on.
        documents: The documents whose proportions are wanted; by default those of `corpus`.
        hooks: Called with an `Event` after every evaluation, say `hooks.Progress`.
        **options: As in `resolve`: `alpha` per topic and `beta` per word (not their sums);
            `sampler` "scir", "sgrld" or "smld"; `counts_estimate` "memoised", "subsampled" or
            "control-variate"; `local` "collapsed" or "blocked"; `sweeps` and `burn_in` over a
            batch; `expected`; `step_size`, constant if given; `batch_size` in documents;
            the length as one of `passes` (200 by default), `steps` or `seconds`; `eval_every` in
            steps; `seed`.

    Returns:
        The fit. The same corpus, options, versions and device give the same numbers, except that
        `seconds` ends a run by the clock.

    Raises:
        ValueError: An option is out of range, the counts are no counts, or the held-out documents
            have another vocabulary.
        FloatingPointError: The topics became NaN; the message names the step.

    Example:
        >>> import scipy.sparse as sp
        >>> from simplex_jax import topics
        >>> counts = sp.csr_array([[9, 8, 0, 0], [7, 9, 0, 0], [0, 0, 9, 8], [0, 0, 8, 9]])
        >>> fitted = topics.fit(counts, 2, passes=40, seed=1)
        >>> fitted.mean.shape, fitted.proportions.argmax(axis=1).tolist() in (
        ...     [0, 0, 1, 1], [1, 1, 0, 0])
        ((2, 4), True)
    """
    counts = _table(corpus)
    wanted = counts if documents is None else _table(documents)
    for name, table in {"heldout": heldout and heldout[0], "documents": wanted}.items():
        if table is not None and table.shape[1] != counts.shape[1]:
            raise ValueError(
                f"{name} has {table.shape[1]} words and the corpus {counts.shape[1]}: "
                "take both from one corpus"
            )
    settings = resolve(counts, num_topics, **options)  # type: ignore[arg-type]
    shape = (num_topics, counts.shape[1])
    key_init, key_run, key_evaluate, key_documents = jax.random.split(
        jax.random.key(settings.seed), 4
    )
    data = device.to_device(counts)
    alpha = lda_counts.proportions(settings.alpha, num_topics)
    kernel, stream = lda.build(
        data,
        shape,
        alpha=alpha,
        beta=settings.beta,
        sampler=settings.sampler,
        counts=settings.counts,
        how=local_step(settings),
        step_size=step_size(settings),
        batch_size=settings.batch_size,
    )
    key_topics, key_memory = jax.random.split(key_init)
    state = kernel.init(key_memory, jax.random.exponential(key_topics, shape) + 1e-6)

    moments = Moments(settings.seconds)
    records = _Records(settings, data)
    measures: list[Hook] = [records.check, moments]
    if heldout is not None:
        measures.append(
            perplexity.Evaluation(
                perplexity.completion(*heldout), alpha, key_evaluate, settings.seconds
            )
        )
    state, _ = run(
        key_run,
        kernel,
        state,
        stream,
        settings.num_steps or _MAX_STEPS,
        collect=_nothing,
        hooks=[*measures, records, *hooks],
        chunk=settings.eval_every,
        max_seconds=settings.seconds,
    )
    if not moments.samples:  # a hook has ended the run in its first half
        moments.add(state.position)
    mean = moments.mean
    log_mean = jnp.log(jnp.maximum(mean, jnp.finfo(mean.dtype).tiny))
    proportions = inference.corpus_proportions(
        key_documents, log_mean, alpha, data if documents is None else device.to_device(wanted)
    )
    return Fit(
        mean=np.asarray(mean),
        sd=np.asarray(moments.sd),
        samples=moments.samples,
        proportions=proportions,
        prevalence=_prevalence(wanted, proportions, settings.alpha),
        metrics=records.records,
        settings=settings,
        state=state,
    )


def _table(corpus: Corpus | sp.csr_array) -> sp.csr_array:
    return corpus.counts if isinstance(corpus, Corpus) else from_counts(corpus).counts


def _prevalence(counts: sp.csr_array, proportions: np.ndarray, alpha: float) -> np.ndarray:
    """Return the share of the tokens in each topic: the proportions without what the prior adds."""
    lengths = np.asarray(counts.sum(axis=1), np.float64)
    num_topics = proportions.shape[1]
    tokens = (lengths + num_topics * alpha) @ proportions - len(lengths) * alpha
    return np.maximum(tokens, 0) / lengths.sum()


def local_step(settings: Settings) -> lda_counts.Local:
    """Return the local step of a run."""
    return lda_counts.Local(settings.local, settings.sweeps, settings.burn_in, settings.expected)


def step_size(settings: Settings) -> schedules.StepSize:
    """Return the step size or schedule of a run."""
    if not settings.tau:
        return settings.step_size
    return schedules.polynomial_decay(settings.step_size, settings.tau, settings.kappa)


def _nothing(state: object, info: object) -> tuple:
    del state, info
    return ()


class _Records:
    """What each evaluation measured, with the count of documents and the rate of tokens."""

    def __init__(self, settings: Settings, corpus: device.DeviceCorpus) -> None:
        self.records: list[dict[str, float]] = []
        size = device.size(corpus)
        per_pass = -(-size // settings.batch_size)
        # Blocks of memoised counts cover the corpus exactly once a pass, the last one being short.
        memoised = settings.counts == "memoised"
        self._per_step = size / per_pass if memoised else settings.batch_size
        self._documents = size
        self._tokens = corpus.tokens.shape[0]

    def check(self, event: Event) -> None:
        """Stop a run whose topics are no longer numbers."""
        if not bool(jnp.isfinite(jnp.max(event.state.position))):
            raise FloatingPointError(
                f"the topics are NaN at step {event.step}: try a smaller step size"
            )

    def __call__(self, event: Event) -> None:
        """Complete the metrics of an event and keep them."""
        documents = event.step * self._per_step
        passes = documents / self._documents
        event.metrics["documents"] = round(documents)
        event.metrics["passes"] = round(passes, 3)
        event.metrics["tokens_per_second"] = round(passes * self._tokens / max(event.seconds, 1e-9))
        if hasattr(event.info, "stiffness"):
            event.metrics["stiffness"] = float(event.info.stiffness)
        record = {"step": event.step, "seconds": round(event.seconds, 4)} | event.metrics
        self.records.append(record)

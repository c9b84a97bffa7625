"""Fits of the hierarchical Dirichlet process: preparation and summary of a run."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from simplex_jax._src.corpus import Corpus, device
from simplex_jax._src.draws.keys import by_native_code, split
from simplex_jax._src.evaluate import diagnostics
from simplex_jax._src.evaluate.coherence import coherence
from simplex_jax._src.evaluate.fits import Mixture, Topics
from simplex_jax._src.evaluate.partitions import number_posterior
from simplex_jax._src.models import pipeline
from simplex_jax._src.models.hdp import kernel, posterior, summary
from simplex_jax._src.models.hdp.options import Options, concentration
from simplex_jax._src.models.records import Plan
from simplex_jax._src.models.topics import data, evaluation, proportions, report
from simplex_jax._src.report.examples import representative
from simplex_jax._src.runtime import directory, session
from simplex_jax._src.runtime.sample_files import Folder
from simplex_jax._src.runtime.session import Run

_LEAST_REST = 1e-6
"""Least concentration of topics that are not reported, in all and each."""

DIMS = {"labels": ["token"], "concentrations": ["label"]}
"""Names of the last axis of the kept samples."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Fit(pipeline.Fit):
    """A fitted hierarchical Dirichlet process; several chains are pooled.

    The K topics are those of one sample, the nearest to all others, that at least half of the kept
    samples have, see `summary`, the most prevalent first. It has the attributes of `pipeline.Fit`,
    too.

    Attributes:
        topics: Posterior mean of the topics, float32 [K, V].
        topics_sd: Posterior standard deviation, float32 [K, V].
        topics_range: Empty, [2, K, 0]: topics are matched over samples, not chains.
        prevalence: Posterior mean share of the training tokens in each topic, float64 [K]; they sum
            to less than 1, because other topics come and go.
        prevalence_sd: Its standard deviation.
        prevalence_range: Its smallest and largest mean over the chains, float64 [2, K].
        alpha: Concentration of the shares of a document, per topic: posterior mean of alpha b_k,
            float64 [K].
        alpha_sd: Its standard deviation.
        rest: Topics that are not reported, float32 [R, V]: those of that sample, and one of all
            words alike for topics that have no tokens yet.
        rest_alpha: Concentrations of the shares of a document in them, float64 [R].
        num_topics_posterior: Posterior probability of each number of topics with tokens, by number.
        numbers: The same in each chain; see `Options.starts`.
        concentrations: "mean", "sd", and the ends of the 95% interval, "lower" and "upper", of
            "alpha" and "gamma".
        present: Share of the kept samples that have each topic, [K].
        stability: Mean similarity of a topic in these samples to that of the reference, [K].
        shared: Whether most samples of a chain have a topic, bool [chains, K].
        vocabulary: The V words.
        names: Names of all documents, D.
        proportions: Topic proportions of the documents given the mean topics, float32 [D, K]. Rows
            sum to less than 1: see `other`.
        proportions_error: Monte-Carlo standard error of the most uncertain proportion of each
            document, float32 [D].
        coherence: NPMI of the ten leading words of each topic over the documents, float64 [K].
        examples: Representative documents of each topic.
        num_empty_documents: Number of documents without a word of the vocabulary.
        traces: Traces of the last half of the run: "alpha", "gamma" and "topics" (their number),
            [S, chains] each, and, with held-out documents, "log_predictive" of its evaluations,
            [E, chains]; empty for a loaded fit.
        partitions: Posterior draws: "labels", the topic of each training token, shortest document
            first [S, chains, T], "concentrations", alpha b_k of each label, [S, chains, C],
            and "step" [S]; empty for a loaded fit.
    """

    settings: Options
    topics: np.ndarray
    topics_sd: np.ndarray
    topics_range: np.ndarray
    prevalence: np.ndarray
    prevalence_sd: np.ndarray
    prevalence_range: np.ndarray
    alpha: np.ndarray
    alpha_sd: np.ndarray
    rest: np.ndarray
    rest_alpha: np.ndarray
    num_topics_posterior: dict[int, float]
    numbers: list[dict[int, float]]
    concentrations: dict[str, dict[str, float]]
    present: np.ndarray
    stability: np.ndarray
    shared: np.ndarray
    vocabulary: tuple[str, ...]
    names: tuple[str, ...]
    proportions: np.ndarray
    proportions_error: np.ndarray
    coherence: np.ndarray
    examples: list[list[dict[str, Any]]]
    num_empty_documents: int = 0
    traces: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    partitions: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)

    @property
    def other(self) -> np.ndarray:
        """Share of each document in topics that are not reported, float32 [D]."""
        return directory.remainder(self.proportions)

    @property
    def complete(self) -> tuple[np.ndarray, np.ndarray]:
        """All topics and their concentrations, [K + R, V] and [K + R]: K reported ones first."""
        return np.concatenate([self.topics, self.rest]), np.append(self.alpha, self.rest_alpha)

    def to_record(self) -> Topics:
        """Return the topics and the samples of labels for `simplex_jax.evaluate`."""
        return Topics(
            self.topics,
            self.metrics,
            vocabulary=self.vocabulary,
            interrupted=self.interrupted,
            mixture=Mixture(self.traces, self.partitions, DIMS),
        )

    def lines(self) -> list[str]:
        """Return a line for each topic, the most prevalent first."""
        return report.topic_lines(
            self.prevalence, report.leading_words(self.topics, self.vocabulary)
        )


def as_data(corpus: Any) -> Corpus:
    """Return a corpus, as `topics.data.as_data` does, but in memory."""
    return data.in_memory(data.as_data(corpus))


def prepare(plan: Plan, folder: Folder | None) -> Run:
    """Return the run of a plan, ready for training.

    Samples stay in memory, because the topics are computed from them.
    """
    del folder
    settings: Options = plan.settings
    size = data.size_of(plan.train)
    key_init, key_run, key_evaluate = split(jax.random.key(settings.seed), 3)
    built, stream = kernel.build(
        device.to_device(plan.train.counts),
        alpha=concentration(settings, "alpha"),
        gamma=concentration(settings, "gamma"),
        beta=settings.beta,
        capacity=settings.capacity,
        chains=settings.chains if settings.chains > 1 else None,
        engine=settings.engine,
    )
    measures: dict[str, Any] = {}
    if plan.heldout is not None:
        completion = evaluation.completion(*plan.heldout)
        measures["evaluation"] = posterior.held_out(completion, key_evaluate, settings)
    measures["posterior"] = posterior.gather(settings, plan.heldout is not None)
    measures["kept"] = posterior.keep(settings)
    measures["records"] = posterior.records(settings, size)
    key_topics, key_state = split(key_init)
    return Run(
        key=key_run,
        kernel=built,
        state=session.start(
            built.init,
            key_state,
            _topics(key_topics, settings.starts(), size.words),
            remedy="give a smaller capacity (--capacity), or fewer chains",
        ),
        feed=lambda first_step: stream,
        measures=measures,
        grow=kernel.grown,
    )


def _topics(key: jax.Array, numbers: list[int], words: int) -> jax.Array:
    """Draw initial topics, [K, V] or [chains, K, V]; rows of zeros are not topics."""
    topics = _random_topics(key, jnp.array(numbers), (len(numbers), max(numbers), words))
    return topics if len(numbers) > 1 else topics[0]


@functools.partial(jax.jit, static_argnames="shape")
def _random_topics(key: jax.Array, numbers: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    drawn = jax.random.exponential(by_native_code(key), shape) + 1e-6
    return jnp.where(jnp.arange(shape[1])[:, None] < numbers[:, None, None], drawn, 0)


def summarise(plan: Plan, run: Run, trained: session.Trained) -> Fit:
    """Summarise the samples, and infer the topic shares of the documents."""
    settings: Options = plan.settings
    gathered = run.measures["posterior"].result(trained.event)
    partitions = run.measures["kept"].samples()
    if not partitions and trained.event:
        last = posterior.read(trained.event, settings.chains)
        partitions = {name: array[None] for name, array in last.items()}
    documents: Corpus = plan.data
    stream: Any = run.feed(0)
    summarised = summary.summarise(
        partitions["labels"],
        partitions["concentrations"],
        np.asarray(stream(run.key, 0).tokens),  # in the order of the labels
        len(documents.vocabulary),
        settings.beta,
    )
    samples, chains, topics = summarised.prevalence.shape
    axes = (0, 1)
    alpha = summarised.concentrations.mean(axis=axes)
    traces = gathered.traces()
    # The rest has what the reported topics leave of the total concentration.
    rest = summarised.rest_concentrations + _LEAST_REST
    left = max(traces["alpha"].mean() - alpha.sum(), _LEAST_REST)
    rest *= left / rest.sum()
    parts = proportions.shards(
        np.concatenate([summarised.mean, summarised.rest]),
        np.append(alpha, rest),
        documents,
        seed=settings.seed,
        share_error=settings.share_error,
        engine=settings.engine,
        reported=topics,
    )
    shares, errors = proportions.joined(parts, (len(documents.names), topics), run.progress)
    moving = {name: trace.T for name, trace in traces.items() if np.unique(trace).size > 1}
    own = {f"prevalence {k}": summarised.prevalence[:, :, k].T for k in range(topics)}
    return Fit(
        num_samples=samples * chains,
        diagnostics=diagnostics.summary(moving | own),
        metrics=run.measures["records"].records,
        settings=settings,
        interrupted=trained.interrupted,
        state=trained.state,
        topics=summarised.mean,
        topics_sd=summarised.sd,
        topics_range=np.zeros((2, topics, 0), np.float32),
        prevalence=summarised.prevalence.mean(axis=axes),
        prevalence_sd=_deviation(summarised.prevalence),
        prevalence_range=_range(summarised.prevalence.mean(axis=0)),
        alpha=alpha,
        alpha_sd=_deviation(summarised.concentrations),
        rest=summarised.rest,
        rest_alpha=rest,
        num_topics_posterior=number_posterior(traces["topics"].astype(int).ravel()),
        numbers=[number_posterior(chain) for chain in traces["topics"].astype(int).T],
        concentrations={
            name: _summary(traces[name], given=getattr(settings, name) != "learn")
            for name in ("alpha", "gamma")
        },
        present=summarised.present.mean(axis=axes),
        stability=summarised.similarity,
        shared=summarised.present.mean(axis=0) >= summary.LEAST_PRESENT,
        vocabulary=documents.vocabulary,
        names=documents.names,
        proportions=shares,
        proportions_error=errors,
        coherence=coherence(summarised.mean, documents.counts),
        examples=representative(
            documents.counts,
            documents.names,
            documents.vocabulary,
            shares,
            summarised.mean,
            documents.excerpts,
        ),
        num_empty_documents=int((np.diff(documents.counts.indptr) == 0).sum()),
        traces=traces,
        partitions=partitions,
    )


def _range(chains: np.ndarray) -> np.ndarray:
    """Return the smallest and the largest share over the chains [chains, K], [2, K]."""
    return np.stack([chains.min(axis=0), chains.max(axis=0)])


def _deviation(samples: np.ndarray) -> np.ndarray:
    """Return the standard deviation over samples and chains, [S, chains, K]; NaN for one."""
    number = samples.shape[0] * samples.shape[1]
    return samples.std(axis=(0, 1)) if number > 1 else np.full(samples.shape[2], np.nan)


def _summary(trace: np.ndarray, *, given: bool) -> dict[str, float]:
    """Return mean, standard deviation and 95% interval of a trace; NaN for a single draw."""
    lower, upper = np.quantile(trace, [0.025, 0.975])
    values = {"mean": trace.mean(), "sd": trace.std(), "lower": lower, "upper": upper}
    if trace.size == 1 and not given:
        values |= dict.fromkeys(("sd", "lower", "upper"), np.nan)
    return {name: float(value) for name, value in values.items()}

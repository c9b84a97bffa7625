"""Fits of the hierarchical Dirichlet process: preparation and summary of a run."""

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus import Corpus, device
from simplex_jax._src.corpus.split import held_out
from simplex_jax._src.draws.keys import by_native_code, split
from simplex_jax._src.evaluate import diagnostics
from simplex_jax._src.evaluate.diagnostics import LARGE_RHAT, few_samples
from simplex_jax._src.evaluate.fits import Mixture, Topics
from simplex_jax._src.evaluate.partitions import number_posterior
from simplex_jax._src.models import verdict
from simplex_jax._src.models.hdp import kernel, posterior
from simplex_jax._src.models.hdp.options import Options, concentration
from simplex_jax._src.models.hdp.posterior import Draws
from simplex_jax._src.models.records import Plan, of_run
from simplex_jax._src.models.topics import data, evaluation, proportions
from simplex_jax._src.models.topics.checks import empty_warnings, perplexity_warnings
from simplex_jax._src.models.topics.editing import Editable
from simplex_jax._src.models.topics.fits import CountFit, Shares, results_of
from simplex_jax._src.models.topics.report import INTERVAL, interval_kinds
from simplex_jax._src.runtime import directory, session
from simplex_jax._src.runtime.sample_files import Folder
from simplex_jax._src.runtime.session import Run

DIMS = {"labels": ["token"], "concentrations": ["label"]}
"""Names of the last axis of the kept samples."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Fit(Editable, CountFit):
    """A fitted hierarchical Dirichlet process; several chains are pooled.

    The K topics are those of one sample, the nearest to all others, that at least half of the kept
    samples have, the most prevalent first. `merge` needs no other files, and refuses a fit with so
    many topics that `predictive` has only some of the samples.

    Attributes:
        topics: Posterior mean of the topics, float32 [K, V].
        topics_sd: Posterior standard deviation, float32 [K, V].
        topics_range: Empty, [2, K, 0]: topics are matched over samples, not chains.
        prevalence: Posterior mean share of the training tokens in each topic, float64 [K]; they sum
            to less than 1, because other topics come and go.
        prevalence_sd: Its standard deviation.
        prevalence_range: Smallest and largest mean prevalence over the chains, float64 [2, K].
        alpha: Concentration of the topic proportions of a document; the posterior mean if it is
            learned.
        alpha_sd: Posterior standard deviation of alpha, 0 if it is given.
        alpha_interval: 95% interval of alpha; rough with fewer than 50 effective samples, see
            `diagnostics`, and then not in the report.
        gamma: Concentration of the weights of the topics; the posterior mean if it is learned.
        gamma_sd: Posterior standard deviation of gamma, 0 if it is given.
        gamma_interval: 95% interval of gamma, likewise.
        topic_alpha: Concentration of the proportions of a document in each topic: posterior mean of
            alpha times the weight of the topic, float64 [K]. They sum to less than alpha.
        topic_alpha_sd: Its standard deviation.
        num_topics_posterior: Posterior probability of each number of topics with tokens, by number.
        numbers: The same in each chain.
        present: Share of the kept samples that have each topic, [K].
        stability: Mean similarity of a topic in these samples to that of the reference, [K].
        shared: Whether most samples of a chain have a topic, bool [chains, K].
        vocabulary: The V words.
        names: Names of all documents, D.
        proportions: Posterior mean of the topic proportions of the documents, float32 [D, K], over
            the kept samples: of those trained on by the topics of their tokens there, of others as
            by `transform`. Rows sum to less than 1: see `other`.
        proportions_error: Standard error of the most uncertain proportion of each document, float32
            [D], as if the kept samples were independent.
        coherence: NPMI of the ten leading words of each topic over the documents, float64 [K].
        examples: Representative documents of each topic.
        num_empty_documents: Number of documents without a word of the vocabulary.
        traces: Traces of the last half of the run: "alpha", "gamma" and "topics" (their number),
            [S, chains] each, and, with held-out documents, "log_predictive" of its evaluations,
            [E, chains]; empty for a loaded fit.
        partitions: Posterior draws: "labels", the topic of each training token, shortest document
            first [S, chains, T], "concentrations", alpha b_k of each label, [S, chains, C],
            and "step" [S]; empty for a loaded fit.
        predictive: The topics of the kept samples, reported or not, with which `transform` and
            `score` predict.
        {results}
    """

    settings: Options
    alpha: float
    alpha_sd: float
    alpha_interval: tuple[float, float]
    gamma: float
    gamma_sd: float
    gamma_interval: tuple[float, float]
    topic_alpha: np.ndarray
    topic_alpha_sd: np.ndarray
    num_topics_posterior: dict[int, float]
    numbers: list[dict[int, float]]
    present: np.ndarray
    predictive: Draws
    traces: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    partitions: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)

    _TAKEN = (*Editable._TAKEN, "topic_alpha_sd", "present")
    _SUMMED = (*Editable._SUMMED, "topic_alpha")

    def concentrations(self) -> np.ndarray:
        """Return `topic_alpha`."""
        return self.topic_alpha

    def _rearranged(self, groups: Sequence[tuple[int, ...]]) -> dict[str, Any]:
        """Return the topics of the samples, each with the topic of the edited fit that it is."""
        places = np.full(self.num_topics + 1, -1, np.int32)  # with a last entry for -1
        for topic, group in enumerate(groups):
            places[list(group)] = topic
        reported = places[self.predictive.reported]
        return {"predictive": dataclasses.replace(self.predictive, reported=reported)}

    def _merged_from(
        self,
        fitted: Any,
        groups: Sequence[tuple[int, ...]],
        merged: Sequence[int],
        samples: str | Path | None,
    ) -> "Fit":
        """Return this fit with what the kept samples say of its merged topics."""
        del fitted, groups, samples
        if len(self.predictive) < self.num_samples:
            raise ValueError(
                f"merge: the fit has the topics of {len(self.predictive)} of its "
                f"{self.num_samples} samples, because those of all would take too much memory, so "
                "a merged topic would not be exact: fit again with fewer samples (keep_samples, "
                "--keep-samples)"
            )
        chains = len(self.shared)
        for topic in merged:
            found = self.predictive.joined(topic)
            by_chain = found.prevalence.reshape(-1, chains)
            present = found.present.reshape(-1, chains)
            self.topics[topic], self.topics_sd[topic] = found.mean, found.sd
            self.prevalence_sd[topic] = _deviation(by_chain[..., None])[0]
            self.prevalence_range[:, topic] = _range(by_chain.mean(axis=0)[:, None])[:, 0]
            self.topic_alpha_sd[topic] = _deviation(found.alpha.reshape(-1, chains, 1))[0]
            self.present[topic], self.stability[topic] = present.mean(), found.similarity
            self.shared[:, topic] = present.mean(axis=0) >= posterior.LEAST_PRESENT
            self.diagnostics.update(diagnostics.of_topics({topic: by_chain.T}))
        return self

    @property
    def leaves_rest(self) -> bool:
        """True: topics that few samples have are not reported."""
        return True

    @property
    def other(self) -> np.ndarray:
        """Share of each document in topics that are not reported, float32 [D]."""
        return directory.remainder(self.proportions)

    def draws(self) -> Draws:
        """Return the topics to predict documents with: those of the kept samples."""
        return self.predictive

    def shards(self, documents: sp.csr_array, *, seed: int) -> Iterator[Shares]:
        """Yield the topic proportions of documents [D, V], averaged over the kept samples."""
        return proportions.over_draws(self.predictive, self.num_topics, documents, seed=seed)

    def to_record(self) -> Topics:
        """Return the topics and the samples of labels for `simplex_jax.evaluate`."""
        return Topics(
            self.topics,
            self.metrics,
            vocabulary=self.vocabulary,
            interrupted=self.interrupted,
            mixture=Mixture(self.traces, self.partitions, DIMS),
        )


def as_data(corpus: Any) -> Corpus:
    """Return a corpus, as `topics.data.as_data` does, but in memory."""
    return data.in_memory(data.as_data(corpus))


def prepare(plan: Plan, folder: Folder | None) -> Run:
    """Return the run of a plan, ready for training.

    Samples stay in memory, because the topics are computed from them.
    """
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
    """Summarise the samples, and the topic shares of the documents in them."""
    settings: Options = plan.settings
    gathered = run.measures["posterior"].result(trained.event)
    partitions = run.measures["kept"].samples()
    if not partitions and trained.event:
        last = posterior.read(trained.event, settings.chains)
        partitions = {name: array[None] for name, array in last.items()}
    documents: Corpus = plan.data
    stream: Any = run.feed(0)
    trained_on: device.DeviceCorpus = stream(run.key, 0)  # in the order of the labels
    summarised = posterior.summarise(
        partitions["labels"],
        partitions["concentrations"],
        np.asarray(trained_on.tokens),
        len(documents.vocabulary),
        settings.beta,
    )
    samples, chains, topics = summarised.prevalence.shape
    axes = (0, 1)
    traces = gathered.traces()
    shares, errors = _proportions(plan, run, partitions, summarised, trained_on)
    moving = {name: trace.T for name, trace in traces.items() if np.unique(trace).size > 1}
    own = {k: summarised.prevalence[:, :, k].T for k in range(topics)}
    return Fit(
        num_samples=samples * chains,
        diagnostics=diagnostics.summary(moving) | diagnostics.of_topics(own),
        **of_run(plan, run, trained),
        topics=summarised.mean,
        topics_sd=summarised.sd,
        topics_range=np.zeros((2, topics, 0), np.float32),
        prevalence=summarised.prevalence.mean(axis=axes),
        prevalence_sd=_deviation(summarised.prevalence),
        prevalence_range=_range(summarised.prevalence.mean(axis=0)),
        **_concentrations(traces, settings),
        topic_alpha=summarised.concentrations.mean(axis=axes),
        topic_alpha_sd=_deviation(summarised.concentrations),
        num_topics_posterior=number_posterior(traces["topics"].astype(int).ravel()),
        numbers=[number_posterior(chain) for chain in traces["topics"].astype(int).T],
        present=summarised.present.mean(axis=axes),
        stability=summarised.similarity,
        shared=summarised.present.mean(axis=0) >= posterior.LEAST_PRESENT,
        **results_of(documents, summarised.mean, shares, errors),
        predictive=summarised.draws,
        traces=traces,
        partitions=partitions,
    )


def _proportions(
    plan: Plan,
    run: Run,
    partitions: dict[str, np.ndarray],
    summarised: posterior.Summary,
    trained_on: device.DeviceCorpus,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the proportions of all documents, [D, K], and their errors, [D]."""
    settings: Options = plan.settings
    total, topics = len(plan.data.names), len(summarised.mean)
    means, errors = np.empty((total, topics), np.float32), np.empty(total, np.float32)
    held = np.zeros(total, bool)
    if plan.held:
        held = held_out(total, plan.held, plan.holdout_seed)
    rows = np.flatnonzero(~held)[np.asarray(trained_on.order)]
    means[rows], errors[rows] = posterior.shares(
        partitions["labels"],
        partitions["concentrations"],
        summarised,
        np.diff(np.asarray(trained_on.starts)),
        lambda done: run.progress("proportions of documents", done, total),
    )
    if plan.held:
        parts = proportions.over_draws(
            summarised.draws,
            topics,
            plan.data.counts[held],
            seed=settings.seed,
            engine=settings.engine,
        )
        means[held], errors[held] = proportions.joined(parts, (plan.held, topics))
        run.progress("proportions of documents", total, total)
    return means, errors


def _concentrations(traces: dict[str, np.ndarray], settings: Options) -> dict[str, Any]:
    """Return mean, standard deviation and 95% interval of alpha and gamma."""
    values: dict[str, Any] = {}
    for name in ("alpha", "gamma"):
        trace, given = traces[name], getattr(settings, name) != "learn"
        lower, upper = np.quantile(trace, [0.025, 0.975])
        sd = trace.std()
        if trace.size == 1 and not given:
            sd = lower = upper = np.nan
        values[name], values[f"{name}_sd"] = float(trace.mean()), float(sd)
        values[f"{name}_interval"] = (float(lower), float(upper))
    return values


def _range(chains: np.ndarray) -> np.ndarray:
    """Return the smallest and the largest share over the chains [chains, K], [2, K]."""
    return np.stack([chains.min(axis=0), chains.max(axis=0)])


def _deviation(samples: np.ndarray) -> np.ndarray:
    """Return the standard deviation over samples and chains, [S, chains, K]; NaN for one."""
    number = samples.shape[0] * samples.shape[1]
    return samples.std(axis=(0, 1), ddof=1) if number > 1 else np.full(samples.shape[2], np.nan)


# Warnings about a fitted hierarchical Dirichlet process, and the verdict on it.

_MOST_OTHERS = 0.1
"""Warn if more than this share of the tokens is at topics that are not reported."""


def numbers_by_chain(fitted: Fit) -> str:
    """Return the numbers of topics in the samples of each chain, and where it started."""
    starts = fitted.settings.starts()
    ranges = [f"{min(n)} to {max(n)}" if len(n) > 1 else f"{min(n)}" for n in fitted.numbers]
    return ", ".join(
        f"{numbers} from a start with {start}"
        for numbers, start in zip(ranges, starts, strict=True)
    )


def warn(fitted: Fit) -> list[str]:
    """Return what is wrong with a fit or its data, and what to do, one sentence each."""
    sentences = perplexity_warnings(fitted.metrics, exact=True)
    others = 1 - fitted.as_trained().prevalence.sum()
    if (np.asarray(fitted.present) < posterior.LEAST_PRESENT).all():
        sentences.append(
            "No topic is in half of the samples: those of one sample are shown. Run it longer, or "
            "compare the chains."
        )
    elif others > _MOST_OTHERS:
        sentences.append(
            f"{100 * others:.0f}% of the tokens are at topics that fewer than half of the samples "
            "have, and which are therefore not shown: run it longer."
        )
    sentences += few_samples(fitted.num_samples, kept=True)
    if (number := len(fitted.predictive.ends)) < fitted.num_samples:
        sentences.append(
            f"Other documents are predicted from {number} of the {fitted.num_samples} samples, "
            "evenly spaced, because the topics of all of them would take more than 256 MiB; the "
            "proportions of the training documents use all."
        )
    return sentences + empty_warnings(fitted.num_empty_documents, len(fitted.names))


def judge(fitted: Fit, longer: str) -> list[str]:
    """Return the verdict, given the command or call of a longer run; see `Results.verdict`."""
    kinds = interval_kinds(fitted, fitted.prevalence_range)
    sentences = [
        verdict.predictions(fitted, "perplexity"),
        verdict.topics(fitted, kinds == INTERVAL, fitted.prevalence_range),
    ]
    apart = fitted.diagnostics.get("topics", {}).get("rhat", 1.0) > LARGE_RHAT
    if apart:
        sentences[1] += f" The chains disagree on their number: {numbers_by_chain(fitted)}."
    if apart or verdict.SETTLED not in sentences[0] or (kinds != INTERVAL).any():
        sentences += verdict.more_topics(fitted, longer)
    return sentences

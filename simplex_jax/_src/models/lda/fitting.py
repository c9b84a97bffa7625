"""From a corpus to a posterior summary of its topics."""

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import scipy.sparse as sp

from simplex_jax._src import sharded_rows
from simplex_jax._src.base import State
from simplex_jax._src.corpus import Corpus
from simplex_jax._src.corpus.device import Pages
from simplex_jax._src.draws.keys import split
from simplex_jax._src.evaluate import matching
from simplex_jax._src.evaluate.fits import Topics
from simplex_jax._src.models.lda import feed, memory, posterior, seeds, sharding
from simplex_jax._src.models.lda.options import Options
from simplex_jax._src.models.records import Plan
from simplex_jax._src.models.topics import evaluation, proportions
from simplex_jax._src.models.topics.data import (
    in_memory,
    is_stored,
    on_host,
    size_of,
    vocabulary_of,
)
from simplex_jax._src.models.topics.fits import CountFit, Draw, Shares, results_of
from simplex_jax._src.runtime import session
from simplex_jax._src.runtime.checkpoint import ANY, MAPPED
from simplex_jax._src.runtime.sample_files import Folder
from simplex_jax._src.runtime.session import Run
from simplex_jax._src.runtime.windows import window_of


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Fit(CountFit):
    """A fitted topic model; several chains are summarised together.

    Topics are numbered as in the first chain; those of the other chains are matched to them.
    `pipeline.Fit` documents the attributes that all fits have.

    Attributes:
        topics: Posterior mean of the topics, float32 [K, V].
        topics_sd: Posterior standard deviation, float32 [K, V]; NaN for a single sample.
        topics_range: Smallest and largest mean over the matched chains, float32 [2, K, V]; of one
            chain none, [2, K, 0].
        prevalence: Posterior mean proportion of the training tokens in each topic, float64 [K].
        prevalence_sd: Its standard deviation. With estimated counts it includes the noise of
            batches, and so do effective samples and R-hat of the prevalence in `diagnostics`, which
            then look better than the topics mix.
        prevalence_range: Its smallest and largest mean over the matched chains, float64 [2, K].
        alpha: Concentration of topic proportions, per topic; the posterior mean if learned,
            float64 [K].
        alpha_sd: Standard deviation of alpha, 0 if it is given.
        beta: Concentration of topics, per word, without seed words; the posterior mean if learned,
            float64 [V].
        beta_sd: Standard deviation of beta, 0 if it is given.
        stability: Mean similarity of each topic to its matches in the other chains, 1 where they
            are the same, float64 [K]; NaN for one chain.
        vocabulary: The V words.
        names: Names of all documents, D.
        proportions: Topic proportions of the documents given the mean topics, float32 [D, K];
            none, [0, K], for a corpus on disk.
        proportions_error: Monte-Carlo standard error of the most uncertain proportion of each
            document, float32 [D].
        coherence: NPMI of the ten leading words of each topic over the documents, float64 [K].
        examples: Representative documents of each topic.
        order: Topic of each chain matched to each topic, int [chains, K].
        shared: Whether the matched topic is the same topic, bool [chains, K], see
            `matching.align`: means and deviations of a topic use only the chains that have it.
        samples: Samples kept in memory: arrays "topics" [S, chains, K, V], "alpha" [S, chains, K],
            "beta" [S, chains, V] and "step" [S], with topics numbered as in each chain; empty if
            there are none.
        stiffness: Stiffness of SMLD at the end, unstable above 2; 0 for other samplers.
        num_empty_documents: Number of documents without a word of the vocabulary.
        topic_names: Names of topics by number, such as `--topic-names` of the report command gives.
            `dataclasses.replace(fitted, topic_names={3: "Farms"})` gives others.
        effects: Records of `lda.effects` for the report: by year, of a run of the command on a
            corpus with years.
    """

    settings: Options
    alpha: np.ndarray
    alpha_sd: np.ndarray
    beta: np.ndarray
    beta_sd: np.ndarray
    order: np.ndarray
    stiffness: float = 0.0
    effects: Sequence[dict[str, Any]] = dataclasses.field(default_factory=list)
    topic_names: Mapping[int, str] = dataclasses.field(default_factory=dict)

    def draws(self) -> list[Draw]:
        """Return the topics to predict documents with: their posterior means."""
        return [Draw(self.topics, self.alpha, np.arange(self.num_topics))]

    def shards(self, documents: sp.csr_array, *, seed: int) -> Iterator[Shares]:
        """Yield the topic proportions of documents [D, V] given the mean topics."""
        most = self.settings.share_error
        return proportions.shards(self.topics, self.alpha, documents, seed=seed, share_error=most)

    def to_record(self) -> Topics:
        """Return the topics and the kept samples in the form that `simplex_jax.evaluate` uses."""
        return Topics(
            self.topics, self.metrics, self.samples, self.order, self.vocabulary, self.interrupted
        )

    @property
    def titles(self) -> list[str]:
        """Name of each topic: that of `topic_names`, else of its seed words, else ""."""
        seeded = seeds.names(self.settings.seed_words, self.num_topics, self.vocabulary)
        return [self.topic_names.get(k, name) for k, name in enumerate(seeded)]


def prepare(plan: Plan, folder: Folder | None) -> Run:
    """Return the run of a plan, ready to be trained."""
    settings: Any = plan.settings
    size = size_of(plan.train)
    memory.check(plan.train, settings)
    key_init, key_run, key_evaluate = split(jax.random.key(settings.seed), 3)
    seeded = seeds.to_pseudocounts(settings, vocabulary_of(plan.train))
    data = feed.to_device(plan.train, settings)
    kernel, source = feed.build(data, size, settings, seeded)
    window = window_of(settings)
    measures: dict[str, Any] = {}
    if plan.heldout is not None:
        measures["evaluation"] = evaluation.Evaluation(
            evaluation.completion(*plan.heldout),
            key_evaluate,
            settings.chains,
            window,
            settings.engine,
            lambda state: (sharding.topics_of(state), state.alpha),
        )
    state = feed.start(key_init, kernel, size.words, settings, seeded)
    heldout, rows = plan.heldout is not None, sharding.rows_of(state)
    measures["posterior"] = posterior.gather(settings, window, size.words, heldout, seeded, rows)
    goal = measures["goal"] = posterior.goal(settings, measures["posterior"], size, heldout)
    measures["kept"] = posterior.keep(settings, window, folder)
    measures["records"] = posterior.records(settings, size)
    run = Run(
        key=key_run,
        kernel=kernel,
        state=state,
        portable=_portable(plan, state) if settings.counts == "memoised" else None,
        feed=functools.partial(source, key_run),
        measures=measures,
        ended=goal.ended,
    )
    return _from_disk(run, plan, data) if isinstance(data, Pages) else run


def _from_disk(run: Run, plan: Plan, places: Pages) -> Run:
    """Return a run whose tokens and labels are in files."""
    files = feed.Files(on_host(plan.train), places, plan.settings.num_topics)
    stream: Any = run.feed(0)
    return run._replace(
        feed=functools.partial(files.feed, stream, run.key),
        hooks=[files],
        portable=session.Portable(_without_spread, files.place, files.whole),
    )


def _without_spread(state: State) -> State:
    return sharding.with_spread(state, position=ANY, labels=MAPPED, counts=ANY)


def _portable(plan: Plan, state: State) -> session.Portable:
    """Return how to place topics, labels and counts of a checkpoint on this run's devices."""
    position, labels, counts = (
        jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=array.sharding)
        for array in (state.position, sharding.labels_of(state), sharding.counts_of(state))
    )
    chains, topics = plan.settings.chains > 1, plan.settings.num_topics

    def place(restored: State) -> State:
        saved, lengths = sharding.labels_of(restored), on_host(plan.train).lengths
        placed_labels = sharding.dealt_again(saved, lengths, labels, chains=chains)
        return sharding.with_spread(
            restored,
            position=sharded_rows.place_rows(restored.position, topics, position),
            labels=placed_labels,
            counts=sharded_rows.place_rows(sharding.counts_of(restored), topics, counts),
        )

    return session.Portable(_without_spread, place)


def summarise(plan: Plan, run: Run, trained: session.Trained) -> Fit:
    """Combine the chains and infer the topic proportions of the documents."""
    settings: Options = plan.settings
    gathered, kept = run.measures["posterior"].result(trained.event), run.measures["kept"]
    moments = gathered.moments
    means = moments["topics"].mean
    order, stability, shared = matching.align(list(means))
    mean, sd = moments["topics"].pooled(order, shared)
    prevalence, prevalence_sd, prevalence_range = posterior.prevalence(gathered, order, shared)
    # A common alpha pools all chains, whichever topics they have.
    matched = () if settings.alpha == "learn" else (order, shared)
    concentrations = {
        "alpha": moments["alpha"].pooled(*matched),
        "beta": moments["beta"].pooled(),
    }
    for name, (values, deviation) in concentrations.items():
        given = getattr(settings, name)
        if not isinstance(given, str):
            values, deviation = np.broadcast_to(given, values.shape), np.zeros(values.shape)
        concentrations[name] = values.astype(np.float64), deviation.astype(np.float64)
    documents: Corpus = in_memory(plan.data)
    alpha = concentrations["alpha"][0]
    size = 0 if is_stored(plan.data) else len(documents.names)
    parts = proportions.shards(
        mean,
        alpha,
        documents,
        seed=settings.seed,
        share_error=settings.share_error,
        engine=settings.engine,
    )
    shape = (size, settings.num_topics)
    of_documents, errors = proportions.joined(parts if size else (), shape, run.progress)
    metrics = run.measures["records"].records
    return Fit(
        num_samples=gathered.samples * settings.chains,
        diagnostics=matching.diagnose(gathered.traces(), order, shared),
        metrics=metrics,
        settings=settings,
        interrupted=trained.interrupted,
        state=trained.state,
        topics=mean,
        topics_sd=sd,
        topics_range=matching.range_of_topics(means, order),
        prevalence=prevalence,
        prevalence_sd=prevalence_sd,
        prevalence_range=prevalence_range,
        alpha=alpha,
        alpha_sd=concentrations["alpha"][1],
        beta=concentrations["beta"][0],
        beta_sd=concentrations["beta"][1],
        stability=stability,
        **results_of(documents, mean, of_documents, errors),
        order=order,
        shared=shared,
        samples=kept.samples(),
        stiffness=float(metrics[-1].get("stiffness", 0.0)) if metrics else 0.0,
    )

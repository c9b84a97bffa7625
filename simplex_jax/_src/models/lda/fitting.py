"""From a corpus to a posterior summary of its topics."""

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
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
from simplex_jax._src.models.lda import editing, feed, memory, posterior, seeds, sharding
from simplex_jax._src.models.lda.correlations import Correlations, correlate
from simplex_jax._src.models.lda.draws import DrawOptions
from simplex_jax._src.models.lda.options import Options
from simplex_jax._src.models.records import Plan, of_run
from simplex_jax._src.models.topics import evaluation, proportions
from simplex_jax._src.models.topics.data import (
    in_memory,
    is_stored,
    on_host,
    size_of,
    vocabulary_of,
)
from simplex_jax._src.models.topics.editing import Editable, renumbered, summed
from simplex_jax._src.models.topics.fits import CountFit, Draw, Shares, results_of
from simplex_jax._src.runtime import session
from simplex_jax._src.runtime.checkpoint import ANY, MAPPED
from simplex_jax._src.runtime.sample_files import Folder
from simplex_jax._src.runtime.session import Run
from simplex_jax._src.runtime.windows import window_of


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Fit(Editable, CountFit):
    """A fitted topic model; several chains are summarised together.

    Topics are numbered as in the first chain; those of the other chains are matched to them.

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
        prevalence_draws: The prevalence in each sample, float32 [S, chains, K].
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
        order: Topic of each chain matched to each topic, int [chains, K]; as trained.
        shared: Whether the matched topic is the same topic, by similarity, bool [chains, K]: means
            and deviations of a topic use only the chains that have it.
        samples: Samples kept in memory: arrays "topics" [S, chains, K, V], "alpha" and
            "prevalence" [S, chains, K], "beta" [S, chains, V] and "step" [S], with topics as
            trained and numbered as in each chain; empty if there are none.
        stiffness: Stiffness of SMLD at the end, unstable above 2; 0 for other samplers.
        num_empty_documents: Number of documents without a word of the vocabulary.
        effects: Records of `lda.effects` for the report: by year, of a run of the command on a
            corpus with years.
        correlations: Records of `correlate` for the report, of a run of the command.
        {results}
    """

    settings: Options
    prevalence_draws: np.ndarray
    alpha: np.ndarray
    alpha_sd: np.ndarray
    beta: np.ndarray
    beta_sd: np.ndarray
    order: np.ndarray
    stiffness: float = 0.0
    effects: Sequence[dict[str, Any]] = dataclasses.field(default_factory=list)
    correlations: Sequence[dict[str, Any]] = dataclasses.field(default_factory=list)

    _TAKEN = (*Editable._TAKEN, "alpha_sd")
    _SUMMED = (*Editable._SUMMED, "prevalence_draws", "alpha")

    def draws(self) -> list[Draw]:
        """Return the topics to predict documents with: their posterior means, as trained."""
        trained = self.as_trained()
        return [Draw(trained.topics, trained.alpha, trained.reported)]

    def shards(self, documents: sp.csr_array, *, seed: int) -> Iterator[Shares]:
        """Yield the topic proportions of documents [D, V] given the mean topics, as trained."""
        trained, most = self.as_trained(), self.settings.share_error
        given = trained.topics, trained.alpha, documents
        for part in proportions.shards(*given, seed=seed, share_error=most):
            yield part._replace(proportions=summed(part.proportions, trained.parts))

    def to_record(self) -> Topics:
        """Return the topics and the kept samples in the form that `simplex_jax.evaluate` uses."""
        samples, order = editing.samples_of(self)
        return Topics(self.topics, self.metrics, samples, order, self.vocabulary, self.interrupted)

    @property
    def titles(self) -> list[str]:
        """Name of each topic: that of `topic_names`, else of its seed words, else ""."""
        trained = self.as_trained()
        seeded = seeds.names(self.settings.seed_words, len(trained.topics), self.vocabulary)
        names = [", ".join(filter(None, (seeded[k] for k in part))) for part in trained.parts]
        return [self.topic_names.get(k, name) for k, name in enumerate(names)]

    def concentrations(self) -> np.ndarray:
        """Return alpha."""
        return self.alpha

    def _rearranged(self, groups: Sequence[tuple[int, ...]]) -> dict[str, Any]:
        """Return the results over documents of the topics that are left; after a merge, none."""
        numbers = renumbered(groups)
        if len(numbers) < len(groups):
            return {"effects": [], "correlations": []}
        return {
            "effects": editing.renumbered_effects(self.effects, numbers),
            "correlations": editing.renumbered_pairs(self.correlations, numbers),
        }

    def _merged_from(
        self,
        fitted: Any,
        groups: Sequence[tuple[int, ...]],
        merged: Sequence[int],
        samples: str | Path | None,
    ) -> "Fit":
        """Return this fit with what the kept draws say of its merged topics."""
        return editing.with_draws(self, fitted, groups, merged, samples)

    def correlate(
        self,
        corpus: Any,
        *,
        level: float = 0.95,
        sweeps: int = 25,
        seed: int = 0,
        samples: str | Path | None = None,
    ) -> Correlations:
        """Return which topics rise and fall together over documents, with intervals.

        The correlation is that of the proportion of one topic in a document with the share of
        another in the rest of it, averaged over both directions: plain correlations of proportions
        are negative even for topics that have nothing to do with each other, as these sum to 1,
        and this one is then 0. As in `lda.effects`, proportions are drawn for each kept draw of
        the topics, and the intervals include the uncertainty of the topics, of the proportions and
        of a sample of D documents.

        It says which topics share documents, not that one leads to the other. The topic model
        assumes none, and in short documents draws correlations towards 0. Two topics that divide
        one theme between them may avoid each other. Of 100 pairs that have nothing to do with each
        other, five have an interval without 0.

        Args:
            corpus: The documents of the fit, or others, as given to `lda.fit`.
            level: Probability of the intervals.
            sweeps: Gibbs sweeps over the documents before each draw of their proportions.
            seed: Seed of all randomness.
            samples: Directory of the kept samples of a loaded fit, such as run/samples.

        Returns:
            `mean`, `lower` and `upper` [K, K], with `rows()` for a table and `plot()`.

        Raises:
            ValueError: There are fewer than three topics or five documents, the fit kept no
                samples, or an option is out of range.

        Example:
            >>> import scipy.sparse as sp
            >>> from simplex_jax import lda
            >>> counts = sp.csr_array([[9, 8, 0, 1, 4], [7, 9, 1, 0, 0], [0, 1, 9, 8, 3]] * 5)
            >>> fitted = lda.fit(counts, 3, passes=40, seed=1, keep_samples=10)
            >>> result = fitted.correlate(counts)
            >>> result.mean.shape, len(list(result.rows()))
            ((3, 3), 3)
        """
        asked = DrawOptions(level=level, sweeps=sweeps, seed=seed, samples=samples)
        return correlate(self, corpus, asked)


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
    shape = plan.settings.num_topics, size_of(plan.train).words
    files = feed.Files(on_host(plan.train), places, shape)
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
    draws = _matched(gathered.traces()["prevalence"], order)
    tokens = draws.mean(axis=0) * size_of(plan.train).tokens
    beta, beta_sd = moments["beta"].pooled()
    shared[1:] &= matching.told_apart(tokens, beta.sum())
    mean, sd = moments["topics"].pooled(order, shared)
    prevalence, prevalence_sd, prevalence_range = posterior.prevalence(gathered, order, shared)
    # A common alpha pools all chains, whichever topics they have.
    matched = () if settings.alpha == "learn" else (order, shared)
    concentrations = {"alpha": moments["alpha"].pooled(*matched), "beta": (beta, beta_sd)}
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
        **of_run(plan, run, trained),
        topics=mean,
        topics_sd=sd,
        topics_range=matching.range_of_topics(means, order),
        prevalence=prevalence,
        prevalence_sd=prevalence_sd,
        prevalence_range=prevalence_range,
        prevalence_draws=draws.astype(np.float32),
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


def _matched(draws: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return draws [S, chains, K] with the topics of each chain matched by `order` [chains, K]."""
    return np.take_along_axis(draws, order[None], axis=2)

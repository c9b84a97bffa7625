"""From a corpus to a posterior summary of its topics."""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from simplex_jax._src.models.topics.fits import (
    CountFit,
    Draw,
    Shares,
    leading_words,
    results_of,
    topic_lines,
)
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
        shared: Whether the matched topic is the same topic, bool [chains, K], see
            `matching.align`: means and deviations of a topic use only the chains that have it.
        samples: Samples kept in memory: arrays "topics" [S, chains, K, V], "alpha" and
            "prevalence" [S, chains, K], "beta" [S, chains, V] and "step" [S], with topics as
            trained and numbered as in each chain; empty if there are none.
        stiffness: Stiffness of SMLD at the end, unstable above 2; 0 for other samplers.
        num_empty_documents: Number of documents without a word of the vocabulary.
        topic_names: Names of topics by number, those of `rename` or of the commands.
        effects: Records of `lda.effects` for the report: by year, of a run of the command on a
            corpus with years.
        correlations: Records of `correlate` for the report, of a run of the command.
        trained: After `merge`, `drop` or `reorder` the topics as they were trained, `topics` and
            `alpha`, and `parts`, the numbers of those that each topic now consists of; else None.
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
    topic_names: Mapping[int, str] = dataclasses.field(default_factory=dict)
    trained: editing.Trained | None = None

    def draws(self) -> list[Draw]:
        """Return the topics to predict documents with: their posterior means, as trained."""
        trained = editing.as_trained(self)
        return [Draw(trained.topics, trained.alpha, trained.reported)]

    def shards(self, documents: sp.csr_array, *, seed: int) -> Iterator[Shares]:
        """Yield the topic proportions of documents [D, V] given the mean topics, as trained."""
        trained, most = editing.as_trained(self), self.settings.share_error
        given = trained.topics, trained.alpha, documents
        for part in proportions.shards(*given, seed=seed, share_error=most):
            yield part._replace(proportions=editing.summed(part.proportions, trained.parts))

    def to_record(self) -> Topics:
        """Return the topics and the kept samples in the form that `simplex_jax.evaluate` uses."""
        samples, order = editing.samples_of(self)
        return Topics(self.topics, self.metrics, samples, order, self.vocabulary, self.interrupted)

    @property
    def titles(self) -> list[str]:
        """Name of each topic: that of `topic_names`, else of its seed words, else ""."""
        trained = editing.as_trained(self)
        seeded = seeds.names(self.settings.seed_words, len(trained.topics), self.vocabulary)
        names = [", ".join(filter(None, (seeded[k] for k in part))) for part in trained.parts]
        return [self.topic_names.get(k, name) for k, name in enumerate(names)]

    @property
    def dropped(self) -> list[int]:
        """Topics, as trained, that `drop` left out."""
        return np.flatnonzero(editing.as_trained(self).reported < 0).tolist()

    @property
    def leaves_rest(self) -> bool:
        """Whether topics were dropped, so that the proportions of a document leave their part."""
        return bool(self.dropped)

    def lines(self) -> list[str]:
        """Return a line for each topic, the most prevalent first, with its name if it has one."""
        words = leading_words(self.topics, self.vocabulary)
        named = [
            f"[{title}] {leading}" if title else leading
            for title, leading in zip(self.titles, words, strict=True)
        ]
        return topic_lines(self.prevalence, named, stable=self.stable)

    def merge(
        self,
        topics: Iterable[int] | Iterable[Iterable[int]],
        *,
        corpus: Any = None,
        samples: str | Path | None = None,
    ) -> "Fit":
        """Return the fit with some topics merged, without a new run.

        In each sample, the proportion of a merged topic in a document is the sum of those of its
        parts, and so is its prevalence; its word distribution is the mixture of theirs by
        prevalence, in the samples that were kept. All that is reported about it, its interval and
        whether it is stable too, comes from these: nothing is approximated. Other topics keep
        their results to the bit. A merged topic is where the first of its parts was, and later
        topics move up. `proportions_error` remains that of the topics as trained.

        Args:
            topics: The topics to merge: `[3, 7]`, or several such groups, `[[3, 7], [1, 12]]`.
            corpus: The documents of the fit, as given to `lda.fit`. Without them a merged topic has
                no coherence, and some of its documents no excerpt.
            samples: Directory of the kept samples of a loaded fit, such as run/samples.

        Raises:
            ValueError: A topic does not exist or is given twice, or the fit kept no samples.

        Example:
            >>> import scipy.sparse as sp
            >>> from simplex_jax import lda
            >>> counts = sp.csr_array([[9, 8, 0, 0], [7, 9, 0, 0], [0, 0, 9, 8], [0, 0, 8, 9]])
            >>> fitted = lda.fit(counts, 3, passes=40, seed=1)
            >>> merged = fitted.merge([0, 2])
            >>> merged.num_topics, merged.trained.parts
            (2, ((0, 2), (1,)))
            >>> bool(merged.prevalence[0] == fitted.prevalence[[0, 2]].sum())
            True
        """
        groups = editing.merging(topics, self.num_topics)
        call = f".merge({[list(group) for group in groups if len(group) > 1]})"
        return editing.edited(self, groups, corpus=corpus, samples=samples, call=call)

    def drop(self, topics: Iterable[int]) -> "Fit":
        """Return the fit without some topics in its results, without a new run.

        The model keeps them, and they still explain their words: predictions and the numbers of the
        other topics do not change. So prevalences, and the proportions of a document, sum to less
        than 1; divide by their sum for proportions among the topics that are left. Later topics
        move up. `dropped` has those that were left out, by the numbers that they were trained with.

        Raises:
            ValueError: A topic does not exist or is given twice, or none would be left.
        """
        groups = editing.dropping(topics, self.num_topics)
        out = [k for k in range(self.num_topics) if (k,) not in groups]
        return editing.edited(self, groups, call=f".drop({out})")

    def reorder(self, topics: Iterable[int]) -> "Fit":
        """Return the fit with these topics first, and the others after them.

        `fitted.reorder(np.argsort(-fitted.prevalence))` puts the most prevalent first.

        Raises:
            ValueError: A topic does not exist or is given twice.
        """
        groups = editing.reordering(topics, self.num_topics)
        return editing.edited(self, groups, call=f".reorder({[k for (k,) in groups]})")

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

    def rename(self, names: Mapping[int, str]) -> "Fit":
        """Return the fit with names for some topics, by number, for its report and tables.

        An empty name removes one. `titles` has all names.

        Raises:
            ValueError: A topic does not exist.

        Example:
            >>> import scipy.sparse as sp
            >>> from simplex_jax import lda
            >>> fitted = lda.fit(sp.csr_array([[9, 8, 0, 0], [0, 0, 9, 8]]), 2, passes=20)
            >>> fitted.rename({1: "Farms"}).titles
            ['', 'Farms']
        """
        return editing.renamed(self, names)


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
        **of_run(plan, run, trained),
        topics=mean,
        topics_sd=sd,
        topics_range=matching.range_of_topics(means, order),
        prevalence=prevalence,
        prevalence_sd=prevalence_sd,
        prevalence_range=prevalence_range,
        prevalence_draws=_matched(gathered.traces()["prevalence"], order).astype(np.float32),
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

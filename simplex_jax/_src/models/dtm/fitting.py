"""Fits of topics in slices: preparation and summary of a run, and inference for other documents."""

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp

from simplex_jax._src import arguments
from simplex_jax._src.base import Kernel
from simplex_jax._src.batches import Stream
from simplex_jax._src.corpus import Corpus, split_tokens, to_vocabulary
from simplex_jax._src.corpus.frames import check_order
from simplex_jax._src.draws.keys import by_native_code, split
from simplex_jax._src.evaluate import diagnostics, matching, plots
from simplex_jax._src.evaluate.coherence import top_words
from simplex_jax._src.evaluate.fits import Topics
from simplex_jax._src.models import goal
from simplex_jax._src.models.dtm import model
from simplex_jax._src.models.dtm.intervals import (
    ENDS,
    Parts,
    deviations,
    interval_of,
    kinds_of,
    matched,
    word_ends,
    words_known,
)
from simplex_jax._src.models.dtm.options import Options, own_of, start_of
from simplex_jax._src.models.dtm.slices import HeldOut, Sliced, Slices
from simplex_jax._src.models.heldout import measured
from simplex_jax._src.models.records import Plan, of_run
from simplex_jax._src.models.topics import evaluation, proportions
from simplex_jax._src.models.topics.concentrations import LEAST
from simplex_jax._src.models.topics.data import (
    Size,
    as_data,
    in_memory,
    predictable,
    size_of,
)
from simplex_jax._src.models.topics.fits import CountFit, Draw, Shares, results_of
from simplex_jax._src.models.topics.report import NONE
from simplex_jax._src.runtime import gathering, session
from simplex_jax._src.runtime.gathering import Gathered, Kept, Posterior
from simplex_jax._src.runtime.hooks import Event
from simplex_jax._src.runtime.moments import Moments
from simplex_jax._src.runtime.sample_files import Folder
from simplex_jax._src.runtime.session import Progress, Records, Run
from simplex_jax._src.runtime.windows import PARTS, Window, doubling

_SMALLEST_SHARD = 64  # documents of a slice are filled up to powers of 2 from here on


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Fit(CountFit):
    """Fitted topics that change from slice to slice; several chains are summarised together.

    Topics are numbered as in the first chain; those of the other chains are matched to them by
    their means over the slices. Intervals are at 95%. Those of several chains are of what a further
    chain would draw that finds the topic: where these lack effective samples, wider than those of
    each chain by how far chains are apart, on average over the topics. They are NaN for topics that
    not all chains have if these have fewer than three in common, and of one chain with too few
    effective samples.

    Attributes:
        slices: The T slices: their `names`, `times`, `groups` and numbers of `documents`.
        place: Slice of each document, int64 [D].
        topics_by_slice: Posterior mean of the topics of each slice, float32 [T, K, V].
        topics_by_slice_sd: Their standard deviation in a further chain, float32 [T, K, V].
        topics_by_slice_effective: Effective samples of these probabilities, by the means of three
            parts of each chain, float32 [T, K, V].
        prevalence_by_slice: Posterior mean of the expected proportions of a document of each slice,
            float64 [T, K]; rows sum to 1, unless chains have different topics, of which each is
            averaged over the chains that have it.
        prevalence_by_slice_interval: Ends of their intervals, float64 [2, T, K].
        prevalence_by_slice_range: Smallest and largest mean over the matched chains, [2, T, K].
        alpha_by_slice: Concentrations of the proportions of documents of each slice, [T, K].
        effective: Effective samples of the prevalence of each slice and topic, float64 [T, K].
        steadiness: How steady the words of each topic are: posterior median of the concentration c
            of its path, in which a word of probability p has the standard deviation
            sqrt(p (1 - p) / (c + 1)) around its base, float64 [K].
        steadiness_interval: Ends of its interval, float64 [2, K].
        pace: How fast each topic forgets: posterior median of r, per unit of the times; after a
            time 1 / r, a deviation from the base has shrunk to 37%, float64 [K]. Without times, it
            means nothing.
        pace_interval: Ends of its interval, float64 [2, K].
        prevalence_steadiness: The same of the prevalence: median, lower and upper end, [3].
        prevalence_pace: The same of its pace, [3].
        document_steadiness: The same of the concentration m of a document's own topics around those
            of its slice, [3]: the smaller, the more words come in bursts; NaN if documents have the
            topics of their slice.
        topics: Posterior mean of the topics over the slices, weighted by their tokens, [K, V].
        topics_sd: Standard deviation of these means, float32 [K, V].
        topics_range: Smallest and largest such mean over the matched chains, float32 [2, K, V]; of
            one chain none, [2, K, 0].
        prevalence: Posterior mean share of the training tokens in each topic, float64 [K].
        prevalence_sd: Its standard deviation.
        prevalence_range: Its smallest and largest mean over the matched chains, float64 [2, K].
        alpha: Concentrations of the proportions of a document of no known slice: the mean of those
            of the slices, weighted by tokens, float64 [K].
        alpha_sd: Their standard deviation.
        beta: Concentration of the bases of the topics, per word, float64.
        beta_sd: Its standard deviation.
        stability: Mean similarity of each topic to its matches in the other chains, float64 [K];
            NaN for one chain.
        vocabulary: The V words.
        names: Names of all documents, D.
        proportions: Topic proportions of the documents given the mean topics of their slices,
            float32 [D, K].
        proportions_error: Monte-Carlo standard error of the most uncertain proportion of each
            document, float32 [D].
        coherence: NPMI of the ten leading words of each topic over the documents, float64 [K].
        examples: Representative documents of each topic.
        order: Topic of each chain matched to each topic, int [chains, K].
        shared: Whether the matched topic is the same topic, bool [chains, K].
        num_empty_documents: Number of documents without a word of the vocabulary.
        {results}
    """

    settings: Options
    slices: Slices
    place: np.ndarray
    topics_by_slice: np.ndarray
    topics_by_slice_sd: np.ndarray
    topics_by_slice_effective: np.ndarray
    prevalence_by_slice: np.ndarray
    prevalence_by_slice_interval: np.ndarray
    prevalence_by_slice_range: np.ndarray
    alpha_by_slice: np.ndarray
    effective: np.ndarray
    steadiness: np.ndarray
    steadiness_interval: np.ndarray
    pace: np.ndarray
    pace_interval: np.ndarray
    prevalence_steadiness: np.ndarray
    prevalence_pace: np.ndarray
    document_steadiness: np.ndarray
    alpha: np.ndarray
    alpha_sd: np.ndarray
    beta: np.ndarray
    beta_sd: np.ndarray
    order: np.ndarray

    def draws(self) -> list[Draw]:
        """Return the mean topics over the slices, as one draw."""
        return [Draw(self.topics, self.alpha, np.arange(len(self.topics)))]

    def shards(self, documents: sp.csr_array, *, seed: int) -> Iterator[Shares]:
        """Yield the topic proportions of documents of no slice."""
        return proportions.shards(
            self.topics,
            self.alpha,
            documents,
            seed=seed,
            share_error=self.settings.share_error,
            own=own_topics(self),
        )

    @property
    def kinds(self) -> np.ndarray:
        """Which ends the prevalence by slice has, [T, K].

        Those of an interval, from enough effective samples; with fewer, of how far chains are
        apart; or none.
        """
        return kinds_of(self.effective >= diagnostics.ENOUGH, self.shared, self._samples)

    @property
    def _samples(self) -> int:
        """The number of samples of each chain."""
        return self.num_samples // len(self.shared)

    def word_kinds(self, topic: int, words: Sequence[int] | np.ndarray) -> np.ndarray:
        """What the ends of words in a topic are by slice, as `kinds`, [T, n]."""
        effective = self.topics_by_slice_effective[:, topic, words]
        known = words_known(effective, len(self.shared))
        return kinds_of(known, self.shared, self._samples, topic)

    def to_record(self) -> Topics:
        """Return the mean topics over the slices in the form that `simplex_jax.evaluate` uses."""
        return Topics(self.topics, self.metrics, {}, self.order, self.vocabulary, self.interrupted)

    def leading_words(self, topic: int, most: int = 10) -> np.ndarray:
        """Return the leading words of a topic in each slice, int [T, most], the first first."""
        return top_words(self.topics_by_slice[:, topic], most)

    def changing_words(self, topic: int, slices: np.ndarray, most: int) -> np.ndarray:
        """Return the leading words of a topic that change most over some slices, int [n]."""
        among = np.unique(self.leading_words(topic, 2 * most)[slices])
        rows = self.topics_by_slice[slices][:, topic, among]
        spread = np.ptp(np.sqrt(rows), axis=0)
        return among[np.argsort(-spread, kind="stable")[:most]]

    def interval(self, topic: int, words: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return the ends of words in a topic by slice, [2, T, n], NaN if there are none."""
        mean, sd = (
            array[:, topic, words] for array in (self.topics_by_slice, self.topics_by_slice_sd)
        )
        return np.where(self.word_kinds(topic, words) == NONE, np.nan, word_ends(mean, sd))

    def transform(
        self, data: Any, *, times: Any = None, groups: Any = None, seed: int = 0
    ) -> np.ndarray:
        """Return the topic proportions of other documents, float32 [n, K].

        Args:
            data: Documents, as for `lda.Fit.transform`.
            times: The time of each document, if slices have times. A document belongs to the slice
                of its time, or to that whose time is the nearest.
            groups: The group of each document, if slices have groups. Without times and groups, the
                topics are the means over the slices: each token counts as one of the whole corpus.
            seed: Seed of the random numbers, from 0 to 2^32 - 1.

        Raises:
            ValueError: As for `lda.Fit.transform`, or a time or group is missing or unknown.
        """
        if times is None and groups is None:
            return super().transform(data, seed=seed)
        corpus, place = placed(self, data, times, groups)
        return in_slices(self, corpus.counts, place, seed=arguments.seed(seed))[0]

    def score(self, data: Any, *, times: Any = None, groups: Any = None, seed: int = 0) -> float:
        """Return the mean log predictive probability of a word in one half of each document.

        Proportions are inferred from the other half, with the mean topics of the document's slice.
        For arguments and errors see `transform`; without times and groups, topics are the means
        over the slices.
        """
        corpus, place = placed(self, data, times, groups)
        return -np.log(held_out_perplexity(self, corpus.counts, place, seed=arguments.seed(seed)))

    def plot(
        self,
        topic: int,
        words: Sequence[str] | int = 5,
        *,
        group: str | None = None,
        axes: Any = None,
    ) -> Any:
        """Plot the probabilities of words in a topic by slice, with the bands of their intervals.

        Args:
            topic: Index of the topic.
            words: The words, or a number of words: those that change most among its leading ones.
            group: The group whose course is drawn, if there are times and several groups; by
                default the first.
            axes: The Matplotlib axes to draw in; by default those of a new figure.

        Returns:
            The axes.

        Raises:
            ValueError: There is no such topic, word or group.
        """
        number, slices = self.settings.num_topics, self.slices
        if not 0 <= topic < number:
            raise ValueError(f"topic must be from 0 to {number - 1}; it is {topic}")
        known = slices.courses()
        if group is not None and group not in known:
            raise ValueError(
                f"group must be one of {', '.join(name for name in known if name) or 'none'}; it "
                f"is {group!r}"
            )
        some = known[group] if group is not None else next(iter(known.values()))
        if isinstance(words, int | np.integer):
            chosen = self.changing_words(topic, some, words)
        else:
            place = {word: w for w, word in enumerate(self.vocabulary)}
            asked = [words] if isinstance(words, str) else words
            if missing := [word for word in asked if word not in place]:
                raise ValueError(f"words: {', '.join(missing)} are not in the vocabulary")
            chosen = np.array([place[word] for word in asked])
        lower, upper = self.interval(topic, chosen)[:, some]
        return plots.curves(
            slices.times[some] if slices.timed else np.arange(len(some)),
            self.topics_by_slice[some][:, topic, chosen],
            lower,
            upper,
            [self.vocabulary[word] for word in chosen],
            labels=None if slices.timed else [slices.names[t] for t in some],
            name=f"probability in topic {topic}",
            axes=axes,
        )


def window_of(settings: Options) -> Window:
    """Return the window of a run: that of a run without its static passes."""
    static = settings.static_passes
    assert settings.sample_every is not None
    assert static is not None  # both settled
    moving = doubling(settings.sample_every)
    return lambda updates: moving(updates - static)


def _built(plan: Plan, layout: model.Layout) -> tuple[Kernel, Stream]:
    """Return the kernel and the stream of a plan for a layout."""
    settings: Options = plan.settings
    slices: Slices = plan.train.slices
    return model.build(
        layout,
        (settings.num_topics, len(plan.train.corpus.vocabulary)),
        slices.gaps,
        slices.parents,
        alpha=start_of(settings, "alpha"),
        beta=start_of(settings, "beta"),
        own=own_of(settings),
        static=settings.static_passes or 0,
        chains=settings.chains if settings.chains > 1 else None,
        engine=settings.engine,
    )


def memory(plan: Plan) -> dict[str, int]:
    """Return the bytes of memory that a fit needs, by name, as `lda.memory.estimate`.

    The state, of which there are two, has the topics of all slices and their counts; "summary" has
    their moments in three parts of a run, how far these are apart, and one sample. It allocates the
    tokens only.
    """
    settings, train = plan.settings, plan.train
    layout = model.lay_out(train.corpus.counts, train.place, len(train.slices.names))
    kernel, _ = _built(plan, layout)
    lead = (settings.chains,) if settings.chains > 1 else ()
    topics = jax.ShapeDtypeStruct(
        (*lead, settings.num_topics, len(train.corpus.vocabulary)), jnp.float32
    )
    key = jax.random.key(0)
    state = jax.eval_shape(kernel.init, key, topics)
    compiled = jax.jit(kernel.update, donate_argnums=1).lower(key, state, layout).compile()
    analysis: Any = compiled.memory_analysis()

    def size(tree: Any) -> int:
        return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))

    each = size(state.position)
    parts = {
        "corpus": size(layout),
        "state": 2 * size(state),
        "update": analysis.temp_size_in_bytes,
        "summary": (2 * PARTS + 2) * each,
    }
    kept = (settings.keep_samples or 0) * each
    return parts | {"samples": kept, "total": sum(parts.values())}


def prepare(plan: Plan, folder: Folder | None) -> Run:
    """Return the run of a plan, ready for training."""
    settings: Options = plan.settings
    train: Sliced = plan.train
    slices, size = train.slices, size_of(train.corpus)
    shape, number = (settings.num_topics, size.words), len(slices.names)
    key_init, key_run, key_evaluate = split(jax.random.key(settings.seed), 3)
    layout = model.lay_out(train.corpus.counts, train.place, number)
    kernel, stream = _built(plan, layout)
    window = window_of(settings)
    measures: dict[str, Any] = {}
    if plan.heldout is not None:
        measures["evaluation"] = evaluation.Evaluation(
            model.completion(plan.heldout, number),
            key_evaluate,
            settings.chains,
            window,
            settings.engine,
            lambda state: (
                state.position,
                (
                    _alpha(state.total, state.prevalence.position),
                    None if own_of(settings) is None else state.own,
                ),
            ),
            model.log_predictive,
        )
    weights = np.bincount(
        train.place, np.asarray(train.corpus.counts.sum(axis=1), float), minlength=number
    )
    measures["posterior"] = _gather(settings, window, weights / weights.sum(), shape, plan)
    measures["kept"] = Kept(
        functools.partial(_kept, settings.chains), settings.keep_samples or 0, window, folder
    )
    measures["records"] = _records(size)
    key_topics, key_state = split(key_init)
    lead = (settings.chains,) if settings.chains > 1 else ()
    return Run(
        key=key_run,
        kernel=kernel,
        state=session.start(
            kernel.init,
            key_state,
            _random_topics(key_topics, (*lead, *shape)),
            remedy="give fewer topics (--topics), slices (--slices) or chains (--chains)",
        ),
        feed=lambda first_step: stream,
        measures=measures,
    )


@functools.partial(jax.jit, static_argnames="shape")
def _random_topics(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jax.random.exponential(by_native_code(key), shape) + 1e-6


@jax.jit
def _alpha(total: jax.Array, prevalence: jax.Array) -> jax.Array:
    # As in updates: a word that only a topic without any share explains has a finite logarithm.
    return jnp.maximum(total[..., None, None] * jnp.exp(prevalence), LEAST)


@jax.jit
def _read(state: model.State, tokens: jax.Array, weights: jax.Array) -> dict[str, jax.Array]:
    """Return the quantities of a sample of one chain or several, topics before slices."""
    topics = jnp.exp(state.position)
    prevalence = jnp.exp(state.prevalence.position)
    alpha = jnp.moveaxis(_alpha(state.total, state.prevalence.position), -2, -1)
    return {
        "topics_by_slice": topics,
        "topics": jnp.sum(topics * weights[:, None], axis=-2),
        "alpha_by_slice": alpha,
        "alpha_of_topics": jnp.sum(alpha * weights, axis=-1),
        "prevalence": tokens.sum(axis=-2) / tokens.sum(axis=(-2, -1))[..., None],
        "prevalence_by_slice": prevalence,
        "steadiness": state.steadiness,
        "pace": state.pace,
        "prevalence_steadiness": state.prevalence.concentration,
        "prevalence_pace": state.prevalence.pace,
        "alpha": state.total,
        "beta": state.beta,
        "document_steadiness": state.own,
    }


_PARTED = "topics_by_slice"
_SCALARS = ("prevalence_steadiness", "prevalence_pace", "document_steadiness")
_MOMENTS = (_PARTED, "topics", "alpha_by_slice", "alpha_of_topics")


def _gather(
    settings: Options, window: Window, weights: np.ndarray, shape: tuple[int, int], plan: Plan
) -> Posterior:
    """Return the hook that gathers moments and traces, with perplexities of held-out documents."""
    chains, (topics, words), slices = settings.chains, shape, len(weights)
    weight = jnp.asarray(weights, jnp.float32)
    sizes = {
        "topics_by_slice": (chains, topics, slices, words),
        "topics": (chains, topics, words),
        "alpha_by_slice": (chains, topics, slices),
        "alpha_of_topics": (chains, topics),
    }
    traces = {
        "prevalence": (chains, topics),
        "prevalence_by_slice": (chains, slices, topics),
        "steadiness": (chains, topics),
        "pace": (chains, topics),
        **dict.fromkeys(("prevalence_steadiness", "prevalence_pace", "alpha", "beta"), (chains,)),
    }
    if own_of(settings) is not None:
        traces["document_steadiness"] = (chains,)
    heldout = plan.heldout is not None
    if heldout:
        traces["log_predictive"] = (chains,)

    def sample(event: Event) -> gathering.Sample:
        read = _read(event.state, event.info.tokens, weight)
        if chains == 1:
            read = {name: value[None] for name, value in read.items()}
        traced = {name: value for name, value in read.items() if name in traces}
        return gathering.Sample({name: read[name] for name in _MOMENTS}, {}, traced)

    def evaluated(event: Event) -> dict[str, np.ndarray]:
        return {"log_predictive": -np.log(measured(event, "perplexity", chains))} if heldout else {}

    def make() -> Gathered:
        moments = {name: Moments(size) for name, size in sizes.items() if name != _PARTED}
        return Gathered({_PARTED: Parts(sizes[_PARTED]), **moments}, traces)

    return Posterior(sample, make, window, evaluated)


def _kept(chains: int, event: Event) -> dict[str, np.ndarray]:
    """Return a sample to keep: topics [C, K, T, V] and prevalence [C, T, K] with c and r."""
    state: model.State = event.state
    arrays = {
        "topics": np.exp(state.position),
        "base": np.exp(state.base),
        "steadiness": state.steadiness,
        "pace": state.pace,
        "prevalence": np.exp(state.prevalence.position),
        "alpha": state.total,
        "beta": state.beta,
        "document_steadiness": state.own,
    }
    return {n: np.asarray(x)[None if chains == 1 else ...] for n, x in arrays.items()}


def _records(size: Size) -> Records:
    """Return the hook that records evaluations and tokens per second."""

    def measure(event: Event, passes: float) -> Mapping[str, float]:
        return {"tokens_per_second": round(passes * size.tokens / max(event.seconds, 1e-9))}

    return Records(size.documents, size.documents, measure)


def summarise(plan: Plan, run: Run, trained: session.Trained) -> Fit:
    """Combine the chains and infer the topic proportions of the documents."""
    settings: Options = plan.settings
    gathered: Gathered = run.measures["posterior"].result(trained.event)
    moments, traces = gathered.moments, gathered.traces()
    means = moments["topics"].mean
    order, stability, shared = matching.align(list(means))
    tokens = traces["prevalence"].mean(axis=0) * size_of(plan.train.corpus).tokens
    prior = traces["beta"].mean() * means.shape[-1]
    shared[1:] &= matching.told_apart(np.take_along_axis(tokens, order, axis=1), prior)
    topics, topics_sd = moments["topics"].pooled(order, shared)
    words = moments[_PARTED]
    assert isinstance(words, Parts)
    by_slice, by_slice_sd = words.pooled(order, shared)
    variance, effective_words = words.analysed(order, shared)
    known = words_known(effective_words, settings.chains)
    by_slice_sd = deviations(by_slice, by_slice_sd, known, words.mean, variance, order, shared)
    path_means = traces["prevalence_by_slice"].mean(axis=0)
    alpha_by_slice = moments["alpha_by_slice"].pooled(order, shared)[0].T
    alpha, alpha_sd = moments["alpha_of_topics"].pooled(order, shared)
    share = matched(traces["prevalence"], order, shared)
    path = matched(traces["prevalence_by_slice"], order, shared)
    effective = goal.effective(path)
    if settings.num_topics == 1:  # whose share is 1
        effective = np.full_like(effective, np.inf)
    named: dict[str, np.ndarray] = {}
    own: dict[str, Any] = {}
    for name in ("steadiness", "pace"):
        trait = matched(traces.pop(name), order, shared)
        each = {f"{name} {k}": trait[:, shared[:, k], k].T for k in range(trait.shape[2])}
        named |= each
        enough = np.array([_known(trace) for trace in each.values()])
        kinds = kinds_of(enough, shared, gathered.samples)
        own[name] = np.nanmedian(trait, axis=(0, 1))
        own[f"{name}_interval"] = np.exp(interval_of(np.log(trait), kinds))
    # Of these there is one each, so how far chains are apart is known from many samples only.
    scalars = {name: traces[name] for name in _SCALARS if name in traces}
    ends: dict[str, Any] = {
        name: np.append(
            np.median(trace),
            np.quantile(trace, ENDS) if _known(trace.T) else [np.nan, np.nan],
        )
        for name, trace in scalars.items()
    }
    ends = dict.fromkeys(_SCALARS, np.full(3, np.nan)) | ends
    del traces["prevalence_by_slice"]
    diagnosed = matching.diagnose(traces, order, shared) | diagnostics.summary(
        {name: trace for name, trace in named.items() if np.unique(trace).size > 1}
    )
    kinds = kinds_of(effective >= diagnostics.ENOUGH, shared, gathered.samples)
    documents: Corpus = plan.data.corpus
    result = Fit(
        num_samples=gathered.samples * settings.chains,
        diagnostics=diagnosed,
        **of_run(plan, run, trained),
        **own,
        **ends,
        slices=plan.data.slices,
        place=plan.data.place,
        topics_by_slice=np.ascontiguousarray(np.swapaxes(by_slice, 0, 1)),
        topics_by_slice_sd=np.ascontiguousarray(np.swapaxes(by_slice_sd, 0, 1)),
        topics_by_slice_effective=np.ascontiguousarray(np.swapaxes(effective_words, 0, 1)),
        prevalence_by_slice=np.nanmean(path, axis=(0, 1)),
        # Of square roots, whose deviations depend less on the level.
        prevalence_by_slice_interval=np.clip(interval_of(np.sqrt(path), kinds), 0, 1) ** 2,
        prevalence_by_slice_range=np.swapaxes(
            matching.range_over(np.swapaxes(path_means, 1, 2), order), 1, 2
        ),
        alpha_by_slice=alpha_by_slice.astype(np.float64),
        effective=effective,
        topics=topics,
        topics_sd=topics_sd,
        topics_range=matching.range_of_topics(means, order),
        prevalence=np.nanmean(share, axis=(0, 1)),
        prevalence_sd=_deviation(share),
        prevalence_range=matching.range_over(traces["prevalence"].mean(axis=0), order),
        alpha=alpha.astype(np.float64),
        alpha_sd=alpha_sd.astype(np.float64),
        beta=np.asarray(traces["beta"].mean()),
        beta_sd=np.asarray(_deviation(traces["beta"])),
        stability=stability,
        vocabulary=documents.vocabulary,
        names=documents.names,
        proportions=np.zeros((0, settings.num_topics), np.float32),
        proportions_error=np.zeros(0, np.float32),
        coherence=np.zeros(0),
        examples=[],
        order=order,
        shared=shared,
        samples=run.measures["kept"].samples(),
    )
    shares, errors = in_slices(
        result,
        documents.counts,
        plan.data.place,
        seed=settings.seed,
        engine=settings.engine,
        progress=run.progress,
    )
    return dataclasses.replace(result, **results_of(documents, topics, shares, errors))


def _known(trace: np.ndarray) -> bool:
    """Return whether a trace [chains, S] has effective samples enough for an interval."""
    return diagnostics.effective_size(trace) >= diagnostics.ENOUGH


def _deviation(trace: np.ndarray) -> np.ndarray:
    """Return the deviation over samples and chains [S, C, ...]; NaN for a single draw."""
    with np.errstate(invalid="ignore"):
        number = np.sum(~np.isnan(trace), axis=(0, 1))
        return np.where(number > 1, np.nanstd(trace, axis=(0, 1)), np.nan)


def placed(fitted: Fit, data: Any, times: Any, groups: Any) -> tuple[Corpus, np.ndarray]:
    """Return other documents over the vocabulary of a fit, and their slices; -1 for none."""
    check_order(data, {"times": times, "groups": groups})
    documents = in_memory(as_data(data, fitted.vocabulary))
    mapped = to_vocabulary(documents, fitted.vocabulary).corpus
    if times is None and groups is None:
        return mapped, np.full(len(mapped.names), -1)
    return mapped, fitted.slices.find(mapped.names, times, groups)


def in_slices(
    fitted: Fit,
    counts: sp.csr_array,
    place: np.ndarray,
    *,
    seed: int,
    engine: str | None = None,
    progress: Progress = lambda task, done, total: None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the topic proportions of documents [D, V] of some slices, and their errors.

    See `topics.proportions.shards`; documents of the slice -1 are of none.
    """
    settings = fitted.settings
    shares = np.empty((counts.shape[0], settings.num_topics), np.float32)
    errors = np.empty(counts.shape[0], np.float32)
    done = 0
    for t in np.unique(place):
        rows = np.flatnonzero(place == t)
        part = counts[rows]
        # Empty documents fill up slices, so that few sizes are compiled.
        room = max(_SMALLEST_SHARD, 1 << (len(rows) - 1).bit_length())
        ends = np.pad(part.indptr, (0, room - len(rows)), mode="edge")
        filled = sp.csr_array((part.data, part.indices, ends), shape=(room, counts.shape[1]))
        topics, alpha = topics_of(fitted, t)
        parts = proportions.shards(
            topics,
            alpha,
            filled,
            seed=seed,
            share_error=settings.share_error,
            engine=engine,
            own=own_topics(fitted),
        )
        means, error = proportions.joined(parts, (room, settings.num_topics))
        shares[rows], errors[rows] = means[: len(rows)], error[: len(rows)]
        done += len(rows)
        progress("proportions of documents", done, len(place))
    return shares, errors


def topics_of(fitted: Fit, t: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean topics and concentrations of a slice, of all slices together for -1."""
    if t < 0:
        return fitted.topics, fitted.alpha
    topics = fitted.topics_by_slice[t]
    # Means over chains that differ by topic are not exactly normalised.
    return topics / topics.sum(axis=1, keepdims=True), fitted.alpha_by_slice[t]


def own_topics(fitted: Fit) -> float | None:
    """Return the concentration of a document's own topics, None if it has none."""
    return None if np.isnan(m := float(fitted.document_steadiness[0])) else m


def held_out_perplexity(
    fitted: Fit, counts: sp.csr_array, place: np.ndarray, *, seed: int
) -> float:
    """Return the perplexity of one half of documents [D, V] of some slices given the other."""
    own, at = np.unique(place, return_inverse=True)
    topics, alpha = zip(*(topics_of(fitted, t) for t in own), strict=True)
    return perplexity_of(
        np.stack(topics), np.stack(alpha), own_topics(fitted), counts, at, seed=seed
    )


def perplexity_of(
    topics: np.ndarray,
    alpha: np.ndarray,
    own: float | None,
    counts: sp.csr_array,
    place: np.ndarray,
    *,
    seed: int,
) -> float:
    """Return the perplexity of one half of documents [D, V] given the other.

    Topics are [T, K, V] and concentrations [T, K]; for `own` see `model.log_predictive`.
    """
    halves = split_tokens(counts, seed)
    if not predictable(*halves):
        raise ValueError("no document has two known words, of which one could be predicted")
    data = model.completion(HeldOut(*halves, place), len(topics))
    table = jnp.asarray(np.swapaxes(topics, 0, 1), jnp.float32)
    log_topics = jnp.log(jnp.maximum(table, jnp.finfo(jnp.float32).tiny))
    given = jnp.asarray(alpha, jnp.float32), None if own is None else jnp.float32(own)
    log_p = [
        np.asarray(model.log_predictive(key, log_topics, given, data), np.float64)
        for key in jax.random.split(jax.random.key(seed), proportions.CHAINS)
    ]
    return evaluation.perplexity(
        logsumexp(log_p, axis=0) - np.log(len(log_p)), np.ravel(data.counts)
    )

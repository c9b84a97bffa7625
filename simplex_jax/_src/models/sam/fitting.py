"""Fits of the spherical admixture model: preparation and summary of a run."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax.typing import ArrayLike

from simplex_jax._src import arguments, base
from simplex_jax._src.base import Kernel, State
from simplex_jax._src.batches import Stream
from simplex_jax._src.corpus import vectors as unit
from simplex_jax._src.corpus.vectors import UnitVectors
from simplex_jax._src.draws.keys import fold_in, split
from simplex_jax._src.evaluate import matching
from simplex_jax._src.evaluate.coherence import coherence
from simplex_jax._src.evaluate.diagnostics import few_samples, finite
from simplex_jax._src.evaluate.fits import Topics
from simplex_jax._src.evaluate.matching import cosine
from simplex_jax._src.models import heldout, verdict
from simplex_jax._src.models.heldout import HeldOut, mean, measured
from simplex_jax._src.models.records import Plan, of_run
from simplex_jax._src.models.sam import density, joint, local, model, variational
from simplex_jax._src.models.sam.data import Data, check_directions, match_vocabulary
from simplex_jax._src.models.sam.joint import to_device
from simplex_jax._src.models.sam.options import Options, hyperparameters, learned, local_step
from simplex_jax._src.models.topics.editing import Editable, summed
from simplex_jax._src.models.topics.report import INTERVAL, interval_kinds
from simplex_jax._src.report.display import counted
from simplex_jax._src.report.examples import representative
from simplex_jax._src.runtime import devices, gathering, session
from simplex_jax._src.runtime.equilibrium import energy_warnings
from simplex_jax._src.runtime.gathering import Gathered, Kept, Posterior
from simplex_jax._src.runtime.hooks import Event
from simplex_jax._src.runtime.moments import Moments
from simplex_jax._src.runtime.sample_files import Folder
from simplex_jax._src.runtime.session import Records, Run
from simplex_jax._src.runtime.windows import window_of

# Topic proportions of any number of documents given topics, in bounded memory.

SHARD = 1_024
_SAMPLES, _BURN_IN = 256, 4
_STREAM = 0x7370  # keeps the random numbers apart from those of a fit with the same seed


def transform(
    topics: ArrayLike,
    documents: UnitVectors | sp.csr_array,
    *,
    alpha: float,
    kappa1: float,
    seed: int = 0,
    samples: int = _SAMPLES,
    shard: int = SHARD,
) -> np.ndarray:
    """Return the topic proportions of documents.

    They are the posterior means of each document's proportions given the topics, over steps of the
    method "hmc" of `models.sam.local`.

    Args:
        topics: Directions [K, V], of any length but 0, e.g. `Fit.topics`.
        documents: Unit vectors [D, V].
        alpha: Concentration of topic proportions, per topic, e.g. `Fit.alpha`.
        kappa1: Concentration of the documents, e.g. `Fit.kappa1`.
        seed: Seed of the draws.
        samples: Samples per document.
        shard: Number of documents processed together.

    Returns:
        Proportions, float32 [D, K]; rows sum to 1.

    Raises:
        ValueError: An argument is out of range, a document is not a unit vector, or documents and
            topics differ in their number of words.

    Example:
        >>> import numpy as np
        >>> from simplex_jax._src.models import sam
        >>> proportions = sam.transform(
        ...     np.eye(2, 3), sp.csr_array([[1.0, 0.0, 0.0]]), alpha=0.5, kappa1=50.0)
        >>> bool(proportions[0, 0] > 0.8), proportions.shape
        (True, (1, 2))
    """
    shard = arguments.at_least("shard", shard, 1)
    samples = arguments.at_least("samples", samples, 1)
    for name, value in (("alpha", alpha), ("kappa1", kappa1)):
        if not 0 < value < np.inf:
            raise ValueError(f"{name} must be finite and positive; it is {value}")
    directions = as_directions(topics)
    if not isinstance(documents, UnitVectors):
        documents = unit.from_array(documents)
    table = documents.values
    if table.shape[1] != directions.shape[1]:
        raise ValueError(
            f"the documents have {table.shape[1]} words and the topics {directions.shape[1]}: "
            "give documents over the vocabulary of the topics"
        )
    key = fold_in(jax.random.key(arguments.seed(seed)), _STREAM)
    width = min(shard, table.shape[0])
    parts = []
    for number, first in enumerate(range(0, table.shape[0], shard)):
        part = table[first : first + shard]
        target = padded_target(directions, part, alpha, kappa1, width)
        proportions = means(fold_in(key, number), target, _BURN_IN, samples)
        parts.append(np.asarray(proportions[: part.shape[0]]))
    return np.concatenate(parts)


def as_directions(topics: ArrayLike) -> np.ndarray:
    """Return topics as unit rows, float32 [K, V], or raise a ValueError."""
    array = np.asarray(topics, np.float64)
    if array.ndim != 2 or not array.size:
        raise ValueError(f"topics must be numbers [K, V]; their shape is {array.shape}")
    lengths = np.linalg.norm(array, axis=1)
    if not ((lengths > 0) & np.isfinite(lengths)).all():
        raise ValueError("topics must have rows that are finite and not zero")
    return (array / lengths[:, None]).astype(np.float32)


def padded_target(
    topics: np.ndarray, table: sp.csr_array, alpha: float, kappa1: float, width: int
) -> local.Target:
    """Return the posterior of the proportions of documents, padded to `width` of them.

    It needs only the K cosines of a document with the topics, whose cost is that of its nonzeros.
    """
    cosines = np.zeros((width, len(topics)), np.float32)
    cosines[: table.shape[0]] = table @ topics.T
    gram = topics @ topics.T
    return local.Target(
        jax.device_put(cosines), jax.device_put(gram), jnp.float32(alpha), jnp.float32(kappa1)
    )


means = jax.jit(local.mean_proportions)


# Hooks of a run: moments, traces, thinned samples, held-out documents, and records.

CONCENTRATIONS = ("alpha", "sigma", "kappa1")
_SAMPLED, _SAMPLED_BURN_IN = 512, 8


def gather_moments(
    settings: Options, table: sp.csr_array, key: jax.Array, heldout: bool
) -> Posterior:
    """Return the hook that gathers moments and traces.

    The mean share of each topic is computed from up to 512 documents, evenly spaced, whose
    proportions are drawn with `key` given the topics of the sample. The moments are those of
    "topics" [C, K, V], "prevalence" [C, K] and the concentrations [C].
    """
    chains, num_topics = settings.chains, settings.num_topics
    rows = np.unique(np.linspace(0, table.shape[0] - 1, _SAMPLED).round().astype(int))
    some = table[rows]
    traces: dict[str, tuple[int, ...]] = {"prevalence": (chains, num_topics)}
    traces |= dict.fromkeys(CONCENTRATIONS, (chains,))
    if heldout:
        traces["log_perplexity"] = (chains,)

    def make() -> Gathered:
        moments = {name: Moments((chains,)) for name in CONCENTRATIONS}
        moments["topics"] = Moments((chains, num_topics, table.shape[1]))
        moments["prevalence"] = Moments((chains, num_topics))
        return Gathered(moments, traces)

    def sample(event: Event) -> gathering.Sample:
        state = read_samples(event, chains)
        at = fold_in(key, event.step)
        parts = zip(state["topics"], state["alpha"], state["kappa1"], strict=True)
        targets = [padded_target(b, some, alpha, kappa1, len(rows)) for b, alpha, kappa1 in parts]
        drawn = [
            means(fold_in(at, i), target, _SAMPLED_BURN_IN, 1) for i, target in enumerate(targets)
        ]
        proportions = np.stack([np.asarray(one).mean(axis=0) for one in drawn])
        scalars = {name: state[name] for name in CONCENTRATIONS}
        both = {"prevalence": proportions} | scalars
        return gathering.Sample({"topics": state["topics"]} | both, {}, both)

    def evaluated(event: Event) -> dict[str, np.ndarray]:
        return {"log_perplexity": measured(event, "log_perplexity", chains)} if heldout else {}

    return Posterior(sample, make, window_of(settings), evaluated)


def read_samples(event: Event, chains: int) -> dict[str, np.ndarray]:
    """Return topics [C, K, V] and concentrations [C] of an event."""
    names = {"topics": "position"} | {name: name for name in CONCENTRATIONS}
    arrays = {name: np.asarray(getattr(event.state, field)) for name, field in names.items()}
    return arrays if chains > 1 else {name: array[None] for name, array in arrays.items()}


def keep_samples(settings: Options, folder: Folder | None) -> Kept:
    """Return the hook that keeps thinned samples, in a directory or in memory."""
    assert settings.keep_samples is not None  # settled
    return Kept(
        lambda event: read_samples(event, settings.chains),
        settings.keep_samples,
        window_of(settings),
        folder,
    )


def measure_heldout(table: sp.csr_array, key: jax.Array, settings: Options) -> HeldOut:
    """Return the hook that estimates log-perplexities of held-out unit vectors [H, V].

    Its metrics include `heldout_ess`, the median over documents of the effective sample size of the
    estimates.
    """
    documents = joint.to_device(table)

    def measure(event: Event) -> tuple[list[np.ndarray], dict[str, float]]:
        state, key_event = read_samples(event, settings.chains), fold_in(key, event.step)
        estimates = [
            density.estimate(
                fold_in(key_event, chain),
                state["topics"][chain],
                documents,
                float(state["alpha"][chain]),
                float(state["kappa1"][chain]),
            )
            for chain in range(settings.chains)
        ]
        ess = float(np.mean([np.median(estimate.ess) for estimate in estimates]))
        return [estimate.log_p for estimate in estimates], {"heldout_ess": ess}

    def value(log_p: list[np.ndarray]) -> float:
        return -mean(log_p)

    size, chains = table.shape[0], settings.chains
    return HeldOut("log_perplexity", size, measure, value, chains, window_of(settings))


def record_evaluations(settings: Options, documents: int) -> Records:
    """Return the hook that records evaluations: throughput, energy, noise, acceptance rates."""

    def measure(event: Event, passes: float) -> Mapping[str, float]:
        info = event.info.sampler._asdict()
        rate = round(passes * documents / max(event.seconds, 1e-9))
        measures: dict[str, float] = {"documents_per_second": rate}
        for name in ("kinetic", "thermostat", "gradient_noise", "step_size", "acceptance"):
            if (value := info.get(name)) is not None:
                measures[name] = float(np.mean(np.asarray(value)))
        measures["local_acceptance"] = float(np.mean(np.asarray(event.info.local_acceptance)))
        return measures | {"fit": float(np.mean(np.asarray(event.info.fit)))}

    return Records(documents, settings.batch_size or documents, measure)


EVALUATED = 1_000
"""Draws of the proportions of each document with which its density is estimated."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Fit(Editable):
    """A fitted spherical admixture model; several chains are pooled.

    Topics are numbered as in the first chain, and the topics of the other chains are matched to
    them.

    Attributes:
        topics: Posterior mean direction of the topics, unit rows, float32 [K, V]; negative entries
            mark words that a topic says are absent.
        topics_sd: Posterior standard deviation of the entries of the topics, float32 [K, V], about
            their posterior mean `length[:, None] * topics`; NaN for a single sample.
        topics_range: Smallest and largest of these means over the matched chains, float32
            [2, K, V]; of a single chain none, [2, K, 0].
        length: Mean resultant length of each topic, the length of the mean of its samples, float64
            [K]: 1 if they all agree.
        prevalence: Posterior mean of the mean share of each topic, float64 [K], in up to 512
            documents, evenly spaced.
        prevalence_sd: Its standard deviation, including that of the draws of the proportions of
            those documents, one for each sample of the topics.
        prevalence_range: Its smallest and largest mean over the matched chains, float64 [2, K].
        alpha: Concentration of topic proportions; the posterior mean if it is learned.
        alpha_sd: Standard deviation of alpha, 0 if it is given.
        sigma: Concentration of the topics; the posterior mean if it is learned.
        sigma_sd: Standard deviation of sigma, 0 if it is given.
        kappa1: Concentration of the documents; the posterior mean if it is learned.
        kappa1_sd: Standard deviation of kappa1, 0 if it is given.
        stability: Mean cosine of each topic with its partners in the other chains, float64 [K];
            NaN for one chain.
        idf: Weight of every word in the documents, float64 [V]; ones for unit vectors.
        weighting: The weighting rule; None for unit vectors.
        vocabulary: The V words.
        names: Names of all documents, D.
        proportions: Topic proportions of the documents given the mean directions, float32 [D, K];
            1 / K for those without a direction.
        excluded: Names of the documents without a direction.
        coherence: NPMI over the documents of the words with the largest loadings, float64 [K]; NaN
            for embeddings.
        examples: Representative documents of each topic.
        order: Topic of each chain that was matched to each topic, int [chains, K]; as trained.
        shared: Whether that is the same topic, bool [chains, K], by similarity: means and
            standard deviations of a topic pool the chains that have it.
        samples: Posterior draws kept in memory: arrays "topics" [S, chains, K, V], "alpha", "sigma"
            and "kappa1" [S, chains] and "step" [S]; empty if there are none.
        {results}
    """

    settings: Options
    length: np.ndarray
    alpha: float
    alpha_sd: float
    sigma: float
    sigma_sd: float
    kappa1: float
    kappa1_sd: float
    idf: np.ndarray
    weighting: str | None
    excluded: tuple[str, ...]
    order: np.ndarray

    _TAKEN = (*Editable._TAKEN, "length")

    def concentrations(self) -> np.ndarray:
        """Return alpha of each topic."""
        return np.full(self.num_topics, self.alpha)

    def _merged_from(
        self,
        fitted: Any,
        groups: Sequence[tuple[int, ...]],
        merged: Sequence[int],
        samples: str | Path | None,
    ) -> "Fit":
        """Raise a ValueError: what is kept does not say what a merged topic would be."""
        raise ValueError(
            "merge: the topics of sam are directions of length 1, which do not add up to one, and "
            "its samples have no proportions of documents by which they could be weighed: fit "
            "fewer topics (num_topics, --topics), or drop and rename some"
        )

    def to_record(self) -> Topics:
        """Return the topics and the kept samples for `simplex_jax.evaluate`."""
        parts = [part for (part,) in self.as_trained().parts]
        order = self.order[:, parts]
        return Topics(
            self.topics, self.metrics, self.samples, order, self.vocabulary, self.interrupted
        )


def prepare(plan: Plan, folder: Folder | None) -> Run:
    """Return the run of a plan, ready for training."""
    settings: Options = plan.settings
    table = plan.train.vectors.values
    key_init, key_run, key_evaluate, key_gather = split(jax.random.key(settings.seed), 4)
    measures: dict[str, Any] = {}
    if plan.heldout is not None:
        data = check_directions(as_trained(plan.heldout, plan, "heldout"), "heldout")
        heldout = data.vectors.values
        measures["evaluation"] = measure_heldout(heldout, key_evaluate, settings)
    measures["posterior"] = gather_moments(settings, table, key_gather, bool(measures))
    measures["kept"] = keep_samples(settings, folder)
    measures["records"] = record_evaluations(settings, table.shape[0])
    # A checkpoint replaces the first state: any that is quick will do.
    method = "prior" if plan.resumed else settings.start
    kernel, stream, start = _build(key_init, table, settings, method)
    return Run(
        key=key_run, kernel=kernel, state=start, feed=lambda first_step: stream, measures=measures
    )


def as_trained(data: Any, plan: Plan, source: str = "documents") -> Data:
    """Return documents with the vocabulary and the weights of the training documents."""
    train: Data = plan.train
    return match_vocabulary(data, train.vectors.vocabulary, train.idf, train.weighting, source)


def _build(
    key: jax.Array, table: sp.csr_array, settings: Options, method: str
) -> tuple[Kernel, Stream, State]:
    """Return the kernel of all chains, its batches and its first state, by a method of start."""
    # The topics before and after an update, in float32.
    devices.check_memory(
        8 * settings.chains * settings.num_topics * table.shape[1],
        "give fewer topics (--topics), chains, or words (--max-vocabulary)",
    )
    hyper, documents = hyperparameters(table, settings), to_device(table)
    # In double precision, as the friction is.
    inertia = model.damped_inertia(settings.friction) if settings.sampler == "gsgnht" else None
    kernel, stream = model.build(
        documents,
        (settings.num_topics, table.shape[1]),
        hyper=hyper,
        learn=learned(settings),
        shapes={name: getattr(settings, f"{name}_prior")[0] for name in learned(settings)},
        sampler=settings.sampler,
        batch_size=settings.batch_size,
        local_step=local_step(settings),
        inner_steps=settings.inner_steps,
        step_size=settings.step_size,
        friction=settings.friction,
        inertia=inertia,
    )
    key_topics, key_state = split(key)
    keys = split(key_topics, settings.chains)
    topics = jnp.stack(
        [variational.start(one, documents, hyper, settings.num_topics, method) for one in keys]
    )
    if settings.chains == 1:
        return kernel, stream, kernel.init(key_state, topics[0])
    kernel = base.chains(kernel, settings.chains, position_axis=0)
    return kernel, stream, kernel.init(key_state, topics)


def summarise(plan: Plan, run: Run, trained: session.Trained) -> Fit:
    """Put the chains together and infer the documents."""
    settings: Options = plan.settings
    gathered = run.measures["posterior"].result(trained.event)
    moments = gathered.moments
    means = moments["topics"].mean
    order, stability, shared = matching.align(list(means), matching.cosine)
    shared[1:] &= deviate_alike(means, order)
    mean, sd = moments["topics"].pooled(order, shared)
    length = np.linalg.norm(mean.astype(np.float64), axis=1)
    prevalence, prevalence_sd = moments["prevalence"].pooled(order, shared)
    concentrations: dict[str, Any] = {}
    for name in CONCENTRATIONS:
        value, spread = (float(x) for x in moments[name].pooled())
        sampled = name in learned(settings)
        concentrations[name] = value if sampled else getattr(settings, name)
        concentrations[f"{name}_sd"] = spread if sampled else 0.0
    directions = as_directions(mean)
    documents = as_trained(plan.data, plan)
    vectors = documents.vectors
    proportions = transform(
        directions,
        vectors,
        alpha=concentrations["alpha"],
        kappa1=concentrations["kappa1"],
        seed=settings.seed,
    )
    return Fit(
        num_samples=gathered.samples * settings.chains,
        diagnostics=matching.diagnose(gathered.traces(), order, shared),
        **of_run(plan, run, trained),
        topics=directions,
        topics_sd=sd,
        topics_range=matching.range_of_topics(means, order),
        length=np.minimum(length, 1.0),
        prevalence=np.asarray(prevalence, np.float64),
        prevalence_sd=np.asarray(prevalence_sd, np.float64),
        prevalence_range=matching.range_over(moments["prevalence"].mean.astype(np.float64), order),
        **concentrations,
        stability=stability,
        idf=documents.idf,
        weighting=documents.weighting,
        vocabulary=vectors.vocabulary,
        names=documents.names,
        proportions=documents.scatter_to_all(proportions),
        excluded=documents.excluded,
        coherence=_coherence(directions, vectors.values),
        examples=representative(
            vectors.values, vectors.names, vectors.vocabulary, proportions, directions
        ),
        order=order,
        shared=shared,
        samples=run.measures["kept"].samples(),
    )


def _coherence(directions: np.ndarray, values: sp.csr_array) -> np.ndarray:
    """Return the coherence of topics over documents, [K]; NaN for embeddings, which have no words.

    These have negative entries.
    """
    if (values.data < 0).any():
        return np.full(len(directions), np.nan)
    return coherence(directions, sp.csr_array((values > 0).astype(np.int32)))


def deviate_alike(means: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return which topics differ from their chain's mean topic as the first chain's do, [C - 1, K].

    Topics of chains [C, K, V] have a direction in common, those that the documents do not determine
    most of all, so that the cosine of the topics themselves may call any two of them the same.
    """
    if means.shape[1] == 1:
        return np.ones((len(means) - 1, 1), bool)
    topics = np.stack([as_directions(mean[rows]) for mean, rows in zip(means, order, strict=True)])
    apart = topics - topics.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(apart, axis=2)
    products = (apart[1:] * apart[0]).sum(axis=2)
    return products > matching.SAME * lengths[1:] * lengths[0]  # of equal topics, 0 > 0


def describe(plan: Plan) -> dict[str, Any]:
    """Return facts about the documents of a run."""
    documents = as_trained(plan.data, plan)
    table = documents.vectors.values
    return {
        "documents": len(documents.names),
        "excluded": len(documents.excluded),
        "nonzeros": int(table.nnz),
        "vocabulary": table.shape[1],
    }


def infer(fitted: Fit, data: Any, *, seed: int = 0) -> np.ndarray:
    """Return the topic proportions of other documents, of any vocabulary; see `Fit.transform`."""
    documents = match_vocabulary(data, fitted.vocabulary, fitted.idf, fitted.weighting)
    trained = fitted.as_trained()
    if not documents.rows.size:
        none = np.zeros((0, len(trained.topics)), np.float32)
        return summed(documents.scatter_to_all(none), trained.parts)
    proportions = transform(
        trained.topics, documents.vectors, alpha=fitted.alpha, kappa1=fitted.kappa1, seed=seed
    )
    return summed(documents.scatter_to_all(proportions), trained.parts)


def score(fitted: Fit, data: Any, *, seed: int = 0) -> float:
    """Return the mean log density of other documents on the sphere; see `Fit.score`."""
    documents = match_vocabulary(data, fitted.vocabulary, fitted.idf, fitted.weighting)
    estimate = log_densities(fitted, check_directions(documents, "documents"), seed)
    return -density.log_perplexity(estimate.log_p)


def log_densities(
    fitted: Fit, documents: Data, seed: int, samples: int = EVALUATED
) -> density.LogDensity:
    """Return the log densities of documents with a direction, by importance sampling."""
    return density.estimate(
        jax.random.split(jax.random.key(seed))[0],
        jnp.asarray(fitted.as_trained().topics),
        to_device(documents.vectors.values),
        fitted.alpha,
        fitted.kappa1,
        samples,
    )


# Warnings about a fitted spherical admixture model, and the verdict on it.

_LEAST_EFFECTIVE = 10
_LEAST_ACCEPTED = 0.3
_LEAST_LENGTH = 0.3  # below this the samples of a topic have no common direction
_ALIKE = 0.95  # two topics with a cosine above this are nearly the same


def topic_warnings(
    metrics: Sequence[Mapping[str, float | None]], mean: ArrayLike, length: ArrayLike
) -> list[str]:
    """Look for unreliable log-perplexities, and for topics that are alike or have not settled.

    The metrics are the evaluations in order, with `log_perplexity` and `heldout_ess` where
    measured; topics have mean directions [K, V] and mean resultant lengths [K]. Return one sentence
    for each finding.
    """
    values = [v for record in metrics if (v := record.get("log_perplexity")) is not None]
    sentences = []
    if values and not np.isfinite(values).all():
        sentences.append("A held-out log-perplexity is not finite: the run has failed.")
    elif len(values) > 1 and values[-1] >= values[0] + heldout.noise(values):
        sentences.append(
            f"The held-out log-perplexity did not fall: {values[0]:,.1f} at first, "
            f"{values[-1]:,.1f} at the end. The topics predict other documents no better than at "
            "the start: check the texts and the vocabulary, or run it longer."
        )
    half = metrics[len(metrics) // 2 :]
    sizes = [v for record in half if finite(v := record.get("heldout_ess"))]
    if sizes:
        sentences += effective_warnings(float(np.mean(sizes)))
    lengths = np.asarray(length, np.float64)
    sentences += [
        f"The samples of topic {topic} have no common direction (length {lengths[topic]:.2f}): it "
        "has not settled (run it longer), or the documents do not determine it (fit fewer topics)."
        for topic in np.flatnonzero(lengths < _LEAST_LENGTH)[:10]
    ]
    alike = np.triu(cosine(mean, mean), k=1)
    for first, second in np.argwhere(alike > _ALIKE)[:10]:
        sentences.append(
            f"Topics {first} and {second} are nearly the same "
            f"(cosine {alike[first, second]:.2f}): try fewer topics."
        )
    return sentences


def effective_warnings(effective: float) -> list[str]:
    """Check the median effective sample size of the estimates of held-out densities."""
    if effective >= _LEAST_EFFECTIVE:
        return []
    return [
        "The held-out log-perplexity is unreliable: the importance sampling of a document's "
        f"density has {effective:.1f} effective draws, and few draws make it too high. Do not "
        "compare it with others."
    ]


def _move_warnings(fitted: Fit) -> list[str]:
    """Look for proportions of documents that hardly move, which is normal for "gmc"."""
    half = fitted.metrics[len(fitted.metrics) // 2 :]
    accepted = [v for record in half if finite(v := record.get("local_acceptance"))]
    if fitted.settings.local != "hmc" or not accepted or np.mean(accepted) >= _LEAST_ACCEPTED:
        return []
    # Below 1 the posterior of the proportions has modes that Laplace's approximation misses.
    remedy = "Use a larger alpha, or fewer topics"
    if fitted.alpha >= 1:
        remedy = "Draw them with --local laplace (local='laplace')"
    return [
        f"Only {np.mean(accepted):.0%} of the moves of documents' topic proportions were accepted: "
        f"those of many documents may not have moved at all. {remedy}."
    ]


def warn(fitted: Fit) -> list[str]:
    """Return what is wrong with a fit or its data, and what to do, one sentence each."""
    friction, step_size = fitted.settings.friction, fitted.settings.step_size
    assert step_size is not None  # settled
    sentences = energy_warnings(fitted.metrics, friction and friction * step_size)
    sentences += topic_warnings(fitted.metrics, fitted.topics, fitted.length)
    sentences += _move_warnings(fitted)
    sentences += few_samples(fitted.num_samples)
    if excluded := fitted.excluded:
        shown = ", ".join(excluded[:5]) + (", ..." if len(excluded) > 5 else "")
        sentences.append(
            f"{counted(len(excluded), 'document')} without a word that has a weight took no "
            "part in the fit, and got equal proportions of all topics: "
            f"{shown} (summary.json names all)."
        )
    return sentences


def judge(fitted: Fit, longer: str) -> list[str]:
    """Return the verdict, given the command or call of a longer run; see `Results.verdict`."""
    kinds = interval_kinds(fitted, fitted.prevalence_range)
    sentences = [
        verdict.predictions(fitted, "log_perplexity", logarithmic=True),
        verdict.topics(fitted, kinds == INTERVAL, fitted.prevalence_range),
    ]
    if verdict.SETTLED not in sentences[0] or (kinds != INTERVAL).any():
        sentences += verdict.more_topics(fitted, longer)
    return sentences

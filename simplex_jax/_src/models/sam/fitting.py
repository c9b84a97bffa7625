"""Fits of the spherical admixture model: preparation and summary of a run."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from simplex_jax._src import base
from simplex_jax._src.base import Kernel, State
from simplex_jax._src.batches import Stream
from simplex_jax._src.evaluate import alignment, matching
from simplex_jax._src.evaluate.coherence import coherence
from simplex_jax._src.evaluate.fits import Topics
from simplex_jax._src.models import pipeline
from simplex_jax._src.models.records import Plan
from simplex_jax._src.models.sam import density, model, posterior, proportions, step, variational
from simplex_jax._src.models.sam.data import Data, alike, check_directions
from simplex_jax._src.models.sam.options import Options, hyperparameters, learned, local_step
from simplex_jax._src.models.sam.sparse import to_device
from simplex_jax._src.models.topics import report
from simplex_jax._src.report.examples import representative
from simplex_jax._src.runtime import devices, session
from simplex_jax._src.runtime.sample_files import Folder
from simplex_jax._src.runtime.session import Run

EVALUATED = 1_000
"""Draws of the proportions of each document with which its density is estimated."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Fit(pipeline.Fit):
    """A fitted spherical admixture model; several chains are pooled.

    Topics are numbered as in the first chain, and the topics of the other chains are matched to
    them. It has the attributes of `pipeline.Fit`, too.

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
        alpha_sd: Its standard deviation, 0 if it is given.
        sigma: Concentration of the topics, likewise.
        sigma_sd: Its standard deviation.
        kappa1: Concentration of the documents, likewise.
        kappa1_sd: Its standard deviation.
        stability: Mean cosine of each topic with its partners in the other chains, float64 [K];
            NaN for one chain.
        idf: Weight of every word in the documents, float64 [V]; ones for unit vectors.
        weighting: The weighting rule; None for unit vectors.
        vocabulary: The V words.
        names: Names of all documents, D.
        proportions: Topic proportions of the documents given the mean directions, float32 [D, K];
            1 / K for those without a direction.
        excluded: Names of the documents without a direction.
        coherence: NPMI over the documents of the words with the largest loadings, float64 [K].
        examples: Representative documents of each topic.
        order: Topic of each chain that was matched to each topic, int [chains, K].
        shared: Whether that is the same topic, bool [chains, K], see `matching.align`: means and
            standard deviations of a topic pool the chains that have it.
        samples: Posterior draws kept in memory: arrays "topics" [S, chains, K, V], "alpha", "sigma"
            and "kappa1" [S, chains] and "step" [S]; empty if there are none.
    """

    settings: Options
    topics: np.ndarray
    topics_sd: np.ndarray
    topics_range: np.ndarray
    length: np.ndarray
    prevalence: np.ndarray
    prevalence_sd: np.ndarray
    prevalence_range: np.ndarray
    alpha: float
    alpha_sd: float
    sigma: float
    sigma_sd: float
    kappa1: float
    kappa1_sd: float
    stability: np.ndarray
    idf: np.ndarray
    weighting: str | None
    vocabulary: tuple[str, ...]
    names: tuple[str, ...]
    proportions: np.ndarray
    excluded: tuple[str, ...]
    coherence: np.ndarray
    examples: list[list[dict[str, Any]]]
    order: np.ndarray
    shared: np.ndarray

    @property
    def num_topics(self) -> int:
        """Number of topics."""
        return len(self.topics)

    def to_record(self) -> Topics:
        """Return the topics and the kept samples for `simplex_jax.evaluate`."""
        return Topics(
            self.topics, self.metrics, self.samples, self.order, self.vocabulary, self.interrupted
        )

    @property
    def stable(self) -> np.ndarray:
        """Whether all of several chains have found a topic, bool [K]; False for one chain."""
        return matching.stable(self.shared)

    def lines(self) -> list[str]:
        """Return a line for each topic, the most prevalent first."""
        return report.topic_lines(
            self.prevalence,
            report.leading_words(self.topics, self.vocabulary),
            stable=self.stable,
        )


def prepare(plan: Plan, folder: Folder | None) -> Run:
    """Return the run of a plan, ready for training."""
    settings: Options = plan.settings
    table = plan.train.vectors.values
    key_init, key_run, key_evaluate, key_gather = jax.random.split(jax.random.key(settings.seed), 4)
    measures: dict[str, Any] = {}
    if plan.heldout is not None:
        data = check_directions(as_trained(plan.heldout, plan, "heldout"), "heldout")
        heldout = data.vectors.values
        measures["evaluation"] = posterior.held_out(heldout, key_evaluate, settings)
    measures["posterior"] = posterior.gather(settings, table, key_gather, bool(measures))
    measures["kept"] = posterior.keep(settings, folder)
    measures["records"] = posterior.records(settings, table.shape[0])
    kernel, stream, start = _build(key_init, table, settings)
    return Run(
        key=key_run, kernel=kernel, state=start, feed=lambda first_step: stream, measures=measures
    )


def as_trained(data: Any, plan: Plan, source: str = "documents") -> Data:
    """Return documents with the vocabulary and the weights of the training documents."""
    train: Data = plan.train
    return alike(data, train.vectors.vocabulary, train.idf, train.weighting, source)


def _build(key: jax.Array, table: sp.csr_array, settings: Options) -> tuple[Kernel, Stream, State]:
    """Return the kernel of all chains, its batches and its first state."""
    # The topics before and after an update, in float32.
    devices.check_memory(
        8 * settings.chains * settings.num_topics * table.shape[1],
        "give fewer topics (--topics), chains, or words (--max-vocabulary)",
    )
    hyper, documents = hyperparameters(table, settings), to_device(table)
    # In double precision, as the friction is.
    inertia = step.damped_inertia(settings.friction) if settings.sampler == "gsgnht" else None
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
    key_topics, key_state = jax.random.split(key)
    keys = jax.random.split(key_topics, settings.chains)
    topics = jnp.stack(
        [
            variational.start(one, documents, hyper, settings.num_topics, settings.start)
            for one in keys
        ]
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
    mean, sd = moments["topics"].pooled(order, shared)
    length = np.linalg.norm(mean.astype(np.float64), axis=1)
    prevalence, prevalence_sd = moments["prevalence"].pooled(order, shared)
    concentrations: dict[str, Any] = {}
    for name in posterior.CONCENTRATIONS:
        value, spread = (float(x) for x in moments[name].pooled())
        sampled = name in learned(settings)
        concentrations[name] = value if sampled else getattr(settings, name)
        concentrations[f"{name}_sd"] = spread if sampled else 0.0
    directions = proportions.as_directions(mean)
    documents = as_trained(plan.data, plan)
    vectors = documents.vectors
    shares = proportions.transform(
        directions,
        vectors,
        alpha=concentrations["alpha"],
        kappa1=concentrations["kappa1"],
        seed=settings.seed,
    )
    return Fit(
        num_samples=gathered.samples * settings.chains,
        diagnostics=alignment.diagnose(gathered.traces(), order, shared),
        metrics=run.measures["records"].records,
        settings=settings,
        interrupted=trained.interrupted,
        state=trained.state,
        topics=directions,
        topics_sd=sd,
        topics_range=alignment.range_of_topics(means, order),
        length=np.minimum(length, 1.0),
        prevalence=np.asarray(prevalence, np.float64),
        prevalence_sd=np.asarray(prevalence_sd, np.float64),
        prevalence_range=alignment.range_over(moments["prevalence"].mean.astype(np.float64), order),
        **concentrations,
        stability=stability,
        idf=documents.idf,
        weighting=documents.weighting,
        vocabulary=vectors.vocabulary,
        names=documents.names,
        proportions=documents.everyone(shares),
        excluded=documents.excluded,
        coherence=coherence(directions, sp.csr_array((vectors.values > 0).astype(np.int32))),
        examples=representative(
            vectors.values, vectors.names, vectors.vocabulary, shares, directions
        ),
        order=order,
        shared=shared,
        samples=run.measures["kept"].samples(),
    )


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
    documents = alike(data, fitted.vocabulary, fitted.idf, fitted.weighting)
    if not documents.rows.size:
        return documents.everyone(np.zeros((0, len(fitted.topics)), np.float32))
    shares = proportions.transform(
        fitted.topics, documents.vectors, alpha=fitted.alpha, kappa1=fitted.kappa1, seed=seed
    )
    return documents.everyone(shares)


def score(fitted: Fit, data: Any, *, seed: int = 0) -> float:
    """Return the mean log density of other documents on the sphere; see `Fit.score`."""
    documents = alike(data, fitted.vocabulary, fitted.idf, fitted.weighting)
    estimate = log_densities(fitted, check_directions(documents, "documents"), seed)
    return -density.log_perplexity(estimate.log_p)


def log_densities(
    fitted: Fit, documents: Data, seed: int, samples: int = EVALUATED
) -> density.LogDensity:
    """Return the log densities of documents with a direction, by importance sampling."""
    return density.importance(
        jax.random.split(jax.random.key(seed))[0],
        jnp.asarray(fitted.topics),
        to_device(documents.vectors.values),
        fitted.alpha,
        fitted.kappa1,
        samples,
    )

"""From unit vectors to the summary of the posterior of their topics."""

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from simplex_jax import base
from simplex_jax.base import Kernel, State
from simplex_jax.batches import Stream
from simplex_jax.corpus import vectors as unit
from simplex_jax.corpus.vectors import UnitVectors
from simplex_jax.evaluate import alignment, matching
from simplex_jax.evaluate.gathering import Kept, Posterior
from simplex_jax.models import sam, sam_documents
from simplex_jax.runtime import equilibrium, session
from simplex_jax.runtime.hooks import Hook
from simplex_jax.spherical import evaluation, posterior, proportions, starts
from simplex_jax.spherical.settings import Settings, hyperparameters, local_step, resolve


class Fit(NamedTuple):
    """A fitted spherical admixture model; with several chains, of all of them together.

    Topics are numbered as in the first chain, to whose topics those of the other chains have been
    matched.

    Attributes:
        mean: Posterior mean direction of the topics, unit rows, float32 [K, V]; entries are
            negative for words that a topic says are absent.
        sd: Posterior standard deviation of the entries of the topics, float32 [K, V], about their
            posterior mean `length[:, None] * mean`; NaN where one sample does not tell it.
        length: Mean resultant length of each topic, that of the mean of its samples, float64 [K]:
            1 where they all agree.
        samples: Number of posterior samples behind them, of all chains, from the second half of
            the run.
        proportions: Topic proportions of the documents given the mean directions, float32 [D, K].
        prevalence: Posterior mean of the mean share of each topic in the documents, float64 [K]: in
            up to 512 of them, evenly spaced.
        prevalence_sd: Its standard deviation, in which is that of the draws of the proportions of
            those documents, one for each sample of the topics.
        alpha: Concentration of topic proportions; the posterior mean where it is learned.
        alpha_sd: Its standard deviation, 0 where it is given.
        sigma: Concentration of the topics, likewise.
        sigma_sd: Its standard deviation.
        kappa1: Concentration of the documents, likewise.
        kappa1_sd: Its standard deviation.
        stability: Mean cosine of each topic with its partners in the other chains, float64 [K];
            NaN for one chain.
        order: Topic of each chain that was matched to each topic, int [chains, K].
        diagnostics: R-hat and effective sample size over chains and samples, by name: "prevalence
            k" for every topic, "log_perplexity" with held-out documents, and learned
            concentrations.
        metrics: One record per evaluation: step, documents and passes visited, seconds,
            documents_per_second, kinetic energy per dimension (1 at equilibrium), step_size,
            thermostat, gradient_noise or acceptance as the sampler has them, local_acceptance, fit
            (mean cosine of documents and their mean directions) and, with held-out documents,
            log_perplexity, log_perplexity_average and heldout_ess (see `evaluation`).
        kept: Samples that were asked for and not written to a directory: "topics" [S, chains, K,
            V], "alpha", "sigma" and "kappa1" [S, chains] and "step" [S]; empty where there are
            none.
        settings: The settings, resolved.
        state: Last state of the kernel, of all chains along a first axis if there are several.
        interrupted: The signal that ended the run before its time, or None.
        warnings: What `runtime.equilibrium.energy_warnings` says of the metrics.
    """

    mean: np.ndarray
    sd: np.ndarray
    length: np.ndarray
    samples: int
    proportions: np.ndarray
    prevalence: np.ndarray
    prevalence_sd: np.ndarray
    alpha: float
    alpha_sd: float
    sigma: float
    sigma_sd: float
    kappa1: float
    kappa1_sd: float
    stability: np.ndarray
    order: np.ndarray
    diagnostics: dict[str, dict[str, float]]
    metrics: list[dict[str, float]]
    kept: dict[str, np.ndarray]
    settings: Settings
    state: object
    interrupted: signal.Signals | None
    warnings: list[str]


def fit(
    vectors: UnitVectors | sp.csr_array,
    num_topics: int,
    *,
    heldout: UnitVectors | sp.csr_array | None = None,
    documents: UnitVectors | sp.csr_array | None = None,
    hooks: Sequence[Hook] = (),
    checkpoint: Path | None = None,
    checkpoint_every: float = 60.0,
    resume: bool = False,
    samples_dir: Path | None = None,
    **options: Any,
) -> Fit:
    """Sample the directions of the topics of unit vectors.

    SIGINT (Ctrl-C) and SIGTERM end the run early, with a checkpoint if there is a directory for
    them; what was sampled up to there is summarised. A second signal ends at once.

    Args:
        vectors: Unit vectors of documents [D, V]; see `corpus.tfidf` and `corpus.unit_vectors`.
        num_topics: Number of topics K.
        heldout: Other documents, to measure log-perplexity on.
        documents: The documents whose proportions are wanted; by default those of `vectors`.
        hooks: Called with an `Event` after every evaluation, say `hooks.Progress`.
        checkpoint: Directory of the checkpoints; None for none.
        checkpoint_every: Least number of seconds between two of them.
        resume: Go on from the newest checkpoint, to the samples that an uninterrupted run would
            have had. Where there is none yet, start anew.
        samples_dir: Directory for the samples that `keep_samples` asks for; None keeps them in
            memory.
        **options: As in `resolve`.

    Returns:
        The fit. The same vectors, options, versions and device give the same numbers, except that
        `seconds` ends a run by the clock.

    Raises:
        ValueError: An option is out of range, a document is no unit vector, or other documents
            have another vocabulary; a `CheckpointError` if `resume` finds only checkpoints that
            are damaged or of another run.
        FloatingPointError: The topics became NaN; the message names the step.

    Example:
        >>> import numpy as np
        >>> from simplex_jax import spherical
        >>> rows = np.repeat([[0.8, 0.6, 0.0, 0.0], [0.0, 0.0, 0.6, 0.8]], 10, axis=0)
        >>> fitted = spherical.fit(sp.csr_array(rows), 2, alpha=0.5, kappa1=200.0, steps=200)
        >>> fitted.mean.shape, fitted.proportions.shape, bool(fitted.length.max() <= 1)
        ((2, 4), (20, 2), True)
    """
    data = _as_vectors("vectors", vectors)
    wanted = data if documents is None else _as_vectors("documents", documents, data)
    held = None if heldout is None else _as_vectors("heldout", heldout, data)
    settings = resolve(data, num_topics, **options)
    key_init, key_run, key_evaluate, key_gather = jax.random.split(jax.random.key(settings.seed), 4)
    kernel, stream, start = _build(key_init, data, settings)
    gathered = posterior.gather(settings, data.values, key_gather, held is not None)
    kept = posterior.keep(settings, samples_dir)
    records = posterior.records(settings, len(data.names))
    measures: dict[str, Any] = {"posterior": gathered, "kept": kept, "records": records}
    about: dict[str, Any] = {"settings": settings._asdict(), "corpus": unit.digest(data)}
    if held is not None:
        measures = {
            "evaluation": evaluation.HeldOut(held.values, key_evaluate, settings)
        } | measures
        about["heldout"] = unit.digest(held)
    trained = session.train(
        key_run,
        kernel,
        start,
        lambda first_step: stream,
        session.Length(settings.num_steps, settings.seconds, settings.eval_every),
        measures=measures,
        hooks=hooks,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        resume=resume,
        about=about,
    )
    if not gathered.samples and trained.event:  # the run has ended in its first half
        gathered.add(trained.event)
    return _summary(gathered, kept, records, settings, wanted, trained)


def _as_vectors(
    name: str, vectors: UnitVectors | sp.csr_array, like: UnitVectors | None = None
) -> UnitVectors:
    found = vectors if isinstance(vectors, UnitVectors) else unit.from_array(vectors, source=name)
    if like is not None and len(found.vocabulary) != len(like.vocabulary):
        raise ValueError(
            f"{name} has {len(found.vocabulary)} words and the vectors {len(like.vocabulary)}: "
            "take both from one corpus"
        )
    return found


def _build(key: jax.Array, data: UnitVectors, settings: Settings) -> tuple[Kernel, Stream, State]:
    """Return the kernel of all chains, its batches and its first state."""
    names = ("alpha", "sigma", "kappa0", "kappa1")
    hyper = hyperparameters(data.values, {name: getattr(settings, name) for name in names})
    documents = sam_documents.to_device(data.values)
    kernel, stream = sam.build(
        documents,
        (settings.num_topics, len(data.vocabulary)),
        hyper=hyper,
        learn=settings.learn,
        sampler=settings.sampler,
        batch_size=settings.batch_size,
        how=local_step(settings),
        num_steps=settings.inner_steps,
        step_size=settings.step_size,
        friction=settings.friction or None,
    )
    key_topics, key_state = jax.random.split(key)
    keys = jax.random.split(key_topics, settings.chains)
    topics = jnp.stack(
        [starts.topics(one, documents, hyper, settings.num_topics, settings.start) for one in keys]
    )
    if settings.chains == 1:
        return kernel, stream, kernel.init(key_state, topics[0])
    kernel = base.chains(kernel, settings.chains, position_axis=0)
    return kernel, stream, kernel.init(key_state, topics)


def _summary(
    gathered: Posterior,
    kept: Kept,
    records: session.Records,
    settings: Settings,
    wanted: UnitVectors,
    trained: session.Trained,
) -> Fit:
    """Put the chains together and infer the documents."""
    moments = gathered.moments
    order, stability = matching.align(list(moments["topics"].mean), matching.cosine)
    mean, sd = moments["topics"].pooled(order)
    length = np.linalg.norm(mean.astype(np.float64), axis=1)
    prevalence, prevalence_sd = moments["prevalence"].pooled(order)
    concentrations = {}
    for name in posterior.CONCENTRATIONS:
        value, spread = (float(x) for x in moments[name].pooled())
        learned = name in settings.learn
        concentrations[name] = value if learned else getattr(settings, name)
        concentrations[f"{name}_sd"] = spread if learned else 0.0
    directions = proportions.as_directions(mean)
    shares = proportions.transform(
        directions,
        wanted,
        alpha=concentrations["alpha"],
        kappa1=concentrations["kappa1"],
        seed=settings.seed,
    )
    return Fit(
        mean=directions,
        sd=sd,
        length=np.minimum(length, 1.0),
        samples=gathered.samples * settings.chains,
        proportions=shares,
        prevalence=np.asarray(prevalence, np.float64),
        prevalence_sd=np.asarray(prevalence_sd, np.float64),
        **concentrations,
        stability=stability,
        order=order,
        diagnostics=alignment.diagnose(gathered.traces(), order),
        metrics=records.records,
        kept=kept.samples(),
        settings=settings,
        state=trained.state,
        interrupted=trained.interrupted,
        warnings=equilibrium.energy_warnings(
            records.records, settings.friction * settings.step_size or None
        ),
    )

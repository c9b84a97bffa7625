"""From a corpus to the summary of the posterior of its topics."""

import functools
import hashlib
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.sparse as sp

from simplex_jax.corpus import Corpus, digest, from_counts
from simplex_jax.corpus.store import Stored
from simplex_jax.evaluate import alignment, matching, perplexity
from simplex_jax.evaluate.gathering import Kept, Posterior
from simplex_jax.runtime import session
from simplex_jax.runtime.hooks import Hook
from simplex_jax.topics import model, posterior, proportions, tracking
from simplex_jax.topics.settings import Settings, resolve, size_of


class Fit(NamedTuple):
    """A fitted topic model; with several chains, of all of them together.

    Topics are numbered as in the first chain, to whose topics those of the other chains have been
    matched.

    Attributes:
        mean: Posterior mean of the topics, float32 [K, V].
        sd: Posterior standard deviation, float32 [K, V]; NaN where one sample does not tell it.
        samples: Number of posterior samples behind them, of all chains, from the second half of
            the run.
        proportions: Topic proportions of the documents given the mean topics, float32 [D, K]; of
            a corpus on disk there are none ([0, K]) unless documents were asked for.
        prevalence: Posterior mean share of the training tokens in each topic, float64 [K].
        prevalence_sd: Its standard deviation; with estimated counts it includes their noise.
        alpha: Concentration of topic proportions, per topic; the posterior mean where it is
            learned, float64 [K].
        alpha_sd: Its standard deviation, 0 where it is given.
        beta: Concentration of topics, per word, likewise, float64 [V].
        beta_sd: Its standard deviation.
        stability: How well each topic was found again by the other chains: mean similarity of the
            matched topics, 1 where they are the same, float64 [K]; NaN for one chain.
        order: Topic of each chain that was matched to each topic, int [chains, K].
        diagnostics: R-hat and effective sample size over chains and samples, by name: "prevalence
            k" for every topic, "log_predictive" (per held-out token) with held-out documents,
            "alpha" and "beta" (their sums) where they are learned.
        metrics: One record per evaluation: step, documents and passes visited, seconds,
            tokens_per_second (of the documents visited by a chain, in training) and, with held-out
            documents, perplexity and perplexity_average, with several chains also
            perplexity_chain_0 and so on; for SMLD its stiffness, unstable above 2.
        kept: Samples that were asked for and not written to a directory: arrays "topics" [S,
            chains, K, V], "alpha" [S, chains, K], "beta" [S, chains, V] and "step" [S], with
            topics numbered as in each chain; empty where there are none.
        settings: The settings, resolved.
        state: Last state of the kernel, of all chains along a first axis if there are several.
        interrupted: The signal that ended the run before its time, or None.
    """

    mean: np.ndarray
    sd: np.ndarray
    samples: int
    proportions: np.ndarray
    prevalence: np.ndarray
    prevalence_sd: np.ndarray
    alpha: np.ndarray
    alpha_sd: np.ndarray
    beta: np.ndarray
    beta_sd: np.ndarray
    stability: np.ndarray
    order: np.ndarray
    diagnostics: dict[str, dict[str, float]]
    metrics: list[dict[str, float]]
    kept: dict[str, np.ndarray]
    settings: Settings
    state: object
    interrupted: signal.Signals | None


def fit(
    corpus: Corpus | sp.csr_array | Stored,
    num_topics: int,
    *,
    heldout: tuple[sp.csr_array, sp.csr_array] | None = None,
    documents: Corpus | sp.csr_array | None = None,
    among: np.ndarray | None = None,
    hooks: Sequence[Hook] = (),
    checkpoint: Path | None = None,
    checkpoint_every: float = 60.0,
    resume: bool = False,
    samples_dir: Path | None = None,
    **options: object,
) -> Fit:
    """Sample the topics of a corpus.

    SIGINT (Ctrl-C) and SIGTERM end the run early, with a checkpoint if there is a directory for
    them; what was sampled up to there is summarised. A second signal ends at once.

    Args:
        corpus: A corpus, a table of its counts [D, V], or a corpus on disk, of which batches are
            read while the run goes on.
        num_topics: Number of topics K.
        heldout: Observed and target counts of other documents, to measure perplexity on.
        documents: The documents whose proportions are wanted; by default those of `corpus`, unless
            that is on disk.
        among: Of a corpus on disk, the numbers of the documents to learn from; all by default.
        hooks: Called with an `Event` after every evaluation, say `hooks.Progress`.
        checkpoint: Directory of the checkpoints; None for none.
        checkpoint_every: Least number of seconds between two of them.
        resume: Go on from the newest checkpoint, to the samples that an uninterrupted run would
            have had. Where there is none yet, start anew.
        samples_dir: Directory for the samples that `keep_samples` asks for; None keeps them in
            memory.
        **options: As in `resolve`.

    Returns:
        The fit. The same corpus, options, versions and device give the same numbers, except that
        `seconds` ends a run by the clock.

    Raises:
        ValueError: An option is out of range, the counts are no counts, or the held-out documents
            have another vocabulary; a `CheckpointError` if `resume` finds only checkpoints that
            are damaged or of another run.
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
    data = corpus if isinstance(corpus, Stored) else _as_corpus(corpus)
    wanted = _wanted(data, documents)
    if among is not None and not isinstance(data, Stored):
        raise ValueError("among is for a corpus on disk: leave documents out of the counts instead")
    size = size_of(data, among)
    others = {"heldout": heldout and heldout[0], "documents": wanted and wanted.counts}
    for name, table in others.items():
        if table is not None and table.shape[1] != size.words:
            raise ValueError(
                f"{name} has {table.shape[1]} words and the corpus {size.words}: "
                "take both from one corpus"
            )
    settings = resolve(data, num_topics, **options)  # type: ignore[arg-type]
    key_init, key_run, key_evaluate = jax.random.split(jax.random.key(settings.seed), 3)
    kernel, feed = model.build(model.to_device(data), size, settings, among)
    state = model.start(key_init, kernel, size.words, settings)

    gathered = posterior.gather(settings, size.words, heldout is not None)
    kept, records = posterior.keep(settings, samples_dir), tracking.records(settings, size)
    measures: dict[str, Any] = {"posterior": gathered, "kept": kept, "records": records}
    if heldout is not None:
        evaluation = perplexity.Evaluation(
            perplexity.completion(*heldout), key_evaluate, settings.chains, settings.seconds
        )
        measures = {"evaluation": evaluation} | measures
    trained = session.train(
        key_run,
        kernel,
        state,
        functools.partial(feed, key_run),
        session.Length(settings.num_steps, settings.seconds, settings.eval_every),
        measures=measures,
        hooks=hooks,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        resume=resume,
        about=_about(data, settings, heldout, among),
    )
    if not gathered.samples and trained.event:  # the run has ended in its first half
        gathered.add(trained.event)
    return _summary(gathered, kept, records, settings, wanted, trained)


def _summary(
    gathered: Posterior,
    kept: Kept,
    records: session.Records,
    settings: Settings,
    wanted: Corpus | None,
    trained: session.Trained,
) -> Fit:
    """Put the chains together and infer the documents."""
    moments = gathered.moments
    order, stability = matching.align(list(moments["topics"].mean))
    mean, sd = moments["topics"].pooled(order)
    prevalence, prevalence_sd = moments["prevalence"].pooled(order)
    alpha, alpha_sd = moments["alpha"].pooled(order)
    beta, beta_sd = moments["beta"].pooled()
    if not settings.learn_alpha:
        alpha, alpha_sd = np.broadcast_to(settings.alpha, alpha.shape), np.zeros(alpha.shape)
    if not settings.learn_beta:
        beta, beta_sd = np.broadcast_to(settings.beta, beta.shape), np.zeros(beta.shape)
    shares = np.empty((0, settings.num_topics), np.float32)
    if wanted is not None:
        shares = proportions.transform(mean, alpha, wanted, seed=settings.seed)
    return Fit(
        mean=mean,
        sd=sd,
        samples=gathered.samples * settings.chains,
        proportions=shares,
        prevalence=prevalence,
        prevalence_sd=prevalence_sd,
        alpha=alpha,
        alpha_sd=alpha_sd,
        beta=beta,
        beta_sd=beta_sd,
        stability=stability,
        order=order,
        diagnostics=alignment.diagnose(gathered.traces(), order),
        metrics=records.records,
        kept=kept.samples(),
        settings=settings,
        state=trained.state,
        interrupted=trained.interrupted,
    )


def _as_corpus(corpus: Corpus | sp.csr_array) -> Corpus:
    return corpus if isinstance(corpus, Corpus) else from_counts(corpus)


def _wanted(data: Corpus | Stored, documents: Corpus | sp.csr_array | None) -> Corpus | None:
    """Return the documents whose proportions are wanted; none of a corpus on disk."""
    if documents is not None:
        return _as_corpus(documents)
    return None if isinstance(data, Stored) else data


def _about(
    data: Corpus | Stored,
    settings: Settings,
    heldout: tuple[sp.csr_array, sp.csr_array] | None,
    among: np.ndarray | None,
) -> dict[str, Any]:
    """Return what a run that goes on must have in common with this one."""
    about: dict[str, Any] = {
        "settings": settings._asdict(),
        "corpus": data.digest if isinstance(data, Stored) else digest(data),
    }
    if heldout is not None:
        about["heldout"] = [digest(Corpus(sp.csr_array(half), (), ())) for half in heldout]
    if among is not None:
        about["among"] = hashlib.sha256(np.ascontiguousarray(among, "<i8").data).hexdigest()
    return about

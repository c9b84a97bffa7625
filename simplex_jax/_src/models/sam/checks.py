"""Warnings about a fitted spherical admixture model, and the verdict on it."""

from collections.abc import Mapping, Sequence

import numpy as np
from jax.typing import ArrayLike

from simplex_jax._src.evaluate.diagnostics import few_samples, finite
from simplex_jax._src.evaluate.matching import cosine
from simplex_jax._src.models import heldout, verdict
from simplex_jax._src.models.sam.fitting import Fit
from simplex_jax._src.models.topics.report import INTERVAL, interval_kinds
from simplex_jax._src.report.display import counted
from simplex_jax._src.runtime.equilibrium import energy_warnings

_LEAST_EFFECTIVE = 10
_LEAST_ACCEPTED = 0.3
_LEAST_LENGTH = 0.3  # below this the samples of a topic have no common direction
_ALIKE = 0.95  # two topics with a cosine above this are nearly the same


def topic_warnings(
    metrics: Sequence[Mapping[str, float | None]],
    mean: ArrayLike,
    length: ArrayLike,
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
            f"{values[-1]:,.1f} at the end."
        )
    half = metrics[len(metrics) // 2 :]
    sizes = [v for record in half if finite(v := record.get("heldout_ess"))]
    if sizes:
        sentences += effective_warnings(float(np.mean(sizes)))
    lengths = np.asarray(length, np.float64)
    sentences += [
        f"The samples of topic {topic} have no common direction (length {lengths[topic]:.2f}): it "
        "has not settled, or nothing in the documents holds it."
        for topic in np.flatnonzero(lengths < _LEAST_LENGTH)[:10]
    ]
    alike = np.triu(cosine(mean, mean), k=1)
    for first, second in np.argwhere(alike > _ALIKE)[:10]:
        sentences.append(
            f"Topics {first} and {second} are nearly the same "
            f"(cosine {alike[first, second]:.2f}): fewer topics may do."
        )
    return sentences


def effective_warnings(effective: float) -> list[str]:
    """Check the median effective sample size of the estimates of held-out densities."""
    if effective >= _LEAST_EFFECTIVE:
        return []
    return [
        f"The held-out log-perplexity is not an estimate: a density is worth {effective:.1f} "
        "effective draws of the shares of its document. Few draws make it "
        "too high: it is not to be compared."
    ]


def _move_warnings(fitted: Fit) -> list[str]:
    """Look for shares of documents that hardly move, which is normal for "gmc"."""
    half = fitted.metrics[len(fitted.metrics) // 2 :]
    accepted = [v for record in half if finite(v := record.get("local_acceptance"))]
    if fitted.settings.local != "hmc" or not accepted or np.mean(accepted) >= _LEAST_ACCEPTED:
        return []
    # Below 1 the posterior of the shares has modes that Laplace's approximation misses.
    remedy = "Give a larger alpha, or fewer topics"
    if fitted.alpha >= 1:
        remedy = "Draw them with --local laplace (local='laplace')"
    return [
        f"Only {np.mean(accepted):.0%} of the moves of documents' shares were accepted: the shares "
        f"of many may not have moved at all. {remedy}."
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
            "Left out, with equal shares of all topics, for want of a word that has a weight: "
            f"{counted(len(excluded), 'document')} ({shown}; summary.json names all)."
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
        sentences += verdict.improvement(verdict.MORE_TOPICS, longer)
    return sentences

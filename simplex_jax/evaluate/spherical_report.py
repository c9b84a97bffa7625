"""The report of a spherical admixture model: one HTML file without network and scripts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jax.typing import ArrayLike

from simplex_jax.evaluate import charts, display, page
from simplex_jax.evaluate.intervals import beta_interval, normal_interval
from simplex_jax.evaluate.matching import cosine
from simplex_jax.evaluate.topic_map import positions
from simplex_jax.runtime import output


class Topics(NamedTuple):
    """Fitted directions.

    Attributes:
        mean: posterior mean directions, unit rows [K, V]; entries have either sign.
        sd: posterior standard deviation of the entries, [K, V]; NaN where unknown.
        length: length of the mean of the samples, [K], 0..1; times `mean` it is the posterior mean
            of the loadings, about which `sd` is, and which is shown.
        vocabulary: the V words.
        prevalence: mean share of the documents, [K]; sums to 1.
        prevalence_sd: its posterior standard deviation, [K]; NaN where unknown.
        coherence: NPMI of the words of the largest loadings, [K]; NaN where unknown.
        stability: mean cosine with the same topic of the other chains, [K]; NaN for one chain.
        documents: documents that stand for each topic, K sequences.
    """

    mean: ArrayLike
    sd: ArrayLike
    length: ArrayLike
    vocabulary: Sequence[str]
    prevalence: ArrayLike
    prevalence_sd: ArrayLike
    coherence: ArrayLike
    stability: ArrayLike
    documents: Sequence[Sequence[page.Document]] = ()


def write(
    path: str | Path,
    *,
    settings: Mapping[str, object],
    corpus: Mapping[str, Any],
    versions: Mapping[str, str],
    metrics: Sequence[Mapping[str, float | None]],
    topics: Topics,
    diagnostics: Mapping[str, Mapping[str, float | None]] | None = None,
    warnings: Sequence[str] = (),
    top_words: int = 12,
) -> None:
    """Write the report, atomically.

    Args:
        path: the HTML file to make or replace.
        settings: name -> value, as resolved for the run; shown in the order given.
        corpus: name -> value; `documents` and `vocabulary` are counts and have to be there.
        versions: package -> version.
        metrics: the evaluations in order, each with `passes` and `seconds` so far and
            `log_perplexity`, `log_perplexity_average`, `kinetic` and `documents_per_second` where
            measured.
        topics: the fitted topics.
        diagnostics: quantity -> `rhat` and `ess`, over the chains.
        warnings: sentences to show first.
        top_words: words shown of each topic, at least 1; half as many negative ones.

    Raises:
        ValueError: topics whose shapes do not agree, or no word to show.
    """
    rows = _rows(topics, top_words)
    shares = np.asarray(topics.prevalence)
    leading = [row["leading"][0] if row["leading"] else "" for row in rows]
    html = (
        page.environment()
        .get_template("spherical_report.html")
        .render(
            settings=settings,
            corpus=corpus,
            versions=versions,
            last=metrics[-1] if metrics else {},
            charts=_charts(metrics, "log_perplexity", "held-out log-perplexity"),
            energies=_charts(metrics, "kinetic", "kinetic energy", 1.0)[:1],
            map=charts.topic_map(positions(topics.mean, cosine), shares, leading),
            share_of="Mean share of the documents",
            by_number=rows,
            topics=[rows[k] for k in np.argsort(-shares, kind="stable")],
            warnings=warnings,
            **page.mixing(diagnostics),
        )
    )
    output.write_text(path, html)


def _charts(
    metrics: Sequence[Mapping[str, float | None]],
    measure: str,
    name: str,
    level: float | None = None,
) -> list[dict[str, str]]:
    if not any(display.finite(record.get(measure)) for record in metrics):
        return []
    return [
        {
            "svg": charts.curves(metrics, key, label, measure, name, level),
            "label": f"{name.capitalize()} against {label}",
        }
        for key, label in page.AXES
        if all(key in record for record in metrics)
    ]


def signed_words(
    mean: np.ndarray, present: int, absent: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return for each topic its words of the largest loadings, and of the most negative ones.

    Args:
        mean: Directions [K, V].
        present: How many of the first, at most; none whose loading is not positive.
        absent: How many of the second, at most; none whose loading is not negative.

    Example:
        >>> [(most.tolist(), least.tolist()) for most, least in signed_words(
        ...     np.array([[0.1, -0.9, 0.4]]), 3, 3)]
        [([2, 0], [1])]
    """
    order = np.argsort(-mean, axis=1, kind="stable")
    positive, negative = (mean > 0).sum(axis=1), (mean < 0).sum(axis=1)
    return [
        (row[: min(present, more)], row[::-1][: min(absent, less)])
        for row, more, less in zip(order, positive, negative, strict=True)
    ]


def _rows(topics: Topics, top_words: int) -> list[dict[str, Any]]:
    """What is shown of each topic, in their own order."""
    mean, sd = np.asarray(topics.mean, np.float64), np.asarray(topics.sd, np.float64)
    prevalence = np.asarray(topics.prevalence, np.float64)
    expected = (prevalence.size, len(topics.vocabulary))
    if mean.shape != expected or sd.shape != expected:
        raise ValueError(
            f"topics: mean {mean.shape} and sd {sd.shape} must both have the shape {expected} "
            "of prevalence and vocabulary"
        )
    if top_words < 1:
        raise ValueError(f"top_words must be at least 1, got {top_words}")
    length, coherence, stability = (
        np.asarray(values, np.float64)
        for values in (topics.length, topics.coherence, topics.stability)
    )
    chosen = signed_words(mean, top_words, max(1, top_words // 2))
    mean = length[:, None] * mean
    scale = float((np.abs(mean) + np.where(np.isnan(sd), 0, 2 * sd)).max())
    lower, upper = beta_interval(np.clip(prevalence, 0, 1), topics.prevalence_sd)
    share_sd = np.asarray(topics.prevalence_sd, np.float64)
    share_scale = float(np.where(np.isnan(share_sd), prevalence, upper).max()) or 1.0
    shares = page.bars(prevalence, lower, upper, share_sd, share_scale)
    rows = []
    for k in range(prevalence.size):
        words, absent = (_words(w, mean[k], sd[k], topics.vocabulary, scale) for w in chosen[k])
        rows.append(
            {
                "number": k,
                "share": shares[k],
                "leading": [word["word"] for word in words[:3]],
                "words": words,
                "absent": absent,
                "length": float(length[k]),
                "coherence": page.known(float(coherence[k])),
                "stability": page.known(float(stability[k])),
                "documents": topics.documents[k] if topics.documents else (),
            }
        )
    return rows


def _words(
    chosen: np.ndarray, mean: np.ndarray, sd: np.ndarray, vocabulary: Sequence[str], scale: float
) -> list[dict[str, Any]]:
    """Words with their loading and a bar of its size; an interval is cut where the sign changes."""
    value, spread = mean[chosen], sd[chosen]
    lower, upper = normal_interval(value, spread)
    sign = np.where(value < 0, -1, 1)
    ends = np.sort(np.clip(np.stack([sign * lower, sign * upper]), 0, scale), axis=0)
    shown = page.bars(np.abs(value), ends[0], ends[1], spread, scale)
    return [
        {"word": vocabulary[w], "loading": float(v), "sure": bool(low > 0 or high < 0)}
        | bar
        | {"interval": bar["interval"] and (float(low), float(high))}
        for w, v, low, high, bar in zip(chosen, value, lower, upper, shown, strict=True)
    ]

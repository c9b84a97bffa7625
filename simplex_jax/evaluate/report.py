"""The report of a fitted topic model: one HTML file that needs no network and runs no script."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jax.typing import ArrayLike
from scipy import special

from simplex_jax.evaluate import charts, display, page
from simplex_jax.evaluate import coherence as coherences
from simplex_jax.evaluate.intervals import beta_interval
from simplex_jax.evaluate.page import Document, bars, known
from simplex_jax.evaluate.topic_map import positions
from simplex_jax.runtime import output

_LARGEST = 5


class Topics(NamedTuple):
    """Fitted topics.

    Attributes:
        mean: posterior mean of the word probabilities, [K, V]; rows sum to 1.
        sd: their posterior standard deviation, [K, V]; NaN where unknown.
        vocabulary: the V words.
        prevalence: share of the tokens in each topic, [K]; sums to 1.
        prevalence_sd: its posterior standard deviation, [K].
        coherence: NPMI of the top words, [K].
        stability: how alike the topic is in all chains, [K]; NaN for a single chain.
        documents: documents that stand for each topic, K sequences.
    """

    mean: ArrayLike
    sd: ArrayLike
    vocabulary: Sequence[str]
    prevalence: ArrayLike
    prevalence_sd: ArrayLike | None = None
    coherence: ArrayLike | None = None
    stability: ArrayLike | None = None
    documents: Sequence[Sequence[Document]] = ()


class Concentration(NamedTuple):
    """A concentration, alpha or beta: posterior mean and sd, [n]; sd is 0 where it was fixed."""

    mean: ArrayLike
    sd: ArrayLike


def write(
    path: str | Path,
    *,
    settings: Mapping[str, object],
    corpus: Mapping[str, Any],
    versions: Mapping[str, str],
    metrics: Sequence[Mapping[str, float | None]],
    topics: Topics,
    alpha: Concentration | None = None,
    beta: Concentration | None = None,
    diagnostics: Mapping[str, Mapping[str, float | None]] | None = None,
    warnings: Sequence[str] = (),
    top_words: int = 10,
) -> None:
    """Write the report, atomically.

    Args:
        path: the HTML file to make or replace.
        settings: name -> value, as resolved for the run; shown in the order given.
        corpus: name -> value; `documents`, `tokens` and `vocabulary` are counts and have to be
            there, others (such as a digest) are shown below them.
        versions: package -> version.
        metrics: the evaluations in order, each with `passes` and `seconds` so far and
            `perplexity`, `perplexity_average` and `tokens_per_second` where measured.
        topics: the fitted topics.
        alpha: concentration of the topic proportions, per topic, [K].
        beta: concentration of the words, per word, [V].
        diagnostics: quantity -> `rhat` and `ess`, over the chains.
        warnings: sentences to show first, for instance from `checks.topic_warnings`.
        top_words: words shown of each topic, at least 1.

    Raises:
        ValueError: topics whose shapes do not agree, or no word to show.

    Example:
        >>> import tempfile
        >>> fitted = Topics([[0.75, 0.25]], [[0.1, 0.1]], ["ion", "pump"], [1.0])
        >>> with tempfile.TemporaryDirectory() as root:
        ...     write(
        ...         Path(root) / "report.html",
        ...         settings={"topics": 1},
        ...         corpus={"documents": 3, "tokens": 12, "vocabulary": 2},
        ...         versions={"jax": "0.10.2"},
        ...         metrics=[],
        ...         topics=fitted,
        ...     )
        ...     "pump" in (Path(root) / "report.html").read_text("utf-8")
        True
    """
    rows = _rows(topics, alpha, top_words)
    shares = np.asarray(topics.prevalence)
    measured = any(display.finite(record.get("perplexity")) for record in metrics)
    html = (
        page.environment()
        .get_template("lda_report.html")
        .render(
            settings=settings,
            corpus=corpus,
            versions=versions,
            last=metrics[-1] if metrics else {},
            charts=[
                {
                    "svg": charts.curves(metrics, key, label),
                    "label": f"Held-out perplexity against {label}",
                }
                for key, label in page.AXES
                if measured and all(key in record for record in metrics)
            ],
            map=charts.topic_map(positions(topics.mean), shares, [r["leading"][0] for r in rows]),
            share_of="Share of the tokens",
            by_number=rows,
            topics=[rows[k] for k in np.argsort(-shares, kind="stable")],
            concentrations=[
                _concentration(name, unit, labels, found)
                for name, unit, labels, found in (
                    ("alpha", "topic", range(len(rows)), alpha),
                    ("beta", "word", topics.vocabulary, beta),
                )
                if found is not None
            ],
            warnings=warnings,
            **page.mixing(diagnostics),
        )
    )
    output.write_text(path, html)


def _rows(topics: Topics, alpha: Concentration | None, top_words: int) -> list[dict[str, Any]]:
    """What is shown of each topic, in their own order."""
    mean, sd = np.asarray(topics.mean), np.asarray(topics.sd)
    prevalence = np.asarray(topics.prevalence, np.float64)
    expected = (prevalence.size, len(topics.vocabulary))
    if mean.shape != expected or sd.shape != expected:
        raise ValueError(
            f"topics: mean {mean.shape} and sd {sd.shape} must both have the shape {expected} "
            "of prevalence and vocabulary"
        )
    if top_words < 1:
        raise ValueError(f"top_words must be at least 1, got {top_words}")
    order = coherences.top_words(mean, top_words)
    shown, deviation = (np.take_along_axis(array, order, axis=1) for array in (mean, sd))
    lower, upper = beta_interval(np.clip(shown, 0, 1), deviation)
    scale = float(np.where(np.isnan(deviation), shown, upper).max())
    unknown = np.full(prevalence.size, np.nan)
    share_sd = unknown if topics.prevalence_sd is None else np.asarray(topics.prevalence_sd)
    share_lower, share_upper = beta_interval(np.clip(prevalence, 0, 1), share_sd)
    share_scale = float(np.where(np.isnan(share_sd), prevalence, share_upper).max()) or 1.0
    share_bars = bars(prevalence, share_lower, share_upper, share_sd, share_scale)
    coherence = unknown if topics.coherence is None else np.asarray(topics.coherence, np.float64)
    stability = unknown if topics.stability is None else np.asarray(topics.stability, np.float64)
    varied = alpha is not None and np.ptp(alpha.mean) > 0 and np.any(np.asarray(alpha.sd) > 0)
    learned = _interval(alpha) if alpha is not None and varied else None
    rows = []
    for k in range(prevalence.size):
        words = [
            {"word": topics.vocabulary[w]} | bar
            for w, bar in zip(
                order[k], bars(shown[k], lower[k], upper[k], deviation[k], scale), strict=True
            )
        ]
        rows.append(
            {
                "number": k,
                "share": share_bars[k],
                "leading": [word["word"] for word in words[:3]],
                "words": words,
                "coherence": known(float(coherence[k])),
                "stability": known(float(stability[k])),
                "alpha": {end: float(part[k]) for end, part in (learned or {}).items()},
                "documents": topics.documents[k] if topics.documents else (),
            }
        )
    return rows


def _interval(concentration: Concentration) -> dict[str, np.ndarray]:
    """Means and the central 95 % of the gamma laws with these moments."""
    mean = np.asarray(concentration.mean, np.float64)
    sd = np.asarray(concentration.sd, np.float64)
    learned = sd > 0
    shape = np.where(learned, mean / np.where(learned, sd, 1), 1) ** 2
    ends = [special.gammaincinv(shape, p) * mean / shape for p in (0.025, 0.975)]
    lower, upper = (np.where(learned, end, mean) for end in ends)
    return {"mean": mean, "lower": lower, "upper": upper}


def _concentration(
    name: str, unit: str, labels: Sequence[object], concentration: Concentration
) -> dict[str, Any]:
    """The common value, or the extremes and the largest ones."""
    found = _interval(concentration)
    mean = found["mean"]
    order = np.argsort(-mean, kind="stable")[:_LARGEST]
    entries: list[dict[str, object]] = [
        {"label": labels[k]} | {end: float(part[k]) for end, part in found.items()} for k in order
    ]
    return {
        "name": name,
        "unit": unit,
        "learned": bool(np.any(np.asarray(concentration.sd) > 0)),
        "common": bool(np.ptp(mean) == 0),
        "count": mean.size,
        "sum": float(mean.sum()),
        "least": float(mean.min()),
        "largest": entries,
    }

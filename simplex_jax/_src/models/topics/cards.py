"""Per-topic context for the report templates: words and shares with intervals, and diagnostics."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special

from simplex_jax._src.evaluate import coherence as coherences
from simplex_jax._src.models.topics.ends import INTERVAL, OVER_CHAINS, ends
from simplex_jax._src.models.topics.fits import CountFit, TopicFit
from simplex_jax._src.report import charts, page
from simplex_jax._src.report.display import counted
from simplex_jax._src.report.page import bars, measured


def rows_of(
    fitted: CountFit, top_words: int, names: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Return the template variables of each topic, in topic order, with names if given."""
    order, chains = coherences.top_words(fitted.topics, top_words), fitted.topics_range
    shown, sd = (
        np.take_along_axis(array, order, axis=1) for array in (fitted.topics, fitted.topics_sd)
    )
    if chains.size:
        chains = np.take_along_axis(chains, order[None], axis=2)
    (lower, upper), kinds = ends(fitted, np.clip(shown, 0, 1), sd, chains)
    scale = float(np.fmax(shown, upper).max())
    show_alpha = np.ptp(fitted.alpha) > 0 and np.any(fitted.alpha_sd > 0)
    alpha_sd = np.where(kinds == INTERVAL, fitted.alpha_sd, np.nan)
    learned = interval(fitted.alpha, alpha_sd) if show_alpha else {}
    rows = common_rows(fitted)
    for k, row in enumerate(rows):
        words = [
            {"word": fitted.vocabulary[w]} | bar
            for w, bar in zip(
                order[k],
                bars(shown[k], lower[k], upper[k], scale, over_chains=kinds[k] == OVER_CHAINS),
                strict=True,
            )
        ]
        row |= {
            "name": None if names is None else names[k],
            "leading": [word["word"] for word in words[:3]],
            "words": words,
            "alpha": {end: measured(float(part[k])) for end, part in learned.items()},
        }
    return rows


def common_rows(fitted: TopicFit) -> list[dict[str, Any]]:
    """Return the template variables of each topic of any kind, without its words."""
    prevalence = fitted.prevalence
    (lower, upper), kinds = ends(
        fitted, np.clip(prevalence, 0, 1), fitted.prevalence_sd, fitted.prevalence_range
    )
    scale = float(np.fmax(prevalence, upper).max()) or 1.0
    shares = bars(prevalence, lower, upper, scale, over_chains=kinds == OVER_CHAINS)
    return [
        {
            "number": k,
            "share": share,
            "coherence": measured(float(fitted.coherence[k])),
            "stability": measured(float(fitted.stability[k])),
            "chains": page.chains(fitted.shared[:, k]),
            "documents": fitted.examples[k] if fitted.examples else (),
        }
        for k, share in enumerate(shares)
    ]


def overview(
    fitted: TopicFit, rows: list[dict[str, Any]], placed: np.ndarray, measure: str
) -> dict[str, Any]:
    """Return the template variables about all topics, with their positions on the map."""
    shares, documents = fitted.prevalence, fitted.corpus["documents"]
    leading = [row["leading"][0] if row["leading"] else "" for row in rows]
    name = f"held-out {measure.replace('_', '-')}"
    return {
        "title": f"{counted(len(rows), 'topic')} of {counted(documents, 'document')}",
        "charts": page.curves(fitted.metrics, measure, name),
        "map": charts.topic_map(placed, shares, leading),
        "by_number": rows,
        "topics": [rows[k] for k in np.argsort(-shares, kind="stable")],
    }


def interval(mean: np.ndarray, sd: np.ndarray) -> dict[str, np.ndarray]:
    """Return means and the central 95% of the gamma laws with these moments; NaN if unknown."""
    learned = sd > 0
    shape = np.where(learned, mean / np.where(learned, sd, 1), 1) ** 2
    ends = [special.gammaincinv(shape, p) * mean / shape for p in (0.025, 0.975)]
    lower, upper = (np.where(learned, end, np.where(np.isnan(sd), np.nan, mean)) for end in ends)
    return {"mean": mean, "lower": lower, "upper": upper}

"""Topics for people: intervals, lines of text, and the variables of the report's templates."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from simplex_jax._src.evaluate import coherence as coherences
from simplex_jax._src.evaluate import diagnostics, matching
from simplex_jax._src.evaluate.intervals import beta_interval
from simplex_jax._src.models.topics.fits import CountFit, TopicFit
from simplex_jax._src.report import charts, page
from simplex_jax._src.report.display import counted
from simplex_jax._src.report.page import bars, measured

KINDS = NONE, INTERVAL, OVER_CHAINS = range(3)
"""What the ends may be."""

TITLES = ("none", "95%", "range over chains")
"""How files name them."""


def interval_kinds(fitted: TopicFit, over_chains: np.ndarray) -> np.ndarray:
    """Return what the ends of each topic are, one of `KINDS`, [K].

    There is no interval where `diagnostics.rough` says so. A topic that all of several chains have
    then has the range `over_chains` [2, K, ...], unless that is of size 0.
    """
    rough = diagnostics.rough(fitted.diagnostics, fitted.shared)
    several = len(fitted.shared) > 1 and bool(over_chains.size)
    ranged = rough & np.asarray(fitted.shared, bool).all(axis=0) & several
    return np.select([ranged, rough], [OVER_CHAINS, NONE], INTERVAL)


def interval_ends(
    fitted: TopicFit,
    mean: np.ndarray,
    sd: np.ndarray,
    over_chains: np.ndarray,
    interval: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]] = beta_interval,
) -> tuple[np.ndarray, np.ndarray]:
    """Return lower and upper ends, [2, K, ...], and what they are, by `interval_kinds`, [K].

    They are those of the 95% interval, of the range over the chains, or NaN.

    Args:
        fitted: The topics.
        mean: Posterior means of numbers of each topic, [K, ...].
        sd: Their standard deviations; NaN if unknown.
        over_chains: Smallest and largest mean over the chains, [2, K, ...]; of size 0 for none.
        interval: Distribution of the interval, from mean and deviation.
    """
    kinds = interval_kinds(fitted, over_chains)
    rows = (slice(None), *[None] * (mean.ndim - 1))
    known = (kinds == INTERVAL)[rows] & ~np.isnan(sd)
    result = np.where(known, np.stack(interval(mean, np.where(known, sd, np.nan))), np.nan)
    if (kinds == OVER_CHAINS).any():
        result = np.where((kinds == OVER_CHAINS)[rows], over_chains, result)
    return result, kinds


def topic_rows(
    fitted: CountFit,
    top_words: int,
    alpha: np.ndarray,
    alpha_sd: np.ndarray,
) -> list[dict[str, Any]]:
    """Return the template variables of each topic, in topic order.

    Its concentration in the proportions of documents, of `alpha` [K], is shown if it was learned.
    """
    order, chains = coherences.top_words(fitted.topics, top_words), fitted.topics_range
    shown, sd = (
        np.take_along_axis(array, order, axis=1) for array in (fitted.topics, fitted.topics_sd)
    )
    if chains.size:
        chains = np.take_along_axis(chains, order[None], axis=2)
    (lower, upper), kinds = interval_ends(fitted, np.clip(shown, 0, 1), sd, chains)
    scale = float(np.fmax(shown, upper).max())
    show_alpha = np.ptp(alpha) > 0 and np.any(alpha_sd > 0)
    known_sd = np.where(kinds == INTERVAL, alpha_sd, np.nan)
    learned = gamma_interval(alpha, known_sd) if show_alpha else {}
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
            "leading": [word["word"] for word in words[:3]],
            "words": words,
            "alpha": {end: measured(float(part[k])) for end, part in learned.items()},
        }
    return rows


def common_rows(fitted: TopicFit) -> list[dict[str, Any]]:
    """Return the template variables of each topic of any kind, without its words."""
    prevalence = fitted.prevalence
    (lower, upper), kinds = interval_ends(
        fitted, np.clip(prevalence, 0, 1), fitted.prevalence_sd, fitted.prevalence_range
    )
    scale = float(np.fmax(prevalence, upper).max()) or 1.0
    intervals = bars(prevalence, lower, upper, scale, over_chains=kinds == OVER_CHAINS)
    stable, names = matching.stable(fitted.shared), getattr(fitted, "titles", None)
    trained = getattr(fitted, "trained", None)
    parts = [()] * len(prevalence) if trained is None else trained.parts
    return [
        {
            "number": k,
            "name": None if names is None else names[k],
            "parts": parts[k] if len(parts[k]) > 1 else None,  # topics merged into it
            "stable": bool(stable[k]) if len(fitted.shared) > 1 else None,
            "share": share,
            "coherence": measured(float(fitted.coherence[k])),
            "stability": measured(float(fitted.stability[k])),
            "chains": page.chains(fitted.shared[:, k]),
            "documents": fitted.examples[k] if fitted.examples else (),
        }
        for k, share in enumerate(intervals)
    ]


def overview(
    fitted: TopicFit, rows: list[dict[str, Any]], placed: np.ndarray, measure: str
) -> dict[str, Any]:
    """Return the template variables about all topics, with their positions on the map."""
    prevalence, documents = fitted.prevalence, fitted.corpus["documents"]
    leading = [row["leading"][0] if row["leading"] else "" for row in rows]
    name = f"held-out {measure.replace('_', '-')}"
    return {
        "title": f"{counted(len(rows), 'topic')} of {counted(documents, 'document')}",
        "charts": page.curves(fitted.metrics, measure, name),
        "map": charts.topic_map(placed, prevalence, leading),
        "by_number": rows,
        "topics": [rows[k] for k in np.argsort(-prevalence, kind="stable")],
        "notes": diagnostics.chain_notes(fitted.diagnostics, fitted.shared),
    }


def gamma_interval(mean: np.ndarray, sd: np.ndarray) -> dict[str, np.ndarray]:
    """Return means and the central 95% of gamma distributions of these moments, NaN if unknown."""
    learned = sd > 0
    shape = np.where(learned, mean / np.where(learned, sd, 1), 1) ** 2
    ends = [special.gammaincinv(shape, p) * mean / shape for p in (0.025, 0.975)]
    lower, upper = (np.where(learned, end, np.where(np.isnan(sd), np.nan, mean)) for end in ends)
    return {"mean": mean, "lower": lower, "upper": upper}

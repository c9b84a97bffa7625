"""What a report shows of each topic: words and shares with their intervals, and judgements."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special

from simplex_jax.evaluate import coherence as coherences
from simplex_jax.evaluate import diagnostics
from simplex_jax.evaluate.intervals import beta_interval
from simplex_jax.report import page
from simplex_jax.report.page import bars, measured


def rows_of(
    fitted: Any, top_words: int, names: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Return what is shown of each topic, in their own order; some may have names."""
    mean, prevalence = fitted.mean, fitted.prevalence
    rough = diagnostics.rough(fitted.diagnostics, prevalence.size)
    share_sd = np.where(rough, np.nan, fitted.prevalence_sd)
    order = coherences.top_words(mean, top_words)
    shown, deviation = (np.take_along_axis(array, order, axis=1) for array in (mean, fitted.sd))
    deviation = np.where(rough[:, None], np.nan, deviation)
    lower, upper = beta_interval(np.clip(shown, 0, 1), deviation)
    scale = float(np.where(np.isnan(deviation), shown, upper).max())
    share_lower, share_upper = beta_interval(np.clip(prevalence, 0, 1), share_sd)
    share_scale = float(np.where(np.isnan(share_sd), prevalence, share_upper).max()) or 1.0
    share_bars = bars(prevalence, share_lower, share_upper, share_sd, share_scale)
    varied = np.ptp(fitted.alpha) > 0 and np.any(fitted.alpha_sd > 0)
    learned = interval(fitted.alpha, fitted.alpha_sd) if varied else {}
    rows = []
    for k in range(prevalence.size):
        words = [
            {"word": fitted.vocabulary[w]} | bar
            for w, bar in zip(
                order[k], bars(shown[k], lower[k], upper[k], deviation[k], scale), strict=True
            )
        ]
        rows.append(
            {
                "number": k,
                "name": None if names is None else names[k],
                "share": share_bars[k],
                "leading": [word["word"] for word in words[:3]],
                "words": words,
                "coherence": measured(float(fitted.coherence[k])),
                "stability": measured(float(fitted.stability[k])),
                "chains": page.chains(fitted.shared[:, k]),
                "alpha": {end: float(part[k]) for end, part in learned.items()},
                "documents": fitted.examples[k] if fitted.examples else (),
            }
        )
    return rows


def interval(mean: np.ndarray, sd: np.ndarray) -> dict[str, np.ndarray]:
    """Return means and the central 95% of the gamma laws with these moments."""
    learned = sd > 0
    shape = np.where(learned, mean / np.where(learned, sd, 1), 1) ** 2
    ends = [special.gammaincinv(shape, p) * mean / shape for p in (0.025, 0.975)]
    lower, upper = (np.where(learned, end, mean) for end in ends)
    return {"mean": mean, "lower": lower, "upper": upper}

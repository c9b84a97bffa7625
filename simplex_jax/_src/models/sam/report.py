"""The report of a spherical admixture model: a self-contained HTML file without scripts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simplex_jax._src.evaluate.intervals import normal_interval
from simplex_jax._src.evaluate.matching import cosine
from simplex_jax._src.models.sam.fitting import Fit
from simplex_jax._src.models.sam.options import learned
from simplex_jax._src.models.topics.report import OVER_CHAINS, common_rows, interval_ends, overview
from simplex_jax._src.report import display, page
from simplex_jax._src.report.topic_map import positions

_SECTIONS = (
    ("map", "Map"),
    ("perplexity", "Log-perplexity"),
    ("topics", "Topics"),
    ("sampling", "Sampling"),
)


def context(fitted: Fit, top_words: int) -> dict[str, Any]:
    """Return the context of the template, with `top_words` words per topic, half as many absent."""
    rows = _rows(fitted, top_words)
    settings, corpus = fitted.settings, fitted.corpus
    last, perplexity = page.latest(fitted.metrics, "log_perplexity")
    chains = f" in {settings.chains} chains" if settings.chains > 1 else ""
    return overview(fitted, rows, positions(fitted.topics, cosine), "log_perplexity") | {
        "lead": f"Spherical admixture model, sampled by {settings.sampler}{chains}, "
        f"seed {settings.seed}.",
        "sections": _SECTIONS,
        "tiles": [
            ("documents", display.count(corpus["documents"])),
            ("vocabulary", display.count(corpus["vocabulary"])),
            ("held-out log-perplexity", display.count(perplexity)),
            ("posterior samples", display.count(fitted.num_samples)),
            ("time of training", display.duration(last.get("seconds"))),
            ("documents a second", display.count(last.get("documents_per_second"))),
        ],
        "energies": page.curves(fitted.metrics, "kinetic", "kinetic energy", 1.0)[:1],
        "share_of": "Mean share of the documents",
        "learned": [
            (name, getattr(fitted, name), getattr(fitted, f"{name}_sd"))
            for name in learned(fitted.settings)
        ],
    }


def signed_words(
    mean: np.ndarray, present: int, absent: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return for each topic the words with the largest loadings, and with the most negative ones.

    There are at most `present` of the former, all positive, and `absent` of the latter.
    """
    order = np.argsort(-mean, axis=1, kind="stable")
    positive, negative = (mean > 0).sum(axis=1), (mean < 0).sum(axis=1)
    return [
        (row[: min(present, more)], row[::-1][: min(absent, less)])
        for row, more, less in zip(order, positive, negative, strict=True)
    ]


def strongest(fitted: Fit, present: int, absent: int) -> list[list[str]]:
    """Return the `signed_words` of each topic, the absent ones prefixed with a minus."""
    vocabulary = fitted.vocabulary
    return [
        [vocabulary[w] for w in most] + [f"-{vocabulary[w]}" for w in least]
        for most, least in signed_words(fitted.topics, present, absent)
    ]


def _rows(fitted: Fit, top_words: int) -> list[dict[str, Any]]:
    """Return the entries of the topics in the report, in their order."""
    chosen = signed_words(fitted.topics, top_words, max(1, top_words // 2))
    mean = fitted.length[:, None] * fitted.topics
    reach, kinds = interval_ends(
        fitted, mean, fitted.topics_sd, fitted.topics_range, normal_interval
    )
    scale = float(np.fmax(np.abs(mean), np.abs(reach).max(axis=0)).max())
    rows = common_rows(fitted)
    for k, row in enumerate(rows):
        words, absent = (
            _words(w, mean[k], reach[:, k], kinds[k] == OVER_CHAINS, fitted.vocabulary, scale)
            for w in chosen[k]
        )
        row |= {
            "leading": [word["word"] for word in words[:3]],
            "words": words,
            "absent": absent,
            "length": float(fitted.length[k]),
        }
    return rows


def _words(
    chosen: np.ndarray,
    mean: np.ndarray,
    reach: np.ndarray,
    over_chains: bool,
    vocabulary: Sequence[str],
    scale: float,
) -> list[dict[str, Any]]:
    """Return words with loadings and bars; intervals are clipped at a change of sign.

    A sign is unsure if the interval has both; without an interval nothing is known of it.
    """
    value, (lower, upper) = mean[chosen], reach[:, chosen]
    sign = np.where(value < 0, -1, 1)
    absolute = np.sort(np.clip(np.stack([sign * lower, sign * upper]), 0, scale), axis=0)
    shown = page.bars(np.abs(value), absolute[0], absolute[1], scale, over_chains=over_chains)
    return [
        {"word": vocabulary[w], "loading": float(v), "unsure": bool(low <= 0 <= high)}
        | bar
        | {"interval": bar["interval"] and (float(low), float(high))}
        for w, v, low, high, bar in zip(chosen, value, lower, upper, shown, strict=True)
    ]


REPORT = page.Report(Path(__file__).with_suffix(".html"), context, items="words", most=12)

"""The report of a fitted topic model: one HTML file that needs neither network nor scripts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simplex_jax._src.evaluate import diagnostics
from simplex_jax._src.models.lda import explorer, seeds
from simplex_jax._src.models.lda.fitting import Fit
from simplex_jax._src.models.topics.cards import interval, overview, rows_of
from simplex_jax._src.report import display, page
from simplex_jax._src.report.page import measured
from simplex_jax._src.report.topic_map import positions

_LARGEST = 5
_SECTIONS = (
    ("map", "Map"),
    ("perplexity", "Perplexity"),
    ("topics", "Topics"),
    ("sampling", "Sampling"),
)


def context(fitted: Fit, top_words: int) -> dict[str, Any]:
    """Return the context of the report's template, with `top_words` words of each topic."""
    names = seeds.names(fitted.settings.seed_words, len(fitted.topics), fitted.vocabulary)
    rows = rows_of(fitted, top_words, names)
    settings, corpus = fitted.settings, fitted.corpus
    last, perplexity = page.latest(fitted.metrics, "perplexity")
    assert settings.chains is not None  # settled
    chains = f" in {settings.chains} chains" if settings.chains > 1 else ""
    return overview(fitted, rows, positions(fitted.topics), "perplexity") | {
        "lead": f"Latent Dirichlet allocation, sampled by {settings.sampler}{chains}, "
        f"seed {settings.seed}.",
        "sections": _SECTIONS,
        "tiles": [
            ("documents", display.count(corpus["documents"])),
            ("tokens", display.count(corpus["tokens"])),
            ("vocabulary", display.count(corpus["vocabulary"])),
            ("held-out perplexity", display.count(perplexity)),
            *_goal(fitted),
            ("time of training", display.duration(last.get("seconds"))),
            ("tokens a second", display.count(last.get("tokens_per_second"))),
        ],
        "seeded": settings.seed_weight,
        "script": page.script("explorer.js", explorer.contents(fitted)),
        "share_of": "Share of the tokens",
        "disagreements": _disagreements(fitted, rows),
        "concentrations": [
            _concentration(fitted, "alpha", "topic", range(len(rows))),
            _concentration(fitted, "beta", "word", fitted.vocabulary),
        ],
    }


def _goal(fitted: Fit) -> list[tuple[str, str]]:
    """Return the tile of a run with a goal: the number of topics that reached it."""
    target, topics = fitted.settings.target_ess, range(fitted.settings.num_topics)
    if target is None or len(topics) == 1:  # whose share is 1
        return []
    sizes = [fitted.diagnostics.get(f"prevalence {k}", {}).get("ess") or 0.0 for k in topics]
    reached = sum(size >= target for size in sizes)
    return [(f"topics with {target:g} effective samples", f"{reached} of {len(topics)}")]


def _disagreements(fitted: Fit, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the topics that chains lack or whose share they disagree on, the worst first."""
    topics = []
    for k, row in enumerate(rows):
        rhat = measured(fitted.diagnostics.get(f"prevalence {k}", {}).get("rhat"))
        if not fitted.shared[:, k].all() or (rhat is not None and rhat > diagnostics.LARGE_RHAT):
            topics.append(row | {"rhat": rhat})
    return sorted(topics, key=lambda row: (fitted.shared[:, row["number"]].sum(), row["stability"]))


def _concentration(fitted: Fit, name: str, unit: str, labels: Sequence[object]) -> dict[str, Any]:
    """Return the common concentration, or the extremes and the largest ones."""
    mean, sd = getattr(fitted, name), getattr(fitted, f"{name}_sd")
    known = (sd == 0) | diagnostics.enough(fitted.diagnostics, name)
    ends = interval(mean, np.where(known, sd, np.nan))
    order = np.argsort(-mean, kind="stable")[:_LARGEST]
    entries: list[dict[str, object]] = [
        {"label": labels[k]} | {end: measured(float(part[k])) for end, part in ends.items()}
        for k in order
    ]
    return {
        "name": name,
        "unit": unit,
        "learned": not bool(np.all(sd == 0)),
        "common": bool(np.ptp(mean) == 0),
        "count": mean.size,
        "sum": float(mean.sum()),
        "least": float(mean.min()),
        "largest": entries,
    }


REPORT = page.Report(Path(__file__).with_suffix(".html"), context, items="words", most=10)

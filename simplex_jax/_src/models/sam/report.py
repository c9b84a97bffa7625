"""The report of a spherical admixture model: a self-contained HTML file without scripts."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simplex_jax._src.evaluate.intervals import normal_interval
from simplex_jax._src.evaluate.matching import cosine
from simplex_jax._src.models.records import Array, Files, Saved
from simplex_jax._src.models.sam.fitting import CONCENTRATIONS, Fit
from simplex_jax._src.models.sam.options import learned
from simplex_jax._src.models.topics import editing, tables
from simplex_jax._src.models.topics.report import (
    OVER_CHAINS,
    TITLES,
    common_rows,
    interval_ends,
    overview,
)
from simplex_jax._src.report import display, page
from simplex_jax._src.report.topic_map import positions
from simplex_jax._src.runtime.saved import RunError

_SECTIONS = (("overview", "Topics"), ("topics", "Words and documents"), ("map", "Map"))


def context(fitted: Fit, top_words: int) -> dict[str, Any]:
    """Return the context of the template, with `top_words` words per topic, half as many absent."""
    rows = _rows(fitted, top_words)
    settings = fitted.settings
    _, perplexity = page.latest(fitted.metrics, "log_perplexity")
    chains = f" in {settings.chains} chains" if settings.chains > 1 else ""
    return overview(fitted, rows, positions(fitted.topics, cosine), "log_perplexity") | {
        "lead": f"Spherical admixture model, sampled by {settings.sampler}{chains}, "
        f"seed {settings.seed}.{editing.described(fitted)}",
        "sections": _SECTIONS,
        "tiles": [
            ("held-out log-perplexity", display.count(perplexity)),
            ("posterior samples", display.count(fitted.num_samples)),
        ],
        "speed": page.speed(fitted.metrics, "documents"),
        "energies": page.curves(fitted.metrics, "kinetic", "kinetic energy", 1.0)[:1],
        "share_of": "Prevalence is the mean proportion of a topic in the documents",
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


# The files of a fitted spherical admixture model.

_TOP_WORDS, _ABSENT_WORDS = 20, 10
_SCALARS = [name for one in CONCENTRATIONS for name in (one, f"{one}_sd")]


def write(fitted: Fit, place: Path) -> None:
    """Write the files for users and other programs, each atomically.

    `topics.csv` has the 20 words with the largest loadings of each topic, at ranks 1 to 20, and up
    to 10 with the most negative ones, at ranks -1 to -10: their posterior mean, the mean direction
    times its length, with its 95% interval, by `intervals.normal_interval`, or its range over the
    chains, as the last column says; `topic_keys.txt` topic, share and these words, separated by
    tabs, the negative ones last with a minus prefix; `doc_topics.npz` the proportions of all
    documents and their names.
    """
    words = map(" ".join, strongest(fitted, _TOP_WORDS, _ABSENT_WORDS))
    rows = rows_of_words(fitted)
    written = "loading", fitted.prevalence, words
    rest, named = fitted.leaves_rest, any(fitted.titles)
    tables.write_all(fitted, place, None, rows, *written, rest=rest, named=named)
    editing.write(fitted, place)


def rows_of_words(fitted: Fit) -> Iterable[tuple[object, ...]]:
    """Yield the rows of `topics.csv`."""
    loadings = fitted.length[:, None] * fitted.topics
    (lower, upper), kinds = interval_ends(
        fitted, loadings, fitted.topics_sd, fitted.topics_range, normal_interval
    )
    words = signed_words(fitted.topics, _TOP_WORDS, _ABSENT_WORDS)
    names = [[title] if any(fitted.titles) else [] for title in fitted.titles]
    for topic, (most, least) in enumerate(words):
        ranked = [*enumerate(most, start=1), *((-rank, w) for rank, w in enumerate(least, start=1))]
        for rank, word in ranked:
            numbers = (array[topic, word] for array in (loadings, lower, upper))
            shown = (f"{number:.6g}" for number in numbers)
            yield topic, rank, fitted.vocabulary[word], *shown, TITLES[kinds[topic]], *names[topic]


def summary(fitted: Fit) -> dict[str, Any]:
    """Return the fields of `summary.json` for a spherical admixture model."""
    own = {"order": fitted.order, "idf": fitted.weighting, "excluded": fitted.excluded}
    return tables.common_summary(fitted) | editing.summary(fitted) | own


def restore(run: Saved) -> dict[str, Any]:
    """Return the attributes of a fit from its files."""
    lengths = np.linalg.norm(run.arrays["topics"].astype(np.float64), axis=1)
    if not np.allclose(lengths, 1, atol=1e-3):
        raise RunError(f"{run.directory / tables.TOPICS}: the topics are not of length 1")
    order, weighting = np.asarray(run.summary["order"], int), run.summary["idf"]
    return (
        tables.common(run)[0]
        | editing.restore(run)
        | {
            **{name: float(run.arrays[name]) for name in _SCALARS},
            "weighting": None if weighting is None else str(weighting),
            "excluded": tuple(str(name) for name in run.summary["excluded"]),
            "order": order.reshape(-1, run.settings.num_topics),
        }
    )


FILES = Files(
    names=(*tables.NAMES, editing.TRAINED),
    arrays={
        tables.TOPICS: {
            "topics": Array("KV", least=-1.001),
            "topics_sd": Array("KV", unknown=True),
            "length": Array("K"),
            "topics_range": Array("EKR", least=-1.001),
            "prevalence": Array("K"),
            "prevalence_sd": Array("K", unknown=True),
            "prevalence_range": Array("EK"),
            "stability": Array("K", least=-1.001, unknown=True),
            **{name: Array("", positive=True) for name in CONCENTRATIONS},
            **{f"{name}_sd": Array("", unknown=True) for name in CONCENTRATIONS},
            "idf": Array("V"),
        }
    },
    sizes=tables.sizes,
    write=write,
    summary=summary,
    restore=restore,
    report=REPORT,
)

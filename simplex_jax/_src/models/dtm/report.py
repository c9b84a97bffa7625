"""What people see of topics in slices: warnings, plots, tables and the report of a run."""

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from simplex_jax._src.evaluate import diagnostics
from simplex_jax._src.models import verdict
from simplex_jax._src.models.dtm.fitting import Fit
from simplex_jax._src.models.dtm.slices import Slices
from simplex_jax._src.models.records import Array, Files, Saved
from simplex_jax._src.models.topics import tables
from simplex_jax._src.models.topics.checks import (
    empty_warnings,
    perplexity_warnings,
    share_warnings,
)
from simplex_jax._src.models.topics.report import INTERVAL, NONE, OVER_CHAINS, common_rows
from simplex_jax._src.report import display, page
from simplex_jax._src.runtime import output
from simplex_jax._src.runtime.saved import RunError

_LEADING = 10  # words of a topic and slice in the table
_SHOWN, _CURVES = 8, 6  # words of a slice in the report, and curves of a topic
_NAMED = 6  # words that stand for a topic
_TITLES = ("none", "95%", "95% over chains")  # how files name the kinds of ends
_BAR = 3.0  # half the width of the bar of a group in a curve


def warn(fitted: Fit) -> list[str]:
    """Return the reasons to doubt a fit, one sentence each."""
    # A sample of topics that change predicts worse than one of LDA's, at which they begin, and the
    # average better: the verdict says whether it has settled.
    moving = _moving(fitted)
    sentences = perplexity_warnings(moving.metrics, exact=True, settled=moving is not fitted)
    if len(fitted.slices.names) == 1:
        remedy = (
            "simplex-jax lda is the model for them"
            if fitted.settings.document_steadiness == "none"
            else "unless you want only the bursts of words, give times or groups (--time, --by)"
        )
        sentences.append(f"All documents are in one slice, so topics do not change: {remedy}.")
    done = fitted.done.get("passes", fitted.done.get("steps", math.inf))
    static = fitted.settings.static_passes or 0
    if done <= static:
        sentences.append(
            f"The run ended after {done:g} passes, and topics do not change yet in the first "
            f"{static}: run it for several times as many, or lower "
            "static_passes (--static-passes)."
        )
    if many := np.flatnonzero(fitted.slices.documents == 1).size:
        sentences.append(
            f"{display.counted(many, 'slice')} of {len(fitted.slices.names)} have one document "
            "only: fewer slices tell more of each."
        )
    sentences += diagnostics.few_samples(fitted.num_samples)
    sentences += share_warnings(fitted.proportions_error, fitted.settings.share_error)
    return sentences + empty_warnings(fitted.num_empty_documents, len(fitted.names))


def judge(fitted: Fit, longer: str) -> list[str]:
    """Return the verdict, given the command or call of a longer run; see `Results.verdict`."""
    sentences = [verdict.predictions(_moving(fitted), "perplexity")]
    known = fitted.kinds == INTERVAL
    if len(fitted.topics) > 1:
        sentences.append(verdict.topics(fitted, known.any(axis=0), fitted.prevalence_range))
    sentences.append(_bands(fitted))
    if verdict.SETTLED not in sentences[0] or not known.all():
        sentences += verdict.more_topics(fitted, longer)
    return sentences


def _moving(fitted: Fit) -> Fit:
    """Return a fit with the evaluations since topics change, if any: averages begin anew there."""
    static = verdict.static_passes(fitted)
    if not static:
        return fitted
    metrics = [
        record | {"step": record["step"] - static}
        for record in fitted.metrics
        if record["step"] > static
    ]
    return dataclasses.replace(fitted, metrics=metrics) if metrics else fitted


def _bands(fitted: Fit) -> str:
    """Return a sentence on the leading words whose probabilities have intervals."""
    kinds = np.concatenate(
        [
            np.take_along_axis(
                fitted.word_kinds(topic, np.arange(len(fitted.vocabulary))),
                fitted.leading_words(topic, _LEADING),
                axis=1,
            ).ravel()
            for topic in range(len(fitted.topics))
        ]
    )
    known, ranged = ((kinds == kind).mean() for kind in (INTERVAL, OVER_CHAINS))
    sentence = f"{known + ranged:.0%} of the leading words of slices have 95% intervals"
    if ranged:
        sentence += (
            f"; {ranged:.0%} have fewer than {diagnostics.ENOUGH} effective samples, and rest on "
            "how far the chains are apart"
        )
    return f"{sentence}."


def separating(first: np.ndarray, second: np.ndarray, most: int) -> np.ndarray:
    """Return the words that are most typical of a topic [V] against another, int [n]."""
    p, q = (np.maximum(x.astype(float), 1e-30) for x in (first, second))
    return np.argsort(-p * np.log(p / q), kind="stable")[:most]


def _curve(
    fitted: Fit, some: np.ndarray, mean: np.ndarray, ends: np.ndarray, kinds: np.ndarray
) -> dict[str, Any]:
    """Return a line [n] with a band [2, n] of some kinds as points of an SVG of 300 by 70 units."""
    slices = fitted.slices
    x = slices.times[some] if slices.timed else np.arange(len(some), dtype=float)
    x = 300 * (x - x[0]) / max(x[-1] - x[0], 1e-12) if len(some) > 1 else np.array([150.0])
    most = float(np.nanmax([*mean, *np.ravel(ends)])) or 1.0

    def points(x: np.ndarray, y: np.ndarray) -> str:
        rows = zip(x, 70 - 68 * y / most, strict=True)
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in rows)

    # A band for each run of gaps between slices whose ends are of one kind; a bar for each group,
    # and for a slice without such a neighbour.
    gaps = np.where(
        (kinds[1:] == NONE) | (kinds[:-1] == NONE),
        NONE,
        np.where(kinds[1:] == kinds[:-1], kinds[1:], OVER_CHAINS),
    )
    if not slices.timed:
        gaps[:] = NONE
    joined = np.append(gaps != NONE, False) | np.append(False, gaps != NONE)
    runs = np.split(np.arange(len(gaps)), np.flatnonzero(np.diff(gaps)) + 1) if len(gaps) else []
    parts = [(np.append(run, run[-1] + 1), gaps[run[0]]) for run in runs if gaps[run[0]] != NONE]
    parts += [(np.array([i]), kinds[i]) for i in np.flatnonzero(~joined & (kinds != NONE))]
    bands = []
    for run, kind in parts:
        there = x[run] if len(run) > 1 else x[run] + np.array([-_BAR, _BAR])
        low, high = (np.broadcast_to(end[run], there.shape) for end in ends)
        around = np.append(there, there[::-1]), np.append(low, high[::-1])
        bands.append({"points": points(*around), "over_chains": kind == OVER_CHAINS})
    return {
        "line": points(x, mean),
        "dots": [(f"{a:.1f}", f"{70 - 68 * y / most:.1f}") for a, y in zip(x, mean, strict=True)],
        "bands": bands,
        "most": most,
        "first": slices.names[some[0]],
        "last": slices.names[some[-1]],
        "titles": [
            f"{slices.names[t]}: {display.percent(m)}%"
            + ("" if np.isnan(low) else f" ({display.percent(low)}–{display.percent(high)})")
            for t, m, low, high in zip(some, mean, *ends, strict=True)
        ],
    }


def _estimate(middle: float, ends: np.ndarray) -> str:
    if np.isnan(ends).any():
        return display.number(middle)
    return f"{display.number(middle)} ({display.number(ends[0])}–{display.number(ends[1])})"


def _changes(fitted: Fit, topic: int, some: np.ndarray) -> list[dict[str, Any]]:
    """Return the words that enter and leave a topic, or that separate groups, with intervals."""
    slices, rows = fitted.slices, fitted.topics_by_slice[:, topic]

    def described(words: np.ndarray, one: int, other: int | None) -> list[dict[str, str]]:
        ends = fitted.interval(topic, words)
        result = []
        for i, word in enumerate(words):
            parts = []
            for t in (other, one):
                if t is not None:
                    low, high = ends[:, t, i]
                    band = (
                        ""
                        if np.isnan(low)
                        else (f" ({display.percent(low)}–{display.percent(high)})")
                    )
                    parts.append(f"{display.percent(float(rows[t, word]))}%{band}")
            result.append({"word": fitted.vocabulary[word], "course": " → ".join(parts)})
        return result

    if slices.timed:
        if len(some) < 2:
            return []
        first, last = some[0], some[-1]
        return [
            {
                "name": name,
                "words": described(separating(rows[a], rows[b], 5), last, first),
            }
            for name, a, b in (("entering", last, first), ("leaving", first, last))
        ]
    if len(some) < 2:
        return []
    total = rows.sum(axis=0)
    return [
        {
            "name": slices.names[t],
            "words": described(
                separating(rows[t], (total - rows[t]) / (len(rows) - 1), 5), t, None
            ),
        }
        for t in some
    ]


def _topic(fitted: Fit, row: dict[str, Any], most: int) -> dict[str, Any]:
    topic, slices = row["number"], fitted.slices
    leading = fitted.leading_words(topic, most)
    words = np.argsort(-fitted.topics[topic], kind="stable")
    row["words"] = [{"word": fitted.vocabulary[w]} for w in words[:_LEADING]]
    row["leading"] = [word["word"] for word in row["words"][:_NAMED]]
    row["steadiness"] = _estimate(fitted.steadiness[topic], fitted.steadiness_interval[:, topic])
    row["pace"] = (
        _estimate(fitted.pace[topic], fitted.pace_interval[:, topic])
        if (slices.parents >= 0).any()
        else None
    )
    row["courses"] = []
    for name, some in slices.courses().items():
        words = fitted.changing_words(topic, some, _CURVES)
        ends = fitted.interval(topic, words)[:, some]
        kinds = fitted.word_kinds(topic, words)[some]
        before: set[int] = set(leading[some[0]])
        lines = []
        for t in some:
            now = leading[t]
            lines.append(
                {
                    "slice": slices.names[t],
                    "documents": int(slices.documents[t]),
                    "words": [
                        {"word": fitted.vocabulary[w], "new": slices.timed and w not in before}
                        for w in now
                    ],
                }
            )
            before = set(now)
        row["courses"].append(
            {
                "name": name,
                "prevalence": _curve(
                    fitted,
                    some,
                    fitted.prevalence_by_slice[some, topic],
                    fitted.prevalence_by_slice_interval[:, some, topic],
                    fitted.kinds[some, topic],
                ),
                "words": [
                    {"word": fitted.vocabulary[word]}
                    | _curve(
                        fitted,
                        some,
                        fitted.topics_by_slice[some, topic, word],
                        ends[:, :, i],
                        kinds[:, i],
                    )
                    for i, word in enumerate(words)
                ],
                "lines": lines,
                "changes": _changes(fitted, topic, some),
            }
        )
    return row


def context(fitted: Fit, top_words: int) -> dict[str, Any]:
    """Return the context of the template, with `top_words` words for each topic and slice."""
    rows = [_topic(fitted, row, top_words) for row in common_rows(fitted)]
    settings, corpus, slices = fitted.settings, fitted.corpus, fitted.slices
    last, perplexity = page.latest(fitted.metrics, "perplexity")
    chains = f" in {settings.chains} chains" if settings.chains > 1 else ""
    what = [
        *(["periods"] if slices.timed else []),
        *(["groups"] if slices.groups else []),
    ]
    return {
        "title": f"{display.counted(len(rows), 'topic')} of "
        f"{display.counted(corpus['documents'], 'document')} in "
        f"{display.counted(len(slices.names), 'slice')}",
        "lead": f"Topics that change between {' of '.join(what) or 'slices'}, sampled{chains}, "
        f"seed {settings.seed}.",
        "sections": (
            ("overview", "Topics"),
            ("topics", "Changes"),
            ("perplexity", "Perplexity"),
            ("sampling", "Sampling"),
        ),
        "tiles": [
            ("documents", display.count(corpus["documents"])),
            ("tokens", display.count(corpus["tokens"])),
            ("vocabulary", display.count(corpus["vocabulary"])),
            ("slices", display.count(len(slices.names))),
            ("held-out perplexity", display.count(perplexity)),
            ("time of training", display.duration(last.get("seconds"))),
        ],
        "share_of": "Prevalence is the share of the tokens in a topic, over all slices",
        "timed": slices.timed,
        "topics": [rows[k] for k in np.argsort(-fitted.prevalence, kind="stable")],
        "unstable": int((~fitted.stable).sum()),
        "withheld": bool((fitted.kinds == NONE).all(axis=0).any()),
        "several": settings.chains > 1,
        "charts": page.curves(fitted.metrics, "perplexity", "held-out perplexity"),
        "concentrations": {
            "steadiness of the prevalence": _estimate(
                fitted.prevalence_steadiness[0], fitted.prevalence_steadiness[1:]
            ),
            **(
                {
                    "pace of the prevalence": _estimate(
                        fitted.prevalence_pace[0], fitted.prevalence_pace[1:]
                    )
                }
                if (slices.parents >= 0).any()
                else {}
            ),
            **(
                {}
                if np.isnan(fitted.document_steadiness[0])
                else {
                    "steadiness of topics within documents": _estimate(
                        fitted.document_steadiness[0], fitted.document_steadiness[1:]
                    )
                }
            ),
            "alpha, sum over the topics": display.number(float(fitted.alpha.sum())),
            "beta, per word": display.number(float(fitted.beta)),
        },
    }


REPORT = page.Report(Path(__file__).with_suffix(".html"), context, items="words", most=_SHOWN)

_OVER_TIME, _PREVALENCE = "topics_over_time.csv", "prevalence_over_time.csv"
_SLICES, _BY_SLICE = "slices.npz", "topics_by_slice.npz"
_OF_SLICES = ("group", "times", "first", "last", "parents", "documents")
_PROBABILITY = 1 + 1e-5


def write(fitted: Fit, place: Path) -> None:
    """Write the files for people and for other programs, each atomically.

    Besides those of all topic models, `topics_over_time.csv` has the probability of the words that
    are among the ten leading ones of a topic in any slice, in all slices, and
    `prevalence_over_time.csv` the expected share of each topic in a document of each slice, both
    with the ends of their intervals; a column says whether these have effective samples enough
    ("95%") or rest on how far the chains are apart ("95% over chains").
    """
    tables.write(fitted, place, fitted.alpha)
    head, ends = ["topic", "slice", "time", "group"], ["mean", "lower", "upper", "interval"]
    output.write_csv(place / _OVER_TIME, [*head, "word", *ends], _rows_of_words(fitted))
    output.write_csv(
        place / _PREVALENCE,
        [*head, "documents", *ends, "effective"],
        _rows_of_prevalence(fitted),
    )


def _slice(slices: Slices, t: int) -> tuple[object, ...]:
    time = slices.times[t]
    group = slices.groups[slices.group[t]] if slices.groups else ""
    return slices.names[t], "" if np.isnan(time) else f"{time:.12g}", group


def _rows_of_words(fitted: Fit) -> Iterator[tuple[object, ...]]:
    for topic in range(fitted.settings.num_topics):
        words = np.unique(fitted.leading_words(topic, _LEADING))
        words = words[np.argsort(-fitted.topics[topic, words], kind="stable")]
        ends, kinds = fitted.interval(topic, words), fitted.word_kinds(topic, words)
        for i, word in enumerate(words):
            for t in range(len(fitted.slices.names)):
                numbers = (fitted.topics_by_slice[t, topic, word], *ends[:, t, i])
                yield (
                    topic,
                    *_slice(fitted.slices, t),
                    fitted.vocabulary[word],
                    *(f"{x:.6g}" for x in numbers),
                    _TITLES[kinds[t, i]],
                )


def _rows_of_prevalence(fitted: Fit) -> Iterator[tuple[object, ...]]:
    kinds, ends = fitted.kinds, fitted.prevalence_by_slice_interval
    for topic in range(fitted.settings.num_topics):
        for t in range(len(fitted.slices.names)):
            numbers = (
                fitted.prevalence_by_slice[t, topic],
                *ends[:, t, topic],
            )
            yield (
                topic,
                *_slice(fitted.slices, t),
                fitted.slices.documents[t],
                *(f"{x:.6g}" for x in numbers),
                _TITLES[kinds[t, topic]],
                f"{fitted.effective[t, topic]:.0f}",
            )


def summary(fitted: Fit) -> dict[str, Any]:
    """Return the entries of `summary.json`."""
    return tables.summary(fitted) | {
        "order": fitted.order,
        "slices": fitted.slices.names,
        "groups": fitted.slices.groups,
    }


def values(fitted: Fit) -> dict[str, Any]:
    """Return the arrays of a fit by name."""
    slices = {f"slice_{name}": getattr(fitted.slices, name) for name in _OF_SLICES}
    effective = np.nan_to_num(fitted.effective, posinf=1e300)
    return vars(fitted) | slices | {"effective": effective}


def sizes(run: Saved) -> dict[str, int]:
    """Return the lengths of the axes of the arrays."""
    names = run.summary.get("slices")
    if not isinstance(names, list) or not names:
        raise RunError(f"{run.directory / 'summary.json'}: the slices are missing")
    documents = int(run.corpus["documents"])
    return tables.sizes(run) | {"T": len(names), "D": documents, "P": 3}


def restore(run: Saved) -> dict[str, Any]:
    """Return the attributes of a fit from its files."""
    attributes = tables.restore(run)
    own = {name: attributes.pop(f"slice_{name}") for name in _OF_SLICES}
    for name in ("group", "parents", "documents"):
        own[name] = own[name].astype(np.int64)
    topics = run.settings.num_topics
    effective = attributes["effective"]
    return attributes | {
        "slices": Slices(
            names=tuple(map(str, run.summary["slices"])),
            groups=tuple(map(str, run.summary["groups"])),
            **own,
        ),
        "place": attributes["place"].astype(np.int64),
        "effective": np.where(effective >= 1e300, np.inf, effective),
        "order": np.asarray(run.summary["order"], int).reshape(-1, topics),
    }


FILES = Files(
    names=(*tables.NAMES, _OVER_TIME, _PREVALENCE),
    arrays={
        tables.TOPICS: {
            "topics": Array("KV", most=_PROBABILITY),
            "topics_sd": Array("KV", unknown=True),
            "topics_range": Array("EKR"),
            "prevalence": Array("K", most=_PROBABILITY),
            "prevalence_sd": Array("K", unknown=True),
            "prevalence_range": Array("EK", most=_PROBABILITY),
            "alpha": Array("K", positive=True),
            "alpha_sd": Array("K", unknown=True),
            "beta": Array("", positive=True),
            "beta_sd": Array("", unknown=True),
            "steadiness": Array("K", positive=True),
            "steadiness_interval": Array("EK", unknown=True),
            "pace": Array("K", positive=True),
            "pace_interval": Array("EK", unknown=True),
            "prevalence_steadiness": Array("P", unknown=True),
            "prevalence_pace": Array("P", unknown=True),
            "document_steadiness": Array("P", unknown=True),
            "stability": Array("K", unknown=True),
        },
        _BY_SLICE: {
            "topics_by_slice": Array("TKV", most=_PROBABILITY),
            "topics_by_slice_sd": Array("TKV", unknown=True),
            "topics_by_slice_effective": Array("TKV"),
        },
        _SLICES: {
            "prevalence_by_slice": Array("TK", most=_PROBABILITY),
            "prevalence_by_slice_interval": Array("ETK", unknown=True),
            "prevalence_by_slice_range": Array("ETK", most=_PROBABILITY),
            "alpha_by_slice": Array("TK"),
            "effective": Array("TK"),
            "place": Array("D"),
            "slice_group": Array("T", least=-1),
            "slice_times": Array("T", least=-np.inf, unknown=True),
            "slice_first": Array("T", least=-np.inf, unknown=True),
            "slice_last": Array("T", least=-np.inf, unknown=True),
            "slice_parents": Array("T", least=-1),
            "slice_documents": Array("T"),
        },
    },
    sizes=sizes,
    write=write,
    summary=summary,
    restore=restore,
    report=REPORT,
    values=values,
)

"""The files and the report of a fitted topic model: one HTML file that needs no network.

The numbers of the interactive explorer are integers, to keep the page small: logarithms in units of
1 / 200 (half a per cent), proportions in per mille. The page says what it leaves out of a large
fit.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from simplex_jax._src.evaluate import diagnostics, matching
from simplex_jax._src.evaluate.intervals import beta_interval
from simplex_jax._src.models.lda.correlations import NUMBERS, placed
from simplex_jax._src.models.lda.fitting import Fit
from simplex_jax._src.models.records import Array, Files, Saved
from simplex_jax._src.models.topics import editing, tables
from simplex_jax._src.models.topics.report import (
    INTERVAL,
    OVER_CHAINS,
    gamma_interval,
    interval_kinds,
    overview,
    topic_rows,
)
from simplex_jax._src.report import display, page
from simplex_jax._src.report.page import measured
from simplex_jax._src.report.topic_map import positions
from simplex_jax._src.runtime import output

CORRELATIONS = "topic_correlations.csv"
"""The file of correlations of topics, of a run that has computed them."""

_LARGEST = 5
_SECTIONS = (
    ("overview", "Topics"),
    ("topics", "Words and documents"),
    ("map", "Map"),
)


def context(fitted: Fit, top_words: int) -> dict[str, Any]:
    """Return the context of the report's template, with `top_words` words of each topic."""
    rows = topic_rows(fitted, top_words, fitted.alpha, fitted.alpha_sd)
    settings, effects, together = fitted.settings, _trends(fitted, rows), _together(fitted, rows)
    together_section = [("together", "Together")] if together else []
    _, perplexity = page.latest(fitted.metrics, "perplexity")
    assert settings.chains is not None  # settled
    chains = f" in {settings.chains} chains" if settings.chains > 1 else ""
    return overview(fitted, rows, positions(fitted.topics), "perplexity") | {
        "lead": f"Latent Dirichlet allocation, sampled by {settings.sampler}{chains}, "
        f"seed {settings.seed}.{editing.described(fitted)}",
        "sections": (*_SECTIONS, *together_section, *_columns_of(effects)),
        "tiles": [
            ("held-out perplexity", display.count(perplexity)),
            ("posterior samples", display.count(fitted.num_samples)),
            *_goal(fitted),
        ],
        "speed": page.speed(fitted.metrics, "tokens"),
        "effects": effects,
        "together": together,
        "seeded": settings.seed_weight,
        "script": page.script("explorer.js", explorer(fitted)),
        "share_of": "Prevalence is the share of the tokens in a topic",
        "disagreements": _disagreements(fitted, rows),
        "concentrations": [
            _concentration(fitted, "alpha", "topic", range(len(rows))),
            _concentration(fitted, "beta", "word", fitted.vocabulary),
        ],
    }


_SIDE = 14  # of a square of a pair
_LISTED = (("Together", 8), ("One instead of the other", 8))


def _together(fitted: Fit, rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the pairs of topics with the largest correlations, and a picture of all."""
    if not fitted.correlations:
        return None
    number = fitted.num_topics
    table = np.full((number, number), np.nan)
    pairs = {(pair["first"], pair["second"]): pair for pair in fitted.correlations}
    for (first, second), entry in pairs.items():
        table[first, second] = table[second, first] = entry["mean"]
    doubtful = {row["number"] for row in rows if row["stable"] is False}

    def sure(pair: Mapping[str, Any]) -> bool:
        known = not doubtful & {pair["first"], pair["second"]}
        return known and (pair["lower"] > 0 or pair["upper"] < 0)

    apart = [pair for pair in fitted.correlations if sure(pair)]
    apart.sort(key=lambda pair: pair["mean"])
    lists = []
    for (title, most), chosen in zip(_LISTED, (apart[::-1], apart), strict=True):
        same = [pair for pair in chosen if (pair["mean"] > 0) == (chosen is not apart)][:most]
        named = [pair | {end: rows[pair[end]] for end in ("first", "second")} for pair in same]
        lists.append((title, named))
    order = placed(table, fitted.prevalence)
    largest = max(float(np.nanmax(np.abs(table[np.ix_(order, order)]))), 0.01)
    cells = []
    for down, one in enumerate(order):
        for across, other in enumerate(order[:down]):
            pair = pairs.get((min(one, other), max(one, other)))
            if pair is not None:
                strength = abs(pair["mean"]) / largest
                place = {"x": _SIDE * across, "y": _SIDE * down}
                cells.append(pair | place | {"opacity": strength if sure(pair) else strength / 4})
    return {
        "lists": lists,
        "cells": cells,
        "labels": [
            {"x": _SIDE * place + 3, "y": _SIDE * place, "row": rows[topic]}
            for place, topic in enumerate(order)
        ],
        "side": _SIDE * len(order),
        "level": fitted.correlations[0]["level"],
        "most": largest,
        "doubtful": bool(doubtful),
        "omitted": number - len(order),
    }


def _trends(fitted: Fit, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the mean proportions by each covariate: lines with bands, or bars of groups."""
    columns: dict[str, dict[int, list[dict[str, Any]]]] = {}
    for record in fitted.effects:
        if record["kind"] == "mean":
            columns.setdefault(record["column"], {}).setdefault(record["topic"], []).append(record)
    result = []
    for column, topics in columns.items():
        labels = _labels(column, next(iter(topics.values())))
        if len(labels) < 2:
            continue
        level, ordered = (next(iter(topics.values()))[0][name] for name in ("level", "ordered"))
        trends = []
        for k in map(int, np.argsort(-fitted.prevalence, kind="stable")):
            ends = {name: [record[name] for record in topics[k]] for name in _ENDS}
            numbers = {name: np.array(values, float) for name, values in ends.items()}
            sure = rows[k]["stable"] is not False
            drawn = _line(labels, numbers, sure) if ordered else _groups(labels, numbers, sure)
            trends.append({"number": k, "row": rows[k]} | drawn)
        told = {"name": column, "labels": labels, "level": level, "ordered": ordered}
        result.append(told | {"trends": trends})
    return result


def _labels(column: str, records: Sequence[dict[str, Any]]) -> list[str]:
    """Return the groups of a column as they are, or its numbers with at most six digits.

    Numbers are what `covariates` writes as such, with ten digits, if all labels are.
    """
    whole = [record["term"].removeprefix(f"{column}=") for record in records]
    with suppress(ValueError):
        numbers = [float(label) for label in whole]
        short = [f"{number:.6g}" for number in numbers]
        if whole == [f"{number:.10g}" for number in numbers] and len({*short}) == len(short):
            return short
    return whole


_ENDS = ("mean", "lower", "upper")
_START = re.compile(r"\[?(-?\d+(?:\.\d*)?(?:e[+-]?\d+)?)")

_WIDTH, _HEIGHT = 200, 52  # of a drawing of `over_time.html`
_MOST_GROUPS = 6


def _line(labels: Sequence[str], numbers: Mapping[str, np.ndarray], sure: bool) -> dict[str, Any]:
    """Return a line over ordered labels, and its band if the interval is sure."""
    mean = numbers["mean"]
    most = max(float(numbers["upper" if sure else "mean"].max()), 1e-12)
    x = _WIDTH * _places(labels)
    y = {name: _HEIGHT * (1 - np.clip(array / most, 0, 1)) for name, array in numbers.items()}
    shown = dict.fromkeys([0, int(mean.argmax()), len(labels) - 1])
    return {
        "line": _points(x, y["mean"]),
        "band": _points([*x, *x[::-1]], [*y["lower"], *y["upper"][::-1]]) if sure else None,
        "shown": [(labels[place], float(mean[place])) for place in shown],
    }


def _places(labels: Sequence[str]) -> np.ndarray:
    """Return where ordered labels begin, from 0 to 1; evenly spaced if their numbers do not say."""
    starts = np.array([float(found[1]) for label in labels if (found := _START.match(label))])
    ordered = np.isfinite(starts).all() and (np.diff(starts) > 0).all()
    if len(starts) < len(labels) or not ordered:
        return np.linspace(0, 1, len(labels))
    return (starts - starts[0]) / (starts[-1] - starts[0])


def _groups(labels: Sequence[str], numbers: Mapping[str, np.ndarray], sure: bool) -> dict[str, Any]:
    """Return bars of the groups with the most of a topic, and what is left."""
    mean = numbers["mean"]
    order = np.argsort(-mean, kind="stable")
    leading, rest = order[:_MOST_GROUPS], order[_MOST_GROUPS:]
    lower, upper = (
        np.clip(numbers[name][leading], 0, None) if sure else np.full(len(leading), np.nan)
        for name in _ENDS[1:]
    )
    shown = np.clip(mean[leading], 0, None)
    bars = page.bars(shown, lower, upper, max(float(np.nanmax([shown, upper])), 1e-12))
    return {
        "bars": [(labels[place], bar) for place, bar in zip(leading, bars, strict=True)],
        "others": len(rest),
        "at_most": float(mean[rest].max()) if rest.size else None,
    }


def _points(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))


def _columns_of(effects: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(f"by-{n}", f"By {column['name']}") for n, column in enumerate(effects, start=1)]


def _goal(fitted: Fit) -> list[tuple[str, str]]:
    """Return the tile of a run with a goal: the number of topics that reached it."""
    target, topics = fitted.settings.target_ess, range(fitted.num_topics)
    if target is None or len(topics) == 1:  # whose prevalence is 1
        return []
    sizes = [fitted.diagnostics.get(f"prevalence {k}", {}).get("ess") or 0.0 for k in topics]
    reached = sum(size >= target for size in sizes)
    return [(f"topics with {target:g} effective samples", f"{reached} of {len(topics)}")]


def _disagreements(fitted: Fit, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the topics that chains lack or whose prevalence they disagree on, the worst first."""
    topics = []
    for k, row in enumerate(rows):
        rhat = fitted.diagnostics.get(f"prevalence {k}", {}).get("rhat") or math.nan
        if not fitted.shared[:, k].all() or rhat > diagnostics.LARGE_RHAT:
            topics.append(row | {"rhat": measured(rhat)})
    return sorted(topics, key=lambda row: (fitted.shared[:, row["number"]].sum(), row["stability"]))


def _concentration(fitted: Fit, name: str, unit: str, labels: Sequence[object]) -> dict[str, Any]:
    """Return the common concentration, or the extremes and the largest ones."""
    mean, sd = getattr(fitted, name), getattr(fitted, f"{name}_sd")
    known = (sd == 0) | diagnostics.enough(fitted.diagnostics, name)
    ends = gamma_interval(mean, np.where(known, sd, np.nan))
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


WORDS = 30
"""Words of a topic shown at a time."""

STOPS = 10
"""Steps of the slider from lift to probability."""

_UNIT = 200
_LEAST = 1e-15  # smallest probability whose logarithm is written
_MOST_DOCUMENTS = 10_000
_MIXTURE = 5  # topics of a document
_RELATED = 5


def explorer(fitted: Fit) -> dict[str, Any]:
    """Return the data of the explorer, ready for JSON; `explorer.js` documents the entries."""
    mean, prevalence = fitted.topics, fitted.prevalence
    trained = fitted.as_trained()  # with topics that are left out
    overall = np.maximum(trained.prevalence @ trained.topics, _LEAST)
    leading = [_leading(topic, overall) for topic in mean]
    words = np.unique(np.concatenate(leading))
    kinds = interval_kinds(fitted, fitted.topics_range)
    names = fitted.titles
    related = _related(mean)
    shown = _shown(fitted.proportions)
    topics = []
    for k, words_shown in enumerate(leading):
        topics.append(
            {
                "name": names[k],
                "share": float(f"{prevalence[k]:.4g}"),
                "words": np.searchsorted(words, words_shown).tolist(),
                "p": _logs(mean[k, words_shown]),
                "interval": _interval(fitted, kinds[k], k, words_shown),
                "over_chains": bool(kinds[k] == OVER_CHAINS),
                "related": related[k],
                "effects": _effects(fitted.effects, k),
                "documents": [
                    [
                        entry["name"],
                        round(1000 * entry["share"]),
                        entry["text"] or " ".join(entry["words"]),
                    ]
                    for entry in (fitted.examples[k] if fitted.examples else ())
                ],
            }
        )
    return {
        "unit": _UNIT,
        "show": WORDS,
        "topics": topics,
        "order": np.argsort(-prevalence, kind="stable").tolist(),
        "words": [fitted.vocabulary[word] for word in words],
        "overall": _logs(overall[words]),
        "documents": [fitted.names[d] for d in shown],
        "mixtures": _mixtures(fitted.proportions[shown]),
        "all": {"words": len(fitted.vocabulary), "documents": fitted.corpus["documents"]},
    }


def _interval(fitted: Fit, kind: int, topic: int, words: np.ndarray) -> list[list[int]] | None:
    """Return the ends of the words of a topic; None if there are none."""
    sd = fitted.topics_sd[topic, words]
    if kind == OVER_CHAINS:
        ends = fitted.topics_range[:, topic, words]
    elif kind == INTERVAL and np.isfinite(sd).all():
        ends = np.stack(beta_interval(np.clip(fitted.topics[topic, words], 0, 1), sd))
    else:
        return None
    return [_logs(end) for end in ends]


def _logs(values: np.ndarray) -> list[int]:
    return np.rint(_UNIT * np.log(np.maximum(values, _LEAST))).astype(int).tolist()


def _leading(topic: np.ndarray, overall: np.ndarray) -> np.ndarray:
    """Return the words that lead at any stop, by the relevance of Sievert and Shirley (2014).

    The relevance is lambda log p + (1 - lambda) log(p / overall).
    """
    log_p, log_overall = np.log(np.maximum(topic, _LEAST)), np.log(overall)
    most = min(WORDS, topic.size)
    lists = []
    for stop in range(STOPS + 1):
        relevance = log_p - (1 - stop / STOPS) * log_overall
        lists.append(np.argpartition(-relevance, most - 1)[:most])
    return np.unique(np.concatenate(lists))


def _related(mean: np.ndarray) -> list[list[list[int]]]:
    """Return the topics most similar to each, with their similarity."""
    table = matching.affinity(mean, mean)
    np.fill_diagonal(table, -1)
    order = np.argsort(-table, axis=1, kind="stable")[:, : min(_RELATED, len(mean) - 1)]
    return [
        [[int(other), round(1000 * float(table[k, other]))] for other in row]
        for k, row in enumerate(order)
    ]


def _effects(records: Sequence[dict[str, Any]], topic: int) -> list[list[Any]]:
    """Return the mean proportions of a topic by covariate, with the ends of their intervals."""
    return [
        [record["term"], *(round(1000 * float(record[n])) for n in ("mean", "lower", "upper"))]
        for record in records
        if record["topic"] == topic and record["kind"] == "mean"
    ]


def _shown(proportions: np.ndarray) -> np.ndarray:
    """Return the documents to show: all, or those with the largest proportions of each topic."""
    documents, topics = proportions.shape
    if documents <= _MOST_DOCUMENTS:
        return np.arange(documents)
    most = -(-_MOST_DOCUMENTS // topics)
    leading = [np.argpartition(-column, most - 1)[:most] for column in proportions.T]
    return np.unique(np.concatenate(leading))


def _mixtures(proportions: np.ndarray) -> list[list[list[int]]]:
    """Return the leading topics of documents, with their proportions in thousandths."""
    order = np.argsort(-proportions, axis=1, kind="stable")[:, :_MIXTURE]
    leading = np.take_along_axis(proportions, order, axis=1).astype(np.float64)
    pairs = np.stack([order, np.rint(1000 * leading).astype(int)], axis=-1)
    return [[pair for pair in row if pair[1]] for row in pairs.tolist()]


def summary(fitted: Fit) -> dict[str, Any]:
    """Return the entries of `summary.json` for a topic model."""
    return tables.summary(fitted) | {
        "order": fitted.order,
        "stiffness": fitted.stiffness,
        "effects": list(fitted.effects),
        "correlations": list(fitted.correlations),
        **editing.summary(fitted),
        "samples_of_prevalence": len(fitted.prevalence_draws),
    }


def sizes(run: Saved) -> dict[str, int]:
    """Return the sizes of the arrays of a fit; see `tables.sizes`."""
    more = {"S": int(run.summary["samples_of_prevalence"]), "C": len(run.summary["shared"])}
    return tables.sizes(run) | more


def restore(run: Saved) -> dict[str, Any]:
    """Return the attributes of a fit from its files."""
    topics = len(run.arrays["topics"])
    return (
        tables.restore(run)
        | editing.restore(run)
        | {
            "order": np.asarray(run.summary["order"], int).reshape(-1, run.settings.num_topics),
            "stiffness": float(run.summary["stiffness"]),
            "effects": [_effect(record, topics) for record in run.summary["effects"]],
            "correlations": [_pair(record, topics) for record in run.summary["correlations"]],
        }
    )


def write(fitted: Fit, place: Path) -> None:
    """Write the files for people and, of a fit with merged topics, those as trained."""
    tables.write(fitted, place, fitted.alpha, names=fitted.titles)
    if fitted.correlations:
        write_correlations(place / CORRELATIONS, fitted, fitted.correlations)
    else:  # of a run before it went on, for example
        (place / CORRELATIONS).unlink(missing_ok=True)
    editing.write(fitted, place)


def write_correlations(path: Path, fitted: Fit, records: Iterable[Mapping[str, Any]]) -> None:
    """Write a table of pairs of topics: their numbers, correlation, interval, and names if any.

    The column `stable` says whether both topics are, "" for one chain.
    """
    titles, several = fitted.titles, len(fitted.shared) > 1

    def row(record: Mapping[str, Any]) -> tuple[object, ...]:
        pair = [record["first"], record["second"]]
        stable = ("yes" if fitted.stable[pair].all() else "no") if several else ""
        names = [titles[topic] for topic in pair] if any(titles) else []
        return *pair, *(f"{record[name]:.4g}" for name in NUMBERS), stable, *names

    names = ["first_name", "second_name"] if any(titles) else []
    header = ["first", "second", "correlation", "lower", "upper", "stable", *names]
    output.write_csv(path, header, map(row, records))


def _effect(record: dict[str, Any], topics: int) -> dict[str, Any]:
    """Return a record of `effects` from a file, checked."""
    numbers = {name: float(record[name]) for name in ("mean", "sd", "lower", "upper", "level")}
    if not 0 <= (topic := int(record["topic"])) < topics:
        raise ValueError("no such topic")
    texts = {name: str(record[name]) for name in ("column", "term", "kind")}
    return {"topic": topic, **texts, **numbers, "ordered": bool(record["ordered"])}


def _pair(record: dict[str, Any], topics: int) -> dict[str, Any]:
    """Return a record of correlations from a file, checked."""
    first, second = int(record["first"]), int(record["second"])
    if not 0 <= first < second < topics:
        raise ValueError("no such topics")
    numbers = {name: float(record[name]) for name in (*NUMBERS, "level")}
    return {"first": first, "second": second, **numbers}


FILES = Files(
    names=(*tables.NAMES, editing.TRAINED, CORRELATIONS),
    arrays={
        tables.TOPICS: {
            "topics": Array("KV"),
            "topics_sd": Array("KV", unknown=True),
            "topics_range": Array("EKR"),
            "prevalence": Array("K"),
            "prevalence_sd": Array("K", unknown=True),
            "prevalence_range": Array("EK"),
            "prevalence_draws": Array("SCK"),
            "alpha": Array("K", positive=True),
            "alpha_sd": Array("K", unknown=True),
            "beta": Array("V", positive=True),
            "beta_sd": Array("V", unknown=True),
            "stability": Array("K", unknown=True),
        }
    },
    sizes=sizes,
    write=write,
    summary=summary,
    restore=restore,
    report=REPORT,
)

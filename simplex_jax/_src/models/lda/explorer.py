"""Data for the interactive report of a topic model: leading words, documents, related topics.

Numbers are integers, to keep the page small: logarithms in units of 1 / 200 (half a per cent),
shares in per mille. The page says what it leaves out of a large fit.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from simplex_jax._src.evaluate import matching
from simplex_jax._src.evaluate.intervals import beta_interval
from simplex_jax._src.models.lda import seeds
from simplex_jax._src.models.lda.fitting import Fit
from simplex_jax._src.models.topics.ends import INTERVAL, OVER_CHAINS, kinds_of

WORDS = 30
"""Words of a topic shown at a time."""

STOPS = 10
"""Steps of the slider from lift to probability."""

_UNIT = 200
_LEAST = 1e-15  # smallest probability whose logarithm is written
_MOST_DOCUMENTS = 10_000
_MIXTURE = 5  # topics of a document
_RELATED = 5


def contents(fitted: Fit) -> dict[str, Any]:
    """Return the data of the explorer, ready for JSON; `explorer.js` documents the entries."""
    mean, shares = fitted.topics, fitted.prevalence
    overall = np.maximum(shares @ mean, _LEAST)
    leading = [_leading(topic, overall) for topic in mean]
    words = np.unique(np.concatenate(leading))
    kinds = kinds_of(fitted, fitted.topics_range)
    names = seeds.names(fitted.settings.seed_words, len(mean), fitted.vocabulary)
    related = _related(mean)
    shown = _shown(fitted.proportions)
    topics = []
    for k, words_shown in enumerate(leading):
        topics.append(
            {
                "name": names[k],
                "share": float(f"{shares[k]:.4g}"),
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
        "order": np.argsort(-shares, kind="stable").tolist(),
        "words": [fitted.vocabulary[word] for word in words],
        "overall": _logs(overall[words]),
        "documents": [fitted.names[d] for d in shown],
        "mixtures": [_mixture(fitted.proportions[d]) for d in shown],
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
    """Return the mean shares of a topic by covariate, with the ends of their intervals."""
    return [
        [record["term"], *(round(1000 * float(record[n])) for n in ("mean", "lower", "upper"))]
        for record in records
        if record["topic"] == topic and record["kind"] == "mean"
    ]


def _shown(proportions: np.ndarray) -> np.ndarray:
    """Return the documents to show: all, or those with the largest shares of each topic."""
    documents, topics = proportions.shape
    if documents <= _MOST_DOCUMENTS:
        return np.arange(documents)
    most = -(-_MOST_DOCUMENTS // topics)
    leading = [np.argpartition(-shares, most - 1)[:most] for shares in proportions.T]
    return np.unique(np.concatenate(leading))


def _mixture(shares: np.ndarray) -> list[list[int]]:
    order = np.argsort(-shares, kind="stable")[:_MIXTURE]
    return [[int(k), share] for k in order if (share := round(1000 * float(shares[k])))]

"""Topics merged, left out and reordered after a fit, exactly, from the draws that it has kept.

The model and its draws stay as trained. In a draw, the proportion of a merged topic is the sum of
those of its parts, and so are its prevalence and its alpha: sums of Dirichlet proportions are
Dirichlet with the sums of alpha. Its word distribution is the mixture of those of its parts by
their prevalence in the draw. Everything reported about it is a summary of these quantities over the
draws. In each chain its parts are the topics matched to those of the first chain.

A topic that is left out still explains its words: it is only not reported, so that prevalences and
the proportions of a document sum to less than 1.
"""

import dataclasses
import operator
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simplex_jax._src.corpus import Corpus, to_vocabulary
from simplex_jax._src.evaluate import diagnostics, matching
from simplex_jax._src.evaluate.coherence import coherence
from simplex_jax._src.models import pipeline
from simplex_jax._src.models.lda.draws import load_samples, of_chains
from simplex_jax._src.models.topics.data import as_data, in_memory
from simplex_jax._src.report.examples import MOST_DOCUMENTS, representative


def summed(columns: np.ndarray, groups: Iterable[Sequence[int]]) -> np.ndarray:
    """Return the sums of columns [..., k] over groups of them, [..., K].

    Example:
        >>> summed(np.array([[1.0, 2.0, 4.0]]), [(0, 2), (1,)]).tolist()
        [[5.0, 2.0]]
    """
    return np.stack([columns[..., list(group)].sum(axis=-1) for group in groups], axis=-1)


class Trained(NamedTuple):
    """The topics of a run, before some were merged or left out."""

    topics: np.ndarray  # posterior means, float32 [k, V]
    alpha: np.ndarray  # concentration of topic proportions, [k]
    parts: tuple[tuple[int, ...], ...]  # those that each topic of the fit consists of, K

    @property
    def reported(self) -> np.ndarray:
        """The topic of the fit that each belongs to, int [k]; -1 if it is left out."""
        result = np.full(len(self.topics), -1)
        for topic, part in enumerate(self.parts):
            result[list(part)] = topic
        return result

    def mixed(self, topics: np.ndarray, prevalence: np.ndarray) -> np.ndarray:
        """Return the word distributions in a draw, [K, V], from those as trained, [k, V]."""
        rows = np.empty((len(self.parts), topics.shape[1]), topics.dtype)
        for topic, part in enumerate(map(list, self.parts)):
            weights = prevalence[part].astype(np.float64)
            if len(part) == 1 or not weights.any():  # the draw has no token in any of them
                weights = np.ones(len(part))
            rows[topic] = (weights / weights.sum()) @ topics[part]
        return rows


def as_trained(fitted: Any) -> Trained:
    """Return the topics of a fit before any were merged or left out."""
    if fitted.trained is not None:
        return fitted.trained
    return Trained(fitted.topics, fitted.alpha, tuple((k,) for k in range(fitted.num_topics)))


def numbers(name: str, topics: Iterable[Any], number: int) -> list[int]:
    """Return numbers of topics, checked: each from 0 to `number` - 1, and none twice."""
    result: list[int] = []
    for topic in topics:
        try:
            place = operator.index(topic)
        except TypeError:
            raise ValueError(f"{name}: {topic!r} is not the number of a topic") from None
        if not 0 <= place < number:
            raise ValueError(f"{name}: topic {place} is not one of 0 to {number - 1}")
        if place in result:
            raise ValueError(f"{name}: topic {place} is given twice")
        result.append(place)
    return result


def merging(groups: Iterable[Any], number: int) -> list[tuple[int, ...]]:
    """Return the parts of each topic after some are merged: one group, or several.

    A merged topic is where the first of its parts was.
    """
    given: list[Any] = list(groups)
    if given and (isinstance(given[0], str) or not isinstance(given[0], Iterable)):
        given = [given]
    if any(not isinstance(group, Iterable) or isinstance(group, str) for group in given):
        raise ValueError("merge: give one list of topics, or a list of such lists")
    merged = [numbers("merge", group, number) for group in given]
    every = numbers("merge", (k for group in merged for k in group), number)
    of = {min(group): tuple(sorted(group)) for group in merged if group}
    return [of.get(k, (k,)) for k in range(number) if k in of or k not in every]


def dropping(topics: Iterable[Any], number: int) -> list[tuple[int, ...]]:
    """Return the parts of each topic after some are left out."""
    out = numbers("drop", topics, number)
    if len(out) == number:
        raise ValueError("drop: keep at least one topic")
    return [(k,) for k in range(number) if k not in out]


def reordering(topics: Iterable[Any], number: int) -> list[tuple[int, ...]]:
    """Return the parts of each topic after some have been put first."""
    first = numbers("reorder", topics, number)
    return [(k,) for k in (*first, *(k for k in range(number) if k not in first))]


def renamed(fitted: Any, names: Mapping[int, str]) -> Any:
    """Return a fit with names for some topics; "" removes one."""
    numbers("rename", names, fitted.num_topics)
    given = {**fitted.topic_names, **{operator.index(k): str(name) for k, name in names.items()}}
    return dataclasses.replace(fitted, topic_names={k: name for k, name in given.items() if name})


_TAKEN = ("topics", "topics_sd", "prevalence_sd", "alpha_sd", "stability", "coherence")
_SUMMED = ("prevalence", "prevalence_draws", "alpha", "proportions")


def edited(
    fitted: Any,
    groups: Sequence[tuple[int, ...]],
    *,
    corpus: Any = None,
    samples: str | Path | None = None,
    call: str = "",
) -> Any:
    """Return a fit whose topics consist of topics of another.

    Args:
        fitted: The other fit.
        groups: The topics of `fitted` that each topic consists of; the rest are left out.
        corpus: Its documents, for the coherence and the documents of merged topics.
        samples: Directory of its kept samples, if they are not in memory.
        call: How `again` names the change.
    """
    if list(groups) == [(k,) for k in range(fitted.num_topics)]:
        return fitted
    before = as_trained(fitted)
    parts = tuple(tuple(p for k in group for p in before.parts[k]) for group in groups)
    first = [group[0] for group in groups]
    merged = [topic for topic, group in enumerate(groups) if len(group) > 1]
    names = [", ".join(dict.fromkeys(_given(fitted.topic_names, group))) for group in groups]
    renumbered = {group[0]: topic for topic, group in enumerate(groups) if len(group) == 1}
    changes: dict[str, Any] = {
        **{name: getattr(fitted, name)[first] for name in _TAKEN},
        # Expectations add up: these need no draws, and nothing is lost.
        **{name: summed(getattr(fitted, name), groups) for name in _SUMMED},
        "topics_range": fitted.topics_range[:, first],
        "prevalence_range": fitted.prevalence_range[:, first],
        "shared": fitted.shared[:, first],
        "examples": [fitted.examples[k] for k in first] if fitted.examples else [],
        "effects": [] if merged else _renumbered(fitted.effects, renumbered),
        "correlations": [] if merged else _pairs_renumbered(fitted.correlations, renumbered),
        "topic_names": {topic: name for topic, name in enumerate(names) if name},
        "diagnostics": _diagnostics_of(fitted, renumbered),
        # The command edit names itself.
        "again": f"{fitted.again}{call}" if call and ".fit(" in fitted.again else "",
        "trained": before._replace(parts=parts),
    }
    result = dataclasses.replace(fitted, **changes)
    if merged:
        result = _with_draws(result, fitted, groups, merged, samples)
        result = _with_documents(result, fitted, groups, merged, corpus)
    model = fitted.MODEL
    old = model.warn(fitted)
    warnings = [*model.warn(result), *(text for text in fitted.warnings if text not in old)]
    return pipeline.judged(model, dataclasses.replace(result, warnings=warnings), "")


def _given(names: Mapping[int, str], topics: Iterable[int]) -> list[str]:
    return [names[k] for k in topics if names.get(k)]


def _renumbered(
    records: Sequence[Mapping[str, Any]], numbers: Mapping[int, int]
) -> list[dict[str, Any]]:
    """Return the records of topics that are left, with their new numbers, in their order."""
    kept = [
        {**record, "topic": numbers[record["topic"]]}
        for record in records
        if record["topic"] in numbers
    ]
    return sorted(kept, key=lambda record: record["topic"])


def _pairs_renumbered(
    records: Sequence[Mapping[str, Any]], numbers: Mapping[int, int]
) -> list[dict[str, Any]]:
    """Return the records of pairs of topics that are left, with their new numbers."""
    result = []
    for record in records:
        if record["first"] in numbers and record["second"] in numbers:
            pair = sorted(numbers[record[name]] for name in ("first", "second"))
            result.append({**record, "first": pair[0], "second": pair[1]})
    return sorted(result, key=lambda record: (record["first"], record["second"]))


def _diagnostics_of(fitted: Any, numbers: Mapping[int, int]) -> dict[str, dict[str, float]]:
    """Return the diagnostics of what is not a topic, and of topics with new numbers."""
    own = [f"prevalence {k}" for k in range(fitted.num_topics)]
    rest = {name: entry for name, entry in fitted.diagnostics.items() if name not in own}
    moved = sorted(
        (new, own[old]) for old, new in numbers.items() if own[old] in fitted.diagnostics
    )
    return rest | {f"prevalence {new}": fitted.diagnostics[name] for new, name in moved}


def _with_draws(
    result: Any,
    fitted: Any,
    groups: Sequence[tuple[int, ...]],
    merged: Sequence[int],
    samples: str | Path | None,
) -> Any:
    """Return a fit with what the draws say of its merged topics."""
    words, means, alpha = _over_draws(result, merged, samples)
    for chain in range(1, len(means)):
        table = matching.affinity(means[0], means[chain])
        result.shared[chain, merged] = matching.same(table, np.arange(len(table)))[merged]
    result.stability[merged] = matching.stability(list(means[:, merged]))
    if result.topics_range.size:
        result.topics_range[:, merged] = [
            means[:, merged].min(axis=0),
            means[:, merged].max(axis=0),
        ]
    shares = result.prevalence_draws.astype(np.float64)
    for place, topic in enumerate(merged):
        chains = result.shared[:, topic]
        own = words[:, chains, place].reshape(-1, words.shape[-1])
        result.topics[topic], result.topics_sd[topic] = own.mean(axis=0), _deviation(own)
        result.prevalence_sd[topic] = _deviation(shares[:, chains, topic].ravel())
        # Of parts that only some chains have, the mean may be outside of the range of the sums.
        ends = [*shares[..., topic].mean(axis=0), result.prevalence[topic]]
        result.prevalence_range[:, topic] = np.min(ends), np.max(ends)
        group = list(groups[topic])
        result.alpha_sd[topic] = (
            _deviation(alpha[:, chains, place].ravel())
            if fitted.settings.alpha == "learn-asymmetric"
            else fitted.alpha_sd[group].sum()  # of one common value, or 0
        )
        traced = {f"prevalence {topic}": shares[:, chains, topic].T}
        result.diagnostics.update(diagnostics.summary(traced))
    return result


def _over_draws(
    result: Any, merged: Sequence[int], samples: str | Path | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return words of merged topics in each draw, means of all topics, and alpha of merged ones.

    They are [S, chains, merged, V], [chains, K, V] and [S, chains, merged].
    """
    assert result.trained is not None
    trained, kept = result.trained, load_samples(result, samples)
    chains, (topics, width) = len(result.order), result.topics.shape
    words = np.empty((len(kept), chains, len(merged), width), np.float32)
    alpha = np.empty((len(kept), chains, len(merged)))
    means = np.zeros((chains, topics, width))
    for number, sample in enumerate(kept):
        for draw in of_chains(result, sample):
            mixed = trained.mixed(draw.topics, draw.prevalence)
            means[draw.chain] += mixed / len(kept)
            words[number, draw.chain] = mixed[merged]
            alpha[number, draw.chain] = summed(draw.alpha.astype(np.float64), trained.parts)[merged]
    return words, means, alpha


def _deviation(draws: np.ndarray) -> np.ndarray:
    """Return the standard deviation over draws [n, ...], NaN of a single one."""
    if len(draws) < 2:
        return np.full(draws.shape[1:], np.nan)
    return draws.std(axis=0, ddof=1, dtype=np.float64)


def _with_documents(
    result: Any,
    fitted: Any,
    groups: Sequence[tuple[int, ...]],
    merged: Sequence[int],
    corpus: Any,
) -> Any:
    """Return a fit with coherence and documents of its merged topics; without a corpus, of none.

    The documents with most of a topic are known from their proportions; without a corpus, only
    those of its parts have words and an excerpt.
    """
    if corpus is None:
        result.coherence[merged] = np.nan
        if result.examples:
            for topic in merged:
                known = (entry for k in groups[topic] for entry in fitted.examples[k])
                result.examples[topic] = _reranked(result, topic, known)
        return result
    documents: Corpus = in_memory(as_data(corpus, fitted.vocabulary))
    if documents.names != fitted.names:
        raise ValueError("corpus: these are not the documents of the fit: their names differ")
    counts = to_vocabulary(documents, fitted.vocabulary).corpus.counts
    topics = result.topics[merged]
    result.coherence[merged] = coherence(topics, counts)
    if result.examples:
        shares = result.proportions[:, merged]
        found = representative(
            counts, fitted.names, fitted.vocabulary, shares, topics, documents.excerpts
        )
        for topic, entries in zip(merged, found, strict=True):
            result.examples[topic] = entries
    return result


def _reranked(result: Any, topic: int, known: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the documents with most of a merged topic."""
    entries = {entry["name"]: entry for entry in known}
    shares = result.proportions[:, topic]
    best = np.argsort(-shares, kind="stable")[:MOST_DOCUMENTS]
    return [
        {"words": [], "text": "", **entries.get(name, {}), "name": name, "share": float(shares[d])}
        for d in best
        for name in [result.names[d]]
    ]


def samples_of(fitted: Any) -> tuple[Mapping[str, np.ndarray], np.ndarray]:
    """Return the samples in memory with the topics of a fit, and these by chain, [chains, K]."""
    if fitted.trained is None or not fitted.samples:
        return fitted.samples, fitted.order
    parts = fitted.trained.parts
    kept = [list(of_chains(fitted, sample)) for sample in load_samples(fitted)]
    stacked = {
        "topics": [[fitted.trained.mixed(d.topics, d.prevalence) for d in draws] for draws in kept],
        **{
            name: [[summed(getattr(d, name), parts) for d in draws] for draws in kept]
            for name in ("alpha", "prevalence")
        },
    }
    arrays = {name: np.array(values) for name, values in stacked.items()}
    order = np.tile(np.arange(len(parts)), (len(fitted.order), 1))
    return {**fitted.samples, **arrays}, order

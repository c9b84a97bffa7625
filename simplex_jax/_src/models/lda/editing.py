"""What the kept draws of a run say of topics that were merged, exactly: see `topics.editing`.

In each chain the parts of a merged topic are the topics matched to those of the first chain.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simplex_jax._src.evaluate import diagnostics, matching
from simplex_jax._src.models.lda.draws import load_samples, of_chains
from simplex_jax._src.models.topics.editing import deviation, summed


def with_draws(
    result: Any,
    fitted: Any,
    groups: Sequence[tuple[int, ...]],
    merged: Sequence[int],
    samples: str | Path | None,
) -> Any:
    """Return a fit with what the draws say of its merged topics."""
    words, alpha = _over_draws(result, merged, samples)
    means = words.mean(axis=0, dtype=np.float64)
    tokens = result.prevalence_draws.mean(axis=0)[:, merged] * fitted.corpus["tokens"]
    known = matching.told_apart(tokens, result.beta.sum())
    for chain in range(1, len(means)):
        table = matching.affinity(means[0], means[chain])
        result.shared[chain, merged] = (np.diagonal(table) >= matching.SAME) & known[chain - 1]
    result.stability[merged] = matching.stability(list(means))
    if result.topics_range.size:
        result.topics_range[:, merged] = means.min(axis=0), means.max(axis=0)
    shares = result.prevalence_draws.astype(np.float64)
    for place, topic in enumerate(merged):
        chains = result.shared[:, topic]
        own = words[:, chains, place].reshape(-1, words.shape[-1])
        result.topics[topic], result.topics_sd[topic] = own.mean(axis=0), deviation(own)
        result.prevalence_sd[topic] = deviation(shares[:, chains, topic].ravel())
        # Of parts that only some chains have, the mean may be outside of the range of the sums.
        ends = [*shares[..., topic].mean(axis=0), result.prevalence[topic]]
        result.prevalence_range[:, topic] = np.min(ends), np.max(ends)
        group = list(groups[topic])
        result.alpha_sd[topic] = (
            deviation(alpha[:, chains, place].ravel())
            if fitted.settings.alpha == "learn-asymmetric"
            else fitted.alpha_sd[group].sum()  # of one common value, or 0
        )
        result.diagnostics.update(diagnostics.of_topics({topic: shares[:, chains, topic].T}))
    return result


def _over_draws(
    result: Any, merged: Sequence[int], samples: str | Path | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return words and alpha of merged topics in each draw.

    They are [S, chains, merged, V] and [S, chains, merged].
    """
    assert result.trained is not None
    parts = tuple(result.trained.parts[topic] for topic in merged)
    trained, kept = result.trained._replace(parts=parts), load_samples(result, samples)
    chains, width = len(result.order), result.topics.shape[1]
    words = np.empty((len(kept), chains, len(merged), width), np.float32)
    alpha = np.empty((len(kept), chains, len(merged)))
    for number, sample in enumerate(kept):
        for draw in of_chains(result, sample):
            words[number, draw.chain] = trained.mixed(draw.topics, draw.prevalence)
            alpha[number, draw.chain] = summed(draw.alpha.astype(np.float64), parts)
    return words, alpha


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


def renumbered_effects(
    records: Sequence[Mapping[str, Any]], numbers: Mapping[int, int]
) -> list[dict[str, Any]]:
    """Return the records of topics that are left, with their new numbers, in their order."""
    kept = [
        {**record, "topic": numbers[record["topic"]]}
        for record in records
        if record["topic"] in numbers
    ]
    return sorted(kept, key=lambda record: record["topic"])


def renumbered_pairs(
    records: Sequence[Mapping[str, Any]], numbers: Mapping[int, int]
) -> list[dict[str, Any]]:
    """Return the records of pairs of topics that are left, with their new numbers."""
    result = []
    for record in records:
        if record["first"] in numbers and record["second"] in numbers:
            pair = sorted(numbers[record[name]] for name in ("first", "second"))
            result.append({**record, "first": pair[0], "second": pair[1]})
    return sorted(result, key=lambda record: (record["first"], record["second"]))

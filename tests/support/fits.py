"""Fits made by hand, and comparison of fits."""

from typing import Any

import jax
import numpy as np

from simplex_jax._src.models import lda

_CLOCK = ("seconds", "tokens_per_second", "documents_per_second", "rows_per_second")


def proportions_of(topics: Any, alpha: Any, counts: Any, **options: Any) -> np.ndarray:
    """Return the topic proportions of documents, those of all shards in one array."""
    parts = [part.proportions for part in lda.shards(topics, alpha, counts, **options)]
    return np.concatenate([np.empty((0, len(topics)), np.float32), *parts])


def numbers(fitted: Any, *without: str) -> dict[str, Any]:
    """Return all that a fit holds except the clock, the settings and the named attributes."""
    metrics = [{k: v for k, v in record.items() if k not in _CLOCK} for record in fitted.metrics]
    held = {**vars(fitted), "metrics": metrics}
    if "predictive" in held:
        held["predictive"] = fitted.predictive.arrays()
    return {name: value for name, value in held.items() if name not in ("settings", *without)}


def assert_same(first: Any, second: Any, *without: str) -> None:
    """Fail unless two fits are bit-identical, apart from the named attributes."""
    a, b = (numbers(fitted, *without) for fitted in (first, second))
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for (path, x), y in zip(jax.tree.leaves_with_path(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y, err_msg=jax.tree_util.keystr(path))


def topic_fit(mean: np.ndarray, vocabulary: Any, **changes: Any) -> lda.Fit:
    """Return a fit of LDA with these topics [K, V]; the rest has plain defaults."""
    num_topics, words = mean.shape
    values: dict[str, Any] = {
        **{"topics": mean, "topics_sd": 0.1 * mean, "vocabulary": vocabulary, "num_samples": 25},
        **{"prevalence": np.full(num_topics, 1 / num_topics), "names": ()},
        "topics_range": np.zeros((2, num_topics, 0), np.float32),
        "prevalence_range": np.full((2, num_topics), 1 / num_topics),
        **{"prevalence_sd": np.full(num_topics, 0.02), "coherence": np.zeros(num_topics)},
        **{"alpha": np.full(num_topics, 0.1), "alpha_sd": np.zeros(num_topics)},
        **{"beta": np.full(words, 0.05), "beta_sd": np.zeros(words)},
        **{"stability": np.full(num_topics, np.nan), "order": np.arange(num_topics)[None]},
        **{
            "shared": np.ones((1, num_topics), bool),
            "prevalence_draws": np.zeros((0, 1, num_topics)),
        },
        **{"proportions": np.zeros((0, num_topics), np.float32), "examples": []},
        **{"proportions_error": np.zeros(0, np.float32)},
        **{"diagnostics": {}, "metrics": [], "settings": lda.Options(num_topics, chains=1)},
        **{"corpus": {"documents": 1234, "tokens": 56789, "vocabulary": words}},
    }
    return lda.Fit(**values | changes)

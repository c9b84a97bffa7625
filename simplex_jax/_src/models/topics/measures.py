"""Measures of fitted topics on other documents, as the commands print them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax.typing import ArrayLike
from scipy.special import logsumexp

from simplex_jax._src.corpus import split_tokens
from simplex_jax._src.evaluate import windows
from simplex_jax._src.evaluate.coherence import MEASURES, coherence, diversity
from simplex_jax._src.models.topics import perplexity
from simplex_jax._src.models.topics.data import predictable
from simplex_jax._src.models.topics.fits import CountFit, TopicFit
from simplex_jax._src.models.topics.proportions import CHAINS


def completed(
    fitted: CountFit, observed: sp.csr_array, target: sp.csr_array, *, seed: int
) -> dict[str, Any]:
    """Measure how well topics predict the target part of documents from the observed part."""
    if observed.shape != target.shape:
        raise ValueError(
            f"observed (--observed) has {observed.shape[0]} documents and target (--target) "
            f"{target.shape[0]}: give two parts of the same documents, in the same order"
        )
    return {
        "perplexity": _perplexity(*fitted.complete, observed, target, seed),
        "documents": observed.shape[0],
        "target_tokens": int(target.sum()),
        **quality(fitted, observed + target),
    }


def score(topics: ArrayLike, alpha: ArrayLike, counts: sp.csr_array, *, seed: int) -> float:
    """Return the mean log predictive probability of a word in one half of each document [D, V].

    Proportions are inferred from the other half, given topics [K, V] and concentrations [K]. Raises
    a ValueError if no document has two words.
    """
    halves = split_tokens(counts, seed)
    if not predictable(*halves):
        raise ValueError("no document has two words, one to predict from the other")
    return -float(np.log(_perplexity(topics, alpha, *halves, seed)))


def _perplexity(
    topics: ArrayLike, alpha: ArrayLike, observed: sp.csr_array, target: sp.csr_array, seed: int
) -> float:
    data = perplexity.completion(observed, target)
    table = jnp.maximum(jnp.asarray(topics), jnp.finfo(jnp.float32).tiny)
    log_topics, concentrations = jnp.log(table), jnp.asarray(alpha, jnp.float32)
    log_p = [
        np.asarray(perplexity.log_predictive(key, log_topics, concentrations, data), np.float64)
        for key in jax.random.split(jax.random.key(seed), CHAINS)
    ]
    return perplexity.perplexity(logsumexp(log_p, axis=0) - np.log(CHAINS), data.counts)


def quality(fitted: TopicFit, documents: sp.csr_array) -> dict[str, Any]:
    """Measure the coherence of topics in documents, and the diversity of their words."""
    return {
        "coherence": {
            name: _mean(coherence(fitted.topics, documents, measure=name)) for name in MEASURES
        },
        "diversity": diversity(fitted.topics),
    }


def windowed(fitted: TopicFit, texts: list[list[str]]) -> dict[str, Any]:
    """Measure the coherence of topics over sliding windows of texts."""
    coherences = {
        name: _mean(
            windows.coherence_in_windows(fitted.topics, texts, fitted.vocabulary, measure=name)
        )
        for name in windows.MEASURES
    }
    return {"coherence_in_windows": coherences}


def _mean(values: np.ndarray) -> float | None:
    """Mean over the topics whose top words occur in the documents; None if there are none."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else None

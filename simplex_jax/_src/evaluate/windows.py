"""Coherence of topics over sliding windows of texts, computed by gensim."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.evaluate.coherence import words_of
from simplex_jax._src.extras import needed

MEASURES = ("c_v", "c_npmi")


def coherence_in_windows(
    topics: ArrayLike,
    texts: Iterable[Sequence[str]],
    vocabulary: Sequence[str],
    *,
    measure: str = "c_v",
    window: int | None = None,
    top: int = 10,
) -> np.ndarray:
    """Return the coherence of every topic over windows of its reference texts.

    Words co-occur if they are in the same `window` of successive words. These are C_V and C_NPMI of
    Röder et al. (2015) as computed by gensim's `CoherenceModel`. Values are comparable only for the
    same texts, tokenised alike, with the same window and `top`. Words that never co-occur have
    about -0.95, since gensim adds 1e-12 to probabilities. `evaluate.coherence` needs only counts,
    and uses whole documents.

    Args:
        topics: Topics [K, V] as floating-point numbers, or word ids [K, n] as integers, the most
            probable first.
        texts: The words of each reference document in order, see `corpus.tokens`.
        vocabulary: The V words.
        measure: "c_v", the mean cosine of the words' NPMI vectors, or "c_npmi", their mean NPMI.
        window: Words in a window, at least 2; by default gensim's, 110 for "c_v" and 10 for
            "c_npmi".
        top: Number of words per topic, at least 2; ignored for word ids.

    Returns:
        float64 [K]. Words that occur in no text are omitted; NaN if fewer than two remain.

    Raises:
        ImportError: gensim is not installed.
        ValueError: As for `evaluate.coherence`, or there is no text.

    Example:
        >>> texts = [["sun", "moon", "star"], ["moon", "sun"], ["bread", "salt"], ["salt", "bread"]]
        >>> words = ["bread", "moon", "salt", "sun"]
        >>> coherence_in_windows([[1, 3], [0, 1]], texts, words, measure="c_npmi").round(2).tolist()
        [1.0, -0.95]
    """
    with needed("coherence in windows", "coherence"):
        from gensim.corpora import Dictionary
        from gensim.models.coherencemodel import CoherenceModel
    arguments.choice("measure", measure, MEASURES)
    if window is not None:
        window = arguments.at_least("window", window, 2)
    texts = list(texts)
    if any(isinstance(text, str) for text in texts):
        raise ValueError("texts must be lists of words: split each text")
    documents = [list(text) for text in texts if text]  # gensim counts empty ones as windows
    if not documents:
        raise ValueError("texts has no words: give the reference documents")
    dictionary = Dictionary(documents)
    topic_words = [
        [word for word in (vocabulary[i] for i in row) if word in dictionary.token2id]
        for row in words_of(topics, len(vocabulary), top)
    ]
    scores = np.full(len(topic_words), np.nan)
    valid = [k for k, words in enumerate(topic_words) if len(words) >= 2]
    if valid:
        model: Any = CoherenceModel(
            topics=[topic_words[k] for k in valid],
            texts=documents,
            dictionary=dictionary,
            coherence=measure,
            window_size=window,
            topn=max(len(topic_words[k]) for k in valid),
            processes=1,
        )
        scores[valid] = model.get_coherence_per_topic()
    return scores

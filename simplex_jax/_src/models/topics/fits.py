"""What fits of topics have in common, and topics as lines of text."""

import abc
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus import Corpus
from simplex_jax._src.evaluate import matching
from simplex_jax._src.evaluate.coherence import coherence, strongest
from simplex_jax._src.models import pipeline
from simplex_jax._src.models.topics.data import num_empty
from simplex_jax._src.models.topics.options import TopicOptions
from simplex_jax._src.report.display import counted
from simplex_jax._src.report.examples import representative


class Draw(NamedTuple):
    """All topics of a posterior sample, or their posterior means, to predict documents with."""

    topics: np.ndarray  # [k, V]
    alpha: np.ndarray  # concentrations of topic proportions, [k]; 0 in rows that are no topics
    reported: np.ndarray  # the topic of the fit that each is, int [k]; -1 if it is not reported


class Shares(NamedTuple):
    """Topic proportions of consecutive documents."""

    first: int  # row of the first document
    proportions: np.ndarray  # posterior means, float32 [n, K]; see `CountFit.shards`
    # Estimated Monte-Carlo standard error of the most uncertain proportion of each document,
    # float32 [n]
    error: np.ndarray


MOST_LISTED = 100
"""Topics that a command lists; more would push important lines off the screen."""


def topic_lines(
    prevalence: np.ndarray,
    described: list[str],
    most: int = MOST_LISTED,
    *,
    stable: np.ndarray | None = None,
) -> list[str]:
    """Return one line per topic, most prevalent first, and a line that counts omitted ones.

    Topics that are `stable` [K] have a star.
    """
    order = np.argsort(-prevalence, kind="stable")
    stars = np.where(np.zeros(len(order)) if stable is None else stable, "*", " ")
    lines = [f"{k:4d} {stars[k]} {100 * prevalence[k]:4.1f}%  {described[k]}" for k in order[:most]]
    if omitted := len(order) - len(lines):
        share = prevalence[order[most:]].sum()
        lines.append(
            f"and {counted(omitted, 'topic')} of {100 * share:.1f}% in all, see topics.csv"
        )
    return lines


def leading_words(mean: np.ndarray, vocabulary: tuple[str, ...], most: int = 10) -> list[str]:
    """Return the words of each topic with the largest probabilities or loadings, as one text."""
    return [" ".join(vocabulary[word] for word in row) for row in strongest(mean, most)]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TopicFit(pipeline.Fit):
    """A fit of K topics of any kind, over V words and D documents."""

    topics: np.ndarray  # posterior means, [K, V]
    topics_sd: np.ndarray  # posterior standard deviations, [K, V]
    # Smallest and largest means over the chains, [2, K, V]; [2, K, 0] if there are none
    topics_range: np.ndarray
    prevalence: np.ndarray  # of each topic in the corpus, [K]
    prevalence_sd: np.ndarray  # its posterior standard deviation, [K]
    prevalence_range: np.ndarray  # its smallest and largest mean over the chains, [2, K]
    stability: np.ndarray  # mean similarity of each topic in different chains or samples, [K]
    shared: np.ndarray  # whether a chain has a topic, bool [chains, K]
    vocabulary: tuple[str, ...]  # the words
    names: tuple[str, ...]  # of the documents
    proportions: np.ndarray  # topic proportions of the documents, [D, K]
    coherence: np.ndarray  # NPMI of the leading words of each topic, [K]
    examples: list[list[dict[str, Any]]]  # representative documents of each topic

    @property
    def num_topics(self) -> int:
        """Number of topics; of `hdp`, of those reported, see `num_topics_posterior`."""
        return len(self.topics)

    @property
    def stable(self) -> np.ndarray:
        """Whether all of several chains have found a topic, bool [K]; False for one chain."""
        return matching.stable(self.shared)

    def lines(self) -> list[str]:
        """Return a line for each topic, the most prevalent first."""
        words = leading_words(self.topics, self.vocabulary)
        return topic_lines(self.prevalence, words, stable=self.stable)


def results_of(
    documents: Corpus, topics: np.ndarray, proportions: np.ndarray, errors: np.ndarray
) -> dict[str, Any]:
    """Return the attributes of a `CountFit` about D documents, given the topics, [K, V]."""
    counts, words = documents.counts, documents.vocabulary
    return {
        "vocabulary": words,
        "names": documents.names,
        "proportions": proportions,
        "proportions_error": errors,
        "coherence": coherence(topics, counts),
        "examples": representative(
            counts, documents.names, words, proportions, topics, documents.excerpts
        ),
        "num_empty_documents": num_empty(documents),
    }


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CountFit(TopicFit):
    """A fit of topics of counts, whose rows are probabilities of words."""

    settings: TopicOptions
    proportions_error: np.ndarray  # Monte-Carlo error of the proportions of each document, [D]
    num_empty_documents: int = 0  # documents without a word

    @property
    def leaves_rest(self) -> bool:
        """Whether documents have topics that are not reported, a part of their proportions."""
        return False

    @abc.abstractmethod
    def draws(self) -> Sequence[Draw]:
        """Return the topics to predict documents with, equally weighted."""

    @abc.abstractmethod
    def shards(self, documents: sp.csr_array, *, seed: int) -> Iterator[Shares]:
        """Yield the topic proportions of documents [D, V], in bounded memory.

        Rows sum to 1, or leave a part to topics that are not reported.
        """

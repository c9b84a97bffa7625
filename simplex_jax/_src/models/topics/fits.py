"""Protocols of fits for code that handles topic models."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.models.topics.options import TopicOptions


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


class TopicFit(Protocol):
    """A fit of K topics of any kind, over V words and D documents."""

    @property
    def topics(self) -> np.ndarray:
        """Posterior means of the topics, [K, V]."""

    @property
    def topics_sd(self) -> np.ndarray:
        """Posterior standard deviations, [K, V]."""

    @property
    def topics_range(self) -> np.ndarray:
        """Smallest and largest means over the chains, [2, K, V]; [2, K, 0] if there are none."""

    @property
    def prevalence(self) -> np.ndarray:
        """Share of each topic, [K]."""

    @property
    def prevalence_sd(self) -> np.ndarray:
        """Posterior standard deviation of this share, [K]."""

    @property
    def prevalence_range(self) -> np.ndarray:
        """Smallest and largest mean of this share over the chains, [2, K]."""

    @property
    def stability(self) -> np.ndarray:
        """Mean similarity of each topic in different chains or samples, [K]."""

    @property
    def shared(self) -> np.ndarray:
        """Whether a chain has a topic, bool [chains, K]."""

    @property
    def coherence(self) -> np.ndarray:
        """NPMI of the leading words of each topic, [K]."""

    @property
    def examples(self) -> Sequence[Sequence[dict[str, Any]]]:
        """Representative documents of each topic; none for a fit without documents."""

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The words."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the documents."""

    @property
    def proportions(self) -> np.ndarray:
        """Topic proportions of the documents, [D, K]."""

    @property
    def diagnostics(self) -> Mapping[str, Mapping[str, float]]:
        """R-hat and effective sample size by name."""

    @property
    def metrics(self) -> Sequence[Mapping[str, float]]:
        """One record per evaluation."""

    @property
    def corpus(self) -> Mapping[str, Any]:
        """Facts about the data."""


class CountFit(TopicFit, Protocol):
    """A fit of topics of counts, whose rows are probabilities of words."""

    @property
    def settings(self) -> TopicOptions:
        """The settings of the run."""

    def draws(self) -> Sequence[Draw]:
        """Return the topics to predict documents with, equally weighted."""

    def shards(self, documents: sp.csr_array, *, seed: int) -> Iterator[Shares]:
        """Yield the topic proportions of documents [D, V], in bounded memory.

        Rows sum to 1, or leave the share of topics that are not reported.
        """

    @property
    def proportions_error(self) -> np.ndarray:
        """Monte-Carlo error of the proportions of each document, [D]."""

    @property
    def num_empty_documents(self) -> int:
        """Number of documents without a word."""

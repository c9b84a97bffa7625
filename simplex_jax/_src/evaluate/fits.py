"""Records of fits of any model, for comparisons and exports."""

import abc
import signal
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np


class Mixture(NamedTuple):
    """Samples of a mixture from a fit, an estimator or another program."""

    traces: Mapping[str, np.ndarray]  # scalars at each evaluation, [T, chains]
    # Stored partitions: "labels" [S, chains, n], optionally "step" [S], and others [S, chains, ...]
    partitions: Mapping[str, np.ndarray]
    # Names of the further axes of the partitions
    dims: Mapping[str, Sequence[str]] = {"labels": ["row"]}


class Topics(NamedTuple):
    """Topics from a fit, an estimator or another program."""

    topics: np.ndarray  # posterior mean of the topics, [K, V]
    metrics: Sequence[Mapping[str, Any]] = ()  # one record per evaluation, with its "step"
    # Stored samples: "topics" [S, chains, K, V], "step" [S] and others; or empty
    samples: Mapping[str, np.ndarray] = {}
    # Topic of each chain matched to each topic, int [chains, K]
    order: np.ndarray | Sequence[Sequence[int]] = ()
    vocabulary: Sequence[str] | None = None  # the V words, if known
    interrupted: signal.Signals | None = None  # the signal that ended the run early
    # Samples of a model whose topics are born and die, and so have no fixed numbers: the partitions
    # of the tokens, instead of `samples`
    mixture: Mixture | None = None


Record: TypeAlias = Topics | Mixture


class Fitted(abc.ABC):
    """A fit or a fitted estimator that can be compared and exported."""

    @abc.abstractmethod
    def to_record(self) -> Record:
        """Return its record for `simplex_jax.evaluate`."""

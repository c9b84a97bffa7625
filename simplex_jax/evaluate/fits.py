"""Records of fits for comparisons and exports, whatever the model."""

import abc
import signal
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np


class Mixture(NamedTuple):
    """Samples of a mixture, of a fit, an estimator or another program."""

    traces: Mapping[str, np.ndarray]  # numbers at each evaluation, [T, chains]
    # Kept partitions: "labels" [S, chains, n], perhaps "step" [S], and more, [S, chains, ...]
    partitions: Mapping[str, np.ndarray]
    # Names of the further axes of the partitions
    dims: Mapping[str, Sequence[str]] = {"labels": ["row"]}


class Topics(NamedTuple):
    """Topics of a fit, an estimator or another program."""

    mean: np.ndarray  # posterior mean of the topics, [K, V]
    metrics: Sequence[Mapping[str, Any]] = ()  # one record an evaluation, each with its "step"
    # Kept samples: "topics" [S, chains, K, V], "step" [S] and more; or nothing
    kept: Mapping[str, np.ndarray] = {}
    # Topic of each chain that was matched to each topic, int [chains, K]
    order: np.ndarray | Sequence[Sequence[int]] = ()
    vocabulary: Sequence[str] | None = None  # the V words, if they are known
    interrupted: signal.Signals | None = None  # the signal that ended the run before its time
    # Samples of a model whose topics come and go, so that none has a number in all samples: the
    # partitions of the tokens, in place of `kept`
    mixture: Mixture | None = None


Record: TypeAlias = Topics | Mixture


class Fitted(abc.ABC):
    """A fit or a fitted estimator, which can be compared and exported."""

    @abc.abstractmethod
    def as_fit(self) -> Record:
        """Return its record for `simplex_jax.evaluate`."""

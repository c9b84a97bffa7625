"""Fits as comparisons and exports take them, whatever the model."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class TopicFit(Protocol):
    """A fit of topics, as `lda.fit` and `sam.fit` return it; or `Topics`."""

    @property
    def mean(self) -> np.ndarray:
        """Posterior mean of the topics, [K, V]."""

    @property
    def metrics(self) -> Sequence[Mapping[str, Any]]:
        """One record an evaluation, each with its "step"."""

    @property
    def kept(self) -> Mapping[str, np.ndarray]:
        """Kept samples: "topics" [S, chains, K, V], "step" [S] and more; or nothing."""

    @property
    def order(self) -> Any:
        """Topic of each chain that was matched to each topic, int [chains, K]."""

    @property
    def vocabulary(self) -> Sequence[str] | None:
        """The V words, if they are known."""

    @property
    def interrupted(self) -> Any:
        """The signal that ended the run before its time, or None."""


@runtime_checkable
class MixtureFit(Protocol):
    """A fit of a mixture, as `dpm.fit` returns it; or `Mixture`."""

    @property
    def traces(self) -> Mapping[str, np.ndarray]:
        """Numbers at each evaluation, [T, chains]."""

    @property
    def partitions(self) -> Mapping[str, np.ndarray]:
        """Kept partitions: "labels" [S, chains, n], "alpha" [S, chains], "step" [S]."""


class Topics(NamedTuple):
    """Topics that are of no fit at hand, of an estimator or another program; see `TopicFit`."""

    mean: np.ndarray
    metrics: Sequence[Mapping[str, Any]] = ()
    kept: Mapping[str, np.ndarray] = {}
    order: Any = None
    vocabulary: Sequence[str] | None = None
    interrupted: Any = None


class Mixture(NamedTuple):
    """A mixture that is of no fit at hand, of an estimator say; attributes of `MixtureFit`."""

    traces: Mapping[str, np.ndarray]
    partitions: Mapping[str, np.ndarray]


@runtime_checkable
class Fitted(Protocol):
    """A fitted estimator, which says what it has of a fit."""

    def as_fit(self) -> TopicFit | MixtureFit:
        """Return it."""

"""Topics of posterior samples, reported or not, to predict documents with."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Self, overload

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.models.topics.fits import Draw

_INTEGERS = ("data", "indices", "indptr", "reported", "ends")
NAMES = (*_INTEGERS, "alpha", "unseen")
"""The arrays of a file of draws."""


@dataclasses.dataclass(frozen=True, eq=False)
class Draws(Sequence[Draw]):
    """Topics of M posterior samples: N topics in all, those of a sample one below the other.

    A sample also has topics without tokens, which predict all words alike.
    """

    counts: sp.csr_array  # tokens of each topic and word, int32 [N, V]
    alpha: np.ndarray  # concentration of each topic in the proportions of a document, float64 [N]
    reported: np.ndarray  # the topic of the fit that each is, int32 [N]; -1 if not reported
    ends: np.ndarray  # number of topics of each sample and all before it, int64 [M]
    unseen: np.ndarray  # concentration of all topics without tokens, float64 [M]
    beta: float  # concentration of words

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, index: int) -> Draw: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Draw]: ...

    def __getitem__(self, index: int | slice) -> Draw | Sequence[Draw]:
        """Return the topics of a sample given its labels, in as many rows as those of the others.

        Given the labels a topic is Dirichlet(beta + n), of which this is the mean.
        """
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        end = self.ends[index]
        first = self.ends[index - 1] if index % len(self) else 0
        own, words = end - first, self.counts.shape[1]
        rows = int(np.diff(self.ends, prepend=0).max()) + 1
        topics = np.zeros((rows, words), np.float32)
        topics[:own] = self.counts[first:end].toarray()
        topics += self.beta
        topics /= topics.sum(axis=1, keepdims=True)
        alpha, reported = np.zeros(rows), np.full(rows, -1, np.int32)
        alpha[: own + 1] = *self.alpha[first:end], self.unseen[index]
        reported[:own] = self.reported[first:end]
        return Draw(topics, alpha, reported)

    def __iter__(self) -> Iterator[Draw]:
        return (self[index] for index in range(len(self)))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of a file of draws, by name."""
        counts = {name: getattr(self.counts, name) for name in ("data", "indices", "indptr")}
        return counts | {name: getattr(self, name) for name in NAMES if name not in counts}

    @classmethod
    def restored(
        cls, arrays: Mapping[str, np.ndarray], beta: float, words: int, topics: int
    ) -> Self:
        """Return the draws of `arrays`, of V words, for a fit of K topics.

        Numbers that contradict each other raise a ValueError.
        """
        for name in NAMES:
            kind = "i" if name in _INTEGERS else "f"
            if arrays[name].dtype.kind != kind or arrays[name].ndim != 1:
                raise ValueError(f"{name} has the wrong type")
        ends, alpha, reported = arrays["ends"], arrays["alpha"], arrays["reported"]
        shape = (len(alpha), words)
        counts = sp.csr_array(
            (arrays["data"], arrays["indices"], arrays["indptr"]), shape, dtype=np.int32
        )
        counts.check_format()
        sound = (
            len(reported) == len(alpha)
            and len(arrays["unseen"]) == len(ends) > 0
            and (np.diff(ends, prepend=0) > 0).all()
            and ends[-1] == len(alpha)
            and (counts.data > 0).all()
            and ((reported >= -1) & (reported < topics)).all()
            and all((x > 0).all() and np.isfinite(x).all() for x in (alpha, arrays["unseen"]))
        )
        if not sound:
            raise ValueError("numbers out of range")
        return cls(counts, alpha, reported, ends, arrays["unseen"], beta)

"""Predictions averaged over posterior samples, streaming."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np


class LogMean:
    """Log of the mean of probabilities or densities over samples, entry by entry.

    Args:
        size: Number of entries.

    Attributes:
        samples: Samples so far.

    Example:
        >>> import numpy as np
        >>> seen = LogMean(1)
        >>> seen.add(np.log([[0.2], [0.4]]))
        >>> np.exp(seen.value()).round(3).tolist()
        [0.3]
    """

    def __init__(self, size: int) -> None:
        self.samples = 0
        self._log_sum = np.full(size, -np.inf)

    def add(self, rows: Iterable[np.ndarray]) -> None:
        """Add the logs of some samples, [size] each."""
        for row in rows:
            self.samples += 1
            self._log_sum = np.logaddexp(self._log_sum, row)

    def value(self) -> np.ndarray:
        """Return the log of the mean, [size]."""
        return self._log_sum - math.log(self.samples)

    def save(self) -> dict[str, Any]:
        """Return what a continued run needs."""
        return {"samples": self.samples, "log_sum": self._log_sum}

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from what was saved."""
        self.samples, self._log_sum = saved["samples"], saved["log_sum"]

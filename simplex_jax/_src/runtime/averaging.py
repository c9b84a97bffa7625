"""Streaming averages of predictions over posterior samples."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np


class LogMean:
    """Log of the mean of probabilities or densities over samples, entry by entry."""

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

    def merge(self, other: "LogMean") -> None:
        """Add all samples of another average."""
        self.samples += other.samples
        self._log_sum = np.logaddexp(self._log_sum, other._log_sum)

    def save(self) -> dict[str, Any]:
        """Return the number of samples and the log of their sum, for a checkpoint."""
        return {"samples": self.samples, "log_sum": self._log_sum}

    def load(self, saved: dict[str, Any]) -> None:
        """Restore both."""
        self.samples, self._log_sum = saved["samples"], saved["log_sum"]

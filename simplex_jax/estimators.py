"""Estimators of full-data counts from batches, for simplex kernels."""

from simplex_jax._src.estimators import (
    Estimator,
    categorical,
    control_variate,
    memoised,
    multinomial,
    subsampled,
)

__all__ = ["Estimator", "categorical", "control_variate", "memoised", "multinomial", "subsampled"]


def __dir__() -> list[str]:
    return __all__

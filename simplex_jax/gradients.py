"""Estimators made from log densities by automatic differentiation: gradients, and counts."""

from simplex_jax._src.gradient_noise import fisher, variance
from simplex_jax._src.gradients import (
    control_variate,
    counts,
    density,
    full_gradient,
    mode,
    posterior,
    running,
)

__all__ = [
    "control_variate",
    "counts",
    "density",
    "fisher",
    "full_gradient",
    "mode",
    "posterior",
    "running",
    "variance",
]


def __dir__() -> list[str]:
    return __all__

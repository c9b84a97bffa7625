"""Estimators made from log densities by automatic differentiation: gradients, and counts from them.

Euclidean kernels (`samplers.sgld` and its relatives) take the gradient of the log posterior with
respect to their position, a tree of real arrays. Simplex kernels take counts, which can also be
computed from any log likelihood of log-probabilities: see `counts`.
"""

from simplex_jax._src.gradients.densities import (
    LogDensity,
    LogLikelihood,
    density,
    gradient_of,
    like,
    posterior,
    precise,
    start,
    value_and_gradient_of,
)
from simplex_jax._src.gradients.generalised import counts, counts_of, with_total
from simplex_jax._src.gradients.noise import fisher, variance
from simplex_jax._src.gradients.variates import (
    Reference,
    control_variate,
    full_gradient,
    mode,
    running,
)

__all__ = [
    "LogDensity",
    "LogLikelihood",
    "Reference",
    "control_variate",
    "counts",
    "counts_of",
    "density",
    "fisher",
    "full_gradient",
    "gradient_of",
    "like",
    "mode",
    "posterior",
    "precise",
    "running",
    "start",
    "value_and_gradient_of",
    "variance",
    "with_total",
]

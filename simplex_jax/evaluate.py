"""Evaluation of samples and fits: diagnostics, coherence, comparisons, plots and exports."""

from simplex_jax._src.border import show
from simplex_jax._src.evaluate import plots
from simplex_jax._src.evaluate.coherence import coherence
from simplex_jax._src.evaluate.compare import compare
from simplex_jax._src.evaluate.diagnostics import summary
from simplex_jax._src.evaluate.distances import kolmogorov_smirnov, rosenblatt
from simplex_jax._src.evaluate.exports import run_to_arviz, to_arviz, to_pyldavis
from simplex_jax._src.evaluate.fits import Topics
from simplex_jax._src.evaluate.partitions import co_clustering, point_partition
from simplex_jax._src.evaluate.stein import stein_simplex, stein_sphere
from simplex_jax._src.evaluate.windows import coherence_in_windows

__all__ = [
    "Topics",
    "co_clustering",
    "coherence",
    "coherence_in_windows",
    "compare",
    "kolmogorov_smirnov",
    "plots",
    "point_partition",
    "rosenblatt",
    "run_to_arviz",
    "stein_simplex",
    "stein_sphere",
    "summary",
    "to_arviz",
    "to_pyldavis",
]

show(__name__, plots)


def __dir__() -> list[str]:
    return __all__

"""Evaluation of samples and fits: diagnostics, coherence, comparisons, plots and exports.

`plots` needs Matplotlib, and is imported when it is first used.
"""

import importlib as _importlib
import typing as _typing
from types import ModuleType as _ModuleType

from simplex_jax._src.border import show
from simplex_jax._src.evaluate.coherence import coherence
from simplex_jax._src.evaluate.compare import compare
from simplex_jax._src.evaluate.diagnostics import summary
from simplex_jax._src.evaluate.distances import kolmogorov_smirnov, rosenblatt
from simplex_jax._src.evaluate.exports import run_to_arviz, to_arviz, to_pyldavis
from simplex_jax._src.evaluate.fits import Topics
from simplex_jax._src.evaluate.partitions import co_clustering, point_partition
from simplex_jax._src.evaluate.stein import stein_simplex, stein_sphere
from simplex_jax._src.evaluate.windows import coherence_in_windows

if _typing.TYPE_CHECKING:
    from simplex_jax._src.evaluate import plots

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


def __getattr__(name: str) -> _ModuleType:
    if name == "plots":
        module = _importlib.import_module("simplex_jax._src.evaluate.plots")
        show(module)
        return module
    raise AttributeError(f"module 'simplex_jax.evaluate' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

"""JAX-native sampling kernels for the probability simplex, and the models that need them.

Submodules and functions are imported on first use: a program that uses only kernels loads neither
the models nor their dependencies.
"""

import importlib
from typing import TYPE_CHECKING, Any

from simplex_jax.models import NAMES as _MODELS

if TYPE_CHECKING:
    from simplex_jax.base import Kernel, chains, product
    from simplex_jax.models import dpm, hdp, lda, sam
    from simplex_jax.runtime.driver import run
    from simplex_jax.runtime.to_blackjax import to_blackjax

__version__ = "0.1.0"

_EXPORTS = {
    "Kernel": "simplex_jax.base",
    "chains": "simplex_jax.base",
    "product": "simplex_jax.base",
    "run": "simplex_jax.runtime.driver",
    "to_blackjax": "simplex_jax.runtime.to_blackjax",
}
_SUBMODULES = (
    "base",
    "batches",
    "corpus",
    "draws",
    "estimators",
    "evaluate",
    "geometry",
    "gradients",
    "laws",
    "models",
    "numpyro_distributions",
    "numpyro_kernels",
    "runtime",
    "samplers",
    "schedules",
    "scikit",
    "step_sizes",
)

__all__ = ["Kernel", "chains", "dpm", "hdp", "lda", "product", "run", "sam", "to_blackjax"]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    if name in _MODELS:
        return importlib.import_module(f"simplex_jax.models.{name}")
    if name in _SUBMODULES:
        return importlib.import_module(f"simplex_jax.{name}")
    raise AttributeError(f"module 'simplex_jax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS, *_MODELS, *_SUBMODULES})

"""JAX-native sampling kernels for the probability simplex, and the models that need them.

- A kernel for your program: `samplers` (`help(simplex_jax.samplers)` says which), made with
  `estimators` or `gradients`, and run by `run` on `batches`.
- Topics or clusters of your data: `corpus.read` a file, then `lda.fit`, `hdp.fit`, `dtm.fit`,
  `sam.fit` or `dpm.fit`; `sklearn` has them as estimators.
- Kernels for numpyro models: `numpyro`.

What these names do not reach is private and may change in any version. Modules are imported when
they are first used: a program that uses only kernels loads neither the models nor what they need.
"""

import importlib as _importlib
import typing as _typing

from simplex_jax._src.version import __version__ as __version__

if _typing.TYPE_CHECKING:
    from simplex_jax import (
        batches,
        corpus,
        dpm,
        draws,
        dtm,
        errors,
        estimators,
        evaluate,
        geometry,
        gradients,
        hdp,
        lda,
        numpyro,
        runtime,
        sam,
        samplers,
        sklearn,
        step_sizes,
    )
    from simplex_jax._src.base import Kernel, bind, chains, product
    from simplex_jax._src.runtime.driver import run
    from simplex_jax._src.runtime.to_blackjax import to_blackjax
    from simplex_jax._src.runtime.to_optax import to_optax

_HOMES = {
    "Kernel": "base",
    "bind": "base",
    "chains": "base",
    "product": "base",
    "run": "runtime.driver",
    "to_blackjax": "runtime.to_blackjax",
    "to_optax": "runtime.to_optax",
}

__all__ = [
    "Kernel",
    "batches",
    "bind",
    "chains",
    "corpus",
    "dpm",
    "draws",
    "dtm",
    "errors",
    "estimators",
    "evaluate",
    "geometry",
    "gradients",
    "hdp",
    "lda",
    "numpyro",
    "product",
    "run",
    "runtime",
    "sam",
    "samplers",
    "sklearn",
    "step_sizes",
    "to_blackjax",
    "to_optax",
]


def __getattr__(name: str) -> _typing.Any:
    if name in _HOMES:
        return getattr(_importlib.import_module(f"simplex_jax._src.{_HOMES[name]}"), name)
    if name in __all__:
        return _importlib.import_module(f"simplex_jax.{name}")
    raise AttributeError(f"module 'simplex_jax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

"""Latent Dirichlet allocation: topics of a corpus, from counts to a posterior summary.

`fit` samples the topics of a corpus and returns a `Fit`, with `topics`, `proportions`, `transform`
and `save`; `Fit.load` reads it again. `effects` regresses proportions on dates and groups. `build`
makes the kernel alone.
"""

from simplex_jax._src.models.lda import Fit, build, effects, fit

__all__ = ["Fit", "build", "effects", "fit"]


def __dir__() -> list[str]:
    return __all__

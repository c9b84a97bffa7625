"""Latent Dirichlet allocation: topics of a corpus, from counts to a posterior summary."""

from simplex_jax._src.models.lda import Fit, build, effects, fit

__all__ = ["Fit", "build", "effects", "fit"]


def __dir__() -> list[str]:
    return __all__

"""Kernels for ``numpyro.infer.MCMC``, and distributions and reparametrisations of models.

Needs numpyro: ``pip install 'simplex-jax[numpyro]'``. In place of ``NUTS(model)``, `SCIR` moves
simplex and gamma sites, right where probabilities are tiny; `SGMCMC` runs a kernel of `samplers`;
`LDAGibbs` draws the labels of a topic model. `recommend` tries them on a model.
"""

try:
    import numpyro as _numpyro  # noqa: F401, only to see whether it is there
except ModuleNotFoundError as error:
    if error.name != "numpyro":
        raise
    raise ModuleNotFoundError(
        "simplex_jax.numpyro needs numpyro: pip install 'simplex-jax[numpyro]'", name="numpyro"
    ) from None

from simplex_jax._src.numpyro.chooser import recommend
from simplex_jax._src.numpyro.distributions import (
    LogDirichlet,
    VonMisesFisher,
    VonMisesFisherReparam,
)
from simplex_jax._src.numpyro.lda_gibbs import LDAGibbs, TopicCounts, WordCounts
from simplex_jax._src.numpyro.reference import GammaReference, learn_reference
from simplex_jax._src.numpyro.scir import SCIR
from simplex_jax._src.numpyro.sgmcmc import SGMCMC

__all__ = [
    "SCIR",
    "SGMCMC",
    "GammaReference",
    "LDAGibbs",
    "LogDirichlet",
    "TopicCounts",
    "VonMisesFisher",
    "VonMisesFisherReparam",
    "WordCounts",
    "learn_reference",
    "recommend",
]


def __dir__() -> list[str]:
    return __all__

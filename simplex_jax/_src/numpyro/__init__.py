"""Kernels for ``numpyro.infer.MCMC`` (``pip install numpyro``)."""

from simplex_jax._src.numpyro.charts import Sampler
from simplex_jax._src.numpyro.chooser import Candidate, Recommendation, recommend
from simplex_jax._src.numpyro.lda_gibbs import LDAGibbs, LDAGibbsState, TopicCounts, WordCounts
from simplex_jax._src.numpyro.reference import GammaReference, learn_reference
from simplex_jax._src.numpyro.scir import SCIR, State
from simplex_jax._src.numpyro.sgmcmc import SGMCMC, SGMCMCState

__all__ = [
    "SCIR",
    "SGMCMC",
    "Candidate",
    "GammaReference",
    "LDAGibbs",
    "LDAGibbsState",
    "Recommendation",
    "SGMCMCState",
    "Sampler",
    "State",
    "TopicCounts",
    "WordCounts",
    "learn_reference",
    "recommend",
]

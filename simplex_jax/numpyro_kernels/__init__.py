"""Kernels for ``numpyro.infer.MCMC`` (``pip install numpyro``)."""

from simplex_jax.numpyro_kernels.charts import Sampler
from simplex_jax.numpyro_kernels.chooser import Candidate, Recommendation, recommend
from simplex_jax.numpyro_kernels.lda_counts import TopicCounts, WordCounts
from simplex_jax.numpyro_kernels.lda_gibbs import LDAGibbs, LDAGibbsState
from simplex_jax.numpyro_kernels.moves import State
from simplex_jax.numpyro_kernels.reference import GammaReference, learn_reference
from simplex_jax.numpyro_kernels.scir import SCIR
from simplex_jax.numpyro_kernels.sgmcmc import SGMCMC, SGMCMCState

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

"""Kernels for ``numpyro.infer.MCMC`` (``pip install numpyro``)."""

from simplex_jax.numpyro_kernels.charts import Sampler
from simplex_jax.numpyro_kernels.chooser import Candidate, Recommendation, recommend
from simplex_jax.numpyro_kernels.moves import State
from simplex_jax.numpyro_kernels.reference import GammaReference, learn_reference
from simplex_jax.numpyro_kernels.scir import SCIR
from simplex_jax.numpyro_kernels.sgmcmc import SGMCMC, SGMCMCState

__all__ = [
    "SCIR",
    "SGMCMC",
    "Candidate",
    "GammaReference",
    "Recommendation",
    "SGMCMCState",
    "Sampler",
    "State",
    "learn_reference",
    "recommend",
]

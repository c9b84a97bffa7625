"""Kernels for ``numpyro.infer.MCMC`` (``pip install numpyro``)."""

from simplex_jax.numpyro_kernels.charts import Sampler
from simplex_jax.numpyro_kernels.moves import State
from simplex_jax.numpyro_kernels.scir import SCIR
from simplex_jax.numpyro_kernels.sgmcmc import SGMCMC, SGMCMCState

__all__ = ["SCIR", "SGMCMC", "SGMCMCState", "Sampler", "State"]

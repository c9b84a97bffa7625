"""Exact random variates that JAX lacks or gets wrong, in log space where they can underflow."""

from simplex_jax._src.draws.categorical import categorical
from simplex_jax._src.draws.cir import cir
from simplex_jax._src.draws.crt import crt
from simplex_jax._src.draws.gamma import log_dirichlet, loggamma
from simplex_jax._src.draws.poisson import poisson
from simplex_jax._src.draws.von_mises_fisher import von_mises_fisher

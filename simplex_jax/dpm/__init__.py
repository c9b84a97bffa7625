"""Clusters whose number is not given: the Dirichlet-process mixture, from rows to its posterior."""

from simplex_jax.dpm.assignment import assign
from simplex_jax.dpm.fitting import Fit, fit
from simplex_jax.dpm.settings import Settings, resolve
from simplex_jax.dpm.variables import Variables

__all__ = ["Fit", "Settings", "Variables", "assign", "fit", "resolve"]

"""Sampling algorithms, one per module: `State`, `Info`, `init`, `update`, `build`."""

from simplex_jax.samplers import scir, sgrld, smld

__all__ = ["scir", "sgrld", "smld"]

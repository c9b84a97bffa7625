"""JAX-native sampling kernels for the probability simplex, and the models that need them."""

from simplex_jax.runtime.driver import run

__version__ = "0.1.0"

__all__ = ["run"]

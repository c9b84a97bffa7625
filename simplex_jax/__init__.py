"""JAX-native sampling kernels for the probability simplex, and the models that need them."""

__version__ = "0.1.0"

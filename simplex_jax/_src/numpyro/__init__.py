"""Kernels for ``numpyro.infer.MCMC`` (``pip install numpyro``)."""

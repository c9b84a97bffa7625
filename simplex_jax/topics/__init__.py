"""Topics of a corpus: latent Dirichlet allocation from counts to a summary of its posterior."""

from simplex_jax.topics import memory
from simplex_jax.topics.fitting import Fit, fit
from simplex_jax.topics.proportions import shards, transform
from simplex_jax.topics.settings import Settings, resolve

__all__ = ["Fit", "Settings", "fit", "memory", "resolve", "shards", "transform"]

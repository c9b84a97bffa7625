"""Topics that are directions: the spherical admixture model, from unit vectors to its posterior."""

from simplex_jax.spherical.fitting import Fit, fit
from simplex_jax.spherical.proportions import transform
from simplex_jax.spherical.settings import Settings, resolve

__all__ = ["Fit", "Settings", "fit", "resolve", "transform"]

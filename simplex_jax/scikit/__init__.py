"""The models as scikit-learn estimators: thin, over the functional core."""

from simplex_jax.scikit.dpm import DirichletProcessMixture
from simplex_jax.scikit.lda import LDA
from simplex_jax.scikit.spherical import SphericalAdmixture

__all__ = ["LDA", "DirichletProcessMixture", "SphericalAdmixture"]

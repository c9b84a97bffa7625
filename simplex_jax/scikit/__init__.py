"""The models as scikit-learn estimators: thin, over the functional core."""

from simplex_jax.models.dpm.estimator import DirichletProcessMixture
from simplex_jax.models.hdp.estimator import HierarchicalDirichletProcess
from simplex_jax.models.lda.estimator import LDA
from simplex_jax.models.sam.estimator import SphericalAdmixture

__all__ = ["LDA", "DirichletProcessMixture", "HierarchicalDirichletProcess", "SphericalAdmixture"]

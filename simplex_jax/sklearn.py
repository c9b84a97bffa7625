"""The models as scikit-learn estimators: thin, over the functional core."""

from simplex_jax._src.models.dpm.estimator import DirichletProcessMixture
from simplex_jax._src.models.dtm.estimator import DynamicTopicModel
from simplex_jax._src.models.hdp.estimator import HierarchicalDirichletProcess
from simplex_jax._src.models.lda.estimator import LDA
from simplex_jax._src.models.sam.estimator import SphericalAdmixture

__all__ = [
    "LDA",
    "DirichletProcessMixture",
    "DynamicTopicModel",
    "HierarchicalDirichletProcess",
    "SphericalAdmixture",
]


def __dir__() -> list[str]:
    return __all__

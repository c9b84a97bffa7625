"""Step sizes: a polynomial schedule, a rule for SCIR, and adaptation of Metropolis kernels."""

from simplex_jax._src.schedules import polynomial_decay
from simplex_jax._src.step_sizes import adapt, for_inflation

__all__ = ["adapt", "for_inflation", "polynomial_decay"]


def __dir__() -> list[str]:
    return __all__

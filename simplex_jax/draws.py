"""Exact random variates that JAX lacks or gets wrong, in log space where they can underflow."""

from simplex_jax._src.draws import (
    categorical,
    cir,
    crt,
    log_dirichlet,
    loggamma,
    poisson,
    von_mises_fisher,
)

__all__ = ["categorical", "cir", "crt", "log_dirichlet", "loggamma", "poisson", "von_mises_fisher"]


def __dir__() -> list[str]:
    return __all__

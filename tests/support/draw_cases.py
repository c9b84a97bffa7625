"""All draws, with valid arguments that reach every branch and values they must refuse."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simplex_jax._src import draws


class Case(NamedTuple):
    """A draw with valid arguments of batch shape [6] that reach all its branches."""

    draw: Callable[..., jax.Array]
    arguments: dict[str, np.ndarray]
    bad: dict[str, tuple[float, ...]]  # invalid values, by argument

    @property
    def event(self) -> tuple[int, ...]:
        """Shape of one result."""
        return (4,) if self.draw is draws.log_dirichlet else ()

    def __call__(self, key: jax.Array, *values, shape: tuple[int, ...] | None = None) -> jax.Array:
        return self.draw(key, **dict(zip(self.arguments, values, strict=True)), shape=shape)


def array(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


NOT_FINITE = (np.nan, np.inf, -np.inf)
NOT_POSITIVE = (*NOT_FINITE, 0.0, -0.0, -1.0, -1e-45, 1e-45)
ROWS = np.geomspace(1e-4, 1e3, 24).astype(np.float32).reshape(6, 4)
CASES = {
    "loggamma": Case(
        draws.loggamma,
        {"shape_parameter": array(1e-6, 0.3, 1.0, 7.0, 1e4, 1e8)},
        {"shape_parameter": NOT_POSITIVE},
    ),
    "poisson": Case(
        draws.poisson,
        {"rate": array(0.0, 1e-3, 2.0, 11.0, 1e4, 1e9)},
        {"rate": (*NOT_FINITE, -1.0, -1e-30)},
    ),
    "cir": Case(
        draws.cir,
        {
            "log_theta": array(-np.inf, -1e4, -1.0, 2.0, 7.0, 18.0),
            "shape_parameter": array(0.01, 1e-6, 0.5, 3.0, 1e3, 1e8),
            "step_size": array(0.5, 50.0, 1e-6, 0.1, 1e-3, 2.0),
        },
        {
            "log_theta": (np.nan, np.inf),
            "shape_parameter": NOT_POSITIVE,
            "step_size": NOT_POSITIVE,
        },
    ),
    "crt": Case(
        draws.crt,
        {
            "concentration": array(1e-6, 0.1, 1.0, 30.0, 1e4, 300.0),
            "customers": array(1e7, 0.0, 40.0, 2e4, 2e4, 300.0),
        },
        {"concentration": NOT_POSITIVE, "customers": (*NOT_FINITE, -1.0, 1.5)},
    ),
    "log_dirichlet": Case(
        draws.log_dirichlet, {"concentration": ROWS}, {"concentration": NOT_POSITIVE}
    ),
    "categorical": Case(
        draws.categorical, {"weights": ROWS}, {"weights": (*NOT_FINITE, -1.0, -1e-30)}
    ),
}
ARGUMENTS = [(name, argument) for name, case in CASES.items() for argument in case.arguments]

SHAPE = (50, 6)

every_draw = pytest.mark.parametrize("name", CASES)
every_argument = pytest.mark.parametrize(("name", "argument"), ARGUMENTS)


def values_of(case: Case, dtype: type = np.float32) -> list[jax.Array]:
    return [jnp.asarray(value, dtype) for value in case.arguments.values()]


def assert_valid(case: Case, x: jax.Array) -> None:
    x = np.asarray(x)
    assert not np.isnan(x).any()
    if case.draw is draws.categorical:
        assert ((x >= 0) & (x < 4)).all()

"""Step sizes: a number, or a function of the number of updates done (any optax schedule)."""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.base import bind

Schedule: TypeAlias = Callable[[jax.Array], ArrayLike]
StepSize: TypeAlias = float | jax.Array | Schedule

_FIRST: Any = np.int32(0)  # step; not an array of JAX, whose operations would compile programs


def evaluate(step_size: StepSize, step: jax.Array) -> jax.Array:
    """Return the step size of the update after `step` updates; NaN unless finite and positive.

    It is in single precision or better: Metropolis tests would not match noise of a scale that is
    rounded in half precision.
    """
    h = _given("step_size", step_size, step)
    return jnp.where((h > 0) & (h < jnp.inf), h, jnp.nan)


def _given(name: str, step_size: StepSize, step: jax.Array) -> jax.Array:
    return arguments.as_float(name, step_size(step) if callable(step_size) else step_size)


def check(step_size: StepSize, *, below: float = math.inf, because: str = "") -> None:
    """Raise a ValueError unless the step size is finite, positive and stable.

    Only step 0 of a schedule is checked. It must stay positive, or the chain becomes NaN: give a
    decay an end value. At step sizes of `below` or more the kernel diverges for any data; `because`
    says why.
    """
    value = arguments.scalar("step_size", _given("step_size", step_size, _FIRST))
    if not isinstance(value, jax.core.Tracer) and float(value) >= below:
        raise ValueError(
            f"step_size must be below {below:g}: at step sizes >= {below:g} the chain "
            f"diverges{because}; it is {float(value):g}"
        )


def constant(name: str, step_size: StepSize) -> float:
    """Return the constant step size of a run, or raise a ValueError if it is a schedule."""
    if callable(step_size):
        raise ValueError(
            f"{name} must be a number in the settings of a run: pass a schedule to the `build` of "
            "the model, and its kernel to `run`"
        )
    arguments.scalar(name, step_size)
    return float(step_size)


def polynomial_decay(initial: float, tau: float, kappa: float) -> Schedule:
    r"""Return the papers' decay, :math:`h_m = h (1 + m / \tau)^{-\kappa}` after m updates.

    For SGLD to be exact in the limit, its steps must sum to infinity but their squares must not, so
    0.5 < kappa <= 1 (Welling and Teh 2011); SCIR on LDA was run with kappa = 0.33.

    Args:
        initial: First step size h, positive.
        tau: Number of updates before the decay sets in, positive.
        kappa: Exponent, at least zero.

    Raises:
        ValueError: An argument is out of range.

    Example:
        >>> from simplex_jax import step_sizes
        >>> h = step_sizes.polynomial_decay(0.5, tau=10, kappa=0.5)
        >>> float(h(0)), float(h(30))
        (0.5, 0.25)
    """
    arguments.scalar("initial", initial)
    arguments.scalar("tau", tau)
    value = arguments.as_float("kappa", kappa)
    arguments.require("kappa", value, arguments.nonnegative(value), "finite and at least 0")
    return bind(_polynomial_decay, initial, tau, kappa)


def _polynomial_decay(initial: float, tau: float, kappa: float, step: jax.Array) -> ArrayLike:
    return initial * (1 + step / tau) ** -kappa


def check_share(step_size: StepSize, name: str = "step_size") -> None:
    """Raise a ValueError unless a step size, or a schedule's first, is above 0 and at most 1."""
    value = _given(name, step_size, _FIRST)
    if value.ndim:
        raise ValueError(f"{name} must be a scalar; its shape is {value.shape}")
    share = arguments.positive(value) & (value <= 1)
    arguments.require(name, value, share, "above 0 and at most 1, the fraction replaced")

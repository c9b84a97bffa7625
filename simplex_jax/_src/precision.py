"""Full-precision matrix products; by default, accelerators round factors to 8 or 11 bits."""

import functools
from collections.abc import Callable
from typing import Any

import jax


def full_precision(function: Callable) -> Callable:
    """Return the function with all its matrix products in full precision."""

    @functools.wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        with jax.default_matmul_precision("highest"):
            return function(*arguments, **options)

    return wrapped

"""Warnings, in the name of the line of the user's program that led to them."""

import inspect
import warnings

_PACKAGES = ("simplex_jax", "jax", "numpyro")


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of a line outside of the library, and of those that call it between."""
    frame, level = inspect.currentframe(), 1
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] in _PACKAGES:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)

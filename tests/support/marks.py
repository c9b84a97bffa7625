"""Parameters of tests of which some are slow."""

import pytest


def slow_but(values, *quick):
    """The values as parameters, all slow but some; a tuple is that of several parameters."""
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else [value]),
            marks=() if value in quick else pytest.mark.slow,
        )
        for value in values
    ]

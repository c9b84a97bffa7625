"""Parameters of tests, some of them slow."""

import pytest


def slow_but(values, *quick):
    """The values as parameters, all slow except some; a tuple holds several parameters."""
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else [value]),
            marks=() if value in quick else pytest.mark.slow,
        )
        for value in values
    ]

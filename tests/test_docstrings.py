"""Runs the examples in the docstrings of every module."""

import doctest
import importlib
import pkgutil

import pytest

import simplex_jax

MODULES = [
    "simplex_jax",
    *(found.name for found in pkgutil.walk_packages(simplex_jax.__path__, "simplex_jax.")),
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(name)
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    results = doctest.testmod(module, optionflags=options)
    assert results.failed == 0, "see the output above"

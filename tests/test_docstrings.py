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
# Their examples compile whole models.
LONG = {
    "simplex_jax.base",
    "simplex_jax.baselines.sam_vi",
    "simplex_jax.dpm.fitting",
    "simplex_jax.numpyro_kernels.scir",
    "simplex_jax.scikit.dpm",
    "simplex_jax.scikit.lda",
    "simplex_jax.scikit.spherical",
    "simplex_jax.spherical.fitting",
    "simplex_jax.topics.fitting",
}


def test_long_examples_are_of_modules():
    assert set(MODULES) >= LONG


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in MODULES]
)
def test_examples(name):
    module = importlib.import_module(name)
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    results = doctest.testmod(module, optionflags=options)
    assert results.failed == 0, "see the output above"

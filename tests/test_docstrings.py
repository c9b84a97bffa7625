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
# Their examples compile programs for more than five seconds.
LONG = {
    "simplex_jax.base",
    "simplex_jax.baselines.hybrid",
    "simplex_jax.baselines.online_vb",
    "simplex_jax.baselines.sam_vi",
    "simplex_jax.dpm.fitting",
    "simplex_jax.evaluate.spherical",
    "simplex_jax.geometry.manifolds.stiefel",
    "simplex_jax.numpyro_distributions",
    "simplex_jax.numpyro_kernels.scir",
    "simplex_jax.numpyro_kernels.sgmcmc",
    "simplex_jax.samplers.gsgnht",
    "simplex_jax.samplers.recipe",
    "simplex_jax.scikit.dpm",
    "simplex_jax.scikit.lda",
    "simplex_jax.scikit.spherical",
    "simplex_jax.spherical.fitting",
    "simplex_jax.spherical.proportions",
    "simplex_jax.topics.fitting",
    "simplex_jax.topics.proportions",
    "simplex_jax.topics.tracking",
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

"""Runs the examples in the docstrings of every module."""

import doctest
import importlib
import pkgutil

import baselines
import pytest
from support.paths import ROOT

import simplex_jax

MODULES = [
    module.name
    for package in (simplex_jax, baselines)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    # Libraries that XLA calls are not modules.
    if not module.name.endswith(("._library", "._cuda"))
]
# Their examples compile programs for more than five seconds.
LONG = {
    "simplex_jax._src.models.sam",
    "simplex_jax._src.models.sam.model",
    "simplex_jax._src.models.dpm.model",
    "simplex_jax._src.models.dpm.families.gaussian",
    "simplex_jax._src.models.dpm.families.von_mises_fisher",
    "simplex_jax._src.base",
    "simplex_jax._src.numpyro.chooser",
    "baselines.hybrid",
    "baselines.online_vb",
    "simplex_jax._src.models.sam.variational",
    "simplex_jax._src.models.dpm.families.one_of",
    "simplex_jax._src.numpyro.lda_gibbs",
    "simplex_jax._src.models.dpm",
    "simplex_jax._src.geometry.manifolds.stiefel",
    "simplex_jax._src.numpyro.distributions",
    "simplex_jax._src.numpyro.reference",
    "simplex_jax._src.numpyro.scir",
    "simplex_jax._src.numpyro.sgmcmc",
    "simplex_jax._src.samplers.gsgnht",
    "simplex_jax._src.samplers.recipe",
    "simplex_jax._src.models.dpm.estimator",
    "simplex_jax._src.models.dpm.fitting",
    "simplex_jax._src.models.dtm",
    "simplex_jax._src.models.dtm.estimator",
    "simplex_jax._src.models.dtm.model",
    "simplex_jax._src.models.hdp",
    "simplex_jax._src.models.hdp.estimator",
    "simplex_jax._src.models.hdp.kernel",
    "simplex_jax._src.models.lda",
    "simplex_jax._src.models.lda.estimator",
    "simplex_jax._src.models.sam.estimator",
    "simplex_jax._src.models.sam.fitting",
    "simplex_jax._src.models.lda.fitting",
    "simplex_jax._src.models.topics.proportions",
}

# Their examples want packages that the tests do without.
NEEDS = {"simplex_jax._src.evaluate.windows": "gensim"}


def test_long_examples_are_of_modules():
    assert set(MODULES) >= LONG | NEEDS.keys()


def folders_without_init(package):
    """Folders of Python files that `walk_packages`, `help()` and type checkers pass over."""
    folders = {path.parent for path in package.rglob("*.py")}
    return sorted(folder for folder in folders if not (folder / "__init__.py").exists())


def test_every_folder_is_a_package(tmp_path):
    assert not folders_without_init(ROOT / "simplex_jax")
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "module.py").touch()
    assert folders_without_init(tmp_path / "room") == [tmp_path / "room"]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in MODULES]
)
def test_examples(name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    module = importlib.import_module(name)
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    results = doctest.testmod(module, optionflags=options)
    assert results.failed == 0, "see the output above"

"""What docs/coming_from.md says of this library holds: its blocks run, its names are there."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import pages

import simplex_jax
from simplex_jax._src import cli
from simplex_jax._src.models.dpm.options import Options, of_size
from simplex_jax.sklearn import LDA, DirichletProcessMixture, HierarchicalDirichletProcess

PAGE = "coming_from.md"
executed = partial(pages.executed, PAGE)
TEXT = (pages.DOCS / PAGE).read_text("utf-8")
LDA_TABLE, PROCESS_TABLE, MIXTURE_TABLE = (
    re.findall(r"^\| (.*?) \|", section, re.MULTILINE)
    for section in TEXT.split("\n## ")[1:4]  # the first column of each
)


@pytest.mark.slow
def test_lda():
    arguments = executed("LDA")["arguments"]
    assert len(arguments["vocab"]) == 20


@pytest.mark.slow
def test_clusters():
    tree = executed("Clusters whose number is unknown")["tree"]
    assert "alpha" in tree["posterior"]


@pytest.mark.slow
def test_multinomial():
    """Means and deviations of Dirichlet(12.5, 5.5, 3.5, 0.5), to five standard errors."""
    p = executed("Dirichlet models of PyMC and Stan")["p"]
    a = np.array([12.5, 5.5, 3.5, 0.5])
    mean = a / a.sum()
    deviation = np.sqrt(mean * (1 - mean) / (a.sum() + 1))
    error = deviation / np.sqrt(2000 * np.tanh(1.0))  # autocorrelation e^-2 of a step
    assert (np.abs(p.mean(axis=0) - mean) < 5 * error).all()
    np.testing.assert_allclose(p.std(axis=0), deviation, rtol=0.15)


@pytest.mark.slow
def test_mixture():
    """Components at -3 and 2, far enough apart for the labels to be known."""
    scope = executed("A mixture of PyMC or Stan")
    np.testing.assert_allclose(scope["weights"], np.array([31, 71]) / 102, atol=0.01)
    np.testing.assert_allclose(scope["means"], [-3, 2], atol=0.05)


@pytest.mark.slow
def test_hidden_markov_model():
    """Posterior means of both changes of state, summed over a grid, to a fifth of a deviation."""
    scope = executed("A hidden Markov model of PyMC or Stan")
    middles = (np.arange(60) + 0.5) / 60
    grid = np.meshgrid(0.02 + 0.2 * middles, 0.05 + 0.55 * middles, indexing="ij")
    p, q = (axis.ravel() for axis in grid)
    rows = np.stack([[1 - p, p], [q, 1 - q]]).transpose(2, 0, 1)
    log_density = jax.vmap(scope["log_density"], in_axes=(0, None))
    weights = np.asarray(jax.nn.softmax(log_density(jnp.asarray(rows, jnp.float32), scope["y"])))
    for values, result in ((p, scope["rows"][0, 1]), (q, scope["rows"][1, 0])):
        mean = weights @ values
        assert abs(result - mean) < 0.2 * np.sqrt(weights @ (values - mean) ** 2)


@pytest.mark.slow
def test_dirichlet_regression():
    """The coefficients that data were drawn with, to three posterior deviations."""
    scope = executed("A Dirichlet regression of PyMC or Stan")
    deviation = scope["trace"][1000:].std(axis=0)
    assert (np.abs(scope["beta"] - scope["truth"]) < 3 * deviation).all()


def test_every_block_is_run():
    assert pages.all_run(PAGE, __file__)


def test_defaults_are_those_of_the_code():
    for name, value in {"alpha": LDA().alpha, "beta": LDA().beta}.items():
        assert f"`{name}={value:g}`" in LDA_TABLE
    mixture = of_size(5_000, Options())
    assert f"`passes={mixture.steps}`" in MIXTURE_TABLE
    assert mixture.batch_size == 5_000
    assert of_size(5_000, Options(counts="subsampled")).batch_size == 1_000
    assert "`batch_size`: all, or 1,000 with subsampled counts" in MIXTURE_TABLE
    assert DirichletProcessMixture().alpha == "learn"


def test_names_of_the_first_columns_are_those_of_the_estimators_and_fits():
    for estimator, fit, table in (
        (LDA, simplex_jax.lda.Fit, LDA_TABLE),
        (HierarchicalDirichletProcess, simplex_jax.hdp.Fit, PROCESS_TABLE),
        (DirichletProcessMixture, simplex_jax.dpm.Fit, MIXTURE_TABLE),
    ):
        named = re.findall(r"`([a-z]\w*)(?:=[^`]*)?`", "\n".join(table))
        attributes = re.findall(r"^ {4}(\w+_): ", estimator.__doc__, flags=re.MULTILINE)
        options = re.findall(r'"(\w+)"', estimator.__doc__)
        has = [*estimator().get_params(), *dir(estimator), *attributes, *options, *dir(fit)]
        assert set(named) <= set(has)


def test_every_option_and_command_is_there():
    lines = re.findall(r"`simplex-jax ([a-z -]+)`", TEXT)
    assert lines
    for line in lines:
        name, *verbs = line.split()
        command = cli.main.get_command(None, name)
        assert command is not None, line
        assert set(verbs) <= set(command.commands)
    fit = cli.main.get_command(None, "lda").commands["fit"]
    options = {name for option in fit.params for name in option.opts}
    ours = re.findall(r"`(--[a-z-]+)`", "\n".join(LDA_TABLE))
    assert ours
    assert set(ours) <= options


def test_every_part_of_the_library_is_there():
    result = re.findall(r"`((?:evaluate|runtime|sklearn)(?:\.\w+)+)", TEXT)
    assert result
    for name in result:
        value = simplex_jax
        for part in name.split("."):
            value = getattr(value, part)

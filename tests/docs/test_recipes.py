"""Every block of Python in docs/recipes.md runs, and does what its text says."""

import re
import shlex
from functools import partial

import click
import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot
from support import pages

from simplex_jax._src import cli

PAGE = "recipes.md"
executed = partial(pages.executed, PAGE)


@pytest.fixture(autouse=True)
def closed():
    mpl.use("Agg")
    yield
    pyplot.close("all")


def test_scir_in_an_optax_training_loop():
    """Experts of slopes 2 and -1 are found, with weights 0.7 and 0.3, and hardly any others."""
    scope = executed("SCIR in an optax training loop")
    weights, slopes = np.asarray(scope["weights"]), np.asarray(scope["params"]["slope"])
    for slope, share in ((2.0, 0.7), (-1.0, 0.3)):
        near = np.abs(slopes - slope) < 0.2
        assert abs(weights[near].sum() - share) < 0.05


def test_many_hyperparameters_at_once():
    """Posterior means (n + alpha) / (10 + 3 alpha), to five standard errors of 2,000 steps."""
    scope = executed("Many hyperparameters at once")
    for alpha, mean in zip(scope["alphas"], scope["means"], strict=True):
        a = np.array([6, 3, 1]) + float(alpha)
        expected = a / a.sum()
        error = np.sqrt(expected * (1 - expected) / (a.sum() + 1) * 4 / 2000)
        assert (np.abs(mean - expected) < 5 * error).all()


def test_a_donated_state():
    scope = executed("A donated state")
    assert scope["first"].is_deleted()
    assert int(scope["state"].step) == 3
    assert np.isfinite(scope["state"].position).all()


@pytest.mark.slow
def test_gradients_of_something_else():
    """The gradient is that of the loss given the draw; without the cut draws refuse."""
    scope = executed("Gradients of something else in the same program")
    means, x = jnp.array([-0.5, 0.5]), scope["x"]

    def given(means):
        log_p = -((x[:, None] - means) ** 2) / 2
        return -jax.nn.logsumexp(scope["state"].position + log_p, axis=1).mean()

    np.testing.assert_allclose(scope["slopes"], jax.grad(given)(means), rtol=1e-5)
    with pytest.raises(ValueError, match="stop_gradient"):
        jax.grad(lambda m: scope["loss"](m, jax.random.key(2), scope["state"], lambda p: p)[0])(
            means
        )


def test_blackjax():
    pytest.importorskip("blackjax")
    scope = executed("A kernel as a BlackJAX sampling algorithm")
    expected = (np.array([6, 3, 1]) + 0.5) / 11.5
    assert scope["log_p"].shape == (4000, 3)
    np.testing.assert_allclose(scope["mean"], expected, atol=0.02)


@pytest.mark.slow
def test_minibatches_in_blackjax():
    """The exact posterior mean, to a fifth of its deviation."""
    pytest.importorskip("blackjax")
    scope = executed("Minibatches in BlackJAX")
    x, y = (np.asarray(scope[name], np.float64) for name in "xy")
    covariance = np.linalg.inv(x.T @ x + np.eye(2))
    deviations = np.sqrt(np.diag(covariance))
    assert (np.abs(scope["mean"] - covariance @ x.T @ y) < 0.2 * deviations).all()


@pytest.mark.slow
def test_methods_of_sgmcmcjax():
    """Deviations as stated and as in theory, of a linear recursion, to three standard errors."""
    pytest.importorskip("blackjax")
    scope = executed("The methods of SGMCMCJax in BlackJAX")
    x, y, mode = (np.asarray(scope[name], np.float64) for name in ("x", "y", "mode"))
    h, precision = 1e-4, 1 + x @ x
    noise = 1000**2 / 50 * np.var(x * (y - x * mode))
    euler = 1 / np.sqrt(1 - h * precision / 2)
    excess = scope["excess"]
    assert excess["standard"] == pytest.approx(euler * np.sqrt(1 + h * noise / 2), rel=0.06)
    assert excess["standard"] == pytest.approx(1.5, abs=0.1)
    for name in ("control variates", "SVRG"):
        assert excess[name] == pytest.approx(euler, rel=0.06)
        assert excess[name] == pytest.approx(1.03, abs=0.02)


@pytest.mark.slow
def test_equinox():
    """The network's mean prediction is nearer to the sine than the first guess by far."""
    pytest.importorskip("equinox")
    scope = executed("Parameters of an equinox module")
    truth = np.sin(2 * np.asarray(scope["x"]))
    error = np.sqrt(np.mean((scope["predicted"] - truth) ** 2))
    first = np.sqrt(np.mean((scope["samples"][0] - truth) ** 2))
    assert error < 0.15
    assert error < first


@pytest.mark.slow
def test_convergence():
    scope = executed("Has it converged, and to the right distribution?")
    assert abs(scope["found"]["rare"]["rhat"] - 1) < 0.02
    assert scope["p_value"] > 1e-3
    assert scope["distance"] < 0.05


@pytest.mark.slow
def test_pictures():
    executed("Plots")
    assert len(pyplot.get_fignums()) == 4
    for number in pyplot.get_fignums():
        pyplot.figure(number).canvas.draw()


@pytest.mark.slow
def test_how_many_topics():
    one, two = executed("How many topics?")["entries"]
    assert two.heldout.mean() < 0.7 * one.heldout.mean()


@pytest.mark.slow
def test_topics_with_given_words():
    assert executed("Topics with given words")["held"] == [0, 0, 1, 1]


@pytest.mark.slow
def test_coherence_in_windows():
    pytest.importorskip("gensim")
    assert (executed("Coherence over sliding windows")["scores"] > 0.5).all()


@pytest.mark.slow
def test_topics_in_gensim():
    pytest.importorskip("gensim")
    scope = executed("Topics in gensim")
    np.testing.assert_allclose(scope["model"].get_topics(), scope["fitted"].topics, rtol=1e-4)


@pytest.mark.slow
def test_topics_by_covariates():
    """Shares sum to one or, where chains have different topics, near; some rise, some fall."""
    scope = executed("Topics by covariates, and over time")
    result, change = scope["found"], scope["change"]
    assert (abs(result.mean.sum(axis=0)[:-1] - 1) < 0.25).all()
    assert (result.lower[:, change] > 0.02).any()
    assert (result.upper[:, change] < -0.02).any()
    assert len(scope["figure"].axes) == 10
    assert {"year=1910-1919", "year=2000-2009", "year: 2000-2009 - 1910-1919"} <= {
        record["term"] for record in scope["records"]
    }


def test_commands_are_understood():
    """Options and values only; test_cli_effects runs the command."""
    lines = re.findall(r"^simplex-jax (.*)$", pages.text(PAGE), flags=re.MULTILINE)
    assert lines
    for line in lines:
        name, *arguments = shlex.split(line)
        pages.parse(cli.main.get_command(click.Context(cli.main), name), arguments)


@pytest.mark.slow
def test_clusters_of_a_mixed_table():
    scope = executed("Clusters of a mixed table with missing cells")
    sizes = np.sort(scope["fitted"].clusters.sizes)[::-1]
    assert np.abs(sizes[:3] - [120, 80, 50]).max() < 15
    assert scope["clusters"][1, 1] > 0.9


def test_every_recipe_is_run():
    assert pages.all_run(PAGE, __file__)

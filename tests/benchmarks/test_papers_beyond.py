"""Experiments that the papers name and did not make: their parts, and that the scripts run."""

import csv
import importlib

import jax.numpy as jnp
import numpy as np
import pytest
from support.paths import BENCHMARKS

from simplex_jax._src import estimators
from simplex_jax._src.samplers import smld


@pytest.fixture(autouse=True)
def scripts_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS / "papers"))


def run(name, out):
    """Run a script, and return its table."""
    script = importlib.import_module(name)
    script.main(["--quick", "--out", str(out), "--seed", "3"], standalone_mode=False)
    assert (out / "figure.png").stat().st_size > 2_000
    with open(out / "table.csv", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_sgrld_puts_mass_on_words_of_no_document(tmp_path):
    result = {(row["words"], row["method"]): row for row in run("scir_vocabulary", tmp_path)}
    unseen = {name: float(result["1000", name]["unseen"]) for name in ("SGRLD", "SCIR")}
    assert unseen["SGRLD"] > 1.5 * unseen["SCIR"]
    assert float(result["1000", "truth"]["perplexity"]) < float(
        result["1000", "SCIR"]["perplexity"]
    )


@pytest.mark.slow
def test_projected_langevin_is_biased_on_the_ball(tmp_path):
    rows = [row for row in run("mld_variants", tmp_path) if row["part"] == "ball"]
    bias = {row["name"]: float(row["bias"]) for row in rows}
    assert bias["PLMC"] > 0.15
    assert bias["MLD, Metropolis-adjusted"] < 0.1


@pytest.mark.slow
def test_groups_of_directions_are_found(tmp_path):
    agreement = {row["method"]: float(row["NMI"]) for row in run("dpm_directions", tmp_path)}
    assert min(agreement.values()) > 0.7


def test_approximations_are_inverted():
    variants = importlib.import_module("mld_variants")
    weights = jnp.array([0.6, 1.0, 3.0, 40.0])  # those of the second order are above 1/2
    for approximation in variants.APPROXIMATIONS.values():
        y = approximation.inverse(weights)
        np.testing.assert_allclose(approximation.of(y), weights, rtol=1e-5)
        assert approximation.inverse(jnp.ones(())) == pytest.approx(0, abs=1e-6)
        np.testing.assert_allclose(approximation.of(jnp.array(0.01)), 1.01, atol=1e-4)


def test_one_step_has_the_drift_and_the_noise_of_the_library(getkey):
    """The mean and covariance of y after a step, of 20,000 chains; standard errors are below 1%."""
    variants = importlib.import_module("mld_variants")
    alpha, counts, h = jnp.array([0.5, 0.3, 1.0]), jnp.array([1.0, 2.0, 5.0]), 0.01
    kernels = (
        variants.approximate("max(0, 1 + y), as the paper", estimators.multinomial(1), alpha, h),
        smld.build(estimators.multinomial(1), alpha, h, reference=-1, linearised=True),
    )
    start = jnp.broadcast_to(jnp.array([0.2, 0.3, 0.5]), (20_000, 3))
    batch = jnp.broadcast_to(counts, (1, 20_000, 3))
    moments = []
    for kernel in kernels:
        state = kernel.update(getkey(), kernel.init(getkey(), start), batch)[0]
        moments.append((state.dual.mean(axis=0), jnp.cov(state.dual.T)))
    np.testing.assert_allclose(*(mean for mean, _ in moments), atol=0.01)
    np.testing.assert_allclose(*(covariance for _, covariance in moments), atol=1.5e-3)
    assert moments[0][1][2, 2] == 0


@pytest.mark.parametrize("law", ["normal", "like a Dirichlet"])
@pytest.mark.parametrize("dimension", [2, 10])
def test_quadrature_of_the_ball(law, dimension, seed):
    """Against weighted uniform points of the ball, within 6 standard errors."""
    variants = importlib.import_module("mld_variants")
    generator, n = np.random.default_rng(seed), 400_000
    x = generator.standard_normal((n, dimension))
    x *= generator.uniform(size=(n, 1)) ** (1 / dimension) / np.linalg.norm(x, axis=1)[:, None]
    square = (x**2).sum(axis=1)
    if law == "normal":
        log_p = -(square - 2 * variants.CENTRE * x[:, 0]) / (2 * variants.WIDTH**2)
    else:
        log_p = np.log1p(-square) + variants.PULL * x[:, 0]
    weight = np.exp(log_p - log_p.max())
    rule = variants.quadrature(law, dimension)
    for values, exact in (
        (x[:, 0], rule.mass @ rule.height),
        (square, rule.mass @ (rule.height**2 + rule.ring**2)),
    ):
        mean = (weight @ values) / weight.sum()
        error = np.sqrt(((weight * (values - mean)) ** 2).sum()) / weight.sum()
        assert abs(mean - exact) < 6 * error


def test_drawn_documents_have_their_topics():
    vocabulary = importlib.import_module("scir_vocabulary")
    corpus = vocabulary.drawn(0, 300, 4, 50)
    assert (corpus.counts.sum(axis=1) == vocabulary.LENGTH).all()
    mean = np.asarray(corpus.counts.sum(axis=0)) / corpus.counts.sum()
    nearest = np.exp(corpus.log_topics).mean(axis=0)
    np.testing.assert_allclose(mean, nearest, atol=0.03)

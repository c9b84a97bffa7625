"""Held-out log densities of the spherical admixture model, and learned concentrations."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy import special
from support import few_topics, tiny_sam
from support import statistics_checks as checks
from support.marks import slow_but

from simplex_jax._src.geometry import von_mises_fisher as vmf
from simplex_jax._src.models.sam import density, joint
from simplex_jax._src.models.sam.joint import Evidence

TOPICS = np.array([[0.9, 0.3, 0.3, 0.1], [-0.1, 0.2, 0.7, 0.7]])
TOPICS /= np.linalg.norm(TOPICS, axis=1, keepdims=True)


@pytest.mark.slow
def test_importance_sampling_gives_the_integral(seed: int, monkeypatch) -> None:
    """Against quadrature, document by document and in their order. False alarms: 1e-3."""
    monkeypatch.setattr(joint, "_BLOCK", 4 * tiny_sam.V)
    rows = tiny_sam.vectors()
    rows[2] = np.eye(4)[0]  # fewest nonzeros: first on the device
    documents = joint.to_device(sp.csr_array(rows))
    exact = tiny_sam.log_likelihood(TOPICS, rows)
    topics = jnp.asarray(TOPICS, jnp.float32)
    numbers = tiny_sam.ALPHA, tiny_sam.KAPPA1
    p = {}
    for name in ("importance", "prior"):
        estimate = partial(density.estimate, method=name)
        result = estimate(jax.random.key(seed), topics, documents, *numbers, samples=4000)
        assert np.all((result.ess > 1000) & (result.ess <= 4000.5))
        for d in range(tiny_sam.D):
            error = np.expm1(result.log_p[d] - exact[d])
            p[name, d] = checks.mean_z(np.array([error]), 0.0, 1 / result.ess[d])
        wrong = estimate(
            jax.random.key(seed), topics, documents, 1.1 * numbers[0], numbers[1], 4000
        )
        assert np.max(np.abs(wrong.log_p - exact)) > 0.005
    assert not checks.family(p)


def test_densities_of_documents_of_few_topics_are_right() -> None:
    """Draws about one mode alone left out the others: the mean was 1 nat too low."""
    topics, rows = few_topics.topics_and_rows()
    _, exact = few_topics.exactly(topics, rows)
    constant = vmf.log_normaliser(few_topics.WORDS, few_topics.KAPPA)
    documents = joint.to_device(sp.csr_array(rows))
    numbers = few_topics.ALPHA, few_topics.KAPPA
    result = density.estimate(jax.random.key(0), jnp.asarray(topics), documents, *numbers)
    assert abs(np.mean(result.log_p - exact - float(constant))) < 0.1


def test_the_perplexity_is_minus_the_mean() -> None:
    assert density.log_perplexity([-1.0, -3.0]) == 2.0


def test_arguments_of_the_evaluation_are_checked() -> None:
    documents = tiny_sam.documents()
    topics = jnp.asarray(TOPICS, jnp.float32)
    for options, name in [
        ({"alpha": 0.0}, "alpha"),
        ({"kappa1": -1.0}, "kappa1"),
        ({"samples": 0}, "samples"),
        ({"topics": 2 * topics}, "lengths of topics"),
        ({"topics": topics[0]}, "unit rows"),
        ({"topics": jnp.eye(2)}, "documents have word 3, and there are 2 words"),
    ]:
        given = {"topics": topics, "alpha": 1.0, "kappa1": 2.0} | options
        with pytest.raises(ValueError, match=name):
            density.estimate(jax.random.key(0), documents=documents, **given)


def log_conditional(
    name: str, x: np.ndarray, fit: float, log_theta: float, shape: float
) -> np.ndarray:
    """The log density of a concentration given topics and proportions, in log x."""
    d, k, v = 40, tiny_sam.K, tiny_sam.V
    mean = {"alpha": tiny_sam.ALPHA, "kappa1": tiny_sam.KAPPA1, "sigma": tiny_sam.SIGMA}[name]
    prior = shape * (np.log(x) - x / mean)
    if name == "alpha":
        known = special.gammaln(k * x) - k * special.gammaln(x) + k * x * log_theta
        return prior + d * known
    if name == "kappa1":
        return prior + d * (tiny_sam.log_normaliser(x) + x * fit)
    centre = tiny_sam.KAPPA0 * tiny_sam.MEAN + x[:, None] * TOPICS.sum(0)
    length = np.linalg.norm(centre, axis=1)
    return prior + k * tiny_sam.log_normaliser(x, v) - tiny_sam.log_normaliser(length, v)


@pytest.mark.parametrize("shape", [1.0, 40.0])
@pytest.mark.parametrize("name", slow_but(joint.LEARN, "alpha"))
def test_concentrations_move_by_their_conditionals(name: str, shape: float, seed: int) -> None:
    """Exact draws stay exact, but not with other evidence or prior. False alarms: 1e-3."""
    fit, log_theta = 0.8, -1.0
    x = np.exp(np.linspace(-8, 8, 20_001))
    log_p = log_conditional(name, x, fit, log_theta, shape)
    weights = special.softmax(log_p)
    mean, second = weights @ np.log(x), weights @ np.log(x) ** 2
    fourth = weights @ (np.log(x) - mean) ** 4
    rng = np.random.default_rng(seed)
    hyper, copies = tiny_sam.hyper(), 5000
    topics = jnp.asarray(TOPICS, jnp.float32)

    @partial(jax.jit, static_argnums=4)
    def move(key, start, known, prior, shape=shape):
        def one(key, value):
            state = hyper._replace(**{name: value})
            moved = joint.draw_concentrations(
                key, state, prior, topics, known, 40, (name,), (shape,)
            )
            return getattr(moved, name)

        return jax.vmap(one)(jax.random.split(key, copies), start)

    start = jnp.asarray(x[rng.choice(x.size, copies, p=weights)], jnp.float32)
    known = Evidence(jnp.float32(fit), jnp.float32(log_theta))
    key = jax.random.key(seed)

    def p_values(values) -> dict[str, float]:
        logs, variance = np.log(np.asarray(values, np.float64)), second - mean**2
        return {
            "mean": checks.mean_z(logs, mean, variance),
            "variance": checks.variance_z(logs, mean, variance, fourth),
        }

    moved = move(key, start, known, hyper)
    assert np.mean(np.asarray(moved) != np.asarray(start)) > 0.7
    assert not checks.family(p_values(moved))
    other = Evidence(jnp.float32(fit * 0.97), jnp.float32(log_theta * 1.03))
    wrong = {"sigma": (known, hyper._replace(sigma=2 * hyper.sigma))}.get(name, (other, hyper))
    assert checks.family(p_values(move(key, start, *wrong)))
    if name == "alpha" and shape != 1:
        assert checks.family(p_values(move(key, start, known, hyper, 1.0)))


@pytest.mark.parametrize(
    ("prior", "fit"), [(1e8, 0.8), pytest.param(2.0, 1 - 1e-6, marks=pytest.mark.slow)]
)
def test_concentrations_far_from_the_prior_mean_are_found(
    prior: float, fit: float, seed: int
) -> None:
    """Chains from the prior mean end in the conditional law. False alarms: 1e-3 for each case."""
    size, copies = 10_000, 2000
    fit = float(np.float32(fit))
    hyper, known = tiny_sam.hyper(kappa1=prior), Evidence(jnp.float32(fit), jnp.float32(-1.0))
    topics = jnp.asarray(TOPICS, jnp.float32)

    def moved(key: jax.Array) -> jax.Array:
        def once(i: int, state):
            at = jax.random.fold_in(key, i)
            return joint.draw_concentrations(
                at, state, hyper, topics, known, size, ("kappa1",), (1.0,)
            )

        return jax.lax.fori_loop(0, 8, once, hyper).kappa1

    logs = np.log(
        np.asarray(jax.jit(jax.vmap(moved))(jax.random.split(jax.random.key(seed), copies)))
    )
    guess = np.log(1.5 * size / (size * (1 - fit) + 1 / prior))
    u = guess + np.linspace(-1, 1, 20_001)
    x = np.exp(u)
    weights = special.softmax(u - x / prior + size * (tiny_sam.log_normaliser(x) + x * fit))
    mean = weights @ u
    variance, fourth = weights @ (u - mean) ** 2, weights @ (u - mean) ** 4
    assert not checks.family(
        {
            "mean": checks.mean_z(logs, mean, variance),
            "variance": checks.variance_z(logs, mean, variance, fourth),
        }
    )

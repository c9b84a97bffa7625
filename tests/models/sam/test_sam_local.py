"""Topic proportions given topics: Laplace's approximation, and the samplers against quadrature."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy import special
from support import few_topics
from support import statistics_checks as checks
from support.marks import slow_but

from simplex_jax._src.models import sam
from simplex_jax._src.models.sam import local
from simplex_jax._src.models.sam.local import Local, Target

Key = Callable[[], jax.Array]


def unit_vectors(k: int, copies: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Topics at unequal angles, and copies of a document nearer to some than to others."""
    rng = np.random.default_rng(seed)
    topics = rng.normal(size=(k, 6)) + 0.4
    topics /= np.linalg.norm(topics, axis=1, keepdims=True)
    document = topics.T @ np.linspace(0.2, 1, k) + 0.3 * rng.normal(size=6)
    document /= np.linalg.norm(document)
    return topics, np.broadcast_to(document, (copies, 6))


def law_of(k: int, copies: int, alpha: float = 1.4, kappa: float = 9.0, seed: int = 3) -> Target:
    """The law of the proportions of these copies."""
    topics, rows = unit_vectors(k, copies, seed)
    numbers = jnp.float32(alpha), jnp.float32(kappa)
    return local.target_of(jnp.asarray(topics, jnp.float32), jnp.asarray(rows), *numbers)


def density(law: Target, theta: np.ndarray) -> np.ndarray:
    """The density on the simplex, up to a factor, in float64, theta [..., K]."""
    c, gram = (np.asarray(x, np.float64) for x in (law.cosines[0], law.gram))
    fit = theta @ c / np.sqrt(np.einsum("...k,kl,...l->...", theta, gram, theta))
    return np.exp(float(law.kappa) * fit) * np.prod(theta ** (float(law.alpha) - 1), axis=-1)


def grid(law: Target, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Proportions at midpoints, and their probabilities."""
    x = (np.arange(count) + 0.5) / count
    if law.gram.shape[0] == 2:
        theta = np.stack([x, 1 - x], axis=-1)
    else:  # the unit square onto the simplex
        a, b = np.meshgrid(x, x, indexing="ij")
        theta = np.stack([a, (1 - a) * b, (1 - a) * (1 - b)], axis=-1)
    p = density(law, theta) * (1 if law.gram.shape[0] == 2 else theta[..., 1] + theta[..., 2])
    return theta.reshape(-1, theta.shape[-1]), p.ravel() / p.sum()


def p_values(law: Target, theta: np.ndarray) -> dict[str, float]:
    """Mean and variance of every proportion, and the distribution of the first."""
    points, weights = grid(law, 4000 if theta.shape[1] == 2 else 400)
    result = {}
    for k in range(theta.shape[1]):
        mean = float(weights @ points[:, k])
        square = (points[:, k] - mean) ** 2
        variance, fourth = float(weights @ square), float(weights @ square**2)
        result[f"mean {k}"] = checks.mean_z(theta[:, k], mean, variance)
        result[f"variance {k}"] = checks.variance_z(theta[:, k], mean, variance, fourth)
    bins = np.linspace(0, 1, 21)
    expected = np.histogram(points[:, 0], bins, weights=weights)[0]
    result["bins"] = checks.chi_square(np.histogram(theta[:, 0], bins)[0], expected)
    return result


def sample(
    key: jax.Array, law: Target, local_step: Any, start: local.Start | None = None
) -> np.ndarray:
    ratios, _ = jax.jit(local_step.draw)(key, law, start)
    return np.asarray(jax.nn.softmax(ratios[:, -1]), np.float64)


def test_factors_of_small_matrices(getkey: Key) -> None:
    x = np.asarray(jax.random.normal(getkey(), (7, 5, 5)), np.float64)
    matrices = np.einsum("bij,bkj->bik", x, x) + 0.1 * np.eye(5)
    matrices[3] -= 5 * np.eye(5)
    factor, inverse = (np.asarray(a) for a in local.cholesky(jnp.asarray(matrices, jnp.float32)))
    assert np.isnan(factor[3]).any()
    assert np.isfinite(np.delete(factor, 3, 0)).all()
    for i in (0, 6):
        np.testing.assert_allclose(factor[i], np.linalg.cholesky(matrices[i]), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(factor[i] @ inverse[i], np.eye(5), atol=1e-4)


@pytest.mark.slow
def test_slopes_are_the_derivatives(getkey: Key) -> None:
    law = law_of(3, 5)
    ratios = jax.random.normal(getkey(), (5, 3))
    point = local.derivatives_at(law, ratios)
    gradient, (curvature, convex) = (f(law, point) for f in (local.gradient, local.curvature))

    def total(y: jax.Array) -> jax.Array:
        return jnp.sum(local.log_posterior(law, y))

    np.testing.assert_allclose(gradient, jax.grad(total)(ratios), atol=1e-4)
    hessian = jnp.einsum("bkbl->bkl", jax.hessian(total)(ratios))
    np.testing.assert_allclose(curvature, -hessian, atol=1e-4)
    x = jax.random.normal(getkey(), (5, 3))
    result = local.curvature_times(law, point, x)
    np.testing.assert_allclose(result, jnp.einsum("bkl,bl->bk", curvature, x), atol=1e-4)
    assert float(jnp.min(jnp.linalg.eigvalsh(convex))) > -1e-4


@pytest.mark.slow
@pytest.mark.parametrize("copies", [1, 37, 300])
def test_newton_finds_the_mode_from_where_the_density_is_not_concave(copies: int) -> None:
    """Concentrated documents: at equal proportions Cholesky's factor does not exist."""
    law = law_of(12, copies, alpha=5.0, kappa=3e4)
    mode = jax.jit(local.approximate)(law).mode
    point = local.derivatives_at(law, mode)
    gradient = np.asarray(local.gradient(law, point), np.float64)
    curvature = np.asarray(local.curvature(law, point)[0], np.float64)
    newton = np.linalg.solve(curvature + 1 / 12, gradient[..., None])[..., 0]
    assert np.max(np.sum(newton * gradient, axis=-1)) < 1e-2
    assert float(jnp.max(jnp.abs(jnp.sum(mode, axis=-1)))) < 1e-4


@pytest.mark.parametrize("k", slow_but([2, 3], 2))
@pytest.mark.parametrize("method", ["hmc", "laplace"])
def test_samplers_draw_what_quadrature_says(method: str, k: int, seed: int) -> None:
    """Every method with its defaults. False alarms: 1e-3 for each."""
    law = law_of(k, 20_000)
    theta = sample(jax.random.key(seed), law, Local(method=method, burn_in=12))
    assert not checks.family(p_values(law, theta))
    wrong = {
        "alpha": law._replace(alpha=law.alpha * 1.1),
        "kappa": law._replace(kappa=law.kappa * 1.1),
        "jacobian": law._replace(alpha=law.alpha - 1 + 0.6),
        "gram": law._replace(gram=law.gram * (1 + 0.2 * jnp.eye(k))),
    }
    for name, mutant in wrong.items():
        assert checks.family(p_values(mutant, theta)), name


@pytest.mark.slow
@pytest.mark.parametrize("method", local.METHODS)
def test_one_step_leaves_exact_draws_exact(method: str, seed: int) -> None:
    """False alarms: 1e-3. A step with another temperature, or without the test, is found out."""
    law = law_of(2, 20_000)
    points, weights = grid(law, 4000)
    rng = np.random.default_rng(seed)
    exact = points[rng.choice(len(points), 20_000, p=weights)]
    ratios = np.log(exact) - np.log(exact).mean(axis=-1, keepdims=True)
    start = local.Start(jnp.asarray(ratios, jnp.float32))
    local_step = Local(method=method, burn_in=2)
    key = jax.random.key(seed)
    moved = sample(key, law, local_step, start)
    assert np.mean(np.abs(moved - exact) > 1e-3) > 0.5
    assert not checks.family(p_values(law, moved))
    hotter = law._replace(alpha=law.alpha * 0.8, kappa=law.kappa * 0.8)
    assert checks.family(p_values(law, sample(key, hotter, local_step, start)))


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 3])
def test_proposals_are_what_their_density_says(k: int, getkey: Key) -> None:
    """The mean of p / q is the integral of p: known by quadrature. False alarms: 1e-6."""
    law = law_of(k, 1)
    fitted = local.approximate(law)
    ratios = local.draw_proposals(getkey(), fitted, (20_000,))
    assert float(jnp.max(jnp.abs(jnp.sum(ratios, axis=-1)))) < 1e-4
    log_w = local.log_weights(law, fitted, ratios) + local.log_constant(law)
    w = np.exp(np.asarray(log_w, np.float64)[:, 0])
    exact = integral(law)
    error = w.std() / np.sqrt(w.size)
    assert abs(w.mean() - exact) < 5 * error
    assert w.std() / w.mean() < 0.9
    # Log-ratios to the last proportion are sqrt(K) times as dense, and not K or 1 times.
    assert abs(w.mean() * np.sqrt(k) - exact) > 50 * error
    assert abs(w.mean() / np.sqrt(k) - exact) > 50 * error


def integral(law: Target) -> float:
    """The integral of exp(kappa fit) over the Dirichlet law, by midpoints."""
    k = law.gram.shape[0]
    x = (np.arange(20_000 if k == 2 else 700) + 0.5) / (20_000 if k == 2 else 700)
    if k == 2:
        theta, volume = np.stack([x, 1 - x], axis=-1), 1.0
    else:
        a, b = np.meshgrid(x, x, indexing="ij")
        theta, volume = np.stack([a, (1 - a) * b, (1 - a) * (1 - b)], axis=-1), 1 - a
    alpha = float(law.alpha)
    constant = special.gammaln(k * alpha) - k * special.gammaln(alpha)
    return float(np.mean(density(law, theta) * volume) * np.exp(constant))


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 3])
def test_transform_gives_the_posterior_mean(k: int, seed: int) -> None:
    """Of copies of a document, by quadrature, not of a constant a tenth off. False alarms: 1e-3."""
    copies, told = 1_000, {"alpha": 1.4, "kappa1": 9.0}
    topics, rows = unit_vectors(k, copies)
    points, weights = grid(law_of(k, 1), 4000 if k == 2 else 400)
    exact = weights @ points

    def p_values(**options: float) -> dict[int, float]:
        result = sam.transform(topics, sp.csr_array(rows), seed=seed, **options)
        result = np.asarray(result, np.float64)
        return {j: checks.mean_z(result[:, j], exact[j], result[:, j].var()) for j in range(k)}

    assert not checks.family(p_values(**told))
    for name, value in told.items():
        assert checks.family(p_values(**told | {name: 1.1 * value})), name


def test_shares_of_few_topics_are_right() -> None:
    """A chain used to stay with the topics of the mode: it was 0.08 off, and 0.47 at worst."""
    topics, rows = few_topics.topics_and_rows()
    exact, _ = few_topics.exactly(topics, rows)
    options = {"alpha": few_topics.ALPHA, "kappa1": few_topics.KAPPA}
    error = sam.transform(topics, sp.csr_array(rows), **options) - exact
    assert np.sqrt(np.mean(error**2)) < 0.045


def test_an_exchange_leaves_exact_draws_exact(seed: int) -> None:
    """False alarms: 1e-3. An exchange by another law is found out."""
    law = law_of(3, 20_000, alpha=0.3)
    rng = np.random.default_rng(seed)
    points = rng.dirichlet([0.3] * 3, 1_000_000)
    weights = density(law._replace(alpha=jnp.ones(())), points)
    weights /= weights.sum()
    ratios = jnp.asarray(np.log(points[rng.choice(len(points), 20_000, p=weights)]), jnp.float32)

    def p_values(law: Target) -> tuple[float, dict[int, float]]:
        log_density = partial(local.log_posterior, law)
        start = local._point(log_density, ratios)
        moved = local._exchange(jax.random.key(seed), log_density, start).position
        theta = np.asarray(jax.nn.softmax(moved), np.float64)
        mean = weights @ points
        variance = weights @ (points - mean) ** 2
        result = {k: checks.mean_z(theta[:, k], mean[k], variance[k]) for k in range(3)}
        return float(jnp.mean(jnp.any(moved != ratios, axis=-1))), result

    moves, result = p_values(law)
    assert moves > 0.2
    assert not checks.family(result)
    assert checks.family(p_values(law._replace(kappa=0.7 * law.kappa))[1])


def test_settings_out_of_range_are_named() -> None:
    for local_step, name in [
        (Local(method="gibbs"), "method"),
        (Local(samples=0), "samples"),
        (Local(burn_in=-1), "burn_in"),
        (Local(step_size=0.0), "step_size"),
        (Local(method="laplace", step_size=3.0), "step_size is not used"),
        (Local(method="laplace", num_steps=9), "num_steps is not used"),
    ]:
        with pytest.raises(ValueError, match=name):
            local_step.check()

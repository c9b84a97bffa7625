"""The Dirichlet law of log-probabilities."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.distributions import biject_to
from numpyro.infer import MCMC, NUTS
from scipy import special

from simplex_jax._src.numpyro.distributions import LogDirichlet, LogRatioTransform, log_simplex

ALPHA = jnp.array([[0.3, 2.0, 1.0, 0.7], [4.0, 0.5, 1.5, 1.0]])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "concentration"), [(2, 1e-4), (100_000, 1e-4), (100_000, 0.01), (100_000, 1e4)]
)
def test_own_draws_have_a_finite_density(size, concentration) -> None:
    law = LogDirichlet(jnp.full(size, concentration))
    y = law.sample(jax.random.key(0), (3,))
    assert y.dtype == jnp.float32
    assert law.support(y).all()
    assert jnp.isfinite(law.log_prob(y)).all()
    gradient = jax.grad(lambda a: LogDirichlet(jnp.full(size, a)).log_prob(y).sum())(concentration)
    assert jnp.isfinite(gradient)


@pytest.mark.slow
def test_the_protocol() -> None:
    law = LogDirichlet(ALPHA)
    assert (law.batch_shape, law.event_shape) == ((2,), (4,))
    y = law.sample(jax.random.key(0), (20_000,))
    assert y.shape == (20_000, 2, 4)
    assert law.expand((5, 2)).sample(jax.random.key(1)).shape == (5, 2, 4)
    assert law.to_event(1).log_prob(y).shape == (20_000,)
    assert LogDirichlet.infer_shapes((2, 4)) == law.infer_shapes((2, 4)) == ((2,), (4,))
    error = np.asarray(y.mean(axis=0) - law.mean) / np.sqrt(law.variance / len(y))
    assert np.abs(error).max() < 5
    ratio = y.var(axis=0) / law.variance
    assert np.abs(ratio - 1).max() < 0.1
    assert jax.tree.structure(law) == jax.tree.structure(LogDirichlet(2 * ALPHA))
    assert not log_simplex(jnp.zeros(3))
    assert log_simplex(log_simplex.feasible_like(jnp.zeros(3)))
    with pytest.raises(ValueError, match="length K"):
        LogDirichlet(1.0)
    with pytest.raises(ValueError, match="invalid concentration"):
        LogDirichlet(-ALPHA, validate_args=True)


def test_the_density_is_that_of_the_dirichlet_law_in_log_ratios() -> None:
    """The Jacobian of probabilities by log ratios is the product of all probabilities."""
    y = LogDirichlet(ALPHA).sample(jax.random.key(1))
    expected = dist.Dirichlet(ALPHA).log_prob(jnp.exp(y)) + y.sum(axis=-1)
    np.testing.assert_allclose(LogDirichlet(ALPHA).log_prob(y), expected, rtol=1e-5)


def test_the_density_keeps_its_digits_at_large_concentrations() -> None:
    """In float32, where the gamma functions that it is made of are rounded to 1."""
    alpha = np.float32(1e4) * np.linspace(0.5, 1.5, 100, dtype=np.float32)
    y = np.log(np.random.default_rng(0).dirichlet(alpha)).astype(np.float32)
    exact = special.gammaln(alpha.sum(dtype=float)) - special.gammaln(alpha.astype(float)).sum()
    exact += (alpha.astype(float) * y).sum()
    assert abs(float(LogDirichlet(alpha).log_prob(y)) - exact) < 0.05


def test_a_share_that_underflows_leaves_the_density_finite() -> None:
    """A concentration that another sparse site makes may be the smallest normal number."""
    alpha, y = jnp.array([1.2e-38, 5.0]), jnp.array([-1e3, 0.0])
    density, slope = jax.value_and_grad(lambda a: LogDirichlet(a).log_prob(y))(alpha)
    np.testing.assert_allclose(density, np.log(1.2e-38), rtol=1e-4)
    assert np.isfinite(slope).all()


def test_the_transform() -> None:
    """It is an isometry of log ratios, up to which its Jacobian is constant, and goes back."""
    transform = biject_to(LogDirichlet(ALPHA).support)
    assert transform == LogRatioTransform()
    x = jax.random.normal(jax.random.key(2), (3, 4))
    y = transform(x)
    assert log_simplex(y).all()
    np.testing.assert_allclose(transform.inv(y), x, rtol=1e-4, atol=1e-5)
    assert transform.forward_shape((3, 4)) == (3, 5)
    assert transform.inverse_shape((3, 5)) == (3, 4)

    def ratios(x):
        y = transform(x)
        return y[:-1] - y[-1]

    result = transform.log_abs_det_jacobian(x, y)
    slope = jnp.linalg.slogdet(jax.vmap(jax.jacobian(ratios))(x))[1]
    np.testing.assert_allclose(result, slope, rtol=1e-4)


def model(x):
    p = numpyro.sample("p", LogDirichlet(jnp.full(3, 0.5)))
    numpyro.sample("x", dist.Multinomial(x.sum(), logits=p), obs=x)


@pytest.mark.slow
def test_nuts_finds_the_posterior() -> None:
    """Means of log-probabilities are digamma functions; to five standard errors by batches."""
    mcmc = MCMC(NUTS(model), num_warmup=300, num_samples=4_000, progress_bar=False)
    mcmc.run(jax.random.key(3), jnp.array([12, 5, 1]))
    result = np.asarray(mcmc.get_samples()["p"])
    a = np.array([12.5, 5.5, 1.5])
    batches = result.reshape(20, 200, 3).mean(axis=1)
    exact = special.digamma(a) - special.digamma(a.sum())
    error = (batches.mean(axis=0) - exact) / (batches.std(axis=0) / 20**0.5)
    assert np.abs(error).max() < 5


def test_divergence_and_entropy():
    p, q = (LogDirichlet(alpha) for alpha in ALPHA)
    expected = dist.kl_divergence(*map(dist.Dirichlet, ALPHA))
    assert float(dist.kl_divergence(p, q)) == pytest.approx(float(expected), rel=1e-5)
    y = p.sample(jax.random.key(0), (20_000,))
    log_p = np.asarray(p.log_prob(y))
    # The mean of 20,000 within 4.5 standard errors: once in 100,000 seeds.
    assert abs(log_p.mean() + float(p.entropy())) < 4.5 * log_p.std() / np.sqrt(len(log_p))

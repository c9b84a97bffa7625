"""The numpyro distributions: the protocol, the values, and use in a model."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.contrib.control_flow import scan
from numpyro.infer import MCMC, NUTS, Predictive, init_to_feasible, init_to_mean
from numpyro.infer.util import initialize_model, log_density

from simplex_jax._src.geometry import von_mises_fisher as vmf
from simplex_jax._src.numpyro.distributions import VonMisesFisher, VonMisesFisherReparam
from simplex_jax._src.numpyro.lda_gibbs import WordCounts

MEANS = jnp.array([[0.6, 0.0, 0.8], [0.0, 1.0, 0.0]])
K = jnp.array([3.0, 400.0])


@pytest.fixture(scope="module")
def law() -> VonMisesFisher:
    return VonMisesFisher(MEANS, K)


@pytest.mark.slow
def test_shapes(law: VonMisesFisher) -> None:
    assert (law.batch_shape, law.event_shape, law.event_dim) == ((2,), (3,), 1)
    key = jax.random.key(0)
    x = law.sample(key, (4,))
    assert x.shape == (4, 2, 3)
    assert law.support(x).all()
    assert law.log_prob(x).shape == (4, 2)
    assert law.mean.shape == law.variance.shape == law.mode.shape == (2, 3)
    assert law.entropy().shape == (2,)
    assert law.sample(jax.random.PRNGKey(0)).shape == (2, 3)
    assert VonMisesFisher.infer_shapes((2, 3), (5, 1)) == ((5, 2), (3,))
    wide = law.expand((5, 2))
    assert wide.sample(key).shape == (5, 2, 3)
    assert wide.log_prob(x[:1]).shape == (5, 2)
    assert law.to_event(1).log_prob(x).shape == (4,)
    one = VonMisesFisher(MEANS[0], jnp.ones((4, 1)))
    assert one.batch_shape == (4, 1)
    assert one.mean.shape == (4, 1, 3)


def test_values(law: VonMisesFisher) -> None:
    """Against the functions of the geometry, and moments of draws to five standard errors."""
    x = law.sample(jax.random.key(1), (20_000,))
    np.testing.assert_allclose(law.log_prob(x), vmf.log_density(x, MEANS, K))
    error = np.asarray(x.mean(axis=0) - law.mean) / np.sqrt(law.variance / len(x))
    assert np.abs(error).max() < 5
    spread = np.asarray((x - law.mean) ** 2)
    error = (spread.mean(axis=0) - law.variance) / (spread.std(axis=0) / len(x) ** 0.5)
    assert np.abs(error).max() < 5
    surprise = -np.asarray(law.log_prob(x), np.float64)
    error = (surprise.mean(axis=0) - law.entropy()) / (surprise.std(axis=0) / len(x) ** 0.5)
    assert np.abs(error).max() < 5
    other = VonMisesFisher(MEANS[::-1], K)
    kl = dist.kl_divergence(law, other)
    difference = np.asarray(law.log_prob(x) - other.log_prob(x), np.float64)
    error = (difference.mean(axis=0) - kl) / (difference.std(axis=0) / len(x) ** 0.5)
    assert np.abs(error).max() < 5
    assert dist.kl_divergence(law, law).tolist() == [0, 0]
    assert dist.kl_divergence(law.expand((5, 2)), law).shape == (5, 2)
    assert dist.kl_divergence(law.to_event(1), law.to_event(1)).shape == ()


def test_pytree(law: VonMisesFisher) -> None:
    leaves, structure = jax.tree.flatten(law)
    assert sorted(leaf.shape for leaf in leaves) == [(2,), (2, 3)]
    assert structure == jax.tree.structure(VonMisesFisher(MEANS, 2 * K))
    again = jax.jit(lambda law: law)(law)
    assert (again.batch_shape, again.event_shape) == (law.batch_shape, law.event_shape)
    np.testing.assert_array_equal(again.mean, law.mean)
    means = jax.vmap(lambda m, k: VonMisesFisher(m, k).mean)(MEANS, K)
    np.testing.assert_allclose(means, law.mean, rtol=1e-6)


def test_whole_numbers_are_taken() -> None:
    law = VonMisesFisher(jnp.array([1, 0, 0]), 2, validate_args=True)
    assert law.mean.dtype == law.sample(jax.random.key(0)).dtype == jnp.float32
    np.testing.assert_array_equal(law.mean, VonMisesFisher(jnp.array([1.0, 0.0, 0.0]), 2.0).mean)


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="invalid mean_direction"):
        VonMisesFisher(2 * MEANS, K, validate_args=True)
    with pytest.raises(ValueError, match="invalid concentration"):
        VonMisesFisher(MEANS, -K, validate_args=True)
    with pytest.raises(ValueError, match=r"^mean_direction .* p >= 2"):
        VonMisesFisher(1.0, 1.0)
    with pytest.raises(ValueError, match="do not broadcast"):
        VonMisesFisher(MEANS, jnp.ones(3))
    with pytest.raises(ValueError, match=r"^concentration .*-3\.0 at index \(0,\)$"):
        VonMisesFisher(MEANS, -K, validate_args=False).log_prob(MEANS)
    with pytest.warns(UserWarning, match="Out-of-support"):
        VonMisesFisher(MEANS, K, validate_args=True).log_prob(2 * MEANS)


def model(x: jax.Array, reparam: bool = True) -> None:
    """Vectors about an unknown direction: given them its law is von Mises-Fisher too."""
    config = {"direction": VonMisesFisherReparam()} if reparam else {}
    with numpyro.handlers.reparam(config=config):
        direction = numpyro.sample("direction", VonMisesFisher(MEANS[0], 4.0))
    with numpyro.plate("vectors", len(x)):
        numpyro.sample("x", VonMisesFisher(direction, 2.0), obs=x)


@pytest.mark.slow
def test_nuts_finds_the_conjugate_posterior() -> None:
    """The mean to five standard errors by batches, and the concentration to a tenth."""
    x = VonMisesFisher(MEANS[1], 2.0).sample(jax.random.key(2), (6,))
    natural = 4.0 * MEANS[0] + 2.0 * x.sum(axis=0)
    k = jnp.sqrt(jnp.sum(natural**2))
    mcmc = MCMC(NUTS(model), num_warmup=300, num_samples=2_000, progress_bar=False)
    mcmc.run(jax.random.key(3), x)
    result = np.asarray(mcmc.get_samples()["direction"])
    exact = VonMisesFisher(natural / k, k)
    batches = result.reshape(20, 100, 3).mean(axis=1)
    error = (batches.mean(axis=0) - exact.mean) / (batches.std(axis=0) / 20**0.5)
    assert np.abs(error).max() < 5
    fitted = vmf.fit(3, vmf.resultant(result).length)
    assert abs(float(fitted / k) - 1) < 0.1
    predicted = Predictive(model, mcmc.get_samples())(jax.random.key(4), x)
    assert predicted["x"].shape == (2_000, 6, 3)


def test_reparam_has_the_density_of_the_site() -> None:
    """The factor makes up for the normal: the joint density integrates to that of the site."""
    x = MEANS
    with numpyro.handlers.seed(rng_seed=0), numpyro.handlers.trace() as trace:
        model(x)
    value = trace["direction"]["value"]
    factor = trace["direction_factor"]["fn"].log_factor
    log_density = VonMisesFisher(MEANS[0], 4.0).log_prob(value)
    np.testing.assert_allclose(factor, log_density - vmf.log_uniform(3), rtol=1e-5)
    with pytest.raises(ValueError, match="'z' is observed"):
        VonMisesFisherReparam()("z", VonMisesFisher(MEANS[0], 1.0), MEANS[0])
    with pytest.raises(ValueError, match="'z' is Normal"):
        VonMisesFisherReparam()("z", dist.Normal(0, 1), None)


@pytest.mark.parametrize("strategy", [init_to_mean, init_to_feasible])
def test_reparam_starts_where_the_normal_is_0(strategy) -> None:
    """0 has no direction: the density was NaN, and no other start was tried."""
    start = initialize_model(
        jax.random.key(0), model, init_strategy=strategy, model_args=(MEANS,)
    ).param_info
    assert not np.asarray(start.z["direction_normal"]).any()
    assert np.isfinite(start.potential_energy)
    assert np.abs(np.asarray(start.z_grad["direction_normal"])).max() > 1


ROWS = jnp.arange(1, 5)
TURNS = jnp.stack([jnp.cos(ROWS), jnp.sin(ROWS)], axis=-1)  # four unit vectors
LAWS = {
    "VonMisesFisher": (lambda turn: VonMisesFisher(turn, ROWS.astype(float)), TURNS),
    "WordCounts": (lambda turn: WordCounts(ROWS, turn**2), jnp.stack([ROWS, 0 * ROWS], axis=-1)),
}


@pytest.mark.parametrize("name", LAWS)
def test_parameters_with_other_batch_axes_in_scan(name) -> None:
    """One parameter changes by step, the other by row: with as many rows as steps, unnoticed."""
    law, x = LAWS[name]

    def model():
        def step(carry, turn):
            with numpyro.plate("rows", 4):
                numpyro.sample("x", law(turn), obs=x)
            return carry, None

        scan(step, 0.0, TURNS)

    @jax.jit
    def densities():
        return log_density(model, (), {}, {})[0], sum(law(t).log_prob(x).sum() for t in TURNS)

    np.testing.assert_allclose(*densities(), rtol=1e-5)

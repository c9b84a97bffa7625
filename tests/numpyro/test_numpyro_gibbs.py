"""SCIR as a block of numpyro's composable Gibbs kernel, next to NUTS and discrete sites."""

import pickle
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, NUTS
from scipy import stats
from support import numpyro_cases as cases

from simplex_jax._src.numpyro.distributions import LogDirichlet
from simplex_jax._src.numpyro.scir import SCIR
from simplex_jax._src.numpyro.sgmcmc import SGMCMC
from simplex_jax._src.samplers import sgld

gibbs = pytest.importorskip(
    "numpyro.infer.gibbs", reason="the composable Gibbs kernel came with numpyro 0.22"
)

X = np.concatenate([stats.norm.ppf(np.linspace(0.02, 0.98, 15)), [2.5, 3.0, 4.0]])


def mixture(x):
    """Two normal parts, the centre of the second and both weights unknown."""
    w = numpyro.sample("w", dist.Dirichlet(jnp.full(2, 0.5)))
    mu = numpyro.sample("mu", dist.Normal(2.0, 1.0))
    numpyro.deterministic("odds", w[0] / w[1])
    with numpyro.plate("rows", len(x)):
        parts = dist.Normal(jnp.stack([0.0, mu]), 1)
        numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(w), parts), obs=x)


def assigned(x):
    """The same with the assignments as discrete sites: then the weights are conjugate."""
    w = numpyro.sample("w", dist.Dirichlet(jnp.full(2, 0.5)))
    with numpyro.plate("rows", len(x)):
        z = numpyro.sample("z", dist.Categorical(logits=jnp.log(w)))
        numpyro.sample("x", dist.Normal(jnp.array([0.0, 3.0])[z], 1), obs=x)


def quadrature(known_mu=None):
    """Posterior mean and standard deviation of w_1, by the midpoint rule in prior quantiles."""
    u = (np.arange(300) + 0.5) / 300
    w = stats.beta(0.5, 0.5).ppf(u)[:, None, None]
    mu = np.array([known_mu]) if known_mu else stats.norm(2, 1).ppf(u)
    density = w * stats.norm.pdf(X) + (1 - w) * stats.norm.pdf(X - mu[:, None])
    log_l = np.log(density).sum(axis=-1)
    mass = np.exp(log_l - log_l.max()).sum(axis=1)
    mean = (mass * w[:, 0, 0]).sum() / mass.sum()
    return mean, np.sqrt((mass * (w[:, 0, 0] - mean) ** 2).sum() / mass.sum())


def batch_error(samples, mean):
    """Difference of a chain's mean from the exact one in standard errors, by 20 batches."""
    batches = samples.reshape(20, -1).mean(axis=1)
    return (batches.mean() - mean) / (batches.std(ddof=1) / 20**0.5)


def run(kernel, num_samples):
    mcmc = MCMC(kernel, num_warmup=300, num_samples=num_samples, progress_bar=False)
    mcmc.run(jax.random.key(0), jnp.asarray(X, jnp.float32))
    return mcmc, {name: np.asarray(x, np.float64) for name, x in mcmc.get_samples().items()}


@pytest.mark.slow
def test_with_nuts() -> None:
    kernel = gibbs.Gibbs([(SCIR(mixture), ["w"]), (NUTS(mixture), None)])
    mcmc, result = run(kernel, 4000)
    mean, deviation = quadrature()
    assert abs(batch_error(result["w"][:, 0], mean)) < 5
    assert abs(result["w"][:, 0].std() / deviation - 1) < 0.15
    np.testing.assert_allclose(result["odds"], result["w"][:, 0] / result["w"][:, 1], rtol=1e-4)
    assert mcmc.sampler.get_diagnostics_str(mcmc.last_state).startswith("w h=")


@pytest.mark.slow
def test_with_discrete_sites() -> None:
    """Given the assignments the weights are conjugate, with totals that change with them."""
    kernel = gibbs.Gibbs([(SCIR(assigned), ["w"]), (gibbs.DiscreteGibbs(assigned), ["z"])])
    mcmc, result = run(kernel, 4000)
    mean, deviation = quadrature(3.0)
    assert abs(batch_error(result["w"][:, 0], mean)) < 5
    assert abs(result["w"][:, 0].std() / deviation - 1) < 0.15
    assert mcmc.sampler.get_diagnostics_str(mcmc.last_state) == "w exact"


LABELS = jnp.array([0] * 15 + [4] * 3)


def learned(x):
    """A concentration by NUTS, and the sparse vector that depends on it by SCIR."""
    a = numpyro.sample("a", dist.LogNormal(-1.0, 2.0))
    p = numpyro.sample("p", LogDirichlet(jnp.full(6, 1.0) * a))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("x", dist.Categorical(logits=p), obs=x)


def learned_error():
    """Two chains that are warmed up, run and taken on again: the mean of what should be uniform.

    And whether the vector is drawn exactly.
    """
    kernel = gibbs.Gibbs([(SCIR(learned), ["p"]), (NUTS(learned), None)])
    options = {"num_chains": 2, "chain_method": "sequential", "progress_bar": False}
    mcmc = MCMC(kernel, num_warmup=300, num_samples=3000, **options)
    mcmc.warmup(jax.random.key(0), LABELS)
    result = []
    for _ in range(2):
        mcmc.run(mcmc.post_warmup_state.rng_key, LABELS)
        result.append(np.asarray(mcmc.get_samples(group_by_chain=True)["a"], np.float64))
        mcmc.post_warmup_state = mcmc.last_state
    assert result[0].shape == (2, 3000)
    one = jax.tree.map(lambda leaf: leaf[0], mcmc.last_state)
    exact = mcmc.sampler.get_diagnostics_str(one).startswith("p exact")
    again = pickle.loads(pickle.dumps(mcmc))  # noqa: S301
    np.testing.assert_array_equal(again.get_samples()["a"], mcmc.get_samples()["a"])
    law = stats.lognorm(2.0, scale=np.exp(-1.0))
    a = np.concatenate(result, axis=1).ravel()
    u = cases.learned_uniform(a, np.bincount(LABELS, minlength=6), law)
    return batch_error(u, 0.5), exact


@pytest.mark.slow
def test_a_prior_that_depends_on_a_sibling() -> None:
    """Off by 4 standard errors once in a thousand (Student's law of 19 degrees of freedom)."""
    error, exact = learned_error()
    assert abs(error) < 4
    assert exact


@pytest.mark.slow
def test_a_prior_that_is_not_looked_at_again_is_seen(monkeypatch) -> None:
    monkeypatch.setattr(SCIR, "refresh", lambda self, state, *given: state)
    error, exact = learned_error()
    assert abs(error) > 5
    # The log ratio shows it to the chain as well.
    assert not exact


def bounded(x):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(2)))
    top = numpyro.sample("top", dist.Uniform(w[0], 20.0))
    numpyro.sample("x", dist.Normal(top, 1), obs=x)


def test_a_support_that_depends_on_a_sibling_is_refused() -> None:
    block = SGMCMC(bounded, partial(sgld.build, step_size=1e-3))
    kernel = gibbs.Gibbs([(SCIR(bounded), ["w"]), (block, None)])
    with pytest.raises(ValueError, match=r"the support of \['top'\] depends on sites"):
        kernel.init(jax.random.key(0), 0, None, (jnp.asarray(X),), {})


def test_a_sibling_whose_prior_cannot_be_drawn():
    """Where the values of a block are mapped to the support, without those of its siblings."""

    def model():
        m = numpyro.sample("m", dist.ImproperUniform(dist.constraints.real, (), ()))
        x = numpyro.sample("x", dist.HalfNormal(1.0))
        numpyro.sample("y", dist.Normal(m, x), obs=0.3)

    block = SGMCMC(model, partial(sgld.build, step_size=1e-3))
    kernel = gibbs.Gibbs([(block, ["x"]), (NUTS(model), None)])
    mcmc = MCMC(kernel, num_warmup=2, num_samples=3, progress_bar=False)
    mcmc.run(jax.random.key(0))
    assert set(mcmc.get_samples()) == {"m", "x"}

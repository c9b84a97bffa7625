"""Gradient kernels on numpyro models with minibatches."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats
from support import numpyro_cases as cases
from support.statistics_checks import family, mean_z, variance_z

from simplex_jax._src.numpyro.distributions import VonMisesFisher
from simplex_jax._src.numpyro.sgmcmc import SGMCMC
from simplex_jax._src.samplers import barker, gsgnht, scir, sgld, sgrld, smld

pytestmark = pytest.mark.slow

FEW = jnp.array([0, 0, 0, 1, 1, 2])


def counts(x, subsample_size=None):
    """Counts of which none is small, where uncorrected kernels have little bias."""
    p = numpyro.sample("p", dist.Dirichlet(jnp.array([4.0, 5.0, 6.0])))
    with numpyro.plate("rows", len(x), subsample_size=subsample_size) as rows:
        numpyro.sample("x", dist.Categorical(p), obs=x[rows])


def precision(x, subsample_size=None):
    """A mean and a standard deviation on bounds that depend on it, from minibatches."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    top = numpyro.sample("top", dist.Uniform(jnp.exp(mu / 10), 20.0))
    with numpyro.plate("rows", len(x), subsample_size=subsample_size) as rows:
        numpyro.sample("x", dist.Normal(mu, 1.0), obs=x[rows])
    numpyro.factor("pull", -((top - 9.0) ** 2) / 2)


@pytest.mark.parametrize(
    "build",
    [
        partial(sgrld.build, step_size=0.01),
        partial(smld.build, step_size=0.002),
        partial(sgld.build, step_size=0.01),
        partial(barker.build, step_size=0.1),
    ],
    ids=["sgrld", "smld", "sgld", "barker"],
)
def test_simplex_sites(getkey, build) -> None:
    """In its own coordinates each kernel has the Dirichlet posterior, up to a known small bias."""
    last, _ = cases.ends(
        SGMCMC(counts, build), getkey(), FEW, num_chains=1000, num_warmup=400, num_samples=1
    )
    a = np.array([7.0, 7.0, 7.0])
    variance = 7 * 14 / 21**2 / 22
    p = last["p"]
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    checks = {("mean", j): mean_z(p[:, j], a[j] / 21, variance, 0.004) for j in range(3)}
    checks |= {("var", j): variance_z(p[:, j], a[j] / 21, variance, None, 0.004) for j in range(3)}
    assert not family(checks)
    mutant = {j: mean_z(p[:, j], (4 + j) / 15, variance, 0.004) for j in (0, 2)}
    assert family(mutant)


def test_real_sites_and_bounds_that_depend_on_them(getkey) -> None:
    """The gradient of a minibatch is scaled to all rows: the posterior of a normal mean."""
    x = jnp.linspace(-1.0, 3.0, 40)
    kernel = SGMCMC(precision, partial(sgld.build, step_size=5e-4))
    last, _ = cases.ends(kernel, getkey(), x, 20, num_chains=500, num_warmup=400, num_samples=1)
    mean = float(x.sum()) / 41
    inflation = 1 + 5e-4 / 2 * float(x.var()) * 40 * 40 / 20 * (20 / 39)
    # The variance of the gradient adds h V / 2 to that of the noise.
    variance = inflation / 41 / (1 - 5e-4 * 41 / 2)
    checks = {
        "mean": mean_z(last["mu"], mean, variance, 0.005),
        "variance": variance_z(last["mu"], mean, variance, None, 0.005),
    }
    assert not family(checks)
    unscaled = inflation / 21
    assert family({"mutant": variance_z(last["mu"], mean, unscaled, None, 0.005)})
    assert abs(last["top"].mean() - 9) < 0.5


def mixed(x, subsample_size=None):
    m = numpyro.sample("m", VonMisesFisher(jnp.array([0.0, 0.0, 1.0]), 2.0))
    w = numpyro.sample("w", dist.Dirichlet(jnp.array([4.0, 4.0])))
    with numpyro.plate("rows", len(x), subsample_size=subsample_size) as rows:
        numpyro.sample("x", VonMisesFisher(m, 1.5), obs=x[rows])
        numpyro.sample("y", dist.Categorical(w), obs=(x[:, 0] > 0).astype(int)[rows])


def test_several_kernels(getkey) -> None:
    """Unit vectors by one kernel, probabilities by another."""
    x = VonMisesFisher(jnp.array([1.0, 0.0, 0.0]), 1.5).sample(jax.random.key(1), (12,))
    kernel = SGMCMC(
        mixed,
        {"m": partial(gsgnht.build, step_size=0.1), None: partial(sgrld.build, step_size=0.02)},
    )
    last, mcmc = cases.ends(kernel, getkey(), x, num_chains=500, num_warmup=150, num_samples=1)
    natural = 2.0 * jnp.array([0.0, 0.0, 1.0]) + 1.5 * x.sum(axis=0)
    k = jnp.sqrt(jnp.sum(natural**2))
    exact = VonMisesFisher(natural / k, k)
    m = last["m"]
    checks = {
        ("m", j): mean_z(m[:, j], float(exact.mean[j]), float(exact.variance[j]), 0.01)
        for j in range(3)
    }
    ones = int((x[:, 0] > 0).sum())
    law = stats.beta(4 + ones, 16 - ones)
    checks["w"] = mean_z(last["w"][:, 1], law.mean(), law.var(), 0.01)
    assert not family(checks)
    assert family({"no prior": mean_z(m[:, 2], float((natural[2] - 2) / k), 0.1, 0.01)})
    one = jax.tree.map(lambda leaf: leaf[0], mcmc.last_state)
    shown = mcmc.sampler.get_diagnostics_str(one)
    assert "m: step_size 0.1" in shown
    assert "w: step_size 0.02, total" in shown


def beside(x, subsample_size=None):
    m = numpyro.sample("m", VonMisesFisher(jnp.array([0.0, 0.0, 1.0]), 2.0))
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    numpyro.sample("top", dist.Uniform(0.0, 2.0))
    with numpyro.plate("rows", len(x), subsample_size=subsample_size) as rows:
        numpyro.sample("x", VonMisesFisher(m, 1.5), obs=x[rows])
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=x[rows, 0])


def test_unit_vectors_beside_real_numbers() -> None:
    """Sites without a map from the real numbers do no harm to those that have one."""
    x = VonMisesFisher(jnp.array([1.0, 0.0, 0.0]), 1.5).sample(jax.random.key(1), (12,))
    kernel = SGMCMC(
        beside,
        {"m": partial(gsgnht.build, step_size=0.1), None: partial(sgld.build, step_size=0.01)},
    )
    last, mcmc = cases.ends(kernel, jax.random.key(2), x, num_chains=300, num_samples=1)
    np.testing.assert_allclose(np.linalg.norm(last["m"], axis=1), 1, rtol=1e-5)
    mean = float(x[:, 0].sum()) / 13
    assert not family({"mu": mean_z(last["mu"], mean, 1 / 13, 0.01)})
    assert 0 < last["top"].min() < last["top"].max() < 2
    # The means over all chains.
    assert "m: step_size 0.1" in mcmc.sampler.get_diagnostics_str(mcmc.last_state)


def test_a_likelihood_that_is_normalised_in_the_site(getkey) -> None:
    """Its counts have the sum 0: kernels that want positive ones get those that pull alike."""
    x = jnp.asarray(cases.POINTS, jnp.float32)
    kernel = SGMCMC(cases.mixture, partial(scir.build, step_size=0.02, total="refreshed"))
    last, _ = cases.ends(kernel, getkey(), x, num_chains=1000, num_warmup=2500, num_samples=1)
    for part in range(3):
        u = cases.mixture_uniform(last["w"], part)
        assert abs(u.mean() - 0.5) < 0.05
        assert abs(u.var() - 1 / 12) < 0.015

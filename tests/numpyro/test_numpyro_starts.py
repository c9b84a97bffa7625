"""Chains start where they can move, or say that they cannot, as numpyro's own kernels do."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, NUTS, init_to_value

from simplex_jax._src.numpyro import sites
from simplex_jax._src.numpyro.scir import SCIR
from simplex_jax._src.numpyro.sgmcmc import SGMCMC
from simplex_jax._src.samplers import barker, sgld, sgrld

X = jnp.array([1.0, 2.0, 3.0])
SGLD, SGRLD = partial(sgld.build, step_size=1e-3), partial(sgrld.build, step_size=1e-3)
BARKER = partial(barker.build, step_size=1e-3)


def bounded(x, subsample_size=None):
    r = numpyro.sample("r", dist.Gamma(5.0, 1.0))
    with numpyro.plate("rows", len(x), subsample_size=subsample_size) as rows:
        numpyro.sample("x", dist.Uniform(0.0, r), obs=x[rows])


def ordered(x):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
    numpyro.factor("order", jnp.where(w[0] < w[1], 0.0, -jnp.inf))


def rooted(x):
    """A density that is finite everywhere, and its gradient where mu > 0."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    numpyro.factor("root", jnp.sqrt(jnp.maximum(mu, 0)))


def impossible(x):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
    numpyro.factor("never", jnp.where(w[0] > 2, 0.0, -jnp.inf))


@pytest.mark.parametrize(
    ("kernel", "within"),
    [
        (SCIR(bounded), lambda z: z["r"] > 3),
        (SGMCMC(bounded, SGLD), lambda z: z["r"] > 3),
        pytest.param(
            SGMCMC(ordered, SGRLD), lambda z: z["w"][0] < z["w"][1], marks=pytest.mark.slow
        ),
        (SGMCMC(rooted, SGLD), lambda z: z["mu"] > 0),
    ],
    ids=["SCIR", "sgld", "sgrld", "gradient"],
)
def test_a_start_is_searched_for(kernel, within) -> None:
    """By a chain alone and by a batch of them."""
    keys = jax.random.split(jax.random.key(0), 30)
    state = kernel.init(keys, 10, None, (X,), {})
    values = jax.vmap(kernel.get_constrain_fn((X,), {}))(state.z)
    assert jax.vmap(within)(values).all()


def test_a_start_is_searched_for_by_a_kernel_that_checks_its_own() -> None:
    kernel = SGMCMC(bounded, BARKER)
    # 19 of 20 first starts are not valid.
    state = kernel.init(jax.random.key(0), 10, None, (X,), {})
    assert kernel.get_constrain_fn((X,), {})(state.z)["r"] > 3


def test_a_start_is_searched_for_under_jit() -> None:
    kernel = SGMCMC(rooted, SGLD)
    # Half of the draws are not valid.
    for seed in range(4):
        state = jax.jit(lambda key: kernel.init(key, 10, None, (X,), {}))(jax.random.key(seed))
        assert state.z["mu"] > 0


def test_what_is_given_stays() -> None:
    def two(x):
        numpyro.sample("top", dist.Exponential(1.0))
        bounded(x)

    kernel = SCIR(two)
    state = kernel.init(jax.random.key(0), 10, {"top": 0.25}, (X,), {})
    np.testing.assert_allclose(jnp.exp(state.z["top"]), 0.25, rtol=1e-6)
    assert jnp.exp(state.z["r"]) > 3


@pytest.mark.parametrize(
    ("kernel", "params", "message"),
    [
        (NUTS(impossible), None, "Cannot find valid"),
        (SCIR(impossible), None, r"^100 draws .*init_params"),
        (SGMCMC(impossible, SGRLD), None, "^100 draws"),
        (SCIR(bounded), {"r": 2.0}, "not finite at init_params: give values"),
        (SGMCMC(bounded, SGLD), {"r": 2.0}, "not finite at init_params"),
        (SGMCMC(bounded, BARKER), {"r": 2.0}, "not finite at init_params"),
        (SGMCMC(bounded, SGLD), {"r": 0.0}, "not finite at init_params"),
        (SCIR(bounded, init_strategy=init_to_value(values={"r": 2.0})), None, "^100 draws"),
    ],
)
@pytest.mark.filterwarnings("ignore:Out-of-support values")
def test_where_no_start_is_valid_it_is_said(kernel, params, message) -> None:
    mcmc = MCMC(kernel, num_warmup=1, num_samples=1, progress_bar=False)
    with pytest.raises(RuntimeError, match=message):
        mcmc.run(jax.random.key(0), X, init_params=params)


def test_an_exponential_number_of_zero_gives_a_finite_start() -> None:
    x = jax.random.exponential(jax.random.key(0), (4, 5))
    np.testing.assert_array_equal(sites.LOG_SIMPLEX.scatter(x), jnp.log(sites.SIMPLEX.scatter(x)))
    assert jnp.isfinite(sites.LOG_SIMPLEX.scatter(x.at[0, 0].set(0))).all()


WITHIN_GIBBS = {sites.SIBLINGS: {}}
BAD, GOOD = {"w": jnp.array([0.6, 0.3, 0.1])}, {"w": jnp.array([0.3, 0.6, 0.1])}


def within_gibbs(x, _gibbs_sites):
    """What a block of numpyro's Gibbs kernel sees, if it has all sites."""
    ordered(x)


@pytest.mark.parametrize("is_traced", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_start_that_gibbs_gives_is_replaced(is_traced) -> None:
    """It is a draw from the prior unless there are init_params, which a block cannot tell."""
    kernel = SCIR(within_gibbs)

    def init(params):
        return kernel.init(jax.random.key(0), 10, params, (X,), WITHIN_GIBBS).z["w"]

    if is_traced:
        w = jax.jit(init)(BAD)
    else:
        with pytest.warns(UserWarning, match=r"not finite where Gibbs starts \['w'\]"):
            w = init(BAD)
    assert w[0] < w[1]


def test_a_strategy_that_gibbs_overrides_is_said() -> None:
    kernel = SCIR(within_gibbs, init_strategy=init_to_value(values=BAD))
    with pytest.warns(UserWarning, match=r"init_strategy .* init_params"):
        state = kernel.init(jax.random.key(0), 10, GOOD, (X,), WITHIN_GIBBS)
    np.testing.assert_allclose(jnp.exp(state.z["w"]), GOOD["w"], rtol=1e-6)


def test_gibbs_passes_its_siblings_under_this_name() -> None:
    gibbs = pytest.importorskip("numpyro.infer.gibbs", reason="new in numpyro 0.22")
    assert sites.SIBLINGS == gibbs.GIBBS_SITES_KWARG


def narrow(x):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    numpyro.factor("near", jnp.where(jnp.abs(mu - x) < 1e-3, 0.0, -jnp.inf))


def test_a_run_that_goes_on_needs_no_start() -> None:
    """As with numpyro's own kernels, the start of its warm-up may be known to that alone."""
    kernel = SGMCMC(narrow, partial(sgld.build, step_size=1e-12))
    mcmc = MCMC(kernel, num_warmup=1, num_samples=1, progress_bar=False)
    mcmc.warmup(jax.random.key(0), 2.0, init_params={"mu": jnp.array(2.0)})
    mcmc.run(jax.random.key(1), 2.0)
    np.testing.assert_allclose(mcmc.get_samples()["mu"], 2, atol=1e-3)
